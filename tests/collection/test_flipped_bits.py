"""A changed bit in a file of a collection changes no answer: it is the same, or an error that names the damage."""

import re
import shutil
from functools import partial

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import write_ahead_log
from ordrank.errors import CollectionError
from tests.collection.conftest import N_PICTURES

_DAMAGED = re.compile(r"^\S+( is|: its collection\.sqlite is) (damaged|missing|not a database)[^\n]*$")


@pytest.fixture
def graded(trained, tmp_path):
    """The trained collection with something of all that people say about pictures, as a process leaves it when killed.

    A part of this is in the database and the rest in the write-ahead log.
    """
    with Collection.open(trained) as collection:
        collection.labeling.grade(["001.png", "002.png"], 0, grader="Ann")
        collection.labeling.compare("005.png", "006.png", 1, grader="Ann")
    with Collection.open(trained) as collection:
        collection.info()
        collection.labeling.grade(["001.png", "003.png"], 1, grader="Ben")
        collection.labeling.confirm("002.png")
        copied = shutil.copytree(trained, tmp_path / "graded")
    assert (copied / "collection.sqlite-wal").stat().st_size
    return copied


def answers(directory, out):
    """Return what a collection answers to each question; None for an error that says that a file is damaged."""
    questions = (
        Collection.info,
        lambda opened: (opened.export(out), out.read_text()),
        lambda opened: opened.rank("005.png", k=5),
        lambda opened: [opened.files.thumbnail(picture) for picture in range(1, N_PICTURES + 1)],
        lambda opened: [opened.labeling.grades_of(name) for name in ("001.png", "002.png", "003.png")],
        lambda opened: opened.labeling.compared(),
        lambda opened: (opened.remove(["00[1-4].png"]), opened.pictures()),
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


def answers_of_copy(graded, copied, flipped=None):
    """Return the answers of a copy of a collection in which a bit is flipped, as a new process would get them."""
    shutil.copytree(graded, copied)
    write_ahead_log._checked.clear()
    if flipped is not None:
        name, position, bit = flipped
        damaged = bytearray((copied / name).read_bytes())
        damaged[position] ^= 1 << bit
        (copied / name).write_bytes(damaged)
    found = answers(copied, copied.with_name("out.csv"))
    shutil.rmtree(copied)
    return found


@pytest.mark.parametrize(("n_flips", "seed"), [(60, 0), pytest.param(1000, 4, marks=pytest.mark.slow)])
def test_a_changed_bit_is_noticed_or_changes_nothing(graded, tmp_path, n_flips, seed):
    """A flip would be silent if an answer were neither that of the intact collection nor an error about damage."""
    copied, rng = tmp_path / "copied", np.random.default_rng(seed)
    sizes = {file.name: file.stat().st_size for file in sorted(graded.iterdir())}
    shares = np.array([*sizes.values()]) / sum(sizes.values())
    expected, n_noticed, silent = answers_of_copy(graded, copied), 0, []
    assert None not in expected
    for _ in range(n_flips):
        name = str(rng.choice([*sizes], p=shares))
        flipped = (name, int(rng.integers(sizes[name])), int(rng.integers(8)))
        found = answers_of_copy(graded, copied, flipped)
        n_noticed += None in found
        if any(one is not None and one != other for one, other in zip(found, expected, strict=True)):
            silent.append(flipped)
    assert silent == []
    assert n_noticed > n_flips / 10
    assert answers_of_copy(graded, copied) == expected
