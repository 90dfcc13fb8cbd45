"""Load time and frame rate of the page of a large collection in a browser.

`ordrank serve` serves 100,000 pictures to headless Chromium without a GPU on the same machine. ``paint``: time until
all visible pictures are drawn, with an empty cache, and of the first contentful paint. ``map``: frames per second
while the map turns. Prints one JSON document.

    python experiments/benchmarks/page.py [--pictures 100000] [--rounds 7] [--seconds 5] [--work DIR] [--out FILE]
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
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
            painted = paint(browser, address, arguments.rounds)
            page = browser.new_page(viewport=VIEWPORT)  # type: ignore[arg-type]
            page.goto(address)
            turned, version = turn(page, arguments.seconds), browser.version
            browser.close()
        finally:
            server.kill()
    found = {"pictures": arguments.pictures, "chromium": version, "paint": painted, "map": turned}
    print_document(found | describe_machine(), arguments.out)


if __name__ == "__main__":
    main()
