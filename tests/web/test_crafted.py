"""Whatever values a collection from a stranger holds, no request fails on the side of the server."""

from contextlib import suppress

import pytest

from ordrank.errors import InputError
from tests.collection.conftest import _judged_once as _judged_once
from tests.collection.conftest import judged as judged
from tests.collection.crafted import limited_time, selected
from tests.collection.crafted_cases import CASES
from tests.collection.pictures import draw
from tests.web.conftest import API, client_of
from tests.web.requests import png, send, set_grade, train_again

ADDRESSES = (
    *("collection", "points", "quality", "graders", "doctor", "comparisons/next", "comparisons", "suggestions"),
    *("pictures", "pictures?sort=spectrum", "pictures?sort=date", "pictures/3", "pictures/3/thumbnail"),
    *("pictures/3/large", "pictures/3/grades", "rank?picture=1", "rank?picture=3", "rank.csv?picture=5&limit=100"),
)


def requests(client):
    """Return what is sent, in this order."""
    yield from ((client.get, f"{API}/{address}") for address in ADDRESSES)
    yield send, client, png(draw(60))
    yield set_grade, client, 3, "1"
    selection = {"pictures": [1, 2, 3]}
    for address, body in (("grades/undo", {}), ("exports/table", selection), ("exports/files", selection)):
        yield lambda *arguments: client.post(arguments[0], json=arguments[1]), f"{API}/{address}", body


@pytest.mark.parametrize("case", selected(CASES, 1))
def test_no_request_is_an_internal_error(case, judged, caplog):
    CASES[case](judged)
    with limited_time(), suppress(InputError), client_of(judged) as client:  # else it does not start
        for function, *arguments in requests(client):
            response = function(*arguments)
            assert response.status_code < 500, (arguments, response.text)
        assert train_again(client)["state"] in ("done", "failed")
    assert not [record for record in caplog.records if record.exc_info]  # of a training
