"""A collection with hostile names, its server, and a browser."""

import csv

import pytest

from ordrank import service
from tests.service.drawing import N_GRADES, draw
from tests.web.browser import ARGUMENTS, CHROMIUM, Watch, serving

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
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
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
