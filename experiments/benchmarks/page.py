"""Load time and frame rate of the page of a large collection in a browser.

`ordrank serve` serves 100,000 pictures to headless Chromium without a GPU on the same machine. ``paint``: time until
all visible pictures are drawn, with an empty cache, and of the first contentful paint. ``map``: frames per second
while the map turns. ``slow_line``: time until the first picture over 400 kbit/s with 400 ms of latency. ``lists``: time
of the first page of several lists right after a grade has changed, when nothing is cached, and again. Prints one JSON
document.

    python experiments/benchmarks/page.py [--pictures 100000] [--rounds 7] [--seconds 5] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import itertools
import json
import shutil
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from ordrank_experiments.machine import describe_machine, print_document
from playwright.sync_api import Browser, Page, sync_playwright
from serve import Server, large_collection, options_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = ["--no-sandbox", "--enable-unsafe-swiftshader", "--disable-dev-shm-usage"]
VIEWPORT = {"width": 1400, "height": 900}

# Resolves with the time since navigation when all visible pictures are loaded and a frame was drawn.
USEFUL = """() => new Promise((done) => {
  const check = () => {
    const images = [...document.querySelectorAll("#pictures img")];
    const visible = images.filter((image) => image.getBoundingClientRect().top < innerHeight);
    const ready = visible.length && visible.every((image) => image.complete && image.naturalWidth);
    if (!ready) return requestAnimationFrame(check);
    requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())));
  };
  check();
})"""
FIRST = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Turns the map every frame, and waits until the last frame is drawn.
TURN = """(seconds) => new Promise((done) => {
  const canvas = document.querySelector("#map-canvas");
  const gl = canvas.getContext("webgl2");
  const begin = performance.now();
  let frames = 0;
  const turn = () => {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
    requestAnimationFrame(() => {
      frames += 1;
      if (performance.now() - begin < 1000 * seconds) return turn();
      gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
      done({ frames, seconds: (performance.now() - begin) / 1000 });
    });
  };
  turn();
})"""
FIRST_PICTURE = """() => new Promise((done) => {
  const check = () => {
    const images = [...document.querySelectorAll("#pictures img")];
    if (images.some((image) => image.complete && image.naturalWidth)) return done(performance.now());
    setTimeout(check, 20);
  };
  check();
})"""
SLOW_LINE = {"offline": False, "latency": 400, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
LISTS = {
    "by grade": "limit=48",
    "one grade": "limit=48&grade=1",
    "spectrum": "limit=200&sort=spectrum&step=500",
    "by estimate": "limit=48&sort=estimate",
    "by certainty": "limit=48&sort=certainty",
    "by name": "limit=48&sort=name&descending=true",
    "by date": "limit=48&sort=date",
    "search": "limit=48&search=12%20jpg",
    "search without a match": "limit=48&search=zzzz",
}
DRAWN = """() => new Promise((done) => {
  const check = () => {
    const { draws } = document.querySelector("#map").dataset;
    setTimeout(() => (draws && draws === document.querySelector("#map").dataset.draws ? done() : check()), 500);
  };
  check();
})"""


def paint(browser: Browser, address: str, rounds: int) -> dict[str, Any]:
    """Open the page several times with an empty cache."""
    first, useful, sent = [], [], 0
    for _ in range(rounds):
        context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
        page = context.new_page()
        sizes: list[int] = []
        page.on("requestfinished", lambda request: sizes.append(request.sizes()["responseBodySize"]))  # noqa: B023
        page.goto(address, wait_until="commit")
        useful.append(float(page.evaluate(USEFUL)))
        first.append(float(page.evaluate(FIRST)))
        page.evaluate(DRAWN)
        sent = sum(sizes)
        context.close()
    return {
        "first_paint_milliseconds": round(statistics.median(first)),
        "useful_milliseconds": round(statistics.median(useful)),
        "useful_milliseconds_worst": round(max(useful)),
        "bytes_with_the_map": sent,
        "rounds": rounds,
    }


def paint_slowly(browser: Browser, address: str, rounds: int) -> dict[str, Any]:
    """Open the page over a slow connection with an empty cache."""
    times = []
    for _ in range(rounds):
        context = browser.new_context(viewport=VIEWPORT)  # type: ignore[arg-type]
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", SLOW_LINE)
        page.goto(address, wait_until="commit")
        times.append(float(page.evaluate(FIRST_PICTURE)))
        context.close()
    return {"first_picture_milliseconds": round(statistics.median(times)), "rounds": rounds}


def list_pictures(address: str, rounds: int) -> dict[str, Any]:
    """Request lists after a change of a grade, and once more."""

    def request(path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        method = "GET" if body is None else "PUT"
        made = urllib.request.Request(f"{address}api/v1/{path}", data, headers, method=method)
        with urllib.request.urlopen(made) as response:
            return json.load(response)

    def milliseconds(path: str) -> float:
        begin = time.perf_counter()
        request(path)
        return 1000 * (time.perf_counter() - begin)

    picture, grades = request("pictures?limit=1")["items"][0], request("collection")["grades"]
    changes = itertools.cycle([grades[0]["grade"], grades[1]["grade"]])
    found: dict[str, Any] = {}
    for name, parameters in LISTS.items():
        first, again = [], []
        for _ in range(rounds):
            request(f"pictures/{picture['id']}/grade", {"grade": next(changes)})
            first.append(milliseconds(f"pictures?{parameters}"))
            again.append(milliseconds(f"pictures?{parameters}"))
        found[name] = {
            "first_milliseconds": round(statistics.median(first), 1),
            "first_milliseconds_worst": round(max(first), 1),
            "again_milliseconds": round(statistics.median(again), 1),
        }
    return found


def turn(page: Page, seconds: float) -> dict[str, Any]:
    """Turn the map."""
    page.evaluate(DRAWN)
    found = page.evaluate(TURN, seconds)
    return {
        "frames_per_second": round(found["frames"] / found["seconds"], 1),
        "note": page.locator("#map-note").inner_text(),
        "renderer": page.evaluate(
            "() => { const gl = document.querySelector('#map-canvas').getContext('webgl2');"
            "const info = gl.getExtension('WEBGL_debug_renderer_info');"
            "return gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER); }"
        ),
    }


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        work = arguments.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        server = Server(large_collection(work, arguments.pictures))
        try:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            address = f"http://127.0.0.1:{server.port}/"
            lists = list_pictures(address, arguments.rounds)
            painted = paint(browser, address, arguments.rounds)
            slowly = paint_slowly(browser, address, min(3, arguments.rounds))
            page = browser.new_page(viewport=VIEWPORT)  # type: ignore[arg-type]
            page.goto(address)
            turned, version = turn(page, arguments.seconds), browser.version
            browser.close()
        finally:
            server.kill()
    measured = {"paint": painted, "slow_line": slowly, "lists": lists, "map": turned}
    found = {"pictures": arguments.pictures, "chromium": version, **measured}
    print_document(found | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
