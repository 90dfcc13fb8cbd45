"""Grades per second by key in a browser, and grades lost when the server is killed meanwhile.

`ordrank serve` serves a collection to headless Chromium on the same machine. A script presses the key of a grade as
soon as the next picture is on the screen, first with the server alive throughout, then with a server that is killed
with SIGKILL half-way and restarted. All grades must be in the collection at the end. Prints one JSON document.

    python experiments/benchmarks/grading.py [--pictures 200] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from collection import BATCH, draw_photographs, fit_command, run
from ordrank_experiments.machine import describe_machine, print_document
from playwright.sync_api import Browser, Page, sync_playwright
from serve import Server, options_of

from ordrank.collection.access import read_store

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"]
VIEWPORT = {"width": 1400, "height": 900}
ORDER = """localStorage.setItem("ordrank order", '"all"')"""
NAME = "document.querySelector('#grade-title').textContent"
# Resolves when another picture is on the screen, and a frame with it was drawn.
NEXT = f"""(before) => new Promise((done) => {{
  const check = () => {{
    const image = document.querySelector("#grade-stage img");
    const ready = {NAME} !== before && image?.complete && image.naturalWidth;
    requestAnimationFrame(ready ? () => done({NAME}) : check);
  }};
  check();
}})"""
N_WAITING = "() => Object.keys(localStorage).filter((key) => key.startsWith('ordrank unsent ')).length"
MAX_SECONDS = 120


class RestartedServer:
    """A server that is killed and restarted at the same port."""

    def __init__(self, collection: Path) -> None:
        self.collection, self.server = collection, Server(collection)
        self.port = self.server.port
        self._restarting: threading.Thread | None = None

    def kill_and_restart(self) -> None:
        """Kill the server now, and restart it while others go on."""
        self.server.kill()
        self._restarting = threading.Thread(target=self._restart)
        self._restarting.start()

    def _restart(self) -> None:
        time.sleep(1)
        self.server = Server(self.collection, port=self.port)

    def end(self) -> None:
        """Kill the server."""
        if self._restarting is not None:
            self._restarting.join()
        self.server.kill()


def grade_all(page: Page, names: list[str], grades: list[str], server: RestartedServer | None) -> dict[str, Any]:
    """Give each picture its grade as soon as it is on the screen; kill the server half-way, if it is named."""
    shown, seconds, most_waiting = page.evaluate(NEXT, "Grade"), [], 0
    begin = time.perf_counter()
    for i, (name, grade) in enumerate(zip(names, grades, strict=True)):
        assert shown == name, (shown, name)
        started = time.perf_counter()
        page.keyboard.press(grade)
        if i + 1 < len(names):
            shown = page.evaluate(NEXT, name)
        seconds.append(time.perf_counter() - started)
        most_waiting = max(most_waiting, page.evaluate(N_WAITING))
        if server is not None and i == len(names) // 2:
            server.kill_and_restart()
    elapsed = time.perf_counter() - begin
    while page.evaluate(N_WAITING):
        assert time.perf_counter() - begin < MAX_SECONDS
        page.wait_for_timeout(50)
    return {
        "grades": len(names),
        "grades_per_second": round(len(names) / elapsed, 1),
        "milliseconds_to_next_picture": {
            "median": round(1000 * statistics.median(seconds)),
            "p95": round(1000 * statistics.quantiles(seconds, n=20)[-1]),
        },
        "most_grades_waiting": most_waiting,
        "seconds_until_stored": round(time.perf_counter() - begin - elapsed, 2),
        "kills": 0 if server is None else 1,
    }


def measure(browser: Browser, collection: Path, n: int, shift: int, kill: bool) -> dict[str, Any]:
    """Grade n pictures on a new page, and count grades that the collection has not."""
    server = RestartedServer(collection)
    try:
        page = browser.new_page(viewport=VIEWPORT)  # type: ignore[arg-type]
        page.add_init_script(ORDER)
        page.goto(f"http://127.0.0.1:{server.port}/#view=grade")
        listed = f"http://127.0.0.1:{server.port}/api/v1/pictures?sort=name&limit=200"
        names = [picture["name"] for picture in page.request.get(listed).json()["items"]][:n]
        summary = page.request.get(f"http://127.0.0.1:{server.port}/api/v1/collection").json()
        scale = [grade["grade"] for grade in summary["grades"]]
        grades = [scale[(i + shift) % len(scale)] for i in range(len(names))]
        found = grade_all(page, names, grades, server if kill else None)
        page.close()
    finally:
        server.end()
    with read_store(collection) as store:
        stored = {row.name: row.grade for row in store.rows()}
        given = [store.header.parse_grade(grade) for grade in grades]
    return found | {"lost_grades": sum(stored[name] != grade for name, grade in zip(names, given, strict=True))}


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.set_defaults(pictures=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        folder, collection = work / f"photographs-{arguments.pictures}", work / "grading"
        if not collection.exists():
            draw_photographs(folder, BATCH * -(-arguments.pictures // BATCH))
            run(fit_command(folder, collection))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        alive = measure(browser, collection, arguments.pictures, 1, kill=False)
        killed = measure(browser, collection, arguments.pictures, 2, kill=True)
        version = browser.version
        browser.close()
    found = {"pictures": arguments.pictures, "chromium": version, "server_alive": alive, "server_killed": killed}
    print_document(found | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
