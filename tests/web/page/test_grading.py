"""Corrected grades, training, and read-only servers, in Chromium with a real server."""

import shutil
import signal

from tests.web.page.conftest import N_PICTURES, TIMEOUT
from tests.web.page.locators import (
    cards,
    expect,
    id_of,
    id_of_name,
    lose_response,
    save_grade,
    wait_for_all_pictures,
    wait_for_map,
    wait_for_result,
)


def save_new_grade(page, grade):
    page.errors.allow_status(409)
    save_grade(page, grade)
    page.get_by_role("button", name="Keep it").click()


def enter_token(page, token):
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_role("button", name="Open").click()


def test_a_corrected_grade_survives_a_restart_and_is_trained_on(visit, serve, folder, tmp_path):
    collection = shutil.copytree(folder / "Redness", tmp_path / "Redness")
    server = serve(collection)
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
    expect(page.get_by_text("Undone: grade 1.")).to_be_visible()
    expect(page.locator("#training")).to_be_hidden()  # all grades are those of the last training
    save_grade(page, "0")
    expect(page.get_by_text("Saved: grade 0.")).to_be_visible()
    page.set_input_files("#file", folder / "new.png")
    wait_for_result(page)
    page.errors.allow_lost_connections()
    server.end(signal.SIGTERM)
    serve(collection, port=server.port)
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


def test_a_grade_saved_again_after_a_lost_response_is_one_change(visit, writable_url):
    page = visit(writable_url)
    page.errors.allowed.append("net::ERR_FAILED")
    page.goto(f"{writable_url}#chosen={id_of_name(page, writable_url, '001.png')}")
    expect(page.locator("#panel-title")).to_have_text("001.png")
    page.route("**/pictures/*/grade", lose_response, times=1)
    save_grade(page, "2")
    expect(page.locator("#alert")).to_contain_text("The server does not respond")
    save_grade(page, "2")
    expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: grade 1.")).to_be_visible()


def test_a_read_only_page_has_no_grade_form_and_asks_for_the_token(visit, serve, folder):
    server = serve(folder / "Redness", "--read-only", "--token", "open sesame, said he")
    page = visit(f"{server.url}/", "#picture=2&chosen=3")
    page.errors.allow_status(401)
    enter_token(page, "open says me")
    expect(page.get_by_text("That was not the token")).to_be_visible()
    enter_token(page, "open sesame, said he")
    wait_for_result(page)
    expect(page.locator("#panel")).to_be_visible()
    expect(page.locator(".grade-form")).to_have_count(0)
    expect(page.locator("#training")).to_be_hidden()
    assert "sesame" not in page.url


def test_a_grade_saved_late_does_not_change_the_facts_of_the_next_picture(visit, writable_url):
    url, held = writable_url, []
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


def test_every_picture_is_listed_once_although_a_grade_changes_the_order(visit, writable_url):
    page = visit(writable_url, viewport={"width": 1400, "height": 300})
    wait_for_all_pictures(page)
    first = next(card for card in cards(page).all() if "≈" not in card.locator(".grade").inner_text())
    page.goto(f"{writable_url}#chosen={id_of(first)}")
    save_new_grade(page, "9")  # from the first page of the list to the last one
    expect(page.get_by_text("Saved: grade 9.")).to_be_visible()
    page.locator("#more").press("Enter")
    expect(cards(page)).to_have_count(N_PICTURES)
    expect(page.locator("#more")).to_be_hidden()
    assert len({id_of(card) for card in cards(page).all()}) == N_PICTURES


def test_a_new_grade_is_not_saved_unless_confirmed(writable_url, visit):
    page = visit(writable_url)
    page.errors.allow_status(409)
    wait_for_all_pictures(page)
    page.goto(f"{writable_url}#chosen={id_of_name(page, writable_url, '001.png')}")
    save_grade(page, "9")
    dialog = page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("No picture has the grade 9 yet: the grades go from 0 to 2. Keep it?")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_label("Correct the grade")).to_have_value("9")
    expect(page.locator("#panel .estimate bdi")).to_have_text("1")


def colour_of(locator):
    return locator.evaluate("(element) => getComputedStyle(element).backgroundColor")


def test_a_new_grade_appears_in_chips_cards_and_filters(visit, writable_url):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    number = id_of_name(page, writable_url, "001.png")
    card = page.locator(f"#pictures [data-id='{number}'] .dot")
    page.goto(f"{writable_url}#chosen={number}")
    save_new_grade(page, "9")
    chip = page.locator("#grades .chip", has_text="9")
    expect(chip).to_contain_text("91")  # grade 9, 1 picture
    assert colour_of(card) == colour_of(chip.locator(".dot"))
    page.goto(f"{writable_url}#picture=2&chosen={number}")
    wait_for_result(page)
    save_new_grade(page, "12")
    expect(page.locator("#highest option").last).to_have_text("12")
    expect(page.locator("#result .column .label").last).to_have_text("12")
    wait_for_map(page)
    assert colour_of(card) == colour_of(page.locator("#legend .dot").last)
