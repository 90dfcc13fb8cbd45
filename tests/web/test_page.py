"""The page in a real Chromium, before a real server."""

import csv
import io
import re
import shutil
from pathlib import Path

import pytest

from ordrank import service
from tests.service.drawing import N_GRADES, draw
from tests.web.browser import ARGUMENTS, CHROMIUM, Watch, hand_over, serving

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

N_PICTURES = 66
HOSTILE = {
    7: "<img src=x onerror=alert(1)>.png",
    8: '"><script>document.title="owned"<\u2215script>.png',
    9: "\u202egnp.exe &amp; ${1+1} {{x}}.png",
}
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 844}


def name_of(number):
    return HOSTILE.get(number, f"{number:03d}.png")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A collection of 66 pictures in three grades; every fourth has none."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "pictures").mkdir()
    with open(folder / "grades.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "grade"])
        for number in range(N_PICTURES):
            draw(number).save(folder / "pictures" / name_of(number))
            if number % 4:
                table.writerow([name_of(number), number % N_GRADES])
    draw(500, grade=2).save(folder / "new.png")
    (folder / "no-picture.png").write_bytes(b"this is text")
    collection = folder / "Redness"
    grades = service.Grades(folder / "grades.csv")
    service.fit(folder / "pictures", collection, grades=grades, features="pixels:4", n_jobs=1)
    return folder


@pytest.fixture(scope="module")
def address(made):
    with serving(made / "Redness") as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Open the page; at the end of the test nothing may have gone wrong on it."""
    opened = []

    def start(address, hash="", *, viewport=WIDE, script="", **options):
        context = chromium.new_context(viewport=viewport, **options)
        context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.watch = Watch(page, address)
        opened.append((context, page.watch))
        page.goto(address + hash)
        return page

    yield start
    for context, _ in opened:
        context.close()
    assert [watch.problems for _, watch in opened] == [[] for _ in opened]


def cards(page):
    return page.locator("#pictures > li")


def estimate(page):
    return page.locator("#answer dd.estimate")


def asked(page):
    """Wait for an answer."""
    expect(estimate(page)).to_be_visible()
    expect(cards(page).first).to_be_visible()


def grades_of(page):
    return [text.replace("≈", "").strip() for text in page.locator("#pictures .grade").all_inner_texts()]


def every_grade(page, has="", lacks=None):
    """Wait until every grade in the list has a letter, and lacks another."""
    page.wait_for_function(
        """([has, lacks]) => {
            const texts = [...document.querySelectorAll("#pictures .grade")].map((grade) => grade.innerText);
            return texts.length && texts.every((text) => text.includes(has) && !(lacks && text.includes(lacks)));
        }""",
        arg=[has, lacks],
    )


def id_named(page, address, name):
    found = page.request.get(f"{address}api/v1/pictures?limit=200").json()["items"]
    return next(picture["id"] for picture in found if picture["name"] == name)


def id_of(card):
    return card.get_attribute("data-id")


def drawn_map(page):
    """Wait until the map has been drawn and nothing changes any more."""
    page.wait_for_selector("#map[data-draws]")
    page.wait_for_function(
        """() => new Promise((done) => {
            const { dataset } = document.querySelector("#map");
            const before = dataset.draws;
            setTimeout(() => done(dataset.draws === before), 250);
        })"""
    )


def find_point(page):
    """Move the mouse over the map until it points at a picture."""
    drawn_map(page)
    box = page.locator("#map-canvas").bounding_box()
    for row in range(2, 12):
        for column in range(2, 24):
            page.mouse.move(box["x"] + box["width"] * column / 25, box["y"] + box["height"] * row / 13)
            page.evaluate("() => new Promise(requestAnimationFrame)")
            if page.locator("#map-tip").is_visible():
                return
    pytest.fail("no point found")


# Ways to ask.


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


def _quoted(text):
    """Text for XPath, which has no escapes."""
    return "concat(" + ", '\"', ".join(f'"{part}"' for part in text.split('"')) + ", '')"


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
