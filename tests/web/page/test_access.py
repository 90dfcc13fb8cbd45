"""Corrections, the map, keyboards, small screens, hostile names and errors, in a real Chromium."""

import re
import shutil

import numpy as np
import pytest

from tests.web.browser import CHROMIUM, hand_over, serving
from tests.web.page.conftest import HOSTILE, N_PICTURES, NARROW, WIDE
from tests.web.page.looking import asked, cards, drawn_map, estimate, expect, find_point, id_named, id_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


def _quoted(text):
    """Text for XPath, which has no escapes."""
    return "concat(" + ", '\"', ".join(f'"{part}"' for part in text.split('"')) + ", '')"


def test_corrected_grade_survives_a_restart_and_trains(visit, made, tmp_path):
    collection = shutil.copytree(made / "Redness", tmp_path / "Redness")
    with serving(collection) as address:
        page = visit(address)
        chosen = f"#chosen={id_named(page, address, '001.png')}"
        page.goto(address + chosen)
        page.get_by_label("Correct the grade").fill("two")
        page.get_by_role("button", name="Save").click()  # refused by the form: not a number
        page.get_by_label("Correct the grade").fill("2")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
        expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Saved: grade 1.")).to_be_visible()
        expect(page.locator("#training")).to_be_hidden()  # all grades are those of the last training
        page.get_by_label("Correct the grade").fill("0")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Saved: grade 0.")).to_be_visible()
        page.set_input_files("#file", made / "new.png")
        asked(page)
        page.wait_for_load_state("networkidle")
        port = address.rstrip("/").rsplit(":", 1)[1]
    with serving(collection, port=port):
        page.watch.forgive(404)
        page.get_by_label("Only grade 2").check()  # the server has forgotten the picture: it is sent again
        expect(page.locator("#list-title")).to_have_text("Nearest pictures of grade 2")
        expect(page.locator("#alert")).to_be_empty()
        page = visit(address, chosen)
        expect(page.locator("#panel .estimate bdi")).to_have_text("0")
        page.get_by_role("button", name="Train again").click()
        expect(page.locator("#training")).to_be_hidden(timeout=30_000)
        expect(page.locator("#panel .estimate bdi")).to_have_text("0")
        page.wait_for_load_state("networkidle")


def test_read_only_hides_what_changes_and_tokens_are_asked_for(visit, made):
    with serving(made / "Redness", "--read-only", "--token", "open sesame") as address:
        page = visit(address, "#picture=2&chosen=3")
        page.watch.forgive(401)
        page.get_by_label("Token", exact=True).fill("open sesame")
        page.get_by_role("button", name="Open").click()
        asked(page)
        expect(page.locator("#panel")).to_be_visible()
        expect(page.locator(".regrade")).to_have_count(0)
        expect(page.locator("#training")).to_be_hidden()
        assert "sesame" not in page.url
        page.close()


# The map.


def test_map_shows_tells_and_asks(visit, address):
    page = visit(address)
    find_point(page)
    expect(page.locator("#map-tip")).to_contain_text("Grade")
    expect(page.locator("#map-tip img")).to_have_js_property("complete", True)
    box = page.locator("#map").bounding_box()
    assert box["width"] > 100
    before = page.url
    page.mouse.down()
    page.mouse.up()
    asked(page)
    assert page.url != before
    expect(page.locator("#legend-asked")).to_be_visible()


def test_map_is_drawn_only_when_something_changes(visit, address):
    page = visit(address, "#picture=2")
    asked(page)
    drawn_map(page)
    count = lambda: int(page.locator("#map").get_attribute("data-draws"))  # noqa: E731
    before = count()
    page.wait_for_timeout(300)
    assert count() == before
    cards(page).nth(2).hover()  # its point gets a ring
    page.wait_for_function("(before) => Number(document.querySelector('#map').dataset.draws) > before", arg=before)
    page.locator("#map-canvas").focus()
    labels = page.locator("#map-labels span").first
    place = labels.get_attribute("style")
    page.keyboard.press("ArrowRight")
    expect(labels).not_to_have_attribute("style", place)


def spread(page):
    """How far the names of the first and the last grade are apart on the map."""
    return page.evaluate(
        """() => {
          const [a, b] = [...document.querySelectorAll("#map-labels span")].map((one) => one.getBoundingClientRect());
          return Math.hypot(a.x - b.x, a.y - b.y);
        }"""
    )


@pytest.mark.parametrize("direction", [(1, 0), (0, 1)], ids=["across", "upward"])
def test_two_fingers_zoom_the_map_and_leave_the_page(visit, address, direction):
    page = visit(address, viewport=NARROW, has_touch=True, is_mobile=True)
    page.locator("#space summary").tap()
    page.locator("#map-canvas").scroll_into_view_if_needed()
    drawn_map(page)
    box = page.locator("#map-canvas").bounding_box()
    touch = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def fingers(kind, apart):
        places = [  # one finger rests, which lets a browser think that the other one scrolls
            {"x": x + away * direction[0], "y": y - away * direction[1], "id": number}
            for number, away in enumerate((-50, apart - 50))
        ]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places if kind != "touchEnd" else []})

    def pinch(begin, end):
        fingers("touchStart", begin)
        for step in range(1, 9):
            fingers("touchMove", begin + (end - begin) * step / 8)
        fingers("touchEnd", end)
        drawn_map(page)

    before, scrolled, scale = spread(page), page.evaluate("scrollY"), page.evaluate("visualViewport.scale")
    pinch(40, 100)
    wide = spread(page)
    assert wide > 1.5 * before
    pinch(100, 40)
    assert spread(page) < wide / 1.5
    assert page.evaluate("scrollY") == scrolled
    assert page.evaluate("visualViewport.scale") == scale
    assert page.locator("#map-tip").is_hidden()  # nobody has tapped


def test_a_map_that_is_drawn_slowly_moves_with_a_sample_and_says_so(visit, address):
    slow = """
      const draw = WebGL2RenderingContext.prototype.drawElements;
      WebGL2RenderingContext.prototype.drawElements = function (mode, n, ...rest) {
        for (const until = performance.now() + n / 300; performance.now() < until; );
        return draw.call(this, mode, n, ...rest);
      };"""
    n = 30_000  # 100 ms
    page = visit(address, script=slow)
    rng = np.random.default_rng(0)
    cloud = (np.arange(1, n + 1, dtype="<i4"), rng.normal(size=(n, 3)).astype("<f4"), np.ones(n, dtype="<f4"))
    headers = {"X-Count": str(n), "X-Total": str(2 * n)}
    content = b"".join(part.tobytes() for part in cloud)
    page.route("**/api/v1/points*", lambda route: route.fulfill(body=content, headers=headers))
    page.reload()
    expect(page.locator("#map-note")).to_have_text("A sample: 30,000 of 60,000 pictures.")
    drawn_map(page)
    page.evaluate(
        """() => new Promise((done) => {
          const [canvas, begin] = [document.querySelector("#map-canvas"), performance.now()];
          const turn = () => {
            canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
            if (performance.now() - begin < 2000) requestAnimationFrame(turn); else done();
          };
          turn();
        })"""
    )
    expect(page.locator("#map-note")).to_have_text(
        re.compile("While it moves, about [1-9],?0+ of 30,000 points are drawn")
    )
    assert 2000 <= page.evaluate("Number(document.querySelector('#map').dataset.points)") <= 300 * 50
    expect(page.locator("#map")).to_have_attribute("data-points", str(n))  # all of them as soon as it rests
    page.unroute_all()


def test_everything_else_works_without_webgl(visit, address, made):
    page = visit(address, script="HTMLCanvasElement.prototype.getContext = () => null")
    expect(page.locator("#map-note")).to_contain_text("cannot draw the map")
    page.set_input_files("#file", made / "new.png")
    asked(page)


# Everybody.


def test_keyboard_alone_is_enough(visit, address):
    page = visit(address)
    expect(cards(page).first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.locator("a.skip").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#list-title")).to_be_focused()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#pictures .pick')"):
            break
    page.keyboard.press("Enter")
    asked(page)
    expect(page.locator("#answer-title")).to_be_focused()
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.matches('#pictures .pick')"):
            break
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.locator("#regrade")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#panel")).to_be_hidden()
    assert page.evaluate("document.activeElement.matches('#pictures .pick')")


def test_narrow_screen(visit, address, made):
    page = visit(address, viewport=NARROW, has_touch=True, is_mobile=True)
    expect(cards(page).first).to_be_visible()
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(fits)
    page.set_input_files("#file", made / "new.png")
    asked(page)
    assert page.evaluate(fits)
    cards(page).first.locator(".pick").tap()
    expect(page.locator("#panel-title")).to_be_focused()
    assert page.locator("#panel").evaluate("(panel) => panel.matches(':modal')")
    page.wait_for_timeout(100)
    small = """(targets) => [...document.querySelectorAll(targets)]
      .map((one) => [one.className || one.id, one.getBoundingClientRect()])
      .filter(([, { width, height }]) => width && (width < 43.9 || height < 43.9))
      .map(([name, { width, height }]) => [name, width, height])"""
    targets = "button, .button, .chip, select, summary, .pick, .second, .segments label, .intake, .regrade input"
    assert page.evaluate(small, targets) == []
    page.locator("#panel-close").tap()
    expect(page.locator("#panel")).to_be_hidden()
    page.locator("#space summary").tap()
    drawn_map(page)
    assert page.evaluate(fits)


def test_hostile_names_are_text(visit, address):
    page = visit(address)
    dialogs = []
    page.on("dialog", lambda dialog: dialogs.append(dialog) or dialog.dismiss())
    expect(cards(page)).to_have_count(48)
    page.mouse.move(300, 600)
    page.mouse.wheel(0, 20000)
    expect(cards(page)).to_have_count(N_PICTURES)
    for number, name in HOSTILE.items():
        card = cards(page).filter(has=page.locator(f"xpath=.//*[@class='name' and @title={_quoted(name)}]"))
        expect(card.locator(".name")).to_have_text(name)
        grade = "estimated grade" if number % 4 == 0 else "grade"
        expect(card.locator("img")).to_have_attribute("alt", re.compile(f"^{grade} .*{re.escape(name)}$"))
        page.goto(f"{address}#picture={id_of(card)}&chosen={id_of(card)}")
        expect(page.locator("#answer-title bdi")).to_have_text(name)
        expect(page.locator("#panel-title")).to_have_text(name)
        page.goto(f"{address}#")
        expect(cards(page)).to_have_count(48)
        page.mouse.wheel(0, 20000)
        expect(cards(page)).to_have_count(N_PICTURES)
    assert not dialogs
    assert page.title() != "owned"


def test_errors_are_said_and_nothing_is_lost(visit, address, made):
    page = visit(address, "#picture=2")
    asked(page)
    shown = cards(page).count()
    page.watch.forgive(400)
    page.watch.forgive(415)
    hand_over(page, "drop", made / "no-picture.png")
    expect(page.locator("#alert p")).to_contain_text(re.compile(r"\w+ \w+"))
    assert cards(page).count() == shown
    expect(estimate(page)).to_be_visible()
    page.get_by_role("button", name="Dismiss").click()
    expect(page.locator("#alert")).to_be_empty()
    page.watch.forgive(404)
    page.goto(f"{address}#picture=99999")
    expect(page.locator("#alert p")).to_be_visible()
    assert cards(page).count() == shown


@pytest.mark.parametrize(
    ("viewport", "scheme"),
    [(WIDE, "light"), (WIDE, "dark"), (NARROW, "dark")],
    ids=["wide, light", "wide, dark", "narrow, dark"],
)
def test_no_barriers(visit, address, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}
    for hash in ("#grade=1&given=false", "#picture=2&show=12&chosen=5"):
        page = visit(address, hash, **options)
        expect(cards(page).first).to_be_visible()
        if "chosen" in hash:
            expect(page.locator("#panel")).to_be_visible()
        if viewport is WIDE:
            drawn_map(page)
        found = axe.run(page)["violations"]
        told = [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found]
        assert told == []
