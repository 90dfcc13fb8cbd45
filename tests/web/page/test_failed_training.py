"""The message of a training that failed stays on the page, in Chromium with a real server."""

import json
import shutil

from tests.web.conftest import serving
from tests.web.page.locators import expect, id_of_name, wait_for_all_pictures


def test_the_message_of_a_failed_training_stays(visit, folder, tmp_path):
    collection = shutil.copytree(folder / "Redness", tmp_path / "Redness")
    failed = json.dumps({"state": "failed", "message": "the disk is full", "done": 0, "total": 0})
    with serving(collection) as server:
        url = f"{server.url}/"
        page = visit(url)
        wait_for_all_pictures(page)
        page.goto(f"{url}#chosen={id_of_name(page, url, '001.png')}")
        page.get_by_label("Correct the grade").fill("2")
        page.get_by_role("button", name="Save").click()
        page.route("**/api/v1/training", lambda route: route.fulfill(body=failed, content_type="application/json"))
        page.errors.allowed.append("the disk is full")
        page.get_by_role("button", name="Train again").click()
        expect(page.locator("#alert")).to_contain_text("the disk is full")
        page.wait_for_load_state("networkidle")
        expect(page.locator("#alert")).to_contain_text("the disk is full")
        expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
