"""The quality of the estimates on the page, in Chromium with a real server."""

import pytest

from tests.web.page.conftest import NARROW, WIDE
from tests.web.page.locators import expect, wait_for_all_pictures

REPORT = "**/api/v1/quality"


def open_quality(page):
    page.get_by_role("navigation", name="Modes").get_by_role("link", name="Quality").click()
    expect(page.locator("#quality")).to_be_visible()


def change_report(page, **changes):
    """Let the page load a changed report."""
    page.route(REPORT, lambda route: route.fulfill(json={**route.fetch().json(), **changes}))


def test_the_page_shows_the_report(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    open_quality(page)
    report = page.request.get(f"{url}api/v1/quality").json()
    expect(page.locator("#list-title")).to_be_focused()
    expect(page.locator(".quality-facts dd").first).to_contain_text(f"{report['error']:.2f}")
    expect(page.locator(".quality-facts dd").first).to_contain_text(f"{report['error_median']:.2f}")
    expect(page.locator(".quality-verdict")).to_contain_text(report["verdict"][1:])
    rows = page.locator("#quality .quality-panel", has_text="Error by grade").locator("tbody tr")
    expect(rows).to_have_count(len(report["grades"]))
    expect(rows.first).to_contain_text(f"{report['grades'][0]['error']:.2f}")
    for confusion in report["confusions"]:
        title = f"given {confusion['grade']}, estimated {confusion['estimate']}:"
        expect(page.locator(f'.confusions td[title^="{title}"]')).to_have_text(str(confusion["pictures"]))
    plot = page.get_by_role("img", name="Share of grades in intervals")
    expect(plot.locator(".plot-dot")).to_have_count(len(report["calibration"]))
    expect(page.locator("#side")).to_be_hidden()
    page.get_by_role("navigation", name="Modes").get_by_role("link", name="Browse").click()
    wait_for_all_pictures(page)
    expect(page.locator("#quality")).to_be_hidden()


def test_the_history_of_trainings_is_shown(visit, url):
    page = visit(url)
    training = {"time": "2026-01-30 12:34:56.789 UTC", "pictures": 60, "graded": 40, "features": "pixels:4"}
    trainings = [{**training, "error": 1.29}, {**training, "error": 1.22}]
    errors = [{"grades": n + 1, "error": 2 / (n + 1)} for n in range(60)]
    change_report(page, trainings=trainings, running_errors=errors)
    page.goto(f"{url}#view=quality")
    panel = page.locator("#quality .quality-panel", has_text="Trainings")
    expect(panel).to_contain_text("1.29 → 1.22")
    expect(panel.locator("tbody tr").first).to_contain_text("2026-01-30 12:34 UTC")
    name = "Error of the estimates before the grade was given: 2.00 after 1 grade, 0.03 after 60."
    expect(page.get_by_role("img", name=name)).to_be_visible()
    page.unroute_all()


def test_before_the_first_training_the_page_says_what_to_do(visit, url):
    page = visit(url)
    nothing = {"error": None, "error_median": None, "verdict": None, "coverage": None, "trainings": []}
    change_report(page, **nothing, grades=[], confusions=None, calibration=[], running_errors=[], graded=0)
    page.goto(f"{url}#view=quality")
    expect(page.locator("#quality")).to_contain_text("Nothing to measure yet.")
    expect(page.locator("#quality").get_by_role("link", name="Grade pictures")).to_be_visible()
    page.unroute_all()


def test_a_report_that_cannot_be_loaded_can_be_tried_again(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.errors.allow_status(500)
    page.route(REPORT, lambda route: route.fulfill(status=500, json={"error": {"code": "x", "message": "it failed"}}))
    page.goto(f"{url}#view=quality")
    expect(page.locator("#alert")).to_contain_text("it failed")
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#quality")).to_be_visible()
    expect(page.locator("#alert")).to_be_empty()


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")],
    ids=["wide, light", "wide, dark", "narrow, light", "narrow, dark"],
)
def test_axe_finds_no_violation(visit, url, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    page = visit(url, "#view=quality", **options)
    change_report(page, running_errors=[{"grades": n + 1, "error": 1 / (n + 1)} for n in range(9)])
    page.reload()
    expect(page.locator("#quality")).to_be_visible()
    page.locator(".numbers summary").first.click()
    violations = axe.run(page)["violations"]
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.unroute_all()
