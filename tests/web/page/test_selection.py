"""Selecting several pictures and what can be done with them, in Chromium with a real server."""

import csv
import io
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.web.page.conftest import N_PICTURES, NARROW
from tests.web.page.locators import (
    cards,
    expect,
    fulfill_points,
    id_of,
    lose_response,
    wait_for_all_pictures,
    wait_for_map,
    wait_for_result,
)


def box(page, number):
    return cards(page).nth(number).get_by_role("checkbox")


def select(page, *numbers):
    for number in numbers:
        cards(page).nth(number).hover()
        box(page, number).check()


def bar(page):
    return page.locator("#selection")


def selected_count(page):
    return page.locator("#selection .selected-count")


def test_checkboxes_ranges_and_keys_select(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    expect(bar(page)).to_be_hidden()
    select(page, 1)
    expect(selected_count(page)).to_have_text("1 selected")
    cards(page).nth(6).locator(".card-link").click(modifiers=["Shift"])  # a range
    expect(selected_count(page)).to_have_text("6 selected")
    expect(page).to_have_url(url)
    cards(page).nth(3).locator(".card-link").click()  # while some are selected, pictures are
    expect(selected_count(page)).to_have_text("5 selected")
    expect(box(page, 3)).not_to_be_checked()
    page.keyboard.press("Control+a")
    expect(selected_count(page)).to_have_text("48 selected")
    page.get_by_role("button", name=f"Select all {N_PICTURES}").click()
    expect(selected_count(page)).to_have_text(f"{N_PICTURES} selected")
    page.locator("#more").scroll_into_view_if_needed()
    expect(cards(page)).to_have_count(N_PICTURES)
    expect(box(page, N_PICTURES - 1)).to_be_checked()
    page.keyboard.press("Escape")
    expect(bar(page)).to_be_hidden()
    expect(page.locator(".card.selected")).to_have_count(0)
    page.locator("#search").focus()
    page.keyboard.press("Control+a")  # the text of the field
    expect(bar(page)).to_be_hidden()


def test_the_keyboard_selects(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    box(page, 2).focus()
    page.keyboard.press("Space")
    expect(selected_count(page)).to_have_text("1 selected")
    expect(box(page, 2)).to_be_focused()


def test_a_selection_survives_another_list(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    chosen = id_of(cards(page).nth(2))
    select(page, 2)
    page.locator("#sort").select_option("name")
    expect(page).to_have_url(re.compile("sort=name"))
    expect(selected_count(page)).to_have_text("1 selected")
    expect(page.locator(f'#pictures [data-id="{chosen}"]').get_by_role("checkbox")).to_be_checked()
    page.goto(f"{url}#view=quality")
    expect(bar(page)).to_be_hidden()
    page.keyboard.press("Escape")  # of another view
    page.go_back()
    expect(selected_count(page)).to_have_text("1 selected")


def test_all_selected_pictures_get_a_grade_and_have_it_undone(visit, writable_url):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    select(page, 0, 1, 2)
    ids = [id_of(cards(page).nth(number)) for number in range(3)]
    before = [page.request.get(f"{writable_url}api/v1/pictures/{one}").json()["grade"] for one in ids]

    def grades():
        return [page.request.get(f"{writable_url}api/v1/pictures/{one}").json()["grade"] for one in ids]

    page.get_by_label("Grade for the selected pictures").fill("2")
    page.get_by_role("button", name="Set grade").click()
    expect(page.locator(".selection-status")).to_contain_text("3 pictures graded 2.")
    expect(page.get_by_role("button", name="Remove…")).to_be_hidden()  # nothing is selected any more
    assert grades() == ["2"] * 3
    expect(page.locator(f'#pictures [data-id="{ids[0]}"] .grade')).to_have_text("2")
    expect(page.locator("#training-text")).to_contain_text("changed since the last training")
    page.locator(".selection-status").get_by_role("button", name="Undo").click()
    expect(page.locator(".selection-status")).to_contain_text("Undone for 3 pictures.")
    assert grades() == before
    page.locator(".selection-status").get_by_role("button", name="Close").click()
    expect(bar(page)).to_be_hidden()


def test_grades_set_again_after_a_lost_response_are_one_change(visit, writable_url):
    page = visit(writable_url)
    page.errors.allowed.append("net::ERR_FAILED")
    wait_for_all_pictures(page)
    select(page, 0, 1)
    addresses = [f"{writable_url}api/v1/pictures/{id_of(cards(page).nth(number))}" for number in range(2)]
    before = [page.request.get(address).json()["grade"] for address in addresses]
    page.route("**/api/v1/grades", lose_response, times=1)
    page.get_by_label("Grade for the selected pictures").fill("2")
    page.get_by_role("button", name="Set grade").click()
    expect(page.locator("#alert")).to_contain_text("The server does not respond")
    page.get_by_role("button", name="Set grade").click()
    expect(page.locator(".selection-status")).to_contain_text("2 pictures graded 2.")
    page.locator(".selection-status").get_by_role("button", name="Undo").click()
    expect(page.locator(".selection-status")).to_contain_text("Undone for 2 pictures.")
    assert [page.request.get(address).json()["grade"] for address in addresses] == before


def test_a_grade_that_is_not_on_the_scale_is_asked_about(visit, writable_url):
    page = visit(writable_url)
    page.errors.allow_status(409)
    wait_for_all_pictures(page)
    select(page, 0, 1)
    ids = [id_of(cards(page).nth(number)) for number in range(2)]
    page.get_by_label("Grade for the selected pictures").fill("70")
    page.get_by_role("button", name="Set grade").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Discard it").click()
    expect(page.get_by_role("alertdialog")).to_have_count(0)
    assert page.request.get(f"{writable_url}api/v1/pictures/{ids[0]}").json()["grade"] != "70"
    expect(selected_count(page)).to_have_text("2 selected")
    page.get_by_role("button", name="Set grade").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Keep it").click()
    expect(page.locator(".selection-status")).to_contain_text("2 pictures graded 70.")
    assert page.request.get(f"{writable_url}api/v1/pictures/{ids[1]}").json()["grade"] == "70"


def test_the_name_of_the_grader_is_sent(visit, writable_url):
    page = visit(writable_url, script="localStorage.setItem('ordrank grader', JSON.stringify('Ada'))")
    wait_for_all_pictures(page)
    select(page, 0)
    chosen = id_of(cards(page).first)
    page.get_by_label("Grade for the selected pictures").fill("1")
    page.get_by_role("button", name="Set grade").click()
    expect(page.locator(".selection-status")).to_contain_text("1 picture graded 1.")
    given = page.request.get(f"{writable_url}api/v1/pictures/{chosen}/grades").json()
    assert "Ada" in [one["grader"] for one in given]


def test_selected_pictures_are_removed_after_a_question(visit, writable_url):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    select(page, 0, 4)
    gone = id_of(cards(page).first)
    page.get_by_role("button", name="Remove…").click()
    expect(page.get_by_role("alertdialog")).to_contain_text("Remove 2 pictures")
    page.get_by_role("alertdialog").get_by_role("button", name="Keep them").click()
    expect(selected_count(page)).to_have_text("2 selected")
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES - 2))
    expect(page.locator(".selection-status")).to_contain_text("2 pictures removed.")
    expect(page.locator(f'#pictures [data-id="{gone}"]')).to_have_count(0)


def test_selected_pictures_are_downloaded(visit, url):
    page = visit(url, "#sort=name")
    expect(cards(page).first).to_be_visible()
    select(page, 3, 5)
    expected = [page.locator("#pictures .name").nth(number).inner_text() for number in (3, 5)]
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert [row["name"] for row in rows] == expected
    with page.expect_download() as download:
        page.get_by_role("button", name="Files").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.namelist() == expected


def test_pictures_side_by_side_have_one_zoom(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    select(page, 0)
    expect(page.get_by_role("button", name="Side by side")).to_be_disabled()
    select(page, 7, 9)
    page.get_by_role("button", name="Side by side").evaluate("(button) => [1, 2].forEach(() => button.click())")
    images = page.locator("#side-by-side img")
    expect(images).to_have_count(3)
    for number in range(3):
        expect(images.nth(number)).to_have_js_property("complete", True)
        assert images.nth(number).evaluate("(image) => image.naturalWidth") > 0
    widths = [image.bounding_box()["width"] for image in images.all()]
    page.get_by_role("dialog").get_by_role("button", name="Zoom in").click()
    page.locator(".compared").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    zoomed = [image.bounding_box()["width"] for image in images.all()]
    assert zoomed == pytest.approx([1.3**2 * width for width in widths], rel=0.01)
    page.keyboard.press("Escape")
    expect(page.locator("#side-by-side")).to_have_count(0)
    expect(selected_count(page)).to_have_text("3 selected")


def draw_line(page, corners, *, shift=False):
    canvas = page.locator("#map-canvas").bounding_box()
    at = [(canvas["x"] + x * canvas["width"], canvas["y"] + y * canvas["height"]) for x, y in corners]
    if shift:
        page.keyboard.down("Shift")
    page.mouse.move(*at[0])
    page.mouse.down()
    for corner in at[1:]:
        page.mouse.move(*corner, steps=5)
    page.mouse.up()
    if shift:
        page.keyboard.up("Shift")


LEFT_HALF = [(0.02, 0.02), (0.5, 0.02), (0.5, 0.9), (0.02, 0.9)]


@pytest.mark.parametrize("shift", [False, True], ids=["button", "shift key"])
def test_a_lasso_selects_the_points_inside(visit, url, shift):
    page = visit(url)
    positions = np.array([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]).repeat(20, axis=0)
    fulfill_points(page, positions, np.repeat([0, 2], 20))
    wait_for_map(page)
    if not shift:
        page.get_by_role("button", name="Lasso").click()
    label = page.locator("#map-labels span").first
    style = label.get_attribute("style")
    draw_line(page, LEFT_HALF, shift=shift)
    expect(selected_count(page)).to_have_text("20 selected")
    expect(page.locator("#map-tip")).to_be_hidden()
    assert label.get_attribute("style") == style  # the map has not turned
    expect(page.locator("#map-lasso-line polygon")).not_to_have_attribute("points", re.compile("."))
    if not shift:
        page.keyboard.press("Escape")  # first the lasso, then the selection
        expect(page.get_by_role("button", name="Lasso")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("Escape")
    expect(bar(page)).to_be_hidden()
    draw_line(page, [(0.3, 0.5), (0.6, 0.5)])
    expect(label).not_to_have_attribute("style", style)
    page.unroute_all()


def test_a_lasso_works_with_many_points(visit, url):
    n = 100_000
    page = visit(url)
    positions = np.random.default_rng(0).normal(size=(n, 3))
    # A sphere: no point is in a corner, where the mouse would ask for a picture that does not exist.
    fulfill_points(page, positions / np.linalg.norm(positions, axis=1, keepdims=True), np.zeros(n))
    wait_for_map(page)
    page.get_by_role("button", name="Lasso").click()
    draw_line(page, [(0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98)])
    expect(selected_count(page)).to_have_text("100,000 selected")
    expect(page.locator(".selection-status")).to_have_text("At most 10,000 pictures at a time.")
    expect(page.get_by_role("button", name="CSV")).to_be_disabled()
    page.unroute_all()


def test_a_phone_selects_in_a_mode(visit, url):
    page = visit(url, viewport=NARROW, has_touch=True, is_mobile=True)
    wait_for_all_pictures(page)
    expect(page.locator(".pick").first).to_be_hidden()
    page.get_by_role("button", name="Select", exact=True).tap()
    expect(page.locator(".pick").first).to_be_visible()
    cards(page).nth(1).locator(".card-link").tap()
    cards(page).nth(2).locator(".card-link").tap()
    expect(selected_count(page)).to_have_text("2 selected")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Clear the selection").tap()
    expect(bar(page)).to_be_hidden()
    cards(page).first.locator(".card-link").tap()
    wait_for_result(page)


def test_a_server_that_is_read_only_offers_no_changes(visit, serve, folder):
    server = serve(folder / "Redness", "--read-only")
    page = visit(f"{server.url}/")
    wait_for_all_pictures(page)
    select(page, 0, 1)
    expect(page.get_by_role("button", name="Side by side")).to_be_visible()
    for name in ("Set grade", "Remove…", "Add pictures…"):
        expect(page.get_by_role("button", name=name)).to_have_count(0)
