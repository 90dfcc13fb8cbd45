"""A collection with hostile file names, its server, and a browser that records errors."""

import csv
import shutil
from contextlib import ExitStack

import pytest

from ordrank import Collection
from tests.collection.pictures import N_GRADES, draw
from tests.web.conftest import serving

N_PICTURES = 66
HOSTILE = {
    7: "<img src=x onerror=alert(1)>.png",
    8: '"><script>document.title="owned"<\u2215script>.png',
    9: "\u202egnp.exe &amp; ${1+1} {{x}}.png",
}
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
TIMEOUT = 30_000  # ms: long enough for a busy machine
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
ARGUMENTS = [
    "--no-sandbox",
    "--enable-unsafe-swiftshader",  # WebGL without a graphics card
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


def name_of(number):
    return HOSTILE.get(number, f"{number:03d}.png")


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    """Make the collection Redness of 66 pictures in three grades, every fourth without one, and two files to upload."""
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
    Collection.create(collection, folder / "pictures", folder / "grades.csv", features="pixels:4", n_jobs=1)
    return folder


@pytest.fixture(scope="package")
def url(folder, tmp_path_factory):
    # A copy: the database of a server that runs must not be copied.
    with serving(shutil.copytree(folder / "Redness", tmp_path_factory.mktemp("served") / "Redness")) as server:
        yield f"{server.url}/"


@pytest.fixture
def serve():
    """Start servers that end after the pages of the test are closed, so that these lose no connection."""
    with ExitStack() as servers:
        yield lambda *arguments, **options: servers.enter_context(serving(*arguments, **options))


@pytest.fixture
def writable_url(folder, tmp_path, serve):
    """The address of a copy of the collection that the test may change."""
    return f"{serve(shutil.copytree(folder / 'Redness', tmp_path / 'Redness')).url}/"


@pytest.fixture(scope="package")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium on this machine")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class PageErrors:
    """Console errors (violations of the content security policy among them), exceptions, requests to other hosts."""

    def __init__(self, page, url):
        self.messages, self.allowed = [], []
        page.on("console", lambda message: message.type == "error" and self.messages.append(message.text))
        page.on("pageerror", lambda error: self.messages.append(str(error)))
        page.on("request", lambda request: self._check_host(request.url, url))

    def _check_host(self, requested, url):
        if not requested.startswith((url, "blob:", "data:")):
            self.messages.append(f"request to {requested}")

    def allow_status(self, *statuses):
        """Allow HTTP errors that a test provokes; Chromium logs them to the console."""
        self.allowed += [f"status of {status}" for status in statuses]

    def allow_lost_connections(self):
        """Allow requests that fail because a test stops the server under the page."""
        self.allowed += ["net::ERR_CONNECTION", "status of 503"]

    @property
    def unexpected(self):
        return [text for text in self.messages if not any(allowed in text for allowed in self.allowed)]


@pytest.fixture
def visit(chromium, serve):  # closed before the servers end
    """Open a page; fail at the end of the test if it logged an unexpected error."""
    opened = []

    def open_page(url, fragment="", *, viewport=WIDE, script="", **options):
        context = chromium.new_context(viewport=viewport, **options)
        context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.errors = PageErrors(page, url)
        opened.append((context, page.errors))
        page.goto(url + fragment)
        return page

    yield open_page
    for context, _ in opened:
        context.close()
    assert [errors.unexpected for _, errors in opened] == [[] for _ in opened]
