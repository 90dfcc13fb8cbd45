"""What is seen on the page, and waiting for it."""

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = playwright.expect


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
