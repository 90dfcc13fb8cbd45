"""Corrected grades, training, and read-only servers, in Chromium with a real server."""

import shutil
import signal

from tests.web.conftest import serving
from tests.web.page.conftest import TIMEOUT
from tests.web.page.locators import expect, id_of_name, wait_for_all_pictures, wait_for_result


def save_grade(page, grade):
    page.get_by_label("Correct the grade").fill(grade)
    page.get_by_role("button", name="Save").click()


def enter_token(page, token):
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Open").click()


def test_a_corrected_grade_survives_a_restart_and_is_trained_on(visit, folder, tmp_path):
    collection = shutil.copytree(folder / "Redness", tmp_path / "Redness")
    with serving(collection) as server:
        url = f"{server.url}/"
        page = visit(url)
        wait_for_all_pictures(page)
        chosen = f"#chosen={id_of_name(page, url, '001.png')}"
        page.goto(url + chosen)
        save_grade(page, "two")  # rejected by the form: not a number
        save_grade(page, "2")
        expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
        expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
        page.get_by_role("button", name="Undo").click()
        expect(page.get_by_text("Saved: grade 1.")).to_be_visible()
        expect(page.locator("#training")).to_be_hidden()  # all grades are those of the last training
        save_grade(page, "0")
        expect(page.get_by_text("Saved: grade 0.")).to_be_visible()
        page.set_input_files("#file", folder / "new.png")
        wait_for_result(page)
        page.errors.allow_lost_connections()
        server.end(signal.SIGTERM)
    with serving(collection, port=server.port):
        page.errors.allow_status(404)
        page.get_by_label("Only grade 2").check()  # the new server does not have the query: the page sends it again
        expect(page.locator("#list-title")).to_have_text("Nearest pictures of grade 2")
        expect(page.locator("#alert")).to_be_empty()
        page = visit(url, chosen)
        expect(page.locator("#panel .estimate bdi")).to_have_text("0")
        page.get_by_role("button", name="Train again").click()
        expect(page.locator("#training")).to_be_hidden(timeout=2 * TIMEOUT)
        expect(page.locator("#panel .estimate bdi")).to_have_text("0")
        page.wait_for_load_state("networkidle")


def test_a_read_only_page_has_no_grade_form_and_asks_for_the_token(visit, folder):
    with serving(folder / "Redness", "--read-only", "--token", "open sesame") as server:
        page = visit(f"{server.url}/", "#picture=2&chosen=3")
        page.errors.allow_status(401)
        enter_token(page, "open says me")
        expect(page.get_by_text("That was not the token")).to_be_visible()
        enter_token(page, "open sesame")
        wait_for_result(page)
        expect(page.locator("#panel")).to_be_visible()
        expect(page.locator(".grade-form")).to_have_count(0)
        expect(page.locator("#training")).to_be_hidden()
        assert "sesame" not in page.url
        page.close()


def test_a_grade_saved_late_does_not_change_the_facts_of_the_next_picture(visit, folder, tmp_path):
    collection, held = shutil.copytree(folder / "Redness", tmp_path / "Redness"), []
    with serving(collection) as server:
        url = f"{server.url}/"
        page = visit(url)
        wait_for_all_pictures(page)
        first, second = (id_of_name(page, url, name) for name in ("001.png", "003.png"))
        page.goto(f"{url}#chosen={first}")
        page.route("**/pictures/*/grade", lambda route: held.append(route))
        save_grade(page, "2")
        page.goto(f"{url}#chosen={second}")
        expect(page.locator("#panel-title")).to_have_text("003.png")
        held[0].continue_()
        expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
        expect(page.locator("#panel .estimate bdi")).to_have_text("0")
