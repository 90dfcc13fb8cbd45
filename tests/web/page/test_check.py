"""The check of the grades: what it lists, and corrections from there; in Chromium with a real server."""

import re
import shutil

import pytest

from ordrank.collection.access import write_store
from tests.collection.spoiled import create_spoiled
from tests.web.conftest import serving, wait_until
from tests.web.page.conftest import HOSTILE, NARROW, WIDE
from tests.web.page.locators import estimate, expect, wait_for_all_pictures, wait_for_map

CHECK = "#view=check"
EMPTY = {"suspects": [], "near_copies": [], "novel": [], "advice": []}


@pytest.fixture(scope="module")
def spoiled(tmp_path_factory):
    with create_spoiled(tmp_path_factory.mktemp("spoiled")) as collection:
        return collection.directory, collection.doctor()


@pytest.fixture(scope="module")
def spoiled_url(spoiled):
    with serving(spoiled[0], "--read-only") as server:
        yield f"{server.url}/"


@pytest.fixture
def changeable_url(spoiled, tmp_path, serve):
    """The address of a copy of the collection that the test may change."""
    return f"{serve(shutil.copytree(spoiled[0], tmp_path / 'Spoiled')).url}/"


def suspects(page):
    return page.locator("#suspects > .suspect:not(.corrected)")


def suspect(page, name):
    return suspects(page).filter(has=page.locator("div.card > .name", has_text=name))


def own_name(row):
    return row.locator("> .card > .name").inner_text()


def wait_for_check(page):
    expect(page.locator("#check")).to_be_visible()


def change_report(page, change):
    """Let the page load a changed report."""
    page.route("**/api/v1/doctor", lambda route: route.fulfill(json=change(route.fetch().json())))


def test_every_part_of_the_report_is_shown(visit, spoiled_url, spoiled):
    report = spoiled[1]
    page = visit(spoiled_url)
    page.get_by_role("navigation", name="Modes").get_by_role("link", name="Check").press("Enter")
    wait_for_check(page)
    expect(page.locator("#list-title")).to_be_focused()
    expect(page.locator("#verdict")).to_have_text(re.compile(re.escape(report.verdict[1:])))
    expect(page.locator("#advice li")).to_have_text([re.compile(re.escape(text[1:])) for text in report.advice])
    expect(suspects(page)).to_have_count(len(report.suspects))
    for row, expected in zip(suspects(page).all(), report.suspects, strict=True):
        assert own_name(row) == expected.name
        expect(row.locator("dd.known bdi")).to_have_text(expected.grade)
        shown = expected.estimate
        if expected.lowest != expected.highest:
            shown += f" ({expected.lowest}–{expected.highest})"
        expect(row.locator("dd.estimate")).to_have_text(shown)
        neighbors = row.locator(".neighbors .card")
        expect(neighbors.locator(".name")).to_have_text([neighbor.name for neighbor in expected.neighbors])
        expect(neighbors.locator(".grade")).to_have_text([neighbor.grade for neighbor in expected.neighbors])
    (copy,) = report.near_copies
    expect(page.locator("#copies .pair .name")).to_have_text([copy.first.name, copy.second.name])
    expect(page.locator("#copies .pair .grade")).to_have_text([copy.first.grade, copy.second.grade])
    expect(page.locator("#copies .conflict")).to_have_text("different grades")
    expect(page.locator("#novel .name")).to_have_text([picture.name for picture in report.novel])
    expect(page.locator("#novel .grade")).to_have_text(["–"] * len(report.novel))
    expect(page.locator(".grade-form")).to_have_count(0)  # the server is read-only


def test_one_click_corrects_a_suspect_grade_and_undo_restores_it(changeable_url, visit, spoiled):
    page = visit(changeable_url, CHECK)
    first, n = spoiled[1].suspects[0], len(spoiled[1].suspects)
    row = suspect(page, first.name)
    expect(row.get_by_label(f"Correct the grade of {first.name}")).to_have_value(first.estimate)
    row.get_by_role("button", name="Save").press("Enter")
    expect(suspects(page)).to_have_count(n - 1)
    expect(row).to_have_count(0)
    expect(page.locator("#suspects-count")).to_have_text(str(n - 1))
    expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
    kept = page.locator("#suspects .corrected")
    expect(kept).to_contain_text(f"Saved: grade {first.estimate}.")
    expect(kept.get_by_role("button", name="Undo")).to_be_focused()
    kept.get_by_role("button", name="Undo").press("Enter")
    expect(suspects(page)).to_have_count(n)
    expect(row.locator("dd.known bdi")).to_have_text(first.grade)
    expect(row.get_by_label("Correct the grade")).to_be_focused()
    expect(page.locator("#training")).to_be_hidden()


def test_keys_move_accept_keep_correct_and_undo(changeable_url, visit, spoiled):
    page = visit(changeable_url, CHECK)
    first, second, *_ = spoiled[1].suspects
    n = len(spoiled[1].suspects)
    expect(suspects(page)).to_have_count(n)
    for key, name in (("j", first.name), ("ArrowDown", second.name), ("k", first.name)):
        page.keyboard.press(key)
        expect(suspect(page, name)).to_be_focused()
    page.keyboard.press("a")
    expect(page.locator("#suspects .corrected")).to_contain_text(f"Saved: grade {first.estimate}.")
    expect(suspect(page, second.name)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#suspects .corrected")).to_contain_text(f"Kept: grade {second.grade}.")
    expect(suspects(page)).to_have_count(n - 2)
    expect(page.locator("#suspects-count")).to_have_text(str(n - 2))
    page.keyboard.press("u")
    expect(suspect(page, second.name)).to_be_focused()
    expect(suspects(page)).to_have_count(n - 1)
    page.keyboard.press("c")
    field = suspect(page, second.name).get_by_label("Correct the grade")
    expect(field).to_be_focused()
    field.press("a")  # a letter in a field, and no decision
    expect(suspects(page)).to_have_count(n - 1)
    assert page.request.get(f"{changeable_url}api/v1/pictures/{second.id}").json()["grade"] == second.grade
    page.wait_for_load_state("networkidle")


def test_a_grade_that_was_kept_leaves_the_list_for_good(changeable_url, visit, spoiled):
    page = visit(changeable_url, CHECK)
    first = spoiled[1].suspects[0]
    suspect(page, first.name).get_by_role("button", name=f"Keep {first.grade}").click()
    expect(suspect(page, first.name)).to_have_count(0)
    page.reload()
    expect(suspects(page)).to_have_count(len(spoiled[1].suspects) - 1)
    page.wait_for_load_state("networkidle")


def test_a_correction_leaves_the_input_in_other_rows_alone(changeable_url, visit, spoiled):
    page = visit(changeable_url, CHECK)
    first, *_, last = spoiled[1].suspects
    field = suspect(page, last.name).get_by_label("Correct the grade")
    field.fill("0.5")
    suspect(page, first.name).get_by_role("button", name="Save").click()
    field.focus()
    expect(suspect(page, first.name)).to_have_count(0)
    expect(field).to_have_value("0.5")
    expect(field).to_be_focused()


def test_a_grade_that_stays_suspect_gets_a_new_row_with_the_focus(changeable_url, visit, spoiled):
    page = visit(changeable_url, CHECK)
    chosen = next(suspect for suspect in spoiled[1].suspects if (suspect.grade, suspect.estimate) == ("3", "0"))
    row = suspect(page, chosen.name)
    row.get_by_label("Correct the grade").fill("4")
    row.get_by_role("button", name="Save").press("Enter")
    expect(row.locator("dd.known bdi")).to_have_text("4")
    expect(row.get_by_label("Correct the grade")).to_be_focused()
    expect(page.locator(".corrected")).to_have_count(0)


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["beside the list", "modal"])
def test_a_copy_is_graded_in_the_panel_and_the_list_refreshed(changeable_url, visit, viewport):
    page = visit(changeable_url, CHECK, viewport=viewport)
    pair = page.locator("#copies .pair")
    pair.get_by_role("link", name="Details: copy.png").press("Enter")
    expect(page.locator("#panel-title")).to_have_text("copy.png")
    panel = page.locator("#panel")
    panel.get_by_label("Correct the grade").fill("0")
    panel.get_by_role("button", name="Save").click()
    expect(pair.locator(".grade")).to_have_text(["0", "0"])
    expect(pair.locator(".conflict")).to_have_count(0)
    expect(suspect(page, "copy.png")).to_have_count(0)
    expect(page.locator("#check .card.chosen .name").first).to_have_text("copy.png")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.locator(".card:focus-within > .name")).to_have_text("copy.png")


def test_closing_the_panel_returns_the_focus_to_the_same_card_of_several(visit, spoiled_url, spoiled):
    page = visit(spoiled_url, CHECK)
    details = page.locator("#copies .pair").get_by_role("link", name="Details: copy.png")
    details.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    page.keyboard.press("Escape")
    expect(details).to_be_focused()


def test_a_correction_in_the_list_is_shown_in_the_panel(changeable_url, visit, spoiled):
    first = spoiled[1].suspects[0]
    page = visit(changeable_url, f"{CHECK}&chosen={first.id}")
    expect(page.locator("#panel .estimate bdi")).to_have_text(first.grade)
    suspect(page, first.name).get_by_role("button", name="Save").click()
    expect(page.locator("#panel .estimate bdi")).to_have_text(first.estimate)
    expect(page.locator("#panel #grade-field")).to_have_value(first.estimate)


def test_a_picture_opens_as_query_and_back_returns_to_the_check(visit, spoiled_url, spoiled):
    first = spoiled[1].suspects[0]
    page = visit(spoiled_url, CHECK)
    suspect(page, first.name).locator("> .card > .card-link").click()
    expect(page.locator("#result-title bdi")).to_have_text(first.name)
    expect(page.locator("#check")).to_be_hidden()
    page.go_back()
    expect(suspects(page)).to_have_count(len(spoiled[1].suspects))
    expect(estimate(page)).to_be_hidden()
    page.get_by_role("navigation", name="Modes").get_by_role("link", name="Browse").click()
    expect(page.locator("#list-title")).to_have_text("All pictures")
    expect(page.locator("#check")).to_be_hidden()


def test_hovering_over_a_listed_picture_marks_its_point_on_the_map(visit, spoiled_url):
    page = visit(spoiled_url, CHECK)
    wait_for_check(page)
    wait_for_map(page)
    card = suspects(page).first.locator("> .card")
    before = page.locator("#map").get_attribute("data-draws")
    card.hover()
    expect(page.locator("#map")).not_to_have_attribute("data-draws", before)  # with a ring


def test_what_is_not_found_is_said_in_words(visit, spoiled_url):
    page = visit(spoiled_url)
    change_report(page, lambda report: report | EMPTY)
    page.goto(spoiled_url + CHECK)
    for text in ("No suspect grades", "No near copies", "No pictures unlike the others", "Nothing in particular"):
        expect(page.locator("#check").get_by_text(text)).to_be_visible()
    for part in ("#suspects", "#copies", "#novel", "#advice"):
        expect(page.locator(f"{part} li")).to_have_count(0)
    expect(page.locator("#check > .muted:visible")).to_have_count(0)


def test_a_collection_without_a_model_says_so_and_can_be_tried_again(visit, serve, spoiled, tmp_path):
    collection = shutil.copytree(spoiled[0], tmp_path / "Spoiled")
    with write_store(collection) as store:
        model = store.header.model
        with store.transaction() as cursor:
            cursor.execute("DELETE FROM meta WHERE key = 'model'")
    server = serve(collection)
    page = visit(f"{server.url}/", CHECK)
    page.errors.allow_status(409)
    expect(page.locator("#alert")).to_contain_text("the collection has no model yet; grade pictures, then train it")
    expect(page.locator("#check")).to_be_hidden()
    with write_store(collection) as store, store.transaction() as cursor:
        cursor.execute("INSERT INTO meta (key, value) VALUES ('model', ?)", (model,))
    wait_until(lambda: page.request.get(f"{server.url}/api/v1/doctor").ok)
    page.get_by_role("button", name="Try again").press("Enter")
    expect(suspects(page)).to_have_count(len(spoiled[1].suspects))
    expect(page.locator("#alert")).to_be_empty()


def test_a_list_that_arrives_late_does_not_replace_the_check(visit, url):
    held = []
    page = visit(url)
    wait_for_all_pictures(page)
    page.route("**/api/v1/pictures?*", lambda route: held.append(route))
    with page.expect_request("**/api/v1/pictures?*"):
        page.goto(f"{url}#grade=1")
    page.goto(url + CHECK)
    wait_for_check(page)
    held[0].continue_()
    expect(page.locator("#list-title")).to_have_text("Check")
    expect(page.locator("#pictures > li")).to_have_count(0)
    page.unroute_all()


def test_hostile_texts_are_shown_as_text(visit, spoiled_url):
    hostile = HOSTILE[7]

    def spoil(found):
        if isinstance(found, dict):
            return {key: spoil(value) for key, value in found.items()}
        if isinstance(found, list):
            return [spoil(value) for value in found]
        return hostile if isinstance(found, str) else found

    page = visit(spoiled_url)
    change_report(page, spoil)
    page.goto(spoiled_url + CHECK)
    wait_for_check(page)
    for part in ("dd.known bdi", "dd.estimate bdi", ".neighbors .name >> nth=0", "> .card > .name"):
        expect(suspects(page).first.locator(part)).to_contain_text(hostile)
    for part in ("#verdict", "#advice li", "#copies .name >> nth=0", "#novel .name >> nth=0"):
        expect(page.locator(part)).to_contain_text(hostile[1:])
    expect(page.locator("#check img[src='x']")).to_have_count(0)


def test_a_narrow_screen_needs_no_sideways_scrolling_and_has_large_targets(changeable_url, visit):
    page = visit(changeable_url, CHECK, viewport=NARROW, has_touch=True, is_mobile=True)
    wait_for_check(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    small = """() => [...document.querySelectorAll(":is(#check, .list-head) :is(button, .button, a, input, select)")]
      .map((target) => [target.className || target.id, target.getBoundingClientRect()])
      .filter(([, { width, height }]) => width && (width < 43.9 || height < 43.9))
      .map(([name, { width, height }]) => [name, width, height])"""
    assert page.evaluate(small) == []


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light"), (NARROW, "dark")],
    ids=["wide, light", "wide, dark", "narrow, light", "narrow, dark"],
)
def test_axe_finds_no_violation(changeable_url, visit, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    page = visit(changeable_url, CHECK, **options)
    suspects(page).first.get_by_role("button", name="Save").click()
    expect(page.locator(".corrected")).to_be_visible()
    violations = axe.run(page)["violations"]
    assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in violations] == []
