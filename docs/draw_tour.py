"""Take the screenshots of tour.md: the page of a collection of drawn fruit, in headless Chromium.

pip install 'ordrank[test]'
python docs/draw_tour.py
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from ordrank import Collection
from ordrank.datasets import make_fruit

IMAGES = Path(__file__).with_name("images")
WIDE, PHONE = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
FALSIFIED = {"fruit-018.jpg": "0", "fruit-062.jpg": "4", "fruit-124.jpg": "1"}
# Three people grade the same pictures from the estimates; two of them make mistakes.
GIVE_GRADES = """async () => {
  const { items } = await (await fetch("api/v1/pictures?sort=name&limit=60")).json();
  for (const [i, { id, estimate }] of items.entries()) {
    const mistakes = { Ada: 0, Ben: i % 9 ? 0 : 1, Cleo: i % 4 ? 0 : -1 };
    for (const [grader, mistake] of Object.entries(mistakes)) {
      if (grader === "Cleo" && i >= 40) continue;
      const grade = String(Math.min(4, Math.max(0, Number(estimate) + mistake)));
      const headers = { "Content-Type": "application/json" };
      await fetch(`api/v1/pictures/${id}/grade`, { method: "PUT", headers, body: JSON.stringify({ grade, grader }) });
    }
  }
}"""
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def main() -> None:
    """Write every screenshot."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        collection, new = make_collection(Path(folder))
        options = ["--no-sandbox", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        with serving(collection) as address:
            draw_library(browser, address)
            draw_phone(browser, address, new)
            draw_wide(browser, address, new)
            draw_check(browser, address, collection)
            draw_labeling(browser, address)
        browser.close()


def make_collection(folder: Path) -> tuple[Path, Path]:
    """Fit a collection of 400 drawn fruits, every sixth without a grade; return it and a picture it does not have."""
    drawn = make_fruit(401, size=160, random_state=3)
    (folder / "fruit").mkdir()
    with open(folder / "grades.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["file", "grade"])
        for number, (picture, grade) in enumerate(zip(drawn.images[:400], drawn.grade[:400], strict=True)):
            name = f"fruit-{number:03d}.jpg"
            Image.fromarray(picture).save(folder / "fruit" / name, quality=92)
            if number % 6 != 5:
                table.writerow([name, grade])
    fruit = make_fruit(20, size=160, random_state=8)
    new = folder / "from the market.jpg"
    Image.fromarray(fruit.images[list(fruit.grade).index(2)]).save(new, quality=92)
    Collection.create(folder / "Ripeness", folder / "fruit", folder / "grades.csv").close()
    return folder / "Ripeness", new


@contextmanager
def serving(collection: Path) -> Iterator[str]:
    """Yield the address of `ordrank serve`."""
    command = [sys.executable, "-u", "-m", "ordrank", "serve", str(collection), "--port", "0", "--no-token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield next(found[0] for line in server.stdout if (found := re.search(r"http://[^\s/]+/", line)))
        finally:
            server.terminate()


def draw_wide(browser: Browser, address: str, new: Path) -> None:
    """Save browsing, a result, and a selected picture in dark mode."""
    page = browser.new_page(viewport=WIDE, color_scheme="light")
    page.goto(address)
    settle(page)
    save("tour-browse.png", page)
    page.set_input_files("#file", new)
    settle(page, "#result .estimate")
    box = page.locator("#map").bounding_box()
    assert box is not None
    for step in range(10, 40):  # until the mouse points at a picture on the map
        page.mouse.move(box["x"] + box["width"] * step / 50, box["y"] + box["height"] * 0.5)
        page.wait_for_timeout(60)
        if step > 20 and page.locator("#map-tip").is_visible():
            break
    settle(page)
    save("tour-result.png", page)
    page.close()
    page = browser.new_page(viewport=WIDE | {"height": 1060}, color_scheme="dark")
    page.goto(address)
    settle(page)
    page.set_input_files("#file", new)
    settle(page, "#result .estimate")
    page.locator("#pictures li").nth(7).locator(".card-link").click()
    page.mouse.move(5, 500)
    settle(page, "#panel[open]")
    page.fill("#grade-field", "3")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved: grade 3.").wait_for()
    settle(page, "#training:not([hidden])")
    save("tour-panel.png", page)
    page.close()


def draw_library(browser: Browser, address: str) -> None:
    """Save the spectrum, a selection in dark mode, and the quality of the estimates."""
    page = browser.new_page(viewport=WIDE, color_scheme="light")
    page.goto(f"{address}#sort=spectrum&at=170")
    settle(page, "#spectrum .tile")
    save("tour-spectrum.png", page)
    page.goto(f"{address}#view=quality")
    settle(page, "#quality table")
    save("tour-quality.png", page)
    page.close()
    page = browser.new_page(viewport=WIDE, color_scheme="dark")
    page.goto(f"{address}#grade=2")
    settle(page)
    for number in (1, 2, 5, 8):
        page.locator("#pictures li").nth(number).hover()
        page.locator("#pictures li").nth(number).get_by_role("checkbox").check()
    page.mouse.move(5, 500)
    page.evaluate("scrollTo(0, 0)")
    settle(page, "#selection")
    save("tour-select.png", page)
    page.close()


def draw_phone(browser: Browser, address: str, new: Path) -> None:
    """Save a result, the list and a selected picture on a phone, side by side."""
    context = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True, device_scale_factor=1)
    page = context.new_page()
    page.goto(address)
    settle(page)
    page.set_input_files("#file", new)
    settle(page, "#result .estimate")
    shots = [page.screenshot()]
    page.locator("#list").evaluate("(list) => scrollTo(0, list.offsetTop - 16)")
    settle(page)
    shots.append(page.screenshot())
    page.locator("#pictures li").nth(3).locator(".card-link").tap()
    settle(page, "#panel[open]")
    shots.append(page.screenshot())
    context.close()
    pictures = [Image.open(io.BytesIO(shot)) for shot in shots]
    width, height = pictures[0].size
    gap = 32
    sheet = Image.new("RGB", (3 * width + 2 * gap, height), "#8b857b")
    for column, picture in enumerate(pictures):
        sheet.paste(picture, (column * (width + gap), 0))
    write("tour-phone.png", sheet)


def draw_check(browser: Browser, address: str, collection: Path) -> None:
    """Save the check of a collection with falsified grades."""
    with Collection.open(collection) as opened:
        for name, grade in FALSIFIED.items():
            opened.grade(name, grade)
        opened.fit()
    page = browser.new_page(viewport=WIDE, color_scheme="light")
    page.goto(f"{address}#view=check")
    settle(page, "#suspects li")
    save("tour-check.png", page)
    page.close()


def draw_labeling(browser: Browser, address: str) -> None:
    """Save grading, comparing in dark mode, and the graders."""
    page = browser.new_page(viewport=WIDE, color_scheme="light")
    page.goto(f"{address}#view=grade")
    settle(page, "#grade-stage img")
    page.evaluate(GIVE_GRADES)
    page.reload()
    for key in "213":
        settle(page, "#grade-plot svg")
        page.keyboard.press(key)
    page.wait_for_timeout(2000)
    settle(page, "#grade-plot svg")
    save("tour-grade.png", page)
    page.goto(f"{address}#view=graders")
    settle(page, "#disagreements .card")
    save("tour-graders.png", page)
    page.close()
    page = browser.new_page(viewport=WIDE, color_scheme="dark")
    page.goto(f"{address}#view=compare")
    settle(page, "#compare-first img")
    for key in ("Left", "Right", "Left", "Right", "Down", "Right", "Left", "Left"):
        page.keyboard.press(f"Arrow{key}")
        settle(page, "#compare-pair:not(.waiting) img")
    settle(page, "#ranking img")
    settle(page, "#compare-pair:not(.waiting) img")
    save("tour-compare.png", page)
    page.close()


def settle(page: Page, selector: str = "#pictures li") -> None:
    """Wait for an element, its pictures and its transitions."""
    page.locator(selector).first.wait_for()
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(600)


def save(name: str, page: Page) -> None:
    """Save a screenshot of the page."""
    write(name, Image.open(io.BytesIO(page.screenshot())).convert("RGB"))


def write(name: str, picture: Image.Image) -> None:
    """Save a picture."""
    picture.save(IMAGES / name, optimize=True)


if __name__ == "__main__":
    main()
