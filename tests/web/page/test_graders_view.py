"""The report of the graders, in Chromium with a real server."""

import httpx
import pytest

from tests.web.conftest import FROM_PAGE
from tests.web.page.conftest import NARROW
from tests.web.page.locators import expect

GRADERS = "#view=graders"


@pytest.fixture
def graded_url(writable_url):
    """A server with the grades of two people who differ on one of ten pictures."""
    with httpx.Client(base_url=writable_url, headers=FROM_PAGE) as client:
        pictures = client.get("api/v1/pictures?sort=name&limit=10").json()["items"]
        for i, picture in enumerate(pictures):
            for grader in ("Ada", "Ben"):
                grade = str((i + (grader == "Ben" and i == 4)) % 3)
                body = {"grade": grade, "grader": grader}
                assert client.put(f"api/v1/pictures/{picture['id']}/grade", json=body).status_code == 200
    return writable_url


def test_graders_their_agreement_and_differences_are_shown(graded_url, visit):
    page = visit(graded_url, GRADERS)
    report = page.request.get(f"{graded_url}api/v1/graders").json()
    rows = page.locator("#graders-table tr")
    expect(rows).to_have_count(2)
    expect(rows.first.locator("th, td")).to_have_text(["Ada", "10", "10", "0.10", "−0.10", "1.00"])
    expect(rows.last.locator("th, td")).to_have_text(["Ben", "10", "10", "0.10", "+0.10", "1.00"])
    (pair,) = report["pairs"]
    expect(page.locator("#pairs-table tr")).to_have_count(1)
    expect(page.locator("#pairs-table th")).to_have_text("Ada and Ben")
    expect(page.locator("#pairs-table td").nth(1)).to_have_text(f"{pair['kappa']:.2f}")
    expect(page.get_by_text("0 if they agree no more than by chance")).to_be_visible()
    (differing,) = report["disagreements"]
    card = page.locator("#disagreements .card")
    expect(card).to_have_count(1)
    expect(card.locator(".name")).to_have_text(differing["name"])
    expect(card.locator("dt")).to_have_text(["Ada", "Ben", "counts"])
    expect(card.locator("dd")).to_have_text(
        [*(given["grade"] for given in differing["grades"]), differing["consensus"]]
    )
    card.locator("a").press("Enter")
    expect(page.locator("#panel-title")).to_have_text(differing["name"])
    page.locator("#grade-field").fill("2")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#graders-table tr")).to_have_count(3)  # and one without a name
    expect(page.locator("#graders-table th").filter(has_text="without a name")).to_have_count(1)
    page.wait_for_load_state("networkidle")


def test_hostile_names_are_shown_as_text(graded_url, visit):
    name = "<img src=x onerror=alert(1)>"
    with httpx.Client(base_url=graded_url, headers=FROM_PAGE) as client:
        client.put("api/v1/pictures/2/grade", json={"grade": "1", "grader": name})
    page = visit(graded_url, GRADERS)
    expect(page.locator("#graders-table th").filter(has_text=name)).to_have_count(1)
    expect(page.locator("#graders img[src='x']")).to_have_count(0)


def test_a_collection_without_graders_says_what_to_do(visit, url):
    page = visit(url, GRADERS, viewport=NARROW)
    expect(page.locator("#graders-empty")).to_contain_text("Nobody has graded a picture here yet")
    expect(page.locator("#graders-report")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.locator("#graders-empty").get_by_role("link", name="Grade").click()
    expect(page.locator("#grade-title")).to_be_focused()
