"""The HTML report: its content, escaping, self-containment and accessibility."""

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.collection.html_report import GENERATOR, MAX_ROWS, render_report
from ordrank.collection.types import GradeProbability, RankedPicture, RankResult
from ordrank.errors import CollectionError
from tests.collection.pictures import draw

JPEG = b"\xff\xd8 never decoded \xff\xd9"
NASTY = "<script>alert(1)</script>\n\"quoted\" 'twice' & 🍎"
VOID = {"meta", "img"}


class Page(HTMLParser):
    """Elements with their attributes, and texts with the classes around them; asserts that tags are well nested."""

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
        if data.strip():
            self.texts.append(([name for _, name in self.open], data))

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]

    def text_of(self, name):
        """Texts directly or deeper inside elements of a class."""
        return [text for classes, text in self.texts if name in classes]

    def text(self):
        return " ".join(text for _, text in self.texts)


def hit(name="a.jpg", grade="3", *, number=7, estimated=False, order=0.3, appearance=0.4):
    distance = (order**2 + appearance**2) ** 0.5
    return RankedPicture(number, name, grade, estimated, distance, order, appearance)


def distribution(*probabilities, first=1):
    return tuple(GradeProbability(str(grade), each) for grade, each in enumerate(probabilities, start=first))


def rank_result(query="query.jpg", grade="3", known=None, probabilities=None, hits=None, *, interval=None, novelty=0.5):
    probabilities = probabilities or distribution(0.0, 0.002, 0.748, 0.25)
    hits = (hit(),) if hits is None else tuple(hits)
    return RankResult(
        query=query,
        id=None,
        grade=grade,
        value=3.0,
        lowest=interval[0] if interval else grade,
        highest=interval[1] if interval else grade,
        known_grade=known,
        probabilities=probabilities,
        novelty=novelty,
        position=None,
        total=len(hits),
        hits=hits,
        thumbnail=JPEG,
    )


def render(*results, collection="fruit"):
    return render_report(results, {7: JPEG}, collection=collection)


def page_of(*results, collection="fruit"):
    return Page(render(*results, collection=collection))


def test_names_are_escaped():
    nasty = rank_result(NASTY, NASTY, NASTY, (GradeProbability(NASTY, 1.0),), [hit(NASTY, NASTY, estimated=True)])
    page = page_of(nasty, collection=NASTY)
    assert page.tags("script") == []
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert page.text().count("<script>alert(1)</script>") == 10
    # title, heading, query, estimate, explanation twice, known grade, probability, hit twice
    assert {image["alt"] for image in page.tags("img")} == {f"query {NASTY}", NASTY}


def test_names_in_columns_are_escaped():
    probabilities = tuple(GradeProbability(f"{NASTY}{i}", 1 / 300) for i in range(300))
    page = page_of(rank_result(grade=f"{NASTY}7", probabilities=probabilities))
    assert page.tags("script") == []
    assert "Probability of each grade, up to <1\u00a0%" in page.text()


def test_names_may_be_invalid_unicode():
    assert b"caf?.jpg" in render(rank_result("caf\udce9.jpg", hits=[hit("caf\udce9.jpg")]))


def test_page_is_self_contained():
    content = render(rank_result())
    page = Page(content)
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert {"http-equiv": "Content-Security-Policy", "content": policy} in page.tags("meta")
    assert page.tags("script") == []
    assert all(image["src"].startswith("data:image/jpeg;base64,") for image in page.tags("img"))
    assert not re.search(rb"https?:|//|url\(|@import|<link|<iframe|href", content)


def test_generator_is_within_the_first_bytes():
    assert GENERATOR.encode() in render(rank_result(), collection="long name" * 1000)[:1000]


def test_every_hit_has_its_own_thumbnail():
    hits = [hit("b", number=2), hit("a", number=1)]
    page = Page(render_report([rank_result(hits=hits)], {1: b"first", 2: b"second"}, collection="fruit"))
    shown = [base64.b64decode(image["src"].partition(",")[2]) for image in page.tags("img")]
    assert shown == [JPEG, b"second", b"first"]


def test_images_and_charts_have_text_alternatives():
    page = page_of(rank_result(), rank_result(probabilities=distribution(*[0.01] * 100)))
    assert all(image["alt"] for image in page.tags("img"))
    charts = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    assert len(charts) == 4
    assert all(chart["aria-label"] for chart in charts)


def test_probabilities_are_shown_in_the_order_of_grades():
    page = page_of(rank_result(interval=("2", "4")))
    percents = ["0\u00a0%", "<1\u00a0%", "75\u00a0%", "25\u00a0%"]
    assert page.text_of("percent") == percents
    labels = [attributes.get("aria-label", "") for attributes in page.tags("div")]
    label = ", ".join(f"{grade}: {percent}" for grade, percent in zip("1234", percents, strict=True))
    assert f"Probability of each grade: {label}. Middle estimate: 3. 90 % interval: 2 to 4." in labels


def test_the_median_and_the_interval_are_marked():
    page = page_of(rank_result(interval=("3", "4")))
    assert page.text_of("probability inside middle") == ["3", "75\u00a0%", "◀ middle"]
    assert page.text_of("probability inside") == ["4", "25\u00a0%"]
    assert len(page.text_of("probability")) == 4
    columns = page_of(rank_result(probabilities=distribution(*[0.05] * 20), interval=("2", "5")))
    (band,) = (rect for rect in columns.tags("rect") if rect.get("class") == "band")
    assert (band["x"], band["width"]) == ("1", "4")


@pytest.mark.parametrize("n_grades", [MAX_ROWS + 1, 70])
def test_probabilities_of_many_grades_are_columns_with_titles(n_grades):
    page = page_of(rank_result(probabilities=distribution(*[1 / n_grades] * n_grades, first=0)))
    assert len(page.tags("rect")) == n_grades + 1  # the interval
    assert page.text_of("middle") == [f"3: {1 / n_grades:.0%}".replace("%", "\u00a0%")]
    assert page.text_of("ends") == ["0", str(n_grades - 1)]
    assert all(f"{i}: " in page.tags("svg")[0]["aria-label"] for i in range(n_grades))


def test_estimated_and_known_grade_of_the_query():
    result = rank_result(grade="3", known="4", interval=("2", "4"))
    assert page_of(result).text_of("facts") == [
        "estimate without the known grade", "3", " (2–4)", result.explanation, "known grade", "4"
    ]  # fmt: skip
    words = rank_result(grade="moderate", probabilities=(GradeProbability("moderate", 1.0),))
    assert page_of(words).text_of("facts") == ["estimate", "moderate", words.explanation]


def test_a_novel_query_has_a_remark_instead_of_the_explanation():
    result = rank_result(novelty=0.001)
    page = page_of(result)
    assert page.text_of("remark") == [result.explanation]
    assert "Unlike anything in this collection" in result.explanation
    assert page.text_of("explanation") == []
    assert page.text_of("estimate doubtful") == ["3"]
    assert "estimate, unreliable" in page.text_of("facts")
    assert page.text_of("chart doubtful")
    for novelty in (None, 0.5):
        assert page_of(rank_result(novelty=novelty)).text_of("remark") == []


def test_hits_are_in_rank_order_and_estimates_are_marked():
    page = page_of(rank_result(hits=[hit("a"), hit("b", "4", estimated=True), hit("c", appearance=300.0)]))
    assert page.text_of("rank")[1::2] == ["1", "2", "3"]
    assert page.text_of("name") == ["a", "b", "c"]
    assert page.text_of("grade") == ["3", "≈ ", "4", "3"]
    assert page.text_of("distance")[1::2] == ["0.500", "0.500", "300"]
    assert [span["title"] for span in page.tags("span") if "title" in span] == ["estimated, not given"]
    assert "≈ marks a grade that was estimated" in page.text()
    assert "≈" not in page_of(rank_result()).text()


def test_bars_show_the_distance_and_its_parts():
    near, far = hit(order=0.3, appearance=0.4), hit(order=0.0, appearance=1.0)
    page = page_of(rank_result(hits=[hit(order=0.0, appearance=0.0), near, far]))
    bars = [div for div in page.tags("div") if div.get("class") == "parts"]
    assert bars[1]["aria-label"] == "order 0.300, appearance 0.400"
    widths = [span["style"] for span in page.tags("span") if span.get("style") and span.get("class") != "bar"]
    assert widths[3:6] == ["width:50.0%", "width:36.0%", "width:64.0%"]
    assert widths[0] == "width:0.0%"
    assert widths[6] == "width:100.0%"


def test_headings_match_the_number_of_hits_and_queries():
    assert "The nearest picture" in page_of(rank_result()).text_of("")
    assert "The 2 nearest pictures" in page_of(rank_result(hits=[hit(), hit()])).text()
    empty = page_of(rank_result(hits=()))
    assert "No picture matches." in empty.text()
    assert empty.tags("ol") == []
    assert empty.text_of("legend") == []
    assert "1 query" in empty.text()
    assert "2 queries" in page_of(rank_result(), rank_result()).text()
    assert "no queries" in page_of().text()


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
def test_contrast_meets_wcag_aa(scheme):
    roots = re.findall(r":root \{(.*?)\}", render().decode(), re.DOTALL)
    colours = dict(re.findall(r"--(\w+): (#\w{6})", roots[scheme]))
    for background in ("background", "card"):
        assert all(contrast(colours[text], colours[background]) >= 4.5 for text in ("foreground", "muted"))
        assert all(contrast(colours[shape], colours[background]) >= 3 for shape in ("bar", "order", "appearance"))
    assert contrast(colours["warning"], colours["caution"]) >= 4.5
    assert all(contrast(colours[text], colours["band"]) >= 4.5 for text in ("foreground", "muted"))


@pytest.mark.parametrize(
    ("queries", "shown"),
    [
        (["{}/a.png"], ["a.png"]),
        (["{}/x/a.png", "{}/y/a.png", "005.png"], ["x/a.png", "y/a.png", "005.png"]),
        (["{}/a.png", "{}/x/a.png"], ["a.png", "x/a.png"]),
    ],
)
def test_no_absolute_path_is_written(trained, tmp_path, queries, shown):
    files = [query.format(tmp_path) for query in queries]
    for number, file in enumerate(map(Path, files)):
        if file.is_absolute():
            file.parent.mkdir(exist_ok=True)
            draw(90 + number).save(file)
    with Collection.open(trained) as collection:
        collection.write_report(collection.rank_all(files), tmp_path / "report.html")
    page = Page((tmp_path / "report.html").read_bytes())
    assert str(tmp_path) not in (tmp_path / "report.html").read_text()
    assert f"Results from {trained.name}" in page.text_of("")
    assert [image["alt"] for image in page.tags("img") if image["alt"].startswith("query ")] == [
        f"query {name}" for name in shown
    ]


def test_a_thumbnail_that_is_no_jpeg_is_not_written(trained, tmp_path):
    with write_store(trained) as store, store.transaction() as cursor:
        cursor.execute("UPDATE thumbnails SET jpeg = ?", (b"<svg/>",))
    with Collection.open(trained) as collection, pytest.raises(CollectionError, match="a thumbnail is not a JPEG"):
        collection.write_report(collection.rank_all(["005.png"]), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
