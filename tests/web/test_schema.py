"""The API conforms to its OpenAPI schema, whatever is sent.

The variable ORDRANK_API_CASES sets the number of requests to each route.
"""

import os
import shutil
from collections import Counter
from itertools import combinations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from ordrank import Collection
from ordrank.collection.access import read_store
from ordrank.errors import InputError
from ordrank.web.app import create_app
from tests.collection.pictures import draw, redness
from tests.web.conftest import FROM_PAGE
from tests.web.requests import png

CASES = int(os.environ.get("ORDRANK_API_CASES", "25"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
    allow_header_conformance,
]
N_NUMBERS = 45  # some more than there are pictures


def fail_soon(*arguments, **options):
    raise InputError("training is tested elsewhere")


@pytest.fixture(scope="module")
def api(_trained_once, tmp_path_factory):
    patched = pytest.MonkeyPatch()
    collection = shutil.copytree(_trained_once, tmp_path_factory.mktemp("api") / "collection")
    judge(collection)
    patched.setattr(Collection, "fit", fail_soon)
    app = create_app(Collection(collection), hosts={"testserver", "localhost"})
    schema = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app)
    yield schema
    app.state.collection.close()
    patched.undo()


def judge(collection):
    """Let two people grade and compare pictures, and train with what that implies."""
    with Collection.open(collection) as opened:
        for grader, grade in (("Ann", 0), ("Ben", 2)):
            opened.labeling.grade([1, 4, 7], grade, grader=grader, key="a")
        pictures = opened.pictures(limit=100).items
        for one, other in combinations(pictures, 2):
            if (one.grade is None or other.grade is None) and (one.id + other.id) % 2:
                outcome = 1 if redness(one.name) > redness(other.name) else -1
                opened.labeling.compare(one.id, other.id, outcome, grader="Ann")
        opened.labeling.confirm(2)
        opened.fit(n_jobs=1)
        with read_store(collection) as store:
            assert store.implied_grades()
        assert opened.labeling.compared()
        assert opened.labeling.graders().disagreements


ROUTES = [
    "GET /api/v1/collection",
    "GET /api/v1/pictures",
    "POST /api/v1/pictures",
    "GET /api/v1/pictures/{picture}",
    "GET /api/v1/pictures/{picture}/thumbnail",
    "GET /api/v1/pictures/{picture}/large",
    "GET /api/v1/pictures/{picture}/grades",
    "PUT /api/v1/pictures/{picture}/grade",
    "PUT /api/v1/pictures/{picture}/confirmation",
    "POST /api/v1/grades",
    "POST /api/v1/grades/undo",
    "GET /api/v1/graders",
    "GET /api/v1/suggestions",
    "GET /api/v1/comparisons",
    "POST /api/v1/comparisons",
    "GET /api/v1/comparisons/next",
    "POST /api/v1/exports/table",
    "POST /api/v1/exports/files",
    "POST /api/v1/queries",
    "GET /api/v1/queries/{token}/thumbnail",
    "GET /api/v1/rank",
    "GET /api/v1/rank.csv",
    "GET /api/v1/points",
    "GET /api/v1/doctor",
    "GET /api/v1/quality",
    "POST /api/v1/training",
    "GET /api/v1/training",
    "POST /api/v1/removals",  # last: other routes need pictures
]


def operations(api):
    return {operation.ok().label: operation.ok() for operation in api.get_all_operations()}


def test_schema_lists_all_routes(api):
    assert sorted(operations(api)) == sorted(ROUTES)


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("route", ROUTES)
def test_responses_conform_to_the_schema(api, route, mode):
    statuses = Counter()
    state = api.app.state
    token = state.shared.put_query(state.collection.read_query(png(draw(77)), "known"), "client")

    @settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operations(api)[route].as_strategy(generation_mode=mode))
    def check(case):
        use_existing_resources(case, token)
        response = case.call(headers=FROM_PAGE)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS, headers=FROM_PAGE)

    try:
        check()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # it has no parameters
        return
    assert mode is GenerationMode.NEGATIVE or min(statuses) < 300, statuses


def use_existing_resources(case, token):
    """Let most generated parameters name something that exists; else only validation would be tested."""
    path, query = case.path_parameters or {}, case.query or {}
    for parameters, name in ((path, "picture"), (query, "picture")):
        number = parameters.get(name)
        if is_picture(number) and number > N_NUMBERS:
            parameters[name] = number % N_NUMBERS
    for parameters, name, existing in ((path, "token", token), (query, "query", token), (query, "grade", "1")):
        if is_even(parameters.get(name)):
            parameters[name] = existing
    if "picture" in query and is_even(str(query["picture"])):
        query.pop("query", None)
    for bound in ("lowest", "highest"):
        if is_even(query.get(bound)):
            query.pop(bound)
    if isinstance(case.body, bytes) and len(case.body) < 2:
        case.body = png(draw(len(case.body)))
    if isinstance(case.body, dict):
        use_existing_in_body(case.body)


def use_existing_in_body(body):
    if is_even(body.get("grade")):
        body["grade"] = str(len(body["grade"]) % 3)
    for name in ("first", "second"):
        if is_picture(body.get(name)):
            body[name] %= N_NUMBERS
    if isinstance(body.get("pictures"), list) and all(map(is_picture, body["pictures"])):
        body["pictures"] = [picture % N_NUMBERS for picture in body["pictures"]]


def is_picture(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_even(text):
    return isinstance(text, str) and len(text) % 2 == 0
