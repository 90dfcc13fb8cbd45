"""Queries, filters and the side panel, in Chromium with a real server."""

import csv
import io
import re
from pathlib import Path

import pytest

from tests.collection.pictures import N_GRADES
from tests.web.page.conftest import N_PICTURES
from tests.web.page.locators import (
    cards,
    change_summary,
    dispatch_file,
    estimate,
    expect,
    id_of,
    shown_grades,
    wait_for_all_pictures,
    wait_for_grades,
    wait_for_result,
)


def test_a_chosen_file_is_graded_and_ranked(visit, url, folder):
    page = visit(url)
    wait_for_all_pictures(page)
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
    expect(estimate(page)).to_have_text("2")
    expect(page.locator("#status")).to_have_text(f"Estimated grade 2; {N_PICTURES} pictures ranked.")
    expect(page.locator("#result-title")).to_be_focused()
    expect(page.locator("#result .column.chosen .label")).to_have_text("2")
    shares = page.locator("#result .share").all_inner_texts()
    assert len(shares) == N_GRADES
    assert sum(int(re.sub(r"\D", "", share)) for share in shares) == pytest.approx(100, abs=2)
    expect(page).to_have_url(re.compile("#query="))


@pytest.mark.parametrize("event", ["drop", "paste"])
def test_a_dropped_or_pasted_picture_is_graded(visit, url, folder, event):
    page = visit(url)
    expect(cards(page).first).to_be_visible()
    dispatch_file(page, "dragenter", folder / "new.png")
    expect(page.locator("#drop-hint")).to_be_visible()
    dispatch_file(page, event, folder / "new.png")
    wait_for_result(page)
    expect(estimate(page)).to_have_text("2")
    if event == "drop":
        expect(page.locator("#drop-hint")).to_be_hidden()


HOLD_FIRST_UPLOAD = """
  const { fetch } = window;
  window.fetch = async (url, options = {}) => {
    if (options.method === "POST" && !window.release) await new Promise((resolve) => (window.release = resolve));
    return fetch(url, options);
  };"""


def release_upload(page):
    """Send the upload that was held, and wait for its end."""
    page.evaluate("release()")
    expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")


def test_only_the_result_of_the_last_upload_is_shown(visit, url, folder):
    page = visit(url, script=HOLD_FIRST_UPLOAD)
    wait_for_all_pictures(page)
    page.set_input_files("#file", folder / "new.png")
    page.wait_for_function("window.release !== undefined")
    page.set_input_files("#file", folder / "pictures" / "001.png")
    wait_for_result(page)
    release_upload(page)
    expect(page).to_have_url(re.compile("#picture="))
    expect(page.locator("#result-title")).to_contain_text("001.png")


def test_an_upload_does_not_call_back_who_has_gone_elsewhere(visit, url, folder):
    page = visit(url, script=HOLD_FIRST_UPLOAD)
    wait_for_all_pictures(page)
    page.set_input_files("#file", folder / "new.png")
    page.wait_for_function("window.release !== undefined")
    page.locator("#grades .chip", has_text=re.compile("^1")).click()
    wait_for_grades(page, "1")
    release_upload(page)
    expect(page).to_have_url(re.compile("#grade=1$"))
    expect(page.locator("#list-title")).to_have_text("Grade 1")


def test_a_picture_of_the_collection_is_recognized(visit, url, folder):
    page = visit(url)
    dispatch_file(page, "drop", folder / "pictures" / "001.png")
    wait_for_result(page)
    expect(page).to_have_url(re.compile("#picture="))
    expect(page.locator("#result dd.known")).to_have_text("1")


def test_more_like_this_searches_and_back_returns(visit, url):
    page = visit(url)
    first = id_of(cards(page).first)
    cards(page).first.locator(".card-link").click()
    wait_for_result(page)
    expect(page).to_have_url(re.compile(f"#picture={first}$"))
    second = id_of(cards(page).first)
    assert second != first
    cards(page).first.hover()
    cards(page).first.get_by_role("link", name="More like this").click()
    expect(page).to_have_url(re.compile(f"#picture={second}$"))
    page.go_back()
    expect(page).to_have_url(re.compile(f"#picture={first}$"))
    expect(cards(page).first).to_have_attribute("data-id", second)
    page.go_back()
    expect(page.locator("#list-title")).to_have_text("All pictures")
    page.go_forward()
    wait_for_result(page)


def test_filters_limit_the_ranking(visit, url, folder):
    page = visit(url)
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
    page.get_by_label("Only grade 2").check()
    expect(page.locator("#list-title")).to_have_text("Nearest pictures of grade 2")
    assert set(shown_grades(page)) == {"2"}
    page.get_by_label("All grades").check()
    expect(page.locator("#list-title")).to_have_text("Nearest pictures")
    page.select_option("#highest", "1")
    expect(page.locator("#highest")).to_have_value("1")
    wait_for_grades(page, without="2")
    page.select_option("#lowest", "1")
    wait_for_grades(page, "1")
    page.select_option("#show", "12")
    expect(cards(page)).to_have_count(12)
    expect(page.locator("#more")).to_be_hidden()
    page.reload()
    expect(cards(page)).to_have_count(12)
    assert set(shown_grades(page)) == {"1"}


def test_the_csv_download_equals_the_shown_ranking(visit, url, folder):
    page = visit(url)
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
    page.select_option("#show", "12")
    expect(cards(page)).to_have_count(12)
    with page.expect_download() as download:
        page.click("#csv")
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert len(rows) == 12
    distances = page.locator("#pictures .distance").all_inner_texts()
    for row, shown in zip(rows, distances, strict=True):
        assert float(shown.split()[-1]) == pytest.approx(float(row["distance"]), rel=0.01)


def test_the_csv_link_says_how_many_rows_the_server_sends(visit, url):
    page = visit(url, "#picture=2")
    change_summary(page, max_table_rows=10)
    wait_for_result(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download CSV (first 10)").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 11
    page.goto(f"{url}#picture=2&show=10")
    expect(page.locator("#csv")).to_have_text("Download CSV")
    page.unroute_all()


@pytest.mark.parametrize("show", ["-5", "1.5", "0", "1e3", "many"])
def test_an_invalid_number_of_pictures_shows_all(visit, url, show):
    page = visit(url, f"#picture=2&show={show}")
    wait_for_result(page)
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES - 1))
    expect(page.locator("#show")).to_have_value("")


def test_the_list_grows_on_scrolling_and_by_a_button(visit, url):
    page = visit(url, viewport={"width": 1400, "height": 300})
    wait_for_all_pictures(page)
    more = page.locator("#more")
    more.focus()
    more.press("Enter")
    expect(cards(page)).to_have_count(N_PICTURES)
    expect(more).to_be_hidden()
    page = visit(url, viewport={"width": 1400, "height": 300})
    wait_for_all_pictures(page)
    page.mouse.move(300, 250)
    page.mouse.wheel(0, 20000)
    expect(cards(page)).to_have_count(N_PICTURES)


def test_pictures_can_be_browsed_by_grade(visit, url):
    page = visit(url)
    expect(cards(page).first).to_be_visible()
    page.locator("#grades .chip", has_text=re.compile("^1")).click()
    expect(page.locator("#list-title")).to_have_text("Grade 1")
    wait_for_grades(page, "1")
    page.locator("#grade-sources .chip", has_text=re.compile("^Estimated$")).click()
    expect(page.locator("#list-title")).to_have_text("Grade 1, grade estimated")
    wait_for_grades(page, "≈")
    expect(page).to_have_url(re.compile("grade=1&given=false"))


def test_the_panel_shows_a_distance_as_the_root_of_its_squared_parts(visit, url):
    page = visit(url, "#picture=2")
    wait_for_result(page)
    shown = cards(page).nth(4).locator(".distance").inner_text().split()[-1]
    cards(page).nth(4).locator(".card-link").click()
    panel = page.locator("#panel")
    expect(panel).to_be_visible()
    expect(page.locator("#panel-title")).to_be_focused()
    expect(panel.locator("h3 .number")).to_have_text(shown)
    whole = float(shown)
    order, appearance = map(float, panel.locator("li .number:not(.muted)").all_inner_texts())
    assert order**2 + appearance**2 == pytest.approx(whole**2, rel=0.02)
    assert panel.evaluate("(panel) => panel.matches(':modal')") is False
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(cards(page).nth(4).locator(".card-link")).to_be_focused()
    page.go_back()
    expect(panel).to_be_visible()
