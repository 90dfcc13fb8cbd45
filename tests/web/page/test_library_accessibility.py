"""The rules of axe for the spectrum, the selection, and the dialogs, in Chromium with a real server."""

import pytest

from tests.web.page.conftest import NARROW, WIDE
from tests.web.page.locators import cards, expect, wait_for_map


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_axe_finds_no_violation(visit, url, viewport, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    options = {"viewport": viewport, "color_scheme": scheme, "reduced_motion": "reduce", "bypass_csp": True}

    def check(page):
        violations = axe.run(page)["violations"]
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in violations] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    page = visit(url, "#sort=spectrum&at=20", **options)
    expect(page.locator("#spectrum .tile").first).to_be_visible()
    if viewport is WIDE:
        wait_for_map(page)
    for number in (1, 2):
        cards(page).nth(number).get_by_role("checkbox").check()
    expect(page.locator("#selection .selected-count")).to_have_text("2 selected")
    check(page)
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator("#side-by-side img")).to_have_count(2)
    check(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Add pictures…").click()
    expect(page.locator("#adding")).to_be_visible()
    check(page)
    page.keyboard.press("Escape")
    page.errors.allow_status(404)
    page.goto(f"{url}#picture=99999")
    expect(page.locator(".missing")).to_be_visible()
    check(page)
