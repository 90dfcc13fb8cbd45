"""Committed results, and the tables of the documents that quote them; documents are found by content."""

import json
from functools import cache
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "benchmarks" / "results"
README = ROOT / "README.md"


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
