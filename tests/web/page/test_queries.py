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
    change_estimate,
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
    expect(estimate(page)).to_have_text(re.compile(r"^2( \([0-2]–2\))?$"))
    shown = estimate(page).inner_text()
    expect(page.locator("#status")).to_have_text(f"Estimated grade {shown}; {N_PICTURES} pictures ranked.")
    expect(page.locator("#result .explanation")).to_contain_text("2 is the middle estimate; for 9 pictures in 10")
    expect(page.locator("#result .remark")).to_have_count(0)
    expect(page.locator("#result-title")).to_be_focused()
    expect(page.locator("#result .column.middle .label")).to_have_text("2")
    expect(page.locator("#result .column.middle .mark").first).to_have_text("middle")
    percents = page.locator("#result .probability").all_inner_texts()
    assert len(percents) == N_GRADES
    assert sum(int(re.sub(r"\D", "", percent)) for percent in percents) == pytest.approx(100, abs=2)
    expect(page).to_have_url(re.compile("#query="))


@pytest.mark.parametrize("event", ["drop", "paste"])
def test_a_dropped_or_pasted_picture_is_graded(visit, url, folder, event):
    page = visit(url)
    expect(cards(page).first).to_be_visible()
    dispatch_file(page, "dragenter", folder / "new.png")
    expect(page.locator("#drop-hint")).to_be_visible()
    dispatch_file(page, event, folder / "new.png")
    wait_for_result(page)
    expect(estimate(page).locator("bdi")).to_contain_text("2")
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


def test_the_chart_marks_the_median_and_the_interval(visit, url):
    page = visit(url)
    grades = [{"grade": str(grade), "probability": p} for grade, p in enumerate((0.1, 0.3, 0.6))]
    estimated = {"grade": "1", "lowest": "1", "highest": "2", "shown_grade": "1 (1–2)", "known_grade": "0"}
    change_estimate(page, probabilities=grades, is_novel=False, **estimated)
    page.goto(f"{url}#picture=2")
    expect(estimate(page)).to_have_text("1 (1–2)")
    expect(page.locator("#result .conflict")).to_have_text("outside the interval")
    label = (
        "Probability of each grade, in order: 0: 10\u00a0%, 1: 30\u00a0%, 2: 60\u00a0%. "
        "Middle estimate 1; the 90 % interval goes from 1 to 2. Known grade 0."
    )
    expect(page.get_by_role("img", name=label)).to_be_visible()
    band, *columns = (
        page.locator(f"#result {part}").bounding_box() for part in (".band", ".column >> nth=1", ".column >> nth=2")
    )
    assert band["x"] == pytest.approx(columns[0]["x"], abs=1)
    assert band["x"] + band["width"] == pytest.approx(columns[1]["x"] + columns[1]["width"], abs=1)
    page.unroute_all()


def test_a_query_unlike_the_collection_gets_a_remark(visit, url, folder):
    remark = "Unlike anything in this collection (p = 0.001): the estimate 2 means little."
    page = visit(url)
    change_estimate(page, is_novel=True, novelty=0.001, explanation=remark)
    page.set_input_files("#file", folder / "new.png")
    expect(page.locator("#result .remark")).to_have_text(remark)
    expect(page.locator("#result .explanation")).to_have_count(0)
    expect(page.locator("#status")).to_contain_text(remark)
    expect(page.locator("#result dt").first).to_have_text("Estimated grade, unreliable")
    expect(estimate(page)).to_have_class(re.compile("doubtful"))
    expect(page).to_have_title(re.compile("^Unreliable grade 2"))
    page.unroute_all()


@pytest.mark.parametrize(
    ("picture", "shown", "without", "outside"),
    [
        ({"grade": "2"}, "2given", "estimate without this grade: 1 (0–1)", True),
        ({"grade": "1"}, "1given", "estimate without this grade: 1 (0–1)", False),
        ({"grade": "1", "lowest": "1"}, "1given", "estimate without this grade: 1", False),
        ({"grade": None}, "≈ 1 (0–1)estimated, not given", None, False),
        ({"grade": "1", "estimate": None, "lowest": None, "highest": None}, "1given", None, False),
    ],
)
def test_the_panel_shows_the_estimate_beside_the_given_grade(visit, url, picture, shown, without, outside):
    page = visit(url)
    body = {"estimate": "1", "lowest": "0", "highest": "1", **picture}
    page.route("**/api/v1/pictures/3", lambda route: route.fulfill(json={**route.fetch().json(), **body}))
    page.goto(f"{url}#chosen=3")
    expect(page.locator("#panel dd.estimate")).to_have_text(shown)
    expect(page.locator("#panel .without")).to_have_count(0 if without is None else 1)
    expect(page.locator("#panel .conflict")).to_have_count(int(outside))
    if without is not None:
        expect(page.locator("#panel .without")).to_contain_text(without)
    page.unroute_all()


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
    page.locator("#grade-sources .chip", has_text=re.compile("^Estimated")).click()
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
