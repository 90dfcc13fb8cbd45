"""Fixtures that read a CSV file from text."""

import pytest

from ordrank.collection.ingest.grades_csv import read_grades
from ordrank.errors import GradesError

KNOWN = ("a.jpg", "b.jpg", "sub/c.jpg")
LEVELS = ("mild", "moderate", "severe")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "grades.csv"


@pytest.fixture
def read(file):
    """A function that reads grades from text or bytes."""

    def read_content(content, known=KNOWN, **options):
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_grades(file, known, **options).grades

    return read_content


@pytest.fixture
def problems(read):
    """A function that returns the problems of text or bytes, and checks that the message lists them."""

    def list_problems(content, known=KNOWN, **options):
        with pytest.raises(GradesError) as error:
            read(content, known, **options)
        found, lines = error.value.problems, str(error.value).split("\n")
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        assert lines[0].endswith(f"grades.csv has {count}:")
        assert tuple(lines[1 : 1 + min(len(found), 50)]) == found[:50]
        return list(found)

    return list_problems
