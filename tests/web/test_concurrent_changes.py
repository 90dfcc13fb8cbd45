"""Whatever others change meanwhile, no request fails for a reason inside the server."""

import random
import threading
import time

from tests.collection.pictures import draw
from tests.web.conftest import API, serving
from tests.web.requests import png

SECONDS = 6.0
READS = (
    "collection",
    "pictures?sort=spectrum",
    "pictures?sort=certainty&search=0",
    "points",
    "quality",
    "graders",
    "doctor",
    "suggestions",
    "comparisons",
    "comparisons/next",
    "rank?picture={}",
    "pictures/{}",
    "pictures/{}/thumbnail",
    "pictures/{}/large?side=64",
    "pictures/{}/grades",
)


def read(client, rng):
    path = rng.choice(READS).format(rng.randint(1, 50))
    return path, client.get(f"{API}/{path}")


def write(client, rng):
    picture, other, grade = rng.randint(1, 50), rng.randint(1, 50), str(rng.randint(0, 2))
    kind = rng.choice(("grade", "grade", "remove", "add", "compare", "undo", "train"))
    if kind == "grade":
        body = {"grade": grade, "grader": rng.choice((None, "Ann", "Ben"))}
        return kind, client.put(f"{API}/pictures/{picture}/grade", json=body)
    if kind == "remove":
        return kind, client.post(f"{API}/removals", json={"pictures": [picture]})
    if kind == "add":
        return kind, client.post(
            f"{API}/pictures", content=png(draw(rng.randint(100, 10**6))), headers={"Content-Type": "image/png"}
        )
    if kind == "compare":
        return kind, client.post(f"{API}/comparisons", json={"first": picture, "second": other, "outcome": 1})
    return kind, client.post(f"{API}/grades/undo", json={}) if kind == "undo" else client.post(f"{API}/training")


def test_no_request_fails_inside_the_server(trained):
    statuses, failures = set(), []
    end = time.monotonic() + SECONDS

    def repeat(request, seed):
        rng = random.Random(seed)
        with server.client() as client:
            while time.monotonic() < end:
                what, response = request(client, rng)
                statuses.add((what if request is write else "read", response.status_code))
                if response.status_code >= 500 or "damaged" in response.text:
                    failures.append((what, response.text))

    with serving(trained, "--workers", "2") as server:
        threads = [
            threading.Thread(target=repeat, args=(request, seed))
            for request, count in ((read, 3), (write, 2))
            for seed in range(count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    assert {("read", 200), ("grade", 200), ("remove", 200), ("add", 201), ("train", 202)} <= statuses
