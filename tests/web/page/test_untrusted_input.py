"""Hostile file names and unreadable files, in Chromium with a real server."""

import re

from tests.web.page.conftest import HOSTILE, N_PICTURES
from tests.web.page.locators import (
    cards,
    dispatch_file,
    estimate,
    expect,
    id_of,
    wait_for_all_pictures,
    wait_for_result,
)


def xpath_string(text):
    """Return an XPath expression for a string; XPath has no escape characters."""
    return "concat(" + ", '\"', ".join(f'"{part}"' for part in text.split('"')) + ", '')"


def test_hostile_names_are_shown_as_text(visit, url):
    page = visit(url)
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())
    page.mouse.move(300, 600)
    for number, name in HOSTILE.items():
        wait_for_all_pictures(page)
        page.mouse.wheel(0, 20000)
        expect(cards(page)).to_have_count(N_PICTURES)
        card = cards(page).filter(has=page.locator(f"xpath=.//*[@class='name' and @title={xpath_string(name)}]"))
        expect(card.locator(".name")).to_have_text(name)
        grade = "estimated grade" if number % 4 == 0 else "grade"
        expect(card.locator("img")).to_have_attribute("alt", re.compile(f"^{grade} .*{re.escape(name)}$"))
        page.goto(f"{url}#picture={id_of(card)}&chosen={id_of(card)}")
        expect(page.locator("#result-title bdi")).to_have_text(name)
        expect(page.locator("#panel-title")).to_have_text(name)
        page.goto(f"{url}#")
    assert not dialogs
    assert page.title() != "owned"


def test_an_error_is_shown_and_the_page_stays(visit, url, folder):
    page = visit(url, "#picture=2")
    wait_for_result(page)
    shown = cards(page).count()
    page.errors.allow_status(400, 404, 415)
    dispatch_file(page, "drop", folder / "no-picture.png")
    expect(page.locator("#alert p")).to_contain_text(re.compile(r"\w+ \w+"))
    assert cards(page).count() == shown
    expect(estimate(page)).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#alert")).to_be_empty()
