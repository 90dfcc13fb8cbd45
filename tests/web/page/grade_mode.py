"""The mode in which pictures are graded one after another: its parts, and the grades that the server has."""

from tests.web.conftest import FROM_PAGE, wait_until
from tests.web.page.locators import expect, id_of_name

GRADE = "#view=grade"
BY_NAME = """localStorage.setItem("ordrank order", '"ungraded"')"""
ALL = """localStorage.setItem("ordrank order", '"all"')"""


def title(page):
    return page.locator("#grade-title")


def buttons(page):
    return page.locator("#grade-buttons button")


def pressed(page):
    return page.locator("#grade-buttons [aria-pressed=true] bdi")


def remove_elsewhere(page, url, name):
    """Remove a picture from the collection, not on this page."""
    data = {"pictures": [id_of_name(page, url, name)]}
    assert page.request.post(f"{url}api/v1/removals", data=data, headers=FROM_PAGE).ok


def names_without_grade(page, url):
    pictures = page.request.get(f"{url}api/v1/pictures?given=false&sort=name&limit=200").json()["items"]
    return [picture["name"] for picture in pictures]


def stored_grade(page, url, name):
    pictures = page.request.get(f"{url}api/v1/pictures?limit=200").json()["items"]
    return next(picture["grade"] for picture in pictures if picture["name"] == name)


def wait_for_grade(page, url, name, grade):
    wait_until(lambda: stored_grade(page, url, name) == grade)


def wait_for_picture(page, name):
    expect(title(page)).to_have_text(name)


def sorted_names(page, url):
    pictures = page.request.get(f"{url}api/v1/pictures?sort=name&limit=200").json()["items"]
    return [picture["name"] for picture in pictures]


def open_ungraded(visit, url):
    """Open the mode with the first picture without a grade; return the page and the names of these in order."""
    page = visit(url, GRADE, script=BY_NAME)
    names = names_without_grade(page, url)
    wait_for_picture(page, names[0])
    return page, names
