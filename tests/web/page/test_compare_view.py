"""Comparing two pictures by key and mouse, in Chromium with a real server."""

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.web.conftest import wait_until
from tests.web.page.grade_mode import remove_elsewhere
from tests.web.page.locators import change_summary, expect, wait_for_all_pictures

COMPARE = "#view=compare"


def shown_pair(page):
    return [page.locator(f"#compare-{side}-name").inner_text() for side in ("first", "second")]


def answer(page, action):
    """Do something that shows another pair; return the pair before it."""
    before = shown_pair(page)
    action()
    wait_until(lambda: shown_pair(page) != before)
    return before


def n_comparisons(page, url):
    return page.request.get(f"{url}api/v1/comparisons/next").json()["comparisons"]


@pytest.fixture
def opened(writable_url, visit):
    page = visit(writable_url, COMPARE)
    expect(page.locator("#compare-second-name")).not_to_be_empty()
    return page, writable_url


def ranked_names(page, url):
    return [item["picture"]["name"] for item in page.request.get(f"{url}api/v1/comparisons").json()["items"]]


def test_pairs_are_compared_by_key_and_ranked(opened):
    page, url = opened
    expect(page.locator("#compare-title")).to_have_text("Which has the higher grade?")
    compared = [answer(page, lambda: page.keyboard.press("ArrowLeft")) for _ in range(3)]
    assert all(first != second for first, second in compared)
    skipped = answer(page, lambda: page.keyboard.press("s"))
    for key in ("ArrowDown", "="):
        compared.append(answer(page, lambda key=key: page.keyboard.press(key)))
    assert skipped not in compared
    wait_until(lambda: n_comparisons(page, url) == 5)
    expect(page.locator("#compare-count")).to_have_text("5 compared in this session · 5 comparisons in all")
    expect(page.locator("#ranking-count")).to_have_text(str(len({name for pair in compared for name in pair})))
    ranked = ranked_names(page, url)
    expect(page.locator("#ranking li")).to_have_count(len(ranked))
    titles = page.locator("#ranking a").evaluate_all("(links) => links.map((link) => link.title)")
    assert [title.rpartition(":")[0] for title in titles] == ranked


def test_an_answer_counts_for_the_picture_that_was_chosen_and_can_be_undone(opened):
    page, url = opened
    names = answer(page, page.get_by_role("button", name="Right is higher").click)
    wait_until(lambda: ranked_names(page, url) == names)  # the right one is last
    page.keyboard.press("u")
    wait_until(lambda: shown_pair(page) == names)
    wait_until(lambda: n_comparisons(page, url) == 0)
    expect(page.locator("#compare-ranking")).to_be_hidden()
    answer(page, page.get_by_role("button", name="Left is higher").click)
    wait_until(lambda: ranked_names(page, url) == names[::-1])
    page.locator("#ranking a").first.click()
    expect(page.locator("#panel-title")).to_have_text(names[1])
    expect(page.locator("#list")).to_be_visible()
    page.go_back()
    expect(page.locator("#compare-pair")).to_be_visible()
    page.wait_for_load_state("networkidle")


def test_the_reason_is_hidden_until_asked_for(opened):
    page, _ = opened
    expect(page.locator("#compare-reason")).to_be_hidden()
    page.get_by_text("Why these two?").click()
    expect(page.locator("#compare-reason")).not_to_be_empty()


def test_the_question_names_the_ends_of_a_scale_of_words(writable_url, visit):
    page = visit(writable_url)
    wait_for_all_pictures(page)
    words = ["unripe", "ripe", "overripe"]
    change_summary(page, grades=[{"grade": word, "value": i, "pictures": 1} for i, word in enumerate(words)])
    page.goto(writable_url + COMPARE)
    expect(page.locator("#compare-title")).to_have_text("Which is further from unripe to overripe?")
    page.wait_for_load_state("networkidle")


def test_comparisons_wait_for_the_server(opened):
    page, url = opened
    page.errors.allowed.append("net::ERR_FAILED")

    def abort_post(route):
        if route.request.method == "POST":
            route.abort()
        else:
            route.continue_()

    page.route("**/api/v1/comparisons", abort_post)
    answer(page, lambda: page.keyboard.press("ArrowRight"))
    expect(page.locator("#unsent")).to_contain_text("1 change not stored yet")
    page.unroute_all()
    expect(page.locator("#unsent")).to_be_hidden()
    assert n_comparisons(page, url) == 1


def test_all_pairs_may_be_compared(opened):
    page, _ = opened
    page.route("**/api/v1/comparisons/next*", lambda route: route.fulfill(json={"pair": None, "comparisons": 7}))
    for _ in range(2):  # to the pairs that were fetched before
        answer(page, lambda: page.keyboard.press("s"))
    page.keyboard.press("s")
    expect(page.get_by_text("No more pairs to compare for now.")).to_be_visible()
    page.unroute_all()
    page.get_by_role("button", name="Look again").click()
    expect(page.locator("#compare-pair")).to_be_visible()


def test_a_picture_that_was_removed_elsewhere_is_compared_no_more(opened):
    page, url = opened
    page.errors.allow_status(404)
    _, second = shown_pair(page)
    remove_elsewhere(page, url, second)
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#alert")).to_contain_text(f"{second} was removed from the collection.")
    wait_until(lambda: second not in shown_pair(page))
    expect(page.locator("#compare-count")).to_have_text("0 comparisons in all")
    page.keyboard.press("u")
    expect(page.locator("#status")).to_have_text("There is nothing to undo on this page.")


def test_a_long_ranking_shows_both_ends(opened):
    page, url = opened
    picture = page.request.get(f"{url}api/v1/pictures/1").json()

    def fulfill(route):
        query = parse_qs(urlsplit(route.request.url).query)
        offset, limit = int(query["offset"][0]), int(query["limit"][0])
        others = {"deviation": 1.0, "grade": None, "comparisons": 1}
        items = [{"picture": picture, "value": float(i), **others} for i in range(1523)[offset : offset + limit]]
        route.fulfill(json={"total": 1523, "items": items})

    page.route("**/api/v1/comparisons?*", fulfill)
    page.reload()
    expect(page.locator("#ranking-about")).to_have_text("The 100 lowest and the 100 highest of the compared pictures.")
    expect(page.locator("#ranking-count")).to_have_text("1,523")
    expect(page.locator("#ranking li")).to_have_count(201)
    for place, text in (
        (0, "0.0 ± 1.0"),
        (99, "99.0 ± 1.0"),
        (100, "1,323 more"),
        (101, "1423.0 ± 1.0"),
        (200, "1522.0 ± 1.0"),
    ):
        expect(page.locator("#ranking li").nth(place)).to_contain_text(text)
    page.unroute_all()


def test_arrow_keys_scroll_the_ranking_that_has_the_focus(opened):
    page, url = opened
    answer(page, lambda: page.keyboard.press("ArrowLeft"))
    expect(page.locator("#ranking")).to_be_visible()
    page.locator("#ranking").focus()
    before = shown_pair(page)
    page.keyboard.press("ArrowRight")
    page.locator("#ranking a").first.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_load_state("networkidle")
    assert shown_pair(page) == before
    assert n_comparisons(page, url) == 1


def test_a_key_shows_the_full_size_of_both_pictures(opened):
    page, url = opened
    stages, before = page.locator("#compare-pair .stage"), shown_pair(page)
    page.keyboard.press("z")
    expect(page.locator("#compare-pair .stage.zoomed")).to_have_count(2)
    expect(stages.first).to_be_focused()
    page.keyboard.press("ArrowRight")  # moves the picture
    page.keyboard.press("z")
    expect(page.locator("#compare-pair .stage.zoomed")).to_have_count(0)
    assert shown_pair(page) == before
    assert n_comparisons(page, url) == 0
