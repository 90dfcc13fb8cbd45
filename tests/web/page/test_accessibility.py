"""Keyboard, small screens and the rules of axe, in Chromium with a real server."""

import httpx
import pytest

from tests.web.conftest import FROM_PAGE
from tests.web.page.conftest import NARROW, WIDE
from tests.web.page.grade_mode import ALL, GRADE, buttons, sorted_names, wait_for_grade, wait_for_picture
from tests.web.page.locators import (
    cards,
    change_estimate,
    expect,
    id_of_name,
    wait_for_all_pictures,
    wait_for_map,
    wait_for_result,
)


def focus_next_card(page):
    """Press Tab until a card has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if card_has_focus(page):
            return
    pytest.fail("no card gets the focus")


def card_has_focus(page):
    return page.evaluate("document.activeElement.matches('#pictures .card-link')")


def test_the_keyboard_is_enough(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.keyboard.press("Tab")
    expect(page.locator("a.skip").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#list-title")).to_be_focused()
    focus_next_card(page)
    page.keyboard.press("Enter")
    wait_for_result(page)
    expect(page.locator("#result-title")).to_be_focused()
    focus_next_card(page)
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.locator("#grade-field")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    assert card_has_focus(page)


def test_saving_and_undoing_a_grade_keep_the_focus(visit, writable_url):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    page.goto(f"{writable_url}#chosen={id_of_name(page, writable_url, '001.png')}")
    page.get_by_label("Correct the grade").fill("2")
    save = page.get_by_role("button", name="Save")
    save.press("Enter")
    expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
    expect(save).to_be_focused()
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_text("Undone: grade 1.")).to_be_visible()
    expect(page.get_by_label("Correct the grade")).to_be_focused()


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["beside the list", "modal"])
def test_more_like_this_in_the_panel_moves_the_focus_to_the_result(visit, url, viewport):
    page = visit(url, viewport=viewport)
    wait_for_all_pictures(page)
    page.goto(f"{url}#chosen={id_of_name(page, url, '001.png')}")
    page.locator("#panel").get_by_role("link", name="More like this").press("Enter")
    wait_for_result(page)
    expect(page.locator("#panel")).to_be_hidden()
    expect(page.locator("#result-title")).to_be_focused()


def test_a_narrow_screen_needs_no_sideways_scrolling_and_has_large_targets(visit, url, folder):
    page = visit(url, viewport=NARROW, has_touch=True, is_mobile=True)
    wait_for_all_pictures(page)
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(fits)
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
    assert page.evaluate(fits)
    cards(page).first.locator(".card-link").tap()
    expect(page.locator("#panel-title")).to_be_focused()
    assert page.locator("#panel").evaluate("(panel) => panel.matches(':modal')")
    small = """(targets) => [...document.querySelectorAll(targets)]
      .map((target) => [target.className || target.id, target.getBoundingClientRect()])
      .filter(([, { width, height }]) => width && (width < 43.9 || height < 43.9))
      .map(([name, { width, height }]) => [name, width, height])"""
    buttons = "button, .button, .chip, .card-link, .card-action, .upload, .segments label"
    assert page.evaluate(small, f"{buttons}, select, summary, .grade-form input") == []
    page.locator("#panel-close").tap()
    expect(page.locator("#panel")).to_be_hidden()
    page.locator("#map-section summary").tap()
    wait_for_map(page)
    assert page.evaluate(fits)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_in_remarks(visit, url, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    page = visit(url, color_scheme=scheme, reduced_motion="reduce", bypass_csp=True)
    for is_novel in (True, False):
        change_estimate(page, is_novel=is_novel, grade="1", lowest="1", highest="1", shown_grade="1", known_grade="2")
        page.goto(f"{url}#picture=2")
        page.reload()
        expect(page.locator("#result .remark" if is_novel else "#result .conflict")).to_be_visible()
        wait_for_map(page)
        assert [rule["id"] for rule in axe.run(page)["violations"]] == []
        page.unroute_all()


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "dark")],
    ids=["wide, light", "wide, dark", "narrow, dark"],
)
def test_axe_finds_no_violation(visit, url, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    for fragment in ("#grade=1&given=false", "#picture=2&show=12&chosen=5"):
        page = visit(url, fragment, **options)
        expect(cards(page).first).to_be_visible()
        if "chosen" in fragment:
            expect(page.locator("#panel")).to_be_visible()
        if viewport is WIDE:
            wait_for_map(page)
        violations = axe.run(page)["violations"]
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in violations] == []


@pytest.fixture
def labeled_url(writable_url):
    """A server with grades of two people and comparisons."""
    with httpx.Client(base_url=writable_url, headers=FROM_PAGE) as client:
        for picture in range(1, 9):
            for i, grader in enumerate(("Ada", "Ben")):
                body = {"grade": str((picture + i * (picture == 4)) % 3), "grader": grader}
                client.put(f"api/v1/pictures/{picture}/grade", json=body).raise_for_status()
            body = {"first": picture, "second": picture + 1, "outcome": 1}
            client.post("api/v1/comparisons", json=body).raise_for_status()
    return writable_url


READY = {
    "grade": "#grade-plot svg",
    "compare": "#ranking li >> nth=0",
    "graders": "#disagreements .card",
}


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")],
    ids=["wide, light", "wide, dark", "narrow, light", "narrow, dark"],
)
def test_axe_finds_no_violation_where_people_label(labeled_url, visit, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    for mode, ready in READY.items():
        page = visit(labeled_url, f"#view={mode}", **options)
        expect(page.locator(ready)).to_be_visible()
        if mode == "grade":
            page.keyboard.press("e")
            page.keyboard.press("1")
            expect(page.locator("#training")).to_be_visible()
            expect(page.locator("#grade-other")).not_to_have_attribute("inert", "")
        violations = axe.run(page)["violations"]
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in violations] == []
        if mode == "grade":
            page.keyboard.press("?")
            assert [rule["id"] for rule in axe.run(page)["violations"]] == []
        page.wait_for_load_state("networkidle")


@pytest.mark.parametrize("mode", READY)
def test_labeling_fits_a_phone(labeled_url, visit, mode):
    page = visit(labeled_url, f"#view={mode}", viewport=NARROW, has_touch=True, is_mobile=True)
    expect(page.locator(READY[mode])).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = """(mode) => [...document.querySelectorAll(`#modes a, #${mode} :is(button, .button, a, input, select)`)]
      .map((target) => [target.className || target.id, target.getBoundingClientRect()])
      .filter(([, { width, height }]) => width && (width < 43.9 || height < 43.9))
      .map(([name, { width, height }]) => [name, width, height])"""
    assert page.evaluate(small, mode) == []
    page.wait_for_load_state("networkidle")


def test_a_phone_grades_and_compares_by_touch_and_shows_a_ranked_picture(writable_url, visit):
    page = visit(writable_url, GRADE, script=ALL, viewport=NARROW, has_touch=True, is_mobile=True)
    names = sorted_names(page, writable_url)
    wait_for_picture(page, names[0])
    buttons(page).nth(2).tap()
    wait_for_picture(page, names[1])
    wait_for_grade(page, writable_url, names[0], "2")
    page.locator("#modes").get_by_role("link", name="Compare").tap()
    expect(page.locator("#compare-second-name")).not_to_be_empty()
    page.get_by_role("button", name="Left is higher").tap()
    expect(page.locator("#compare-count")).to_have_text("1 compared in this session · 1 comparison in all")
    ranked = page.locator("#ranking a").first
    name = ranked.get_attribute("title").rpartition(":")[0]
    ranked.tap()
    expect(page.locator("#panel-title")).to_have_text(name)
    assert page.locator("#panel").evaluate("(panel) => panel.matches(':modal')")
    page.locator("#panel-close").tap()
    wait_for_all_pictures(page)
    page.wait_for_load_state("networkidle")
