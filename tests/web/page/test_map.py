"""The map of the embedding, in Chromium with a real server."""

import io
import re

import numpy as np
import pytest
from PIL import Image

from ordrank import Collection
from tests.web.page.conftest import NARROW
from tests.web.page.locators import (
    cards,
    change_summary,
    expect,
    fulfill_points,
    hover_point,
    wait_for_all_pictures,
    wait_for_map,
    wait_for_result,
)


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
    positions = np.array([[-1.0, 0.3, 0.2], [0.1, -0.8, -0.6], [1.0, 0.5, -0.3]])
    fulfill_points(page, positions.repeat(20, axis=0), np.repeat(np.arange(3), 20))
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


def camera_axis():
    """Return the directions from the centre of the map to the camera and to the right, before it is rotated."""
    yaw = pitch = 0.3
    towards = np.array([np.sin(yaw) * np.cos(pitch), np.sin(pitch), np.cos(yaw) * np.cos(pitch)])
    return towards, np.array([np.cos(yaw), 0.0, -np.sin(yaw)])


def fulfill_points_before_each_other(page):
    """Show a point of grade 2 before a point of grade 0, and points of grade 1 at both sides."""
    towards, right = camera_axis()
    pair = [0.8 * towards + 0.02 * right, -0.8 * towards]
    fulfill_points(page, [*pair, *[right, -right] * 30], [2, 0] + [1] * 60)
    wait_for_map(page)


def label_position(label):
    box = label.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + 1.85 * box["height"]


def test_the_pointer_finds_the_point_in_front(visit, url):
    page = visit(url)
    fulfill_points_before_each_other(page)
    page.mouse.move(*label_position(page.locator("#map-labels span", has_text="0")))
    expect(page.locator("#map-tip img")).to_have_attribute("src", re.compile("/pictures/1/"))
    page.unroute_all()


def test_buttons_cover_no_points(visit, url):
    page = visit(url, "#picture=2")
    wait_for_result(page)
    cards(page).first.locator(".card-link").click()
    expect(page.locator("#panel")).to_be_visible()
    wait_for_map(page)
    canvas = page.locator("#map-canvas").bounding_box()
    assert canvas["height"] > 100
    assert canvas["y"] + canvas["height"] <= page.locator("#map-lasso").bounding_box()["y"]


def test_labels_behind_the_camera_are_hidden(visit, url):
    page = visit(url)
    fulfill_points_before_each_other(page)
    before, behind = (page.locator("#map-labels span", has_text=grade) for grade in ("0", "2"))
    expect(behind).to_be_visible()
    page.locator("#map-canvas").focus()
    for _ in range(20):
        page.keyboard.press("+")
    expect(behind).to_be_hidden()
    expect(before).to_be_visible()
    page.locator("#map-home").click()
    expect(behind).to_be_visible()
    page.unroute_all()


def tap_point(page):
    """Tap on the map until the finger is at a point; return where."""
    wait_for_map(page)
    box = page.locator("#map-canvas").bounding_box()
    for row in range(2, 12):
        for column in range(2, 24):
            at = box["x"] + box["width"] * column / 25, box["y"] + box["height"] * row / 13
            page.touchscreen.tap(*at)
            page.evaluate("() => new Promise(requestAnimationFrame)")
            if page.locator("#map-tip").is_visible():
                return at
    pytest.fail("no point found")


def test_a_tap_shows_a_point_and_a_second_one_picks_it(visit, url):
    page = visit(url, has_touch=True)
    x, y = tap_point(page)
    page.locator("#list-title").tap()
    expect(page.locator("#map-tip")).to_be_hidden()
    page.touchscreen.tap(x, y)
    expect(page.locator("#map-tip")).to_be_visible()
    touch = page.context.new_cdp_session(page)
    for kind, moved in (("touchStart", 0), ("touchMove", 30), ("touchMove", 60), ("touchEnd", None)):
        points = [] if moved is None else [{"x": x + moved, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    expect(page.locator("#map-tip")).to_be_hidden()  # the point is elsewhere now
    x, y = tap_point(page)
    page.touchscreen.tap(x, y)
    wait_for_result(page)
    expect(page).to_have_url(re.compile("#picture="))


def test_a_map_folded_during_the_training_shows_the_new_model_when_unfolded(visit, url):
    count_contexts = """
      const { getContext } = HTMLCanvasElement.prototype;
      window.contexts = 0;
      HTMLCanvasElement.prototype.getContext = function (...options) {
        window.contexts += 1;
        return getContext.apply(this, options);
      };"""
    page = visit(url, script=count_contexts)
    change_summary(page, changed=1)
    wait_for_map(page)
    contexts = page.evaluate("contexts")
    state = {"state": "done", "message": "", "done": 1, "total": 1}
    page.route("**/api/v1/training", lambda route: route.fulfill(json=state))
    page.locator("#map-section summary").click()
    with page.expect_response("**/api/v1/collection"):  # after the training
        page.get_by_role("button", name="Train again").click()
    expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")
    with page.expect_response("**/api/v1/points*"):
        page.locator("#map-section summary").click()
    wait_for_map(page)
    assert page.evaluate("contexts") == contexts  # browsers allow few at the same time
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


def rotate(page, interval, times):
    """Rotate the map by keys, a frame every so many milliseconds of the page's clock: a multiple of 16."""
    for _ in range(times):
        page.keyboard.press("ArrowRight")
        page.clock.run_for(interval)


def test_a_slow_map_draws_fewer_points_while_it_moves(visit, url):
    n = 20_000
    page = visit(url)
    page.clock.install()
    fulfill_points(page, np.random.default_rng(0).normal(size=(n, 3)), np.ones(n), total=2 * n)
    drawn, note = page.locator("#map"), page.locator("#map-note")
    expect(drawn).to_have_attribute("data-points", str(n))
    expect(note).to_have_text("A sample: 20,000 of 40,000 pictures.")
    page.clock.pause_at(page.evaluate("Date.now() + 10_000"))
    page.locator("#map-canvas").focus()
    rotate(page, 96, times=4)
    expect(drawn).to_have_attribute("data-points", str(round(n * 26 / 96)))
    expect(note).to_contain_text("While the map moves, about 5,000 of 20,000 points are drawn to keep it smooth.")
    page.clock.run_for(300)
    expect(drawn).to_have_attribute("data-points", str(n))  # all of them at rest
    rotate(page, 16, times=20)
    expect(drawn).to_have_attribute("data-points", str(n))
    expect(note).to_have_text("A sample: 20,000 of 40,000 pictures.")
    page.unroute_all()


def test_everything_else_works_without_webgl(visit, url, folder):
    page = visit(url, script="HTMLCanvasElement.prototype.getContext = () => null")
    expect(page.locator("#map-note")).to_contain_text("cannot draw the map")
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)


def test_a_collection_without_a_model_has_no_map_yet(visit, serve, folder, tmp_path):
    with Collection.create_ungraded(tmp_path / "New", folder / "pictures", features="pixels:4", n_jobs=1):
        pass
    page = visit(f"{serve(tmp_path / 'New').url}/")
    expect(page.get_by_text("The map appears after the first training.")).to_be_visible()
    expect(page.locator("#map")).to_be_hidden()
    expect(page.locator(".legend")).to_be_hidden()
