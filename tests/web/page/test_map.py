"""The map of the embedding, in Chromium with a real server."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from tests.web.page.conftest import NARROW
from tests.web.page.locators import cards, expect, hover_point, wait_for_all_pictures, wait_for_map, wait_for_result


def test_a_point_shows_its_picture_and_a_click_searches_for_similar_ones(visit, url):
    page = visit(url)
    hover_point(page)
    expect(page.locator("#map-tip")).to_contain_text("Grade")
    expect(page.locator("#map-tip img")).to_have_js_property("complete", True)
    before = page.url
    page.mouse.down()
    page.mouse.up()
    wait_for_result(page)
    assert page.url != before
    expect(page.locator("#legend-query")).to_be_visible()


def test_the_map_is_drawn_only_on_changes(visit, url):
    page = visit(url, "#picture=2")
    wait_for_result(page)
    wait_for_map(page)
    before = page.locator("#map").get_attribute("data-draws")
    page.wait_for_timeout(300)
    expect(page.locator("#map")).to_have_attribute("data-draws", before)
    cards(page).nth(2).hover()  # draws a ring around its point
    expect(page.locator("#map")).not_to_have_attribute("data-draws", before)
    page.locator("#map-canvas").focus()
    label = page.locator("#map-labels span").first
    style = label.get_attribute("style")
    page.keyboard.press("ArrowRight")
    expect(label).not_to_have_attribute("style", style)


def assert_points_are_drawn(page):
    """Check that the colour of every grade is at the pixel where its label says that its points are."""
    wait_for_map(page)
    drawn = page.evaluate(
        """() => [...document.querySelectorAll("#map-labels span")].map((label, i) => {
          const { m41, m42 } = new DOMMatrix(label.style.transform.split(" translate(-")[0]);
          const legend = document.querySelectorAll("#legend li > :first-child")[i];
          return { at: [m41, m42], colour: getComputedStyle(legend).backgroundColor.match(/\\d+/g).map(Number) };
        })"""
    )
    assert len(drawn) == 3
    image = np.asarray(Image.open(io.BytesIO(page.locator("#map-canvas").screenshot())).convert("RGB"), dtype=float)
    for point in drawn:
        column, row = map(round, point["at"])
        nearby = image[row - 5 : row + 6, column - 5 : column + 6]
        assert np.abs(nearby - point["colour"]).max(axis=2).min() <= 3


def test_points_are_drawn_where_their_labels_are_in_the_colour_of_their_grade(visit, url):
    page = visit(url)
    positions = np.array([[-1.0, 0.3, 0.2], [0.1, -0.8, -0.6], [1.0, 0.5, -0.3]], dtype="<f4")
    grades = np.repeat(np.arange(3, dtype="<f8"), 20)
    content = b"".join(part.tobytes() for part in (np.arange(1, 61, dtype="<i4"), positions.repeat(20, axis=0), grades))
    headers = {"X-Count": "60", "X-Total": "60"}
    page.route("**/api/v1/points*", lambda route: route.fulfill(body=content, headers=headers))
    page.reload()
    assert_points_are_drawn(page)
    page.locator("#map-canvas").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "+"):
        page.keyboard.press(key)
    assert_points_are_drawn(page)
    # The browser may take the graphics context away, for example when a laptop sleeps.
    page.evaluate(
        """() => new Promise((resolve) => {
          const canvas = document.querySelector("#map-canvas");
          const extension = canvas.getContext("webgl2").getExtension("WEBGL_lose_context");
          canvas.addEventListener("webglcontextlost", () => setTimeout(() => extension.restoreContext()));
          canvas.addEventListener("webglcontextrestored", () => requestAnimationFrame(() => resolve()));
          extension.loseContext();
        })"""
    )
    assert_points_are_drawn(page)
    page.unroute_all()


def label_distance(page):
    """Return the distance in pixels between the labels of the first two grades."""
    return page.evaluate(
        """() => {
          const labels = [...document.querySelectorAll("#map-labels span")];
          const [a, b] = labels.map((label) => label.getBoundingClientRect());
          return Math.hypot(a.x - b.x, a.y - b.y);
        }"""
    )


@pytest.mark.parametrize("direction", [(1, 0), (0, 1)], ids=["horizontal", "vertical"])
def test_a_pinch_zooms_the_map_and_not_the_page(visit, url, direction):
    page = visit(url, viewport=NARROW, has_touch=True, is_mobile=True)
    wait_for_all_pictures(page)
    page.locator("#map-section summary").tap()
    wait_for_map(page)
    page.locator("#map-canvas").scroll_into_view_if_needed()
    box = page.locator("#map-canvas").bounding_box()
    session = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def touch(kind, spread):
        points = [  # the first finger rests, so that a browser could take the gesture for scrolling
            {"x": x + offset * direction[0], "y": y - offset * direction[1], "id": number}
            for number, offset in enumerate((-50, spread - 50))
        ]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points if kind != "touchEnd" else []})

    def pinch(start, end):
        touch("touchStart", start)
        for step in range(1, 9):
            touch("touchMove", start + (end - start) * step / 8)
        touch("touchEnd", end)
        wait_for_map(page)

    before, scroll, scale = label_distance(page), page.evaluate("scrollY"), page.evaluate("visualViewport.scale")
    pinch(40, 100)
    zoomed = label_distance(page)
    assert zoomed > 1.5 * before
    pinch(100, 40)
    assert label_distance(page) < zoomed / 1.5
    assert page.evaluate("scrollY") == scroll
    assert page.evaluate("visualViewport.scale") == scale
    assert page.locator("#map-tip").is_hidden()  # a pinch is no tap


def test_a_slow_map_draws_fewer_points_while_it_moves(visit, url):
    slow = """
      const draw = WebGL2RenderingContext.prototype.drawElements;
      WebGL2RenderingContext.prototype.drawElements = function (mode, n, ...rest) {
        for (const until = performance.now() + n / 300; performance.now() < until; );
        return draw.call(this, mode, n, ...rest);
      };"""
    n = 30_000  # 100 ms a frame
    page = visit(url, script=slow)
    rng = np.random.default_rng(0)
    points = (np.arange(1, n + 1, dtype="<i4"), rng.normal(size=(n, 3)).astype("<f4"), np.ones(n, dtype="<f8"))
    headers = {"X-Count": str(n), "X-Total": str(2 * n)}
    content = b"".join(part.tobytes() for part in points)
    page.route("**/api/v1/points*", lambda route: route.fulfill(body=content, headers=headers))
    page.reload()
    expect(page.locator("#map-note")).to_have_text("A sample: 30,000 of 60,000 pictures.")
    wait_for_map(page)
    drawn = page.evaluate(
        """(n) => new Promise((resolve) => {
          const [map, canvas] = [document.querySelector("#map"), document.querySelector("#map-canvas")];
          const deadline = performance.now() + 20_000;
          const rotate = () => {
            const points = Number(map.dataset.points);
            if (points < n || performance.now() > deadline) return resolve(points);
            canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
            requestAnimationFrame(rotate);
          };
          rotate();
        })""",
        n,
    )
    assert 2000 <= drawn <= n / 3
    expect(page.locator("#map-note")).to_have_text(
        re.compile(r"While the map moves, about \d,?\d+ of 30,000 points are drawn")
    )
    expect(page.locator("#map")).to_have_attribute("data-points", str(n))  # all of them at rest
    page.unroute_all()


def test_everything_else_works_without_webgl(visit, url, folder):
    page = visit(url, script="HTMLCanvasElement.prototype.getContext = () => null")
    expect(page.locator("#map-note")).to_contain_text("cannot draw the map")
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
