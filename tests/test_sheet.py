"""The sheet of answers: what it says, and that nobody's names can make it say anything else."""

import re
from html.parser import HTMLParser

import pytest

from ordrank._types import Answer, RankedPicture, Vote
from ordrank.sheet import MANY_GRADES, STYLE, answer_sheet

JPEG = b"\xff\xd8 not looked into \xff\xd9"
NASTY = "<script>alert(1)</script>\n\"quoted\" 'twice' & 🍎"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Elements with their attributes, texts by class, and a complaint about every tag that is not closed in turn."""

    def __init__(self, content):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(content.decode())
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append((tag, dict(attrs).get("class") or ""))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.texts.append(([name for _, name in self.open], data))

    def tags(self, wanted):
        return [attributes for tag, attributes in self.elements if tag == wanted]

    def text_of(self, name):
        """Texts directly or deeper inside elements of a class."""
        return [text for classes, text in self.texts if name in classes]

    def text(self):
        return " ".join(text for _, text in self.texts)


def ranked(name="a.jpg", grade="3", *, estimated=False, order=0.3, appearance=0.4):
    distance = (order**2 + appearance**2) ** 0.5
    return RankedPicture(name, grade, estimated, distance, order, appearance, JPEG)


def answer(query="query.jpg", grade="3", known=None, votes=None, results=None):
    votes = votes or (Vote("1", 0.0), Vote("2", 0.002), Vote("3", 0.748), Vote("4", 0.25))
    return Answer(query, JPEG, grade, 3.0, known, votes, (ranked(),) if results is None else tuple(results))


def sheet(*answers, collection="fruit"):
    return Page(answer_sheet(answers, collection=collection))


def test_names_are_shown_and_never_obeyed():
    nasty = answer(NASTY, NASTY, NASTY, (Vote(NASTY, 1.0),), [ranked(NASTY, NASTY, estimated=True)])
    page = sheet(nasty, collection=NASTY)
    assert page.tags("script") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.text().count("<script>alert(1)</script>") == 8  # title, heading, query, two grades, vote, result twice
    assert {image["alt"] for image in page.tags("img")} == {f"query {NASTY}", NASTY}


def test_names_in_columns_are_escaped_too():
    votes = tuple(Vote(f"{NASTY}{i}", 1 / 300) for i in range(300))
    page = sheet(answer(votes=votes))
    assert page.tags("script") == []
    assert "votes, up to <1\u00a0% a grade" in page.text()


def test_names_of_files_that_are_not_text():
    assert b"caf?.jpg" in answer_sheet([answer("caf\udce9.jpg")], collection="fruit")


def test_nothing_comes_from_outside():
    content = answer_sheet([answer()], collection="fruit")
    page = Page(content)
    guard = {"http-equiv": "Content-Security-Policy"}
    guard["content"] = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert guard in page.tags("meta")
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in page.tags("img"))
    assert not re.search(rb"https?:|//|url\(|@import|<link|<iframe|href", content)


def test_every_picture_and_chart_has_words():
    page = sheet(answer(), answer(votes=tuple(Vote(str(i), 0.01) for i in range(100))))
    assert all(image["alt"] for image in page.tags("img"))
    charts = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(charts) == 4
    assert all(chart["aria-label"] for chart in charts)


def test_votes_are_in_their_order_with_their_shares():
    page = sheet(answer())
    shares = ["0\u00a0%", "<1\u00a0%", "75\u00a0%", "25\u00a0%"]
    assert page.text_of("share") == shares
    assert page.text_of("vote chosen") == ["3", "75\u00a0%"]
    labels = [attributes.get("aria-label", "") for attributes in page.tags("div")]
    told = ", ".join(f"{grade}: {share}" for grade, share in zip("1234", shares, strict=True))
    assert f"Votes for each grade: {told}" in labels


@pytest.mark.parametrize("n_grades", [MANY_GRADES + 1, 70])
def test_many_grades_are_columns_that_name_themselves(n_grades):
    votes = tuple(Vote(str(i), 1 / n_grades) for i in range(n_grades))
    page = sheet(answer(votes=votes))
    assert len(page.tags("rect")) == n_grades
    assert page.text_of("chosen") == [f"3: {1 / n_grades:.0%}".replace("%", "\u00a0%")]
    assert page.text_of("ends") == ["0", str(n_grades - 1)]
    assert all(f"{i}: " in page.tags("svg")[0]["aria-label"] for i in range(n_grades))


def test_grades_of_the_query():
    assert sheet(answer(grade="7", known="5")).text_of("facts") == ["estimated grade", "7", "known grade", "5"]
    assert sheet(answer(grade="moderate")).text_of("facts") == ["estimated grade", "moderate"]


def test_ranks_are_in_order_and_estimates_are_marked():
    page = sheet(answer(results=[ranked("a"), ranked("b", "4", estimated=True), ranked("c", appearance=300.0)]))
    assert page.text_of("rank")[1::2] == ["1", "2", "3"]
    assert page.text_of("name") == ["a", "b", "c"]
    assert page.text_of("grade") == ["3", "≈ ", "4", "3"]
    assert page.text_of("distance")[1::2] == ["0.500", "0.500", "300"]
    assert [span["title"] for span in page.tags("span") if "title" in span] == ["estimated, not given"]
    assert "≈ marks a grade that was estimated" in page.text()
    assert "≈" not in sheet(answer()).text()


def test_parts_of_the_distance():
    near, far = ranked(order=0.3, appearance=0.4), ranked(order=0.0, appearance=1.0)
    page = sheet(answer(results=[ranked(order=0.0, appearance=0.0), near, far]))
    bars = [div for div in page.tags("div") if div.get("class") == "parts"]
    assert bars[1]["aria-label"] == "order 0.300, appearance 0.400"
    widths = [span["style"] for span in page.tags("span") if span.get("style") and span.get("class") != "bar"]
    assert widths[3:6] == ["width:50.0%", "width:36.0%", "width:64.0%"]
    assert widths[0] == "width:0.0%"
    assert widths[6] == "width:100.0%"


def test_one_result_none_and_no_query():
    assert "The nearest picture" in sheet(answer()).text_of("")
    assert "The 2 nearest pictures" in sheet(answer(results=[ranked(), ranked()])).text()
    nothing = sheet(answer(results=()))
    assert "No picture qualifies." in nothing.text()
    assert nothing.tags("ol") == []
    assert nothing.text_of("key") == []
    assert "1 query" in nothing.text()
    assert "2 queries" in sheet(answer(), answer()).text()
    assert "no queries" in sheet().text()


def channel(value):
    value /= 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def luminance(colour):
    red, green, blue = (channel(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first, second):
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_contrast_is_enough_for_text_and_for_shapes(scheme):
    roots = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", roots[scheme]))
    for ground in ("paper", "card"):
        assert all(contrast(colours[text], colours[ground]) >= 4.5 for text in ("ink", "quiet"))
        assert all(contrast(colours[shape], colours[ground]) >= 3 for shape in ("bar", "order", "appearance"))
