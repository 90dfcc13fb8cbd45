"""Committed results, and the tables and numbers of the documents that quote them.

Tables are found by content. A number in the text is followed by a comment with its source, the name of a file of
results and a JMESPath expression (https://jmespath.org):

    the lowest mean in 16<!-- compare: summary.lowest --> conditions
"""

import json
import re
from functools import cache
from itertools import groupby
from pathlib import Path

import jmespath

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "benchmarks" / "results"
README = ROOT / "README.md"


# A number, the name of a file of results, an expression, and a percent sign after it.
QUOTED_NUMBER = re.compile(r"(-?[\d,]*\.?\d+)<!--\s*(\w+):\s*(.+?)\s*-->(\s*%)?", re.DOTALL)


@cache
def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@cache
def documents():
    """Text of the README and of all pages, by path."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
    return {page: page.read_text() for page in (README, *pages)}


def tables(text):
    """Bodies of Markdown tables: lists of rows of cells, without bold type."""
    lines = (line.strip().replace("**", "") for line in text.splitlines())
    for is_table, block in groupby(lines, key=lambda line: line.startswith("|")):
        if is_table:
            rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in block]
            yield rows[2:]  # below the header and the rule


def matches(row, expected):
    """Whether a row has the expected cells; None stands for any text, such as a label."""
    return len(row) == len(expected) and all(b is None or a == b for a, b in zip(row, expected, strict=True))


def document_with(expected):
    """Text of a document with an expected row in a table."""
    for text in documents().values():
        if any(matches(row, expected) for table in tables(text) for row in table):
            return text
    raise AssertionError(f"no document has a table row {expected}")


def assert_quoted(rows):
    """Every expected row is in a table of some document."""
    everywhere = [row for text in documents().values() for table in tables(text) for row in table]
    missing = [row for row in rows if not any(matches(found, row) for found in everywhere)]
    assert not missing


def unexpected_rows(rows):
    """Rows that are not expected, of all tables in which another row is."""
    for text in documents().values():
        for table in tables(text):
            unexpected = [found for found in table if not any(matches(found, row) for row in rows)]
            if len(unexpected) < len(table):
                yield from unexpected


def quoted_numbers(text):
    """Numbers of a text with their source: as shown, and as they must be shown with as many digits."""
    for shown, name, expression, percent in QUOTED_NUMBER.findall(text):
        value = jmespath.search(" ".join(expression.split()), results(name))
        assert isinstance(value, (int, float)), f"{name}: {expression} is {value!r}, not a number"
        decimals = len(shown.partition(".")[2])
        commas = "," if "," in shown else ""
        expected = f"{100 * value if percent else value:{commas}.{decimals}f}"
        yield shown, expected.replace("0.", ".", 1) if shown.startswith(".") else expected
