"""What users have stumbled over, in Chromium with a real server."""

import re

import numpy as np
import pytest

from tests.web.page.conftest import N_PICTURES, NARROW, WIDE
from tests.web.page.locators import (
    cards,
    expect,
    fulfill_points,
    wait_for_all_pictures,
    wait_for_map,
    wait_for_result,
)

LOW = {"width": 1400, "height": 500}


def test_back_returns_to_the_place_in_the_list(visit, url):
    page = visit(url, viewport=LOW)
    wait_for_all_pictures(page)
    page.locator("#more").scroll_into_view_if_needed()
    expect(cards(page)).to_have_count(N_PICTURES)
    cards(page).nth(60).scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    top = page.evaluate("scrollY")
    assert top > 1000
    cards(page).nth(60).locator(".card-link").click()
    wait_for_result(page)
    assert page.evaluate("scrollY") == 0
    page.mouse.wheel(0, 400)
    page.wait_for_function("() => scrollY > 300")
    page.go_back()
    page.wait_for_function("(top) => Math.abs(scrollY - top) < 3", arg=top)
    expect(cards(page)).to_have_count(N_PICTURES)
    page.go_forward()
    wait_for_result(page)
    page.wait_for_function("() => Math.abs(scrollY - 400) < 3")
    page.go_back()
    page.wait_for_function("(top) => Math.abs(scrollY - top) < 3", arg=top)
    page.reload()
    page.wait_for_function("(top) => Math.abs(scrollY - top) < 3", arg=top)


def test_a_list_that_is_loaded_again_keeps_its_place(visit, url):
    page = visit(url, viewport=LOW)
    wait_for_all_pictures(page)
    page.locator("#more").scroll_into_view_if_needed()
    expect(cards(page)).to_have_count(N_PICTURES)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight - innerHeight - 300)")
    top = page.evaluate("scrollY")
    with page.expect_response(f"**/api/v1/pictures?offset=0&limit={N_PICTURES}"):  # all of the list at once
        page.emulate_media(color_scheme="dark")  # with other colours of the grades
    expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")
    expect(cards(page)).to_have_count(N_PICTURES)
    assert abs(page.evaluate("scrollY") - top) < 3


@pytest.mark.parametrize(
    ("fragment", "title"),
    [
        ("#picture=99999", "There is no such picture"),
        ("#picture=abc", "There is no such picture"),
        ("#picture=4294967296", "There is no such picture"),
        ("#query=gone", "This picture is no longer here"),
    ],
)
def test_a_dead_link_says_so_and_leads_back(visit, url, fragment, title):
    page = visit(url, fragment)
    page.errors.allow_status(400, 404)
    expect(page.locator("#result-title")).to_have_text(title)
    expect(page).to_have_title(title)
    expect(page.locator("#list")).to_be_hidden()
    expect(page.locator("#alert")).to_be_empty()
    page.locator("#result").get_by_role("link", name="All pictures").click()
    wait_for_all_pictures(page)
    expect(page.locator("#list")).to_be_visible()


def test_details_of_a_picture_that_is_gone_leave_the_list(visit, url):
    page = visit(url, "#chosen=99999")
    page.errors.allow_status(404)
    wait_for_all_pictures(page)
    expect(page.locator("#alert")).to_contain_text("no picture with the id 99999")
    expect(page.locator("#panel")).to_be_hidden()


@pytest.mark.parametrize(
    ("view", "title"), [("grade", "#grade-title"), ("compare", "#compare-title"), ("quality", "#list-title")]
)
def test_a_view_without_the_panel_is_not_blocked_by_it(visit, url, view, title):
    page = visit(url, f"#view={view}&chosen=3", viewport=NARROW)
    page.wait_for_load_state("networkidle")
    expect(page.locator(title)).to_be_visible()
    assert page.evaluate("document.querySelector('dialog:modal')") is None


@pytest.mark.parametrize(
    ("positions", "grades"),
    [
        ([[0, 0, 0]], [1]),
        ([[-5, 0, 0], [0, 0, 0], [90, 3, 0]], [0, 1, 2]),
        ([[0, 0, 0], [0, 8, 0], [0, 0, 70], [1, 0, 0]], [1, 1, 1, 1]),
    ],
    ids=["one", "three", "one grade"],
)
def test_few_points_are_inside_the_map(visit, url, positions, grades):
    page = visit(url)
    fulfill_points(page, np.array(positions, dtype=float), grades)
    wait_for_map(page)
    page.keyboard.down("Shift")  # draw around the whole map, except its edge
    box = page.locator("#map-canvas").bounding_box()
    corners = [(0.01, 0.01), (0.99, 0.01), (0.99, 0.99), (0.01, 0.99)]
    at = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in corners]
    page.mouse.move(*at[0])
    page.mouse.down()
    for corner in at[1:]:
        page.mouse.move(*corner, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("#selection .selected-count")).to_have_text(f"{len(grades)} selected")
    page.unroute_all()


def test_a_wrong_token_is_asked_for_again(visit, serve, folder):
    server = serve(folder / "Redness", "--token", "right-token-1234")
    page = visit(f"{server.url}/", "?token=wrong")
    page.errors.allow_status(401)
    expect(page.locator("#token-value")).to_be_visible()
    expect(page.locator("#token-error")).to_be_visible()
    page.locator("#token-value").fill("right-token-1234")
    page.get_by_role("button", name="Open").click()
    wait_for_all_pictures(page)


DIFFERENCES = """async (n) => {
  const { Palette } = await import("/static/palette.js");
  const palette = new Palette(Array.from({ length: n }, (_, value) => ({ grade: String(value), value })));
  return Array.from({ length: n }, (_, i) => palette.rgb(i));
}"""


def lab(colours):
    """CIE L*a*b* coordinates of sRGB colours."""
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
    )
    x = linear @ to_xyz.T / np.array([0.95047, 1.0, 1.08883])
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])], axis=1)


def ciede2000(first, second):
    """Colour differences (Sharma, Wu and Dalal 2005)."""
    (l1, a1, b1), (l2, a2, b2) = first.T, second.T
    mean = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(mean**7 / (mean**7 + 25**7))
    (c1, h1), (c2, h2) = (
        (np.hypot(a * stretch, b), np.degrees(np.arctan2(b, a * stretch)) % 360) for a, b in ((a1, b1), (a2, b2))
    )
    turn = (h2 - h1 + 180) % 360 - 180
    d_l, d_c, d_h = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2))
    light, chroma, hue = (l1 + l2) / 2, (c1 + c2) / 2, np.radians((h1 + turn / 2) % 360)
    t = 1 - 0.17 * np.cos(hue - np.radians(30)) + 0.24 * np.cos(2 * hue)
    t += 0.32 * np.cos(3 * hue + np.radians(6)) - 0.2 * np.cos(4 * hue - np.radians(63))
    s_l = 1 + 0.015 * (light - 50) ** 2 / np.sqrt(20 + (light - 50) ** 2)
    s_c, s_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    blue = np.sin(np.radians(60 * np.exp(-(((np.degrees(hue) - 275) / 25) ** 2))))
    rotation = -2 * np.sqrt(chroma**7 / (chroma**7 + 25**7)) * blue
    return np.sqrt((d_l / s_l) ** 2 + (d_c / s_c) ** 2 + (d_h / s_h) ** 2 + rotation * d_c / s_c * d_h / s_h)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_neighbouring_grades_have_different_colours(visit, url, scheme):
    page = visit(url, color_scheme=scheme)
    colours = lab(np.array(page.evaluate(DIFFERENCES, 10)))
    assert (np.diff(colours[:, 0]) > 0).all()  # the order is kept without colours
    assert ciede2000(colours[:-1], colours[1:]).min() > 10  # viridis: 8


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_result_has_no_wrapped_percentages_and_marks(visit, url, viewport):
    page = visit(url, "#picture=2", viewport=viewport)
    wait_for_result(page)
    heights = page.evaluate(
        """() => [...document.querySelectorAll("#result :is(.probability, .mark)")]
          .filter((element) => element.textContent)
          .map((element) => element.getBoundingClientRect().height)"""
    )
    assert max(heights) < 30


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_header_is_low(visit, url, viewport):
    page = visit(url, viewport=viewport)
    wait_for_all_pictures(page)
    assert page.locator("header").bounding_box()["height"] < viewport["height"] / 7
    assert cards(page).first.bounding_box()["y"] < viewport["height"] * 0.62


def test_a_phone_shows_every_mode_and_the_whole_order(visit, url):
    page = visit(url, "#sort=certainty", viewport=NARROW)
    wait_for_all_pictures(page)
    assert page.locator("#modes").evaluate("({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth")
    shown = page.locator("#sort").bounding_box()["width"]
    page.locator("#sort").evaluate("({ style }) => { style.width = 'max-content'; style.maxWidth = 'none'; }")
    assert page.locator("#sort").bounding_box()["width"] <= shown


def test_the_page_is_compressed_and_loads_little_before_the_first_pictures(visit, url):
    page = visit(url)
    sizes = page.evaluate(
        """() => performance.getEntriesByType("resource")
          .filter(({ name }) => /\\/static\\/.*(js|css)$/.test(name))
          .map(({ name, startTime, encodedBodySize, decodedBodySize }) => [name, encodedBodySize, decodedBodySize])"""
    )
    encoded, decoded = (sum(size[k] for size in sizes) for k in (1, 2))
    assert encoded < 0.5 * decoded
    assert not re.search(r"/(map|check|result|panel)\.js", " ".join(size[0] for size in sizes[:12]))


def test_images_do_not_move_the_list(visit, url):
    page = visit(url)
    expect(cards(page).first).to_be_visible()
    assert page.evaluate("[...document.querySelectorAll('#pictures img')].every((image) => image.height > 50)")
    first = cards(page).first.locator("img")
    expect(first).to_have_attribute("fetchpriority", "high")
