"""Messages of a training that does not succeed, in Chromium with a real server."""

import json

import pytest

from tests.web.page.locators import change_summary, expect, wait_for_all_pictures


def fulfill_training(page, start, *states):
    """Let the page start a training, with an error or none, and get these states; the last one again and again."""
    remaining = list(states)

    def fulfill(route):
        if route.request.method == "POST":
            status, body = start
        else:
            status, body = 200, remaining.pop(0) if len(remaining) > 1 else remaining[0]
        route.fulfill(status=status, body=json.dumps(body), content_type="application/json")

    page.route("**/api/v1/training", fulfill)


def state(name, message=""):
    return {"state": name, "message": message, "done": 0, "total": 0}


@pytest.mark.parametrize(
    ("start", "states", "message"),
    [
        ((202, state("running")), [state("failed", "the disk is full")], "the disk is full"),
        ((202, state("running")), [state("running"), state("idle")], "The training was interrupted"),
        ((409, {"error": {"code": "collection", "message": "no process left"}}), [state("idle")], "no process left"),
    ],
    ids=["failed", "interrupted", "not started"],
)
def test_the_message_of_a_training_that_does_not_succeed_stays(visit, url, start, states, message):
    page = visit(url)
    page.errors.allow_status(409)
    change_summary(page, changed=1)
    wait_for_all_pictures(page)
    fulfill_training(page, start, *states)
    page.get_by_role("button", name="Train again").click()
    expect(page.locator("#alert")).to_contain_text(message)
    expect(page.locator("#busy")).to_have_attribute("data-tasks", "0")
    expect(page.locator("#alert")).to_contain_text(message)
    expect(page.locator("#status")).not_to_have_text("Training finished.")
    expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
    page.unroute_all()


def test_a_training_is_followed_when_the_server_is_back(visit, url):
    page = visit(url)
    page.errors.allowed.append("net::ERR_FAILED")
    change_summary(page, changed=1)
    wait_for_all_pictures(page)
    fulfill_training(page, (202, state("running")), state("running", "Reading"), state("running", "Learning"))
    page.get_by_role("button", name="Train again").click()
    expect(page.locator("#training-text")).to_have_text("Learning")
    page.route("**/api/v1/training", lambda route: route.abort())
    expect(page.locator("#training-text")).to_have_text("The server does not respond. Asking it again…")
    fulfill_training(page, None, state("running", "Learning"), state("done"))
    expect(page.locator("#training-text")).to_have_text("1 grade changed since the last training")
    expect(page.locator("#alert")).to_be_empty()
    page.unroute_all()
