"""Requests that fail leave nothing wrong on the page, and can be tried again; in Chromium with a real server."""

import re

from tests.web.conftest import wait_until
from tests.web.page.locators import (
    cards,
    expect,
    hover_point,
    id_of_name,
    wait_for_all_pictures,
    wait_for_grades,
    wait_for_map,
    wait_for_result,
)


def fail(page, pattern):
    page.errors.allow_status(500)
    page.route(pattern, lambda route: route.fulfill(status=500, json={"error": {"code": "x", "message": "it failed"}}))


def test_a_list_that_cannot_be_loaded_replaces_the_old_one_and_can_be_tried_again(visit, url):
    page = visit(url, "#picture=2")
    wait_for_result(page)
    fail(page, "**/api/v1/rank?*")
    page.goto(f"{url}#picture=3")
    expect(page.locator("#alert")).to_contain_text("it failed")
    expect(cards(page)).to_have_count(0)
    expect(page.locator("#result")).to_be_empty()
    expect(page.locator("#pictures")).not_to_have_attribute("aria-busy", "true")
    page.unroute_all()
    page.get_by_role("button", name="Try again").press("Enter")
    wait_for_result(page)
    expect(page.locator("#alert")).to_be_empty()
    expect(page.locator("#list-title")).to_be_focused()
    fail(page, "**/api/v1/pictures?*")
    page.goto(f"{url}#grade=1")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(cards(page)).to_have_count(0)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    wait_for_grades(page, "1")


def test_a_list_that_was_requested_early_is_not_shown_late(visit, url):
    page, held = visit(url), []
    wait_for_all_pictures(page)
    page.route("**/api/v1/collection", lambda route: route.continue_() if held else held.append(route))
    page.goto(f"{url}?loaded-anew")
    wait_until(lambda: page.wait_for_timeout(20) or held)
    page.evaluate("location.hash = '#view=quality'")
    held[0].continue_()
    expect(page.locator("#quality")).to_be_visible()
    with page.expect_request("**/api/v1/pictures?*offset=0*"):
        page.evaluate("location.hash = '#'")
    wait_for_all_pictures(page)


def test_a_first_list_that_cannot_be_loaded_leaves_the_rest_of_the_page(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    fail(page, "**/api/v1/pictures?*")
    page.reload()
    expect(page.locator("#alert")).to_contain_text("it failed")
    wait_for_map(page)
    page.unroute_all()
    page.get_by_role("button", name="Try again").press("Enter")
    wait_for_all_pictures(page)


def test_details_that_cannot_be_loaded_close_the_panel_and_can_be_tried_again(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    first, second = (id_of_name(page, url, name) for name in ("001.png", "003.png"))
    page.goto(f"{url}#chosen={first}")
    expect(page.locator("#panel-title")).to_have_text("001.png")
    fail(page, f"**/api/v1/pictures/{second}")
    page.goto(f"{url}#chosen={second}")
    expect(page.locator("#alert")).to_contain_text("it failed")
    expect(page.locator("#panel")).to_be_hidden()
    page.unroute_all()
    page.goto(f"{url}#chosen={second}")
    expect(page.locator("#panel-title")).to_have_text("003.png")


def test_a_tooltip_that_cannot_be_loaded_is_tried_again(visit, url):
    page = visit(url)
    wait_for_all_pictures(page)
    fail(page, re.compile(r"/api/v1/pictures/\d+$"))
    hover_point(page)
    expect(page.locator("#alert")).to_contain_text("it failed")
    page.unroute_all()
    page.mouse.move(5, 5)
    expect(page.locator("#map-tip")).to_be_hidden()
    hover_point(page)  # the same one
    expect(page.locator("#map-tip .muted")).to_have_text(re.compile("png"))
