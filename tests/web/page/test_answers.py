"""The page in a real Chromium, before a real server: pictures are asked with, and answers read."""

import csv
import io
import re
from pathlib import Path

import pytest

from tests.service.drawing import N_GRADES
from tests.web.browser import CHROMIUM, hand_over
from tests.web.page.conftest import N_PICTURES
from tests.web.page.looking import (
    asked,
    cards,
    estimate,
    every_grade,
    expect,
    grades_of,
    id_of,
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def test_a_chosen_file_is_graded_and_ranked(visit, address, made):
    page = visit(address)
    page.set_input_files("#file", made / "new.png")
    asked(page)
    expect(estimate(page)).to_have_text("2")
    expect(page.locator("#news")).to_have_text(f"Estimated grade 2; {N_PICTURES} pictures ranked.")
    expect(page.locator("#answer-title")).to_be_focused()
    expect(page.locator("#answer .column.chosen .label")).to_have_text("2")
    shares = page.locator("#answer .share").all_inner_texts()
    assert len(shares) == N_GRADES
    assert sum(int(re.sub(r"\D", "", share)) for share in shares) == pytest.approx(100, abs=2)
    expect(page).to_have_url(re.compile("#query="))


@pytest.mark.parametrize("way", ["drop", "paste"])
def test_a_dropped_or_pasted_picture_is_graded(visit, address, made, way):
    page = visit(address)
    expect(cards(page).first).to_be_visible()
    hand_over(page, "dragenter", made / "new.png")
    expect(page.locator("#drop-hint")).to_be_visible()
    hand_over(page, way, made / "new.png")
    asked(page)
    expect(estimate(page)).to_have_text("2")
    if way == "drop":
        expect(page.locator("#drop-hint")).to_be_hidden()


def test_a_picture_of_the_collection_is_recognized(visit, address, made):
    page = visit(address)
    hand_over(page, "drop", made / "pictures" / "001.png")
    asked(page)
    expect(page).to_have_url(re.compile("#picture="))
    expect(page.locator("#answer dd.known")).to_have_text("1")


def test_more_like_this_and_back(visit, address):
    page = visit(address)
    first = id_of(cards(page).first)
    cards(page).first.locator(".pick").click()
    asked(page)
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
    asked(page)


# The ranking and its switches.


def test_switches_limit_the_ranking(visit, address, made):
    page = visit(address)
    page.set_input_files("#file", made / "new.png")
    asked(page)
    page.get_by_label("Only grade 2").check()
    expect(page.locator("#list-title")).to_have_text("Nearest pictures of grade 2")
    assert set(grades_of(page)) == {"2"}
    page.get_by_label("All grades").check()
    expect(page.locator("#list-title")).to_have_text("Nearest pictures")
    page.select_option("#highest", "1")
    expect(page.locator("#highest")).to_have_value("1")
    every_grade(page, lacks="2")
    page.select_option("#lowest", "1")
    every_grade(page, "1")
    page.select_option("#show", "12")
    expect(cards(page)).to_have_count(12)
    expect(page.locator("#more")).to_be_hidden()
    page.reload()
    expect(cards(page)).to_have_count(12)
    assert set(grades_of(page)) == {"1"}


def test_ranking_is_downloaded_as_shown(visit, address, made):
    page = visit(address)
    page.set_input_files("#file", made / "new.png")
    asked(page)
    page.select_option("#show", "12")
    expect(cards(page)).to_have_count(12)
    with page.expect_download() as download:
        page.click("#csv")
    rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text())))
    assert len(rows) == 12
    distances = page.locator("#pictures .distance").all_inner_texts()
    for row, shown in zip(rows, distances, strict=True):
        assert float(shown.split()[-1]) == pytest.approx(float(row["distance"]), rel=0.01)


def test_the_list_grows_while_scrolling_and_by_a_button(visit, address):
    page = visit(address, viewport={"width": 1400, "height": 300})
    expect(cards(page)).to_have_count(48)
    more = page.locator("#more")
    more.focus()
    more.press("Enter")
    expect(cards(page)).to_have_count(N_PICTURES)
    expect(more).to_be_hidden()
    page = visit(address, viewport={"width": 1400, "height": 300})
    expect(cards(page)).to_have_count(48)
    page.mouse.move(300, 250)
    page.mouse.wheel(0, 20000)
    expect(cards(page)).to_have_count(N_PICTURES)


def test_browsing_by_grade(visit, address):
    page = visit(address)
    expect(cards(page).first).to_be_visible()
    page.locator("#grades .chip", has_text=re.compile("^1")).click()
    expect(page.locator("#list-title")).to_have_text("Grade 1")
    every_grade(page, "1")
    page.locator("#kinds .chip", has_text=re.compile("^Estimated$")).click()
    expect(page.locator("#list-title")).to_have_text("Grade 1, grade estimated")
    every_grade(page, "≈")
    expect(page).to_have_url(re.compile("grade=1&given=false"))


# The panel.


def test_panel_tells_the_parts_of_the_distance(visit, address):
    page = visit(address, "#picture=2")
    asked(page)
    shown = cards(page).nth(4).locator(".distance").inner_text().split()[-1]
    cards(page).nth(4).locator(".pick").click()
    panel = page.locator("#panel")
    expect(panel).to_be_visible()
    expect(page.locator("#panel-title")).to_be_focused()
    expect(panel.locator("h3 .number")).to_have_text(shown)
    whole = float(shown)
    order, appearance = map(float, panel.locator("li .number:not(.quiet)").all_inner_texts())
    assert order**2 + appearance**2 == pytest.approx(whole**2, rel=0.02)
    assert panel.evaluate("(panel) => panel.matches(':modal')") is False
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(cards(page).nth(4).locator(".pick")).to_be_focused()
    page.go_back()
    expect(panel).to_be_visible()
