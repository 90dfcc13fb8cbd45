"""Collections as a stranger may craft them: the schema is right, the values are not."""

import hashlib
import json
import os
import signal
import sqlite3
from contextlib import closing, contextmanager, suppress

import numpy as np
import pytest
from safetensors.numpy import load, save

from ordrank import Collection
from ordrank.collection import checksums
from ordrank.collection.database import DATABASE
from tests.collection.pictures import draw

INFINITE = "9e999"  # as SQLite writes it
DEEP = "[" * 100_000


def execute(*statements):
    """A change of the database, with checksums of the new values; foreign keys are not checked."""

    def change(collection):
        with closing(sqlite3.connect(collection / DATABASE)) as database, database:
            for statement in statements:
                database.execute(*((statement,) if isinstance(statement, str) else statement))
            seal(database)

    return change


def seal(database):
    """Set the checksums of all rows, and their numbers."""
    database.create_function("checksum", -1, checksums.checksum)
    known = checksums.tables(database)
    for table in known:
        count = f"UPDATE counters SET value = (SELECT count(*) FROM {table.name}) WHERE key = ?"
        database.execute(count, (f"rows of {table.name}",))
    for table in known:
        with suppress(sqlite3.OperationalError):  # text that is not UTF-8 has none
            database.execute(f"UPDATE {table.name} SET crc = checksum({', '.join(table.columns)})")


def meta(key, value):
    return execute(("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", (key, value)))


def judge(directory):
    """Fill all tables of a trained collection."""
    with Collection.open(directory) as collection:
        for grader, grade in (("ann", 1), ("bob", 2)):
            for picture in (1, 2, 3):
                collection.grade(picture, grade, grader=grader)
        collection.grade(5, 0)
        for first, second, outcome in ((1, 2, 1), (5, 9, 1), (9, 13, -1)):
            collection.labeling.compare(first, second, outcome, grader="ann")
        collection.fit()
        collection.labeling.confirm(2)
        collection.grade(6, 2, grader="ann")
        collection.grade(7, 0)
        draw(50).save(directory.parent / "050.png")
        collection.add(directory.parent / "050.png", n_jobs=1)
    execute("INSERT OR REPLACE INTO implied (id, grade) VALUES (9, 1.0)")(directory)


def selected(cases, first):
    """Every other case from the ``first`` one on: commands get one half and the server the other; most are slow."""
    return [pytest.param(case, marks=[pytest.mark.slow] if i % 10 else []) for i, case in enumerate([*cases][first::2])]


@contextmanager
def limited_time(seconds=30):
    """Fail when the block takes longer, also if it waits for something."""

    def stop(*_):
        pytest.fail("that takes too long")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def model_of(collection):
    with closing(sqlite3.connect(collection / DATABASE)) as database:
        return database.execute("SELECT value FROM meta WHERE key = 'model'").fetchone()[0]


def write_model(collection, described, data):
    """Make these contents the current model, under the name that their checksum asks for."""
    name = f"model-{hashlib.sha256(described).hexdigest()[:16]}"
    (collection / f"{name}.json").write_bytes(described)
    (collection / f"{name}.safetensors").write_bytes(data)
    execute(("UPDATE meta SET value = ? WHERE key = 'model'", (name,)))(collection)


def description(edit):
    """A change of the JSON of the model, whose checksum matches."""

    def change(collection):
        name = model_of(collection)
        text = json.loads((collection / f"{name}.json").read_bytes())
        edited = edit(text)
        described = edited if isinstance(edited, bytes) else json.dumps(text).encode()
        write_model(collection, described, (collection / f"{name}.safetensors").read_bytes())

    return change


def values(part, **given):
    return description(lambda text: text[part].update(given))


def content(edit):
    """A change of the arrays of the model as bytes, whose checksum matches."""

    def change(collection):
        name = model_of(collection)
        data = edit((collection / f"{name}.safetensors").read_bytes())
        text = json.loads((collection / f"{name}.json").read_bytes()) | {"sha256": hashlib.sha256(data).hexdigest()}
        write_model(collection, json.dumps(text).encode(), data)

    return change


def array(name, edit):
    """A change of one array of the model; None removes it."""

    def edited(data):
        arrays = load(data)
        changed = edit(arrays.pop(name).copy())
        return save(arrays if changed is None else arrays | {name: np.ascontiguousarray(changed)})

    return content(edited)


def filled(value):
    return lambda a: np.full_like(a, value)


def header_of_size(size):
    return lambda data: size.to_bytes(8, "little") + data[8:]


def header_of(text):
    return lambda data: len(text).to_bytes(8, "little") + text.encode()


def path_of(make):
    """A picture whose path leads to what ``make`` makes; its stamp has changed."""

    def change(collection):
        path = make(collection.parent / "crafted-path")
        execute(("UPDATE pictures SET path = ?, mtime_ns = 0 WHERE id = 1", (str(path),)))(collection)

    return change


def directory(path):
    path.mkdir()
    return path


def fifo(path):
    os.mkfifo(path)
    return path


def network(name, text, **settings):
    """An ONNX file beside the collection and the JSON of its preprocessing."""

    def change(collection):
        file = collection.parent / name
        file.write_bytes(b"\x08\x07")
        file.with_suffix(".json").write_text(text)
        for key, value in {"extractor": f"onnx:{file}", **settings}.items():
            meta(key, value)(collection)

    return change


def settings_pipe(collection):
    """A network whose preprocessing is to be read from a pipe."""
    network("n.onnx", "")(collection)
    (collection.parent / "n.json").unlink()
    fifo(collection.parent / "n.json")


def own_network(collection, data=b"\x08\x07" + b"[" * 1000):
    """A fine-tuned network that is none, under the name that its checksum asks for."""
    name = f"network-{hashlib.sha256(data).hexdigest()[:16]}.onnx"
    (collection / name).write_bytes(data)
    meta("extractor", name)(collection)
