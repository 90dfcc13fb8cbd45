"""Changes on their way to the server: kept, sent again, and undone; in Chromium with a real server."""

import shutil
import signal

import pytest

from tests.collection.pictures import column
from tests.web.conftest import FROM_PAGE, wait_until
from tests.web.page.conftest import N_PICTURES
from tests.web.page.grade_mode import (
    ALL,
    GRADE,
    open_ungraded,
    pressed,
    sorted_names,
    stored_grade,
    wait_for_grade,
    wait_for_picture,
)
from tests.web.page.locators import change_summary, expect, id_of_name, lose_response

GRADES = "**/api/v1/pictures/*/grade"


@pytest.fixture
def opened(writable_url, visit):
    page, names = open_ungraded(visit, writable_url)
    return page, writable_url, names


def n_unsent(page):
    keys = "() => Object.keys(localStorage).filter((key) => key.startsWith('ordrank unsent')).length"
    return page.evaluate(keys)


def grade_elsewhere(page, url, name, grade):
    """Give a grade as the same person, not on this page."""
    address = f"{url}api/v1/pictures/{id_of_name(page, url, name)}/grade"
    assert page.request.put(address, data={"grade": grade}, headers=FROM_PAGE).ok


def test_a_busy_slow_or_ending_server_makes_grades_wait(opened):
    page, url, names = opened
    page.errors.allow_status(408, 409, 503)
    errors = [(409, "busy"), (408, "too_slow"), (503, "unavailable")]

    def refuse(route):
        if not errors:
            return route.continue_()
        status, code = errors.pop(0)
        return route.fulfill(status=status, json={"error": {"code": code, "message": "pictures are being imported"}})

    page.route("**/api/v1/pictures/*/grade", refuse)
    page.keyboard.press("1")
    wait_for_picture(page, names[1])
    expect(page.locator("#unsent")).to_contain_text("1 change not stored yet. Pictures are being imported")
    wait_for_grade(page, url, names[0], "1")
    expect(page.locator("#unsent")).to_be_hidden()


def test_unsent_grades_survive_a_reload(opened):
    page, url, names = opened
    page.errors.allow_lost_connections()
    page.errors.allowed.append("net::ERR_FAILED")
    page.route("**/api/v1/pictures/*/grade", lambda route: route.abort())
    for i, grade in enumerate("210"):
        page.keyboard.press(grade)
        wait_for_picture(page, names[i + 1])
    page.keyboard.press("u")
    wait_for_picture(page, names[2])
    expect(page.locator("#unsent")).to_contain_text("2 changes not stored yet. The server does not respond")
    page.unroute_all()
    page.reload()
    wait_for_grade(page, url, names[0], "2")
    wait_for_grade(page, url, names[1], "1")
    assert stored_grade(page, url, names[2]) is None
    expect(page.locator("#unsent")).to_be_hidden()


def test_nothing_is_lost_when_the_server_is_killed(visit, serve, folder, tmp_path):
    """Grade all pictures by key, as fast as they appear, and kill the server with SIGKILL half-way."""
    collection = shutil.copytree(folder / "Redness", tmp_path / "Redness")
    server = serve(collection)
    url = f"{server.url}/"
    page = visit(url, GRADE, script=ALL)
    page.errors.allow_lost_connections()
    names = sorted_names(page, url)
    expected = {}
    for i, name in enumerate(names):
        wait_for_picture(page, name)
        expected[name] = float(i % 3)
        page.keyboard.press(str(i % 3))
        if i == N_PICTURES * 3 // 4:  # after the second page of the list has arrived
            page.wait_for_load_state("networkidle")
            server.end(signal.SIGKILL)
    expect(page.locator("#unsent")).to_contain_text("The server does not respond")
    serve(collection, port=server.port)
    expect(page.locator("#unsent")).to_be_hidden()
    wait_until(lambda: n_unsent(page) == 0)
    page.wait_for_load_state("networkidle")
    assert column(collection, "grade") == expected


def test_an_undo_whose_response_is_lost_is_not_repeated(opened):
    page, url, names = opened
    for i, grade in enumerate("12"):
        page.keyboard.press(grade)
        wait_for_picture(page, names[i + 1])
    wait_for_grade(page, url, names[1], "2")
    page.errors.allowed.append("net::ERR_FAILED")

    page.route("**/api/v1/grades/undo", lose_response, times=1)
    page.keyboard.press("u")
    wait_for_picture(page, names[1])
    wait_for_grade(page, url, names[1], None)
    expect(page.locator("#unsent")).to_be_hidden()
    wait_until(lambda: n_unsent(page) == 0)
    assert stored_grade(page, url, names[0]) == "1"


def test_undo_is_about_the_change_that_it_names(opened):
    page, url, names = opened
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    wait_for_grade(page, url, names[0], "2")
    grade_elsewhere(page, url, names[5], "1")
    page.keyboard.press("u")
    wait_for_grade(page, url, names[0], None)
    wait_until(lambda: n_unsent(page) == 0)
    assert stored_grade(page, url, names[5]) == "1"


def test_a_change_that_cannot_be_undone_any_more_is_shown_as_it_is(opened):
    page, url, names = opened
    page.errors.allow_status(409)
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    wait_for_grade(page, url, names[0], "2")
    grade_elsewhere(page, url, names[0], "1")
    page.keyboard.press("u")
    wait_for_picture(page, names[0])
    expect(page.locator("#alert")).to_contain_text(f"The grade of {names[0]} could not be undone: ")
    expect(pressed(page)).to_have_text("1")
    assert n_unsent(page) == 0
    assert stored_grade(page, url, names[0]) == "1"


def test_a_change_that_another_tab_is_sending_is_undone(opened):
    page, url, names = opened
    sent = []

    def hold_two(route):
        # No third one: storage reaches other tabs late, so that one may send again what the other has just sent.
        return sent.append(route) if len(sent) < 2 else route.continue_()

    other = page.context.new_page()
    other.route(GRADES, hold_two)
    other.goto(url + GRADE)
    wait_for_picture(other, names[0])
    other.keyboard.press("1")
    wait_until(lambda: other.wait_for_timeout(20) or len(sent) == 1)  # no other tab sends meanwhile
    page.keyboard.press("s")
    for i in (1, 2):
        wait_for_picture(page, names[i])
        page.keyboard.press("2")
    wait_until(lambda: n_unsent(other) == 3)
    sent[0].continue_()
    wait_until(lambda: other.wait_for_timeout(20) or len(sent) == 2)  # the tabs take turns
    page.keyboard.press("u")
    wait_for_picture(page, names[2])
    sent[1].continue_()
    wait_until(lambda: n_unsent(other) == 0)
    assert [stored_grade(page, url, name) for name in names[:3]] == ["1", "2", None]


def test_what_a_closed_tab_has_left_is_sent_by_another_one(opened):
    page, url, names = opened
    page.errors.allowed.append("net::ERR_FAILED")
    other = page.context.new_page()
    other.route(GRADES, lambda route: route.abort())
    other.goto(url + GRADE)
    wait_for_picture(other, names[0])
    other.keyboard.press("1")
    wait_until(lambda: n_unsent(page) == 1)
    other.close()
    wait_for_grade(page, url, names[0], "1")
    wait_until(lambda: n_unsent(page) == 0)


def test_a_question_about_a_grade_does_not_stop_other_tabs(opened):
    page, url, names = opened
    page.errors.allow_status(409)
    other = page.context.new_page()
    other.goto(url + GRADE)
    wait_for_picture(other, names[0])
    change_summary(page, grades=[{"grade": str(age), "value": age, "pictures": 1} for age in range(100)])
    wait_for_picture(page, names[0])
    page.keyboard.type("42")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alertdialog")).to_contain_text("no picture has the grade 42 yet")
    other.keyboard.press("s")
    wait_for_picture(other, names[1])
    other.keyboard.press("1")
    wait_for_grade(page, url, names[1], "1")
    expect(other.get_by_role("alertdialog")).to_have_count(0)
    page.get_by_role("button", name="Keep it").click()
    wait_for_grade(page, url, names[0], "42")
    wait_until(lambda: n_unsent(page) == 0)
    expect(other.get_by_role("alertdialog")).to_have_count(0)


def test_changes_are_sent_without_the_lock_of_the_browser(opened):
    page, url, names = opened
    page.evaluate("() => { navigator.locks.request = async () => { throw new DOMException('', 'SecurityError'); } }")
    for i in range(2):
        page.keyboard.press("1")
        wait_for_picture(page, names[i + 1])
        wait_for_grade(page, url, names[i], "1")


def test_a_grade_of_the_panel_comes_after_an_earlier_one_that_waits(opened):
    page, url, names = opened
    held = []
    page.route(GRADES, lambda route: route.continue_() if held else held.append(route))
    page.keyboard.press("1")
    wait_for_picture(page, names[1])
    wait_until(lambda: page.wait_for_timeout(20) or held)
    page.goto(f"{url}#chosen={id_of_name(page, url, names[0])}")
    page.get_by_label("Give a grade").fill("2")
    page.get_by_role("button", name="Save").click()
    page.wait_for_timeout(200)
    held[0].continue_()
    expect(page.get_by_text("Saved: grade 2.")).to_be_visible()
    wait_until(lambda: n_unsent(page) == 0)
    assert stored_grade(page, url, names[0]) == "2"


def test_changes_that_the_browser_cannot_keep_are_sent_all_the_same(writable_url, visit):
    page, names = open_ungraded(visit, writable_url)
    page.evaluate("() => { Storage.prototype.setItem = () => { throw new DOMException('', 'QuotaExceededError'); } }")
    page.errors.allowed.append("net::ERR_FAILED")
    page.route(GRADES, lambda route: route.abort())
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    expect(page.locator("#unsent")).to_contain_text("This browser cannot keep them: leave the page open")
    page.unroute_all()
    wait_for_grade(page, writable_url, names[0], "2")
    expect(page.locator("#unsent")).to_be_hidden()


def test_changes_of_an_earlier_page_do_not_wait_for_the_map(opened):
    page, url, names = opened
    page.errors.allow_status(500)
    page.errors.allowed.append("net::ERR_FAILED")
    page.route(GRADES, lambda route: route.abort())
    page.keyboard.press("2")
    wait_for_picture(page, names[1])
    page.unroute_all()
    page.route("**/api/v1/points*", lambda route: route.fulfill(status=500, json={}))
    page.goto(f"{url}?loaded-anew")
    expect(page.locator("#alert")).to_contain_text("500")
    wait_for_grade(page, url, names[0], "2")
