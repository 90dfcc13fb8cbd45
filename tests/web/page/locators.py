"""Locators of the page, waits, and user actions."""

import base64

import numpy as np
import pytest

from tests.web.page.conftest import N_PICTURES, TIMEOUT

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect
expect.set_options(timeout=TIMEOUT)


def cards(page):
    return page.locator("#pictures > li")


def estimate(page):
    return page.locator("#result dd.estimate")


def shown_grades(page):
    return [text.replace("≈", "").strip() for text in page.locator("#pictures .grade").all_inner_texts()]


def id_of(card):
    return card.get_attribute("data-id")


def id_of_name(page, url, name):
    pictures = page.request.get(f"{url}api/v1/pictures?limit=200").json()["items"]
    return next(picture["id"] for picture in pictures if picture["name"] == name)


def wait_for_result(page):
    expect(estimate(page)).to_be_visible()
    expect(cards(page).first).to_be_visible()


def wait_for_all_pictures(page):
    """Wait for the first page of the whole collection."""
    expect(page.locator("#list-title")).to_have_text("All pictures")
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES))
    expect(cards(page)).to_have_count(48)


def wait_for_grades(page, containing="", without=None):
    """Wait until every grade in the list contains a text, and none contains another."""
    page.wait_for_function(
        """([containing, without]) => {
            const texts = [...document.querySelectorAll("#pictures .grade")].map((grade) => grade.innerText);
            const fits = (text) => text.includes(containing) && !(without && text.includes(without));
            return texts.length && texts.every(fits);
        }""",
        arg=[containing, without],
    )


def wait_for_map(page):
    """Wait until the map has been drawn and is not drawn again."""
    page.wait_for_selector("#map[data-draws]")
    page.wait_for_function(
        """() => new Promise((resolve) => {
            const { dataset } = document.querySelector("#map");
            const before = dataset.draws;
            setTimeout(() => resolve(dataset.draws === before), 250);
        })"""
    )


def hover_point(page):
    """Move the mouse over the map until it is at a point."""
    wait_for_map(page)
    box = page.locator("#map-canvas").bounding_box()
    for row in range(2, 12):
        for column in range(2, 24):
            page.mouse.move(box["x"] + box["width"] * column / 25, box["y"] + box["height"] * row / 13)
            page.evaluate("() => new Promise(requestAnimationFrame)")
            if page.locator("#map-tip").is_visible():
                return
    pytest.fail("no point found")


def save_grade(page, grade):
    page.get_by_label("Correct the grade").fill(grade)
    page.get_by_role("button", name="Save").click()


def lose_response(route):
    """Let a request reach the server, and its response be lost."""
    route.fetch()
    route.abort()


def fulfill_points(page, positions, grades, total=None):
    """Let the page load these points, with ids from 1 on."""
    n = len(grades)
    columns = (np.arange(1, n + 1, dtype="<i4"), np.asarray(positions, dtype="<f4"), np.asarray(grades, dtype="<f8"))
    content, headers = b"".join(column.tobytes() for column in columns), {"X-Count": str(n), "X-Total": str(total or n)}
    page.route("**/api/v1/points*", lambda route: route.fulfill(body=content, headers=headers))
    page.reload()


def change_summary(page, **changes):
    """Let the page load a changed summary of the collection."""

    def fulfill(route):
        route.fulfill(json={**route.fetch().json(), **changes})

    page.route("**/api/v1/collection", fulfill)
    page.reload()


def change_estimate(page, **changes):
    """Let the page load a changed estimate of the query with every ranking."""

    def fulfill(route):
        body = route.fetch().json()
        route.fulfill(json={**body, "query": {**body["query"], **changes}})

    page.route("**/api/v1/rank?*", fulfill)


def dispatch_file(page, event, file, kind="image/png"):
    """Dispatch `drop`, `dragenter` or `paste` with a file."""
    page.evaluate(
        """([event, name, type, base64]) => {
          const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
          const data = new DataTransfer();
          data.items.add(new File([bytes], name, { type }));
          const options = { bubbles: true, cancelable: true };
          document.body.dispatchEvent(event === "paste"
            ? new ClipboardEvent(event, { ...options, clipboardData: data })
            : new DragEvent(event, { ...options, dataTransfer: data }));
        }""",
        [event, file.name, kind, base64.b64encode(file.read_bytes()).decode()],
    )
