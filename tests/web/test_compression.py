"""Text is compressed, pictures are not."""

import pytest

from tests.web.conftest import API


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/static/grid.js", f"{API}/pictures?limit=30"])
def test_text_is_compressed_for_clients_that_accept_it(client, path):
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    compressed = client.get(path, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert "accept-encoding" in compressed.headers["vary"].lower()
    assert compressed.content == plain.content
    assert int(compressed.headers["content-length"]) < 0.7 * int(plain.headers["content-length"])


def test_pictures_and_points_are_sent_as_they_are(client):
    picture = client.get(f"{API}/pictures?limit=1").json()["items"][0]["id"]
    for path in (f"pictures/{picture}/thumbnail", f"pictures/{picture}/large", "points"):
        response = client.get(f"{API}/{path}", headers={"Accept-Encoding": "gzip"})
        assert response.status_code == 200
        assert "content-encoding" not in response.headers


def test_what_a_browser_has_is_not_sent_again(client):
    first = client.get("/static/grid.js", headers={"Accept-Encoding": "gzip"})
    assert first.headers["cache-control"] == "no-cache"  # kept, but revalidated: a new version has the same name
    again = client.get("/static/grid.js", headers={"Accept-Encoding": "gzip", "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
