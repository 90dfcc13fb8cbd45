"""Adding pictures to the collection, in Chromium with a real server."""

import base64
import re

import pytest

from tests.collection.pictures import draw
from tests.web.conftest import serving
from tests.web.page.conftest import N_PICTURES
from tests.web.page.locators import (
    cards,
    dispatch_file,
    expect,
    wait_for_all_pictures,
    wait_for_result,
)


@pytest.fixture
def new_files(tmp_path):
    """Three new pictures, one that is damaged, and a text."""
    folder = tmp_path / "new"
    folder.mkdir()
    for number in range(3):
        draw(700 + number).save(folder / f"new-{number}.png")
    (folder / "damaged.png").write_bytes(b"this is text")
    (folder / "notes.txt").write_text("no picture")
    return folder


def drop(page, files):
    """Drop several files at once."""
    page.evaluate(
        """(files) => {
          const data = new DataTransfer();
          for (const [name, type, base64] of files) {
            const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
            data.items.add(new File([bytes], name, { type }));
          }
          const options = { bubbles: true, cancelable: true, dataTransfer: data };
          document.body.dispatchEvent(new DragEvent("drop", options));
        }""",
        [
            [file.name, "text/plain" if file.suffix == ".txt" else "image/png", encoded(file)]
            for file in sorted(files.iterdir())
        ],
    )


def encoded(file):
    return base64.b64encode(file.read_bytes()).decode()


def dialog(page):
    return page.locator("#adding")


def test_a_query_is_added_to_the_collection(visit, writable_url, folder):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    dispatch_file(page, "drop", folder / "new.png")
    wait_for_result(page)
    page.get_by_role("button", name="Add it to the collection").click()
    expect(page).to_have_url(re.compile("#picture="))
    wait_for_result(page)
    expect(page.locator("#result-title")).to_contain_text("new")
    expect(page.get_by_role("button", name="Add it to the collection")).to_have_count(0)
    page.goto(writable_url + "#")
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES + 1))


def test_several_dropped_pictures_are_added_after_a_question(visit, writable_url, new_files):
    page = visit(writable_url)
    page.errors.allow_status(400)
    wait_for_all_pictures(page)
    drop(page, new_files)
    expect(dialog(page).locator("h2")).to_have_text("Add 4 pictures to the collection?")
    expect(dialog(page)).to_contain_text("1 other file is left out.")
    dialog(page).get_by_role("button", name="Cancel").click()
    expect(dialog(page)).to_be_hidden()
    drop(page, new_files)
    dialog(page).get_by_role("button", name="Add").click()
    expect(dialog(page).locator("h2")).to_have_text("3 pictures added")
    expect(dialog(page).locator(".adding-errors li")).to_have_count(1)
    expect(dialog(page).locator(".adding-errors li")).to_contain_text("damaged.png")
    dialog(page).get_by_role("link", name="Show them").click()
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES + 3))
    names = [page.locator("#pictures .name").nth(number).inner_text() for number in range(3)]
    assert sorted(names) == ["new-0.png", "new-1.png", "new-2.png"]
    drop(page, new_files)
    dialog(page).get_by_role("button", name="Add").click()
    expect(dialog(page).locator("h2")).to_have_text("No pictures added")
    expect(dialog(page)).to_contain_text("3 pictures were in the collection already.")


def test_the_pictures_of_a_folder_are_added(visit, writable_url, new_files):
    page = visit(writable_url)
    page.errors.allow_status(400)
    wait_for_all_pictures(page)
    page.get_by_role("button", name="Add pictures…").click()
    dialog(page).get_by_label("Choose a folder").set_input_files(new_files)
    dialog(page).get_by_role("button", name="Add").press("Enter")
    expect(dialog(page).locator("h2")).to_have_text("3 pictures added")
    expect(page.locator("#list-count")).to_have_text(str(N_PICTURES + 3))


def test_the_pictures_of_a_dropped_folder_are_added(visit, writable_url, new_files):
    (new_files / "deeper").mkdir()
    draw(703).save(new_files / "deeper" / "new-3.png")
    (new_files / "damaged.png").unlink()
    page = visit(writable_url)
    wait_for_all_pictures(page)
    browser = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(new_files)], "dragOperationsMask": 1}
    for event in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": event, "x": 500, "y": 500, "data": data})
    expect(dialog(page).locator("h2")).to_have_text("Add 4 pictures to the collection?")
    expect(dialog(page)).to_contain_text("1 other file is left out.")
    dialog(page).get_by_role("button", name="Add").click()
    expect(dialog(page).locator("h2")).to_have_text("4 pictures added")


def test_adding_can_be_stopped(visit, writable_url, new_files):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    drop(page, new_files)

    def answer(route):
        if route.request.headers.get("x-name") == "new-0.png":
            page.wait_for_timeout(100)
            return  # never answered
        route.continue_()

    page.errors.allow_status(400)
    page.route("**/api/v1/pictures", answer)
    dialog(page).get_by_role("button", name="Add").click()
    expect(page.locator("#adding-text")).to_contain_text("2 of 4")
    dialog(page).get_by_role("button", name="Stop").click()
    expect(dialog(page).locator("h2")).to_have_text("No pictures added")
    expect(dialog(page)).to_contain_text("3 pictures were not sent.")
    page.unroute_all(behavior="ignoreErrors")


def test_pictures_wait_while_the_collection_is_busy(visit, writable_url, new_files):
    (new_files / "damaged.png").unlink()
    page = visit(writable_url)
    page.errors.allow_status(409)
    wait_for_all_pictures(page)
    busy = {"error": {"code": "busy", "message": "pictures are being imported; try again in a while"}}
    page.route("**/api/v1/pictures", lambda route: route.fulfill(status=409, json=busy))
    drop(page, new_files)
    dialog(page).get_by_role("button", name="Add").click()
    expect(page.locator("#adding-text")).to_have_text("1 of 3: new-0.png – waiting, the collection is busy")
    page.unroute_all()
    expect(dialog(page).locator("h2")).to_have_text("3 pictures added")


def test_a_read_only_server_shows_the_first_of_several_and_says_so(visit, serve, folder, new_files):
    (new_files / "damaged.png").unlink()
    server = serve(folder / "Redness", "--read-only")
    page = visit(f"{server.url}/")
    wait_for_all_pictures(page)
    drop(page, new_files)
    wait_for_result(page)
    expect(page.locator("#result-title")).to_contain_text("new-0.png")
    expect(page.locator("#alert")).to_contain_text("This is the first of 3 pictures")
    expect(page.get_by_role("button", name="Add it to the collection")).to_have_count(0)


def test_a_lost_connection_ends_the_adding_with_a_report(visit, folder, tmp_path, new_files):
    page = visit_with_failing_server(visit, folder)
    drop(page, new_files)
    dialog(page).get_by_role("button", name="Add").click()
    expect(dialog(page)).to_contain_text("The server does not respond.")
    expect(dialog(page)).to_contain_text("4 pictures were not sent.")


def visit_with_failing_server(visit, folder):
    with serving(folder / "Redness") as server:
        page = visit(f"{server.url}/")
        page.errors.allow_lost_connections()
        page.errors.allowed.append("net::ERR_")
        wait_for_all_pictures(page)
        expect(cards(page).first).to_be_visible()
        expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")
        page.get_by_role("button", name="Add pictures…").click()  # its module is loaded
        dialog(page).get_by_role("button", name="Cancel").click()
        return page
