"""Grading one picture after another by key and mouse, in Chromium with a real server."""

import re

import pytest

from ordrank import Collection
from tests.web.conftest import wait_until
from tests.web.page.conftest import N_PICTURES
from tests.web.page.grade_mode import (
    ALL,
    BY_NAME,
    GRADE,
    buttons,
    names_without_grade,
    open_ungraded,
    pressed,
    remove_elsewhere,
    sorted_names,
    title,
    wait_for_grade,
    wait_for_picture,
)
from tests.web.page.locators import change_summary, expect, wait_for_all_pictures

N_UNGRADED = len(range(0, N_PICTURES, 4))


@pytest.fixture
def opened(writable_url, visit):
    page, names = open_ungraded(visit, writable_url)
    return page, writable_url, names


def test_a_key_gives_a_grade_and_the_next_picture_appears(opened):
    page, url, names = opened
    expect(buttons(page).locator("kbd")).to_have_text(["0", "1", "2"])
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    page.keyboard.press("7")  # no grade of this collection
    wait_for_picture(page, names[1])
    buttons(page).nth(1).click()
    wait_for_picture(page, names[2])
    expect(title(page)).to_be_focused()
    page.keyboard.press("Space")  # skips, and does not press the button again
    wait_for_picture(page, names[3])
    page.keyboard.press("ArrowLeft")
    wait_for_picture(page, names[2])
    wait_for_grade(page, url, names[0], "2")
    wait_for_grade(page, url, names[1], "1")
    expect(page.locator("#grade-counts")).to_contain_text(
        f"2 graded in this session · {N_PICTURES - N_UNGRADED + 2} of {N_PICTURES} have a grade"
    )
    expect(page.locator("#training-text")).to_have_text("2 grades changed since the last training")
    expect(page.locator("#status")).to_have_text(f"Grade 1. {names[2]}.")


def test_previous_skip_undo_and_remove(opened):
    page, url, names = opened
    page.keyboard.press("1")
    wait_for_picture(page, names[1])
    page.keyboard.press("s")
    wait_for_picture(page, names[2])
    page.keyboard.press("Space")
    wait_for_picture(page, names[3])
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.get_by_role("button", name="Previous").click()
    wait_for_picture(page, names[0])
    expect(pressed(page)).to_have_text("1")
    page.keyboard.press("r")
    expect(pressed(page)).to_have_count(0)
    wait_for_grade(page, url, names[0], None)
    page.keyboard.press("ArrowRight")
    wait_for_picture(page, names[1])
    page.keyboard.press("u")  # the removal
    wait_for_picture(page, names[0])
    expect(pressed(page)).to_have_text("1")
    wait_for_grade(page, url, names[0], "1")
    page.keyboard.press("Meta+z")
    expect(pressed(page)).to_have_count(0)
    wait_for_grade(page, url, names[0], None)
    page.reload()
    wait_for_picture(page, names[0])
    page.keyboard.press("0")
    wait_for_grade(page, url, names[0], "0")
    page.reload()
    wait_for_picture(page, names[1])
    page.keyboard.press("u")  # what the earlier page has done
    page.get_by_role("alertdialog").get_by_role("button", name="Leave it").click()
    expect(page.locator("#status")).to_have_text("Nothing was undone.")
    wait_for_picture(page, names[1])
    page.keyboard.press("u")
    page.get_by_role("alertdialog").get_by_role("button", name="Undo it").click()
    wait_for_picture(page, names[0])
    wait_for_grade(page, url, names[0], None)


def test_a_grade_off_the_scale_is_kept_only_if_confirmed(opened):
    page, url, names = opened
    dialog = page.get_by_role("alertdialog")
    for answer, expected in (("Discard it", None), ("Keep it", "9")):
        page.keyboard.press("o")
        page.keyboard.type("9")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("No picture has the grade 9 yet: the grades go from 0 to 2. Keep it?")
        page.keyboard.press("1")  # keys of the page rest
        dialog.get_by_role("button", name=answer).click()
        wait_for_picture(page, names[1 if expected else 0])
        wait_for_grade(page, url, names[0], expected)
    expect(buttons(page).locator("bdi")).to_have_text(["0", "1", "2", "9"])


def test_many_grades_are_typed_and_the_server_asks_about_a_new_one(writable_url, visit):
    page = visit(writable_url, "", script=BY_NAME)
    wait_for_all_pictures(page)
    page.errors.allow_status(409)
    name = names_without_grade(page, writable_url)[0]
    ages = [{"grade": str(age), "value": age, "pictures": 1} for age in range(100)]
    change_summary(page, grades=ages)
    page.goto(writable_url + GRADE)
    wait_for_picture(page, name)
    expect(buttons(page)).to_have_count(0)
    page.keyboard.type("42")
    expect(page.get_by_label("Grade", exact=True)).to_have_value("42")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text(f"{name}: no picture has the grade 42 yet")
    dialog.get_by_role("button", name="Discard it").click()
    wait_for_picture(page, name)  # again
    page.keyboard.press("s")
    others = names_without_grade(page, writable_url)[1:]
    wait_for_picture(page, others[0])
    for i, typed in enumerate(("1", "42")):
        page.keyboard.type(typed)
        page.keyboard.press("Enter")
        wait_for_picture(page, others[i + 1])
    expect(dialog).to_contain_text("no picture has the grade 42 yet")
    page.wait_for_timeout(800)
    dialog.get_by_role("button", name="Discard it").click()
    expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    wait_for_picture(page, name)
    page.keyboard.type("42")
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Keep it").click()
    wait_for_grade(page, writable_url, name, "42")


def test_words_have_letters_as_keys_and_a_rejected_grade_is_reported(writable_url, visit):
    page = visit(writable_url, "", script=BY_NAME)
    wait_for_all_pictures(page)
    page.errors.allow_status(400)
    name = names_without_grade(page, writable_url)[0]
    words = ["unripe", "half-ripe", "ripe", "ripest"]
    change_summary(page, grades=[{"grade": word, "value": i, "pictures": 1} for i, word in enumerate(words)])
    page.goto(writable_url + GRADE)
    wait_for_picture(page, name)
    expect(buttons(page).locator("kbd")).to_have_text(["N", "H", "I", "P"])  # U, S, E, R are keys of the mode
    page.keyboard.press("h")
    expect(page.locator("#alert")).to_contain_text(f"{name} could not be changed: half-ripe is not a grade")
    wait_for_picture(page, name)
    expect(pressed(page)).to_have_count(0)


def test_the_estimate_is_hidden_until_asked_for_and_the_choice_is_kept(opened):
    page, *_ = opened
    expect(page.locator("#grade-estimate")).to_be_empty()
    assert "≈" not in page.locator("#grade").inner_html()
    page.keyboard.press("e")
    expect(page.locator("#grade-estimate")).to_contain_text("≈")
    page.reload()
    expect(page.locator("#grade-estimate")).to_contain_text("≈")
    page.get_by_role("button", name="Show the estimate").click()
    expect(page.locator("#grade-estimate")).to_be_empty()


def test_suggestions_come_with_a_reason_that_does_not_name_the_estimate(writable_url, visit):
    page = visit(writable_url, GRADE)
    suggested = page.request.get(f"{writable_url}api/v1/suggestions?limit=30").json()["items"]
    for item in suggested[:6]:
        wait_for_picture(page, item["picture"]["name"])
        reason = page.locator("#grade-reason")
        if item["reason"] == "uncertain":
            expect(reason).to_contain_text("The model is uncertain about its grade")
            assert "may be" not in reason.inner_text()
        else:
            expect(reason).to_have_text(f"{item['explanation'].capitalize()}.")
        page.keyboard.press("ArrowRight")


def test_keys_rest_while_someone_types_and_the_name_is_sent(opened):
    page, url, names = opened
    page.locator("#grade-grader").fill("Ada 1")
    page.locator("#grade-grader").press("2")
    wait_for_picture(page, names[0])
    title(page).focus()
    page.keyboard.press("Alt+2")
    wait_for_picture(page, names[0])
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    wait_for_grade(page, url, names[0], "2")
    graders = page.request.get(f"{url}api/v1/graders").json()["graders"]
    assert [(grader["name"], grader["graded"]) for grader in graders] == [("Ada 12", 1)]
    page.reload()
    expect(page.locator("#grade-grader")).to_have_value("Ada 12")


def test_all_pictures_in_turn_and_the_end_of_them(writable_url, visit):
    page = visit(writable_url, GRADE, script=BY_NAME)
    names = names_without_grade(page, writable_url)
    for i, name in enumerate(names):
        wait_for_picture(page, name)
        page.keyboard.press(str(i % 3))
    expect(title(page)).to_have_text("All done")
    expect(page.get_by_text("No more pictures in this order.")).to_be_visible()
    wait_until(lambda: names_without_grade(page, writable_url) == [])
    page.keyboard.press("u")
    wait_for_picture(page, names[-1])
    page.locator("#grade-order").select_option("all")
    wait_for_picture(page, sorted_names(page, writable_url)[0])


def test_a_click_or_a_key_shows_the_full_size(opened):
    page, _, names = opened
    stage = page.locator("#grade-stage")
    expect(stage.locator("img")).to_be_visible()
    wait_until(lambda: stage.locator("img").bounding_box())  # none while the thumbnail is replaced
    fitting = stage.locator("img").bounding_box()["width"]
    stage.click(position={"x": 400, "y": 300})
    expect(stage).to_be_focused()
    wait_until(lambda: stage.locator("img").bounding_box()["width"] > 1.5 * fitting)
    before = stage.evaluate("(stage) => stage.scrollTop")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("(before) => document.querySelector('#grade-stage').scrollTop > before", arg=before)
    wait_for_picture(page, names[0])
    page.keyboard.press("z")
    expect(page.get_by_role("button", name="Full size")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("ArrowRight")
    wait_for_picture(page, names[1])


def test_the_keys_are_explained(opened):
    page, _, names = opened
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text("undo the last change")
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    wait_for_picture(page, names[0])


def test_a_collection_without_grades_asks_for_the_scale_first(visit, serve, folder, tmp_path):
    with Collection.create_ungraded(tmp_path / "New", folder / "pictures", features="pixels:4", n_jobs=1):
        pass
    server = serve(tmp_path / "New")
    url = f"{server.url}/"
    page = visit(url, GRADE)
    page.errors.allow_status(409)  # no suggestions without a model
    expect(page.get_by_role("heading", name="Which grades do the pictures get?")).to_be_visible()
    page.get_by_role("button", name="1 – 5").click()
    wait_for_picture(page, re.compile("png"))
    expect(buttons(page).locator("bdi")).to_have_text(list("12345"))
    for grade in "1315":
        before = title(page).inner_text()
        page.keyboard.press(grade)
        expect(title(page)).not_to_have_text(before)
    wait_until(lambda: page.request.get(f"{url}api/v1/collection").json()["graded"] == 4)
    page.reload()
    expect(buttons(page).locator("bdi")).to_have_text(list("12345"))
    expect(page.locator("#training-text")).to_contain_text("4 grades given")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#training")).to_be_hidden()
    page.keyboard.press("e")
    expect(page.locator("#grade-estimate")).to_contain_text("≈")
    page.wait_for_load_state("networkidle")


def test_a_double_click_grades_one_picture(opened):
    page, _, names = opened
    buttons(page).nth(1).dblclick()
    wait_for_picture(page, names[1])
    expect(page.locator("#grade-counts")).to_contain_text("1 graded in this session")
    page.keyboard.press("s")
    wait_for_picture(page, names[2])


def test_an_answer_for_another_order_is_ignored(writable_url, visit):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    names, held = names_without_grade(page, writable_url), []
    page.route(re.compile("/api/v1/(suggestions|pictures)\\?"), lambda route: held.append(route))
    page.goto(writable_url + GRADE)
    expect(title(page)).to_have_text("Loading…")
    page.locator("#grade-order").select_option("ungraded")
    wait_until(lambda: page.wait_for_timeout(20) or len(held) == 2)
    held[0].fulfill(json={"items": [], "total": 0})
    page.wait_for_timeout(100)
    expect(title(page)).to_have_text("Loading…")
    expect(page.get_by_text("No more pictures in this order.")).to_be_hidden()
    held[1].continue_()
    wait_for_picture(page, names[0])
    page.unroute_all(behavior="ignoreErrors")


def test_the_list_is_not_read_again_at_each_picture_near_its_end(writable_url, visit):
    page, requested = visit(writable_url, "", script=ALL), []
    wait_for_all_pictures(page)
    page.on("request", lambda request: "/api/v1/pictures?" in request.url and requested.append(request.url))
    page.goto(writable_url + GRADE)
    for name in sorted_names(page, writable_url):
        wait_for_picture(page, name)
        page.keyboard.press("ArrowRight")
    expect(title(page)).to_have_text("All done")
    assert len(requested) <= 4  # two pages, their end while there are some pictures left, and again at the last one


def test_a_picture_that_was_removed_elsewhere_is_left(opened):
    page, url, names = opened
    page.errors.allow_status(404)
    page.route("**/pictures/*/large?*", lambda route: route.fulfill(status=404, json={}))
    remove_elsewhere(page, url, names[0])
    page.keyboard.press("1")
    expect(page.locator("#alert")).to_contain_text(f"{names[0]} was removed from the collection.")
    wait_for_picture(page, names[1])
    page.keyboard.press("ArrowLeft")
    wait_for_picture(page, names[1])
    remove_elsewhere(page, url, names[12])
    for name in names[2:12]:
        page.keyboard.press("s")
        wait_for_picture(page, name)
    page.keyboard.press("s")  # no image of it was loaded
    expect(page.locator("#alert")).to_contain_text(f"{names[12]} was removed from the collection.")
    wait_for_picture(page, names[13])


def test_a_read_only_page_offers_no_grading(visit, serve, folder):
    server = serve(folder / "Redness", "--read-only")
    page = visit(f"{server.url}/", GRADE)
    modes = page.get_by_role("navigation", name="Modes").get_by_role("link")
    expect(modes).to_have_text(["Browse", "Check", "Graders", "Quality"])
    expect(page.locator("#grade-work")).to_be_hidden()
    page.goto(f"{server.url}/#view=compare")
    expect(page.locator("#compare-work")).to_be_hidden()
    page.wait_for_load_state("networkidle")
