"""A changed bit in a file of a collection changes no answer: it is the same, or an error that names the damage."""

import re
from functools import partial

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.errors import CollectionError
from tests.collection.conftest import N_PICTURES

_DAMAGED = re.compile(r"^\S+( is|: its collection\.sqlite is) (damaged|missing|not a database)[^\n]*$")


@pytest.fixture
def graded(trained):
    """The trained collection with something of all that people say about pictures."""
    with Collection.open(trained) as collection:
        collection.labeling.grade(["001.png", "002.png"], 0, grader="Ann")
        collection.labeling.grade(["001.png", "003.png"], 1, grader="Ben")
        collection.labeling.compare("005.png", "006.png", 1, grader="Ann")
        collection.labeling.confirm("002.png")
    with write_store(trained):  # the last connection that is closed moves the write-ahead log into the database
        pass
    return trained


def answers(directory, out):
    """Return what a collection answers to each question; None for an error that says that a file is damaged."""
    questions = (
        Collection.info,
        lambda opened: (opened.export(out), out.read_bytes()),
        lambda opened: opened.rank("005.png", k=5),
        lambda opened: [opened.files.thumbnail(picture) for picture in range(1, N_PICTURES + 1)],
        lambda opened: [opened.labeling.grades_of(name) for name in ("001.png", "002.png", "003.png")],
        lambda opened: opened.labeling.compared(),
    )
    try:
        with Collection.open(directory) as opened:
            return [_answer(partial(question, opened)) for question in questions]
    except CollectionError as error:
        return [_described(error)] * len(questions)


def _answer(question):
    try:
        return question()
    except CollectionError as error:
        return _described(error)


def _described(error):
    return None if _DAMAGED.search(str(error)) else str(error)


@pytest.mark.parametrize("n_flips", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_changed_bit_is_noticed_or_changes_nothing(graded, tmp_path, n_flips):
    files = sorted(path for path in graded.iterdir() if not path.name.startswith("writer.lock"))
    sizes, rng = [file.stat().st_size for file in files], np.random.default_rng(0)
    expected, n_noticed, silent = answers(graded, tmp_path / "out.csv"), 0, []
    for flip in range(n_flips):
        file = files[rng.choice(len(files), p=np.array(sizes) / sum(sizes))]
        intact = file.read_bytes()
        position, bit = int(rng.integers(len(intact))), int(rng.integers(8))
        damaged = bytearray(intact)
        damaged[position] ^= 1 << bit
        file.write_bytes(damaged)
        found = answers(graded, tmp_path / "out.csv")
        file.write_bytes(intact)
        n_noticed += None in found
        if any(one is not None and one != other for one, other in zip(found, expected, strict=True)):
            silent.append((flip, file.name, position, bit))
    assert silent == []
    assert n_noticed > n_flips / 10
    assert answers(graded, tmp_path / "out.csv") == expected
