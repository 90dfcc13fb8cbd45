"""Finding pictures by name, order and place in the spectrum, in Chromium with a real server."""

import re

import pytest

from tests.web.conftest import wait_until
from tests.web.page.conftest import N_PICTURES, NARROW, name_of
from tests.web.page.locators import (
    cards,
    expect,
    id_of_name,
    save_grade,
    shown_grades,
    wait_for_all_pictures,
    wait_for_grades,
)


def names(page):
    return page.locator("#pictures .name").all_inner_texts()


def wait_for_count(page, count):
    expect(page.locator("#list-count")).to_have_text(str(count))
    expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")


def test_pictures_are_found_by_name(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.locator("#list-title").focus()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("04 PNG")
    expected = [name for name in map(name_of, range(N_PICTURES)) if "04" in name]
    wait_for_count(page, len(expected))
    assert sorted(names(page)) == expected
    expect(page.locator("#list-title")).to_have_text("All pictures with “04 PNG”")
    expect(page).to_have_url(re.compile("search=04"))
    expect(page.locator("#search")).to_be_focused()
    page.reload()
    wait_for_count(page, len(expected))
    expect(page.locator("#search")).to_have_value("04 PNG")
    page.locator("#search").fill("no such picture")
    expect(page.locator("#list-note")).to_have_text("No picture has “no such picture” in its name.")
    page.locator("#search").fill("")
    wait_for_all_pictures(page)
    page.go_back()  # typing is one entry of the history
    expect(page.locator("#list-title")).to_have_text("All pictures")


FIRST_CARDS = """(ids) => {
  const shown = [...document.querySelectorAll("#pictures .card")].map((card) => Number(card.dataset.id));
  return ids.every((id, i) => shown[i] === id);
}"""


@pytest.mark.parametrize("sort", ["name", "date", "certainty", "estimate"])
def test_pictures_are_sorted_as_the_server_says(visit, url, sort):
    page = visit(url)
    wait_for_all_pictures(page)
    page.select_option("#sort", sort)
    expect(page).to_have_url(re.compile(f"sort={sort}"))
    for descending in (False, True):
        if descending:
            page.get_by_role("button", name="Descending").click()
            expect(page).to_have_url(re.compile("descending=true"))
        parameters = f"sort={sort}&descending={str(descending).lower()}&limit=48"
        expected = page.request.get(f"{url}api/v1/pictures?{parameters}").json()["items"]
        page.wait_for_function(FIRST_CARDS, arg=[picture["id"] for picture in expected])
    page.reload()
    expect(page.locator("#sort")).to_have_value(sort)
    expect(page.get_by_role("button", name="Descending")).to_have_attribute("aria-pressed", "true")


def test_the_number_of_a_chip_is_that_of_its_list(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    for source in range(3):
        page.locator("#grade-sources .chip").nth(source).click()
        expect(page.locator("#grade-sources .chip").nth(source)).to_have_attribute("aria-current", "true")
        for chip in range(page.locator("#grades .chip").count()):
            page.locator("#grades .chip").nth(chip).click()
            expect(page.locator("#grades .chip").nth(chip)).to_have_attribute("aria-current", "true")
            for list_name in ("#grades", "#grade-sources"):
                number = page.locator(f"{list_name} [aria-current] .muted").inner_text()
                expect(page.locator("#list-count")).to_have_text(number)


def test_chips_of_a_search_have_no_numbers(visit, url):
    page = visit(url, "#search=1")
    expect(cards(page).first).to_be_visible()
    expect(page.locator(".chips .muted")).to_have_count(0)
    page.locator("#grades .chip").nth(1).click()
    expect(page).to_have_url(re.compile("search=1&?"))
    expect(page.locator("#list-title")).to_have_text("Grade 0 with “1”")


def test_the_spectrum_goes_from_the_lowest_to_the_highest(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.get_by_role("radio", name="Spectrum").check()
    tiles = page.locator("#spectrum .tile")
    expect(tiles).to_have_count(N_PICTURES)
    assert page.locator("#spectrum .tile-grade").all_inner_texts() == ["0", "1", "2"]
    grades = shown_grades(page)
    assert grades == sorted(grades)
    tiles.nth(40).click()
    expect(page).to_have_url(re.compile("at=41"))
    expect(page.locator("#spectrum-place")).to_contain_text(f"picture 41 of {N_PICTURES}")
    expected = page.request.get(f"{url}api/v1/pictures?sort=spectrum&limit=200").json()["items"]
    expect(cards(page).first).to_have_attribute("data-id", str(expected[34]["id"]))  # also those just before it
    expect(cards(page)).to_have_count(N_PICTURES - 34)
    slider = page.get_by_role("slider", name="Place in the spectrum")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(rf"grade \d, picture 41 of {N_PICTURES}"))
    slider.focus()
    page.keyboard.press("Home")
    expect(cards(page).first).to_have_attribute("data-id", str(expected[0]["id"]))
    expect(slider).to_be_focused()
    page.get_by_role("button", name="Later pictures").click()
    expect(page).to_have_url(re.compile("at=49"))
    page.get_by_role("radio", name="List").check()
    expect(page.locator("#spectrum")).to_be_hidden()
    wait_for_all_pictures(page)


def test_the_spectrum_of_a_large_collection_is_an_even_sample(visit, url):
    page = visit(url, viewport=NARROW)
    requested = []

    def fulfill(route):
        requested.append(route.request.url)
        body = route.fetch().json()
        route.fulfill(json={**body, "total": 100_000})

    page.route("**/api/v1/pictures?*", fulfill)
    page.goto(f"{url}#sort=spectrum")
    expect(page.locator("#spectrum .tile").first).to_be_visible()
    assert any("step=1137" in address and "sort=spectrum" in address for address in requested)
    expect(page.locator("#spectrum-at")).to_have_attribute("max", "100000")
    page.unroute_all()


def test_the_spectrum_is_sampled_again_after_a_failure_and_after_other_grades(visit, writable_url):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    page.errors.allow_status(500)
    page.route("**/api/v1/pictures?*step=*", lambda route: route.fulfill(status=500, json={}))
    page.goto(f"{writable_url}#sort=spectrum")
    expect(page.locator("#alert")).to_contain_text("500")
    page.unroute_all()
    page.goto(f"{writable_url}#sort=spectrum&at=10")
    number = id_of_name(page, writable_url, "001.png")
    tile = page.locator(".tile[title$='001.png']")
    expect(tile).to_have_attribute("title", "1 · 001.png")
    page.goto(f"{writable_url}#sort=spectrum&at=10&chosen={number}")
    save_grade(page, "2")
    expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
    page.goto(f"{writable_url}#sort=spectrum&at=20")
    expect(tile).to_have_attribute("title", "2 · 001.png")


def test_a_spectrum_that_loads_late_does_not_replace_another_list(visit, url):
    page, held = visit(url), []
    wait_for_all_pictures(page)
    page.route("**/static/spectrum.js", lambda route: held.append(route))
    page.goto(f"{url}#sort=spectrum")
    wait_until(lambda: page.wait_for_timeout(20) or held)
    page.goto(f"{url}#grade=1")
    wait_for_grades(page, "1")
    held[0].continue_()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#list-title")).to_have_text("Grade 1")
    expect(page.locator("#spectrum")).to_be_hidden()


def test_a_search_does_not_follow_to_another_view(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.evaluate(
        """() => {
          const field = document.querySelector("#search");
          field.value = "00";
          field.dispatchEvent(new Event("input"));
          location.hash = "#view=quality";
        }"""
    )
    page.wait_for_timeout(400)
    assert page.url.endswith("#view=quality")
    page.wait_for_load_state("networkidle")


def test_names_of_the_fixture_are_searched_as_they_are(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    page.locator("#search").fill(name_of(7))
    wait_for_count(page, 1)
    expect(page.locator("#list-title")).to_contain_text(name_of(7))
