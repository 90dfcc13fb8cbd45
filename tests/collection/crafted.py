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


META = {
    "format": ["", "0", "-5", "5.0", "1e400", "x" * 1000, b"5", "٥"],
    "dim": ["-1", "0", "49", "1000000000", "1" * 5000, "x", "NaN", "4_8", "inf", "12", b"48"],
    "extractor": [
        "",
        "nonsense",
        "pixels:100000",
        "pixels:-1",
        "pixels:" + "9" * 5000,
        "hog:7",
        "pixels+" * 2000,
        "onnx:/dev/zero",
        "onnx:/",
        "onnx:\0",
        "timm:@/dev/zero",
        "network-0123456789abcdef.onnx",
        b"\x00\xff",
        "pixels:512+" * 40 + "pixels:512",
    ],
    "fingerprint": ["", "x" * 100_000, "\x1b[31m", b"\xff"],
    "order": [
        "",
        "x",
        "{}",
        "null",
        "7",
        '"abc"',
        "[]",
        '["a", "a"]',
        "[1, 2, 3]",
        '["a", null]',
        '["a"]',
        '[""]',
        DEEP,
        "[[" + "]" * 2,
        json.dumps(list(map(str, range(1_000_000)))),
        '["\\ud800", "b", "c"]',
        "[NaN]",
        '["' + "a" * 1_000_000 + '", "b", "c"]',
        '["\\n\\u001b[31m", "b", "c"]',
        b'["a", "b"]',
        "{" * 2000,
    ],
    "model": ["", "../../x", "/etc/passwd", "model-", "model-0123456789abcdef", "x" * 5000, "a\0b", b"\xff", "."],
    "models": ["", "{}", "[1]", DEEP, '["../../x"]', '["\\u0000"]', '["' + "x" * 5000 + '"]', b"\xff"],
    "networks": ["", "{}", "[1]", DEEP, '["../../x"]', b"\xff"],
    "error": ["", "x", "nan", "inf", "-1", "1" * 5000, b"\xff"],
    "fitted": ["", "x" * 100_000, "\x1b[31m\n", b"\xff"],
    "balanced": ["", "maybe", b"\xff"],
    "grader weights": [
        "",
        "[]",
        "7",
        DEEP,
        '{"ann": "x"}',
        '{"ann": -1, "bob": NaN}',
        '{"ann": 0, "bob": 0}',
        '{"ann": null}',
        '{"ann": 1e400}',
        b"\xff",
    ],
    "finetuned": ["", "[]", DEEP, "{}", '{"backbone": 7}', b"\xff"],
    "staged fingerprint": ["", "pixels:4;version=1", b"\xff"],
    "grades by folder": ["", "x", b"\xff"],
}
PICTURES = {
    "name": [
        "x'ff'",
        "''",
        "'a' || char(10) || 'b'",
        "char(27) || '[31m'",
        "char(0)",
        "CAST(x'ff' AS TEXT)",
        "7",
        "replace(hex(zeroblob(50000)), '0', 'x')",
        "'../../../etc/passwd'",
        "'/etc/passwd'",
    ],
    "path": [
        "x'ff'",
        "''",
        "'.'",
        "'/'",
        "'/dev/zero'",
        "char(0)",
        "'pictures/../../..'",
        "'pictures/../../x'",
        "replace(hex(zeroblob(50000)), '0', 'x')",
        "CAST(x'ff' AS TEXT)",
        "'pictures/' || char(0)",
    ],
    "sha256": ["''", "x'ff'", "'garbage'", "char(10)", "replace(hex(zeroblob(50000)), '0', 'x')", "char(55357)"],
    "size": ["-1", "9223372036854775807", "-9223372036854775808", "'x'", "1.5", "x'ff'", INFINITE],
    "mtime_ns": ["-1", "9223372036854775807", "-9223372036854775808", "'x'", "1.5", "x'ff'"],
    "width": ["-1", "0", "9223372036854775807", "'x'", "1.5", "x'ff'"],
    "height": ["-1", "0", "9223372036854775807", "'x'", "1.5"],
    "grade": [INFINITE, f"-{INFINITE}", "'NaN'", "'x'", "x'00'", "1e308", "-1e308", "1e-320", "7.5", "'1_0'"],
    "estimate": [INFINITE, "'NaN'", "'x'", "x'00'", "1e308"],
    "lowest": [INFINITE, "'NaN'", "'x'", "1e308", "2.5", "NULL"],
    "highest": [INFINITE, "'NaN'", "-1e308", "-1", "NULL"],
    "subject": ["x'ff'", "''", "7", "char(10)", "replace(hex(zeroblob(50000)), '0', 'x')", "CAST(x'ff' AS TEXT)"],
}
VECTORS = ["x''", "x'00'", "'text'", "7", "zeroblob(191)", "zeroblob(1000000)", "zeroblob(48)"]
VECTORS += ["CAST(replace(hex(zeroblob(24)), '0', 'x') AS TEXT)"]
NAN, INF, HUGE = ((np.full(48, value, dtype="<f4").tobytes().hex()) for value in (np.nan, np.inf, 3e38))
ROWS = {
    "features": {"vector": [*VECTORS, f"x'{NAN}'", f"x'{INF}'", f"x'{HUGE}'"], "id": ["id + 1000", "-id", "id * 1e15"]},
    "embeddings": {
        "vector": [*VECTORS, f"x'{NAN[:328]}'", f"x'{INF[:328]}'", f"x'{HUGE[:328]}'"],
        "held_out": ["x''", "'text'", "7", "zeroblob(1000000)", f"x'{NAN[:40]}'", f"x'{INF[:40]}'", f"x'{HUGE[:40]}'"],
        "id": ["id + 1000", "-id", "9223372036854775807 - id"],
    },
    "thumbnails": {"jpeg": ["x''", "'text'", "7", "x'ffd8ff'", "zeroblob(20000000)"], "id": ["id + 1000", "-id"]},
    "gradings": {
        "picture": ["picture + 1000", "-picture", "'x'", "1.5", "x'00'"],
        "grader": ["x'ff'", "char(10)", "'<b>'", "replace(hex(zeroblob(50000)), '0', 'x')", "CAST(x'ff' AS TEXT)", "7"],
        "grade": [INFINITE, "'NaN'", "'x'", "x'00'", "1e308", "-1", "7.5"],
        "estimate": [INFINITE, "'x'", "x'00'", "1e308"],
        "time": ["''", "'never'", "x'ff'", "7", "CAST(x'ff' AS TEXT)", "replace(hex(zeroblob(50000)), '0', 'x')"],
    },
    "comparisons": {
        "first": ["first + 1000", "-first", "'x'", "1.5", "second"],
        "second": ["second + 1000", "'x'", "1.5", "first"],
        "grader": ["x'ff'", "char(10)", "CAST(x'ff' AS TEXT)"],
        "outcome": ["7", "-7", "'x'", "0.5", "9223372036854775807", "x'00'"],
        "time": ["x'ff'", "''", "CAST(x'ff' AS TEXT)"],
    },
    "confirmed": {"id": ["id + 1000", "-id"], "grade": ["'x'", INFINITE, "x'00'"]},
    "implied": {"id": ["id + 1000", "-id"], "grade": ["'x'", INFINITE, "x'00'", "1e308", "-7.5"]},
    "trained": {"id": ["id + 1000", "-id"], "grade": ["'x'", INFINITE, "x'00'"]},
    "added": {"id": ["id + 1000", "-id"]},
    "trainings": {
        "number": ["-number", "9223372036854775807 - number"],
        "time": ["''", "x'ff'", "CAST(x'ff' AS TEXT)"],
        "pictures": ["-1", "'x'", "1.5", "9223372036854775807"],
        "graded": ["-1", "'x'"],
        "error": [INFINITE, "'x'", "-1", "x'00'", "NULL"],
        "features": ["x'ff'", "char(10)", "replace(hex(zeroblob(50000)), '0', 'x')"],
    },
    "grade_changes": {
        "serial": ["-serial", "9223372036854775807 - serial", "serial + 1000000"],
        "id": ["id + 1000", "-id", "'x'", "1.5"],
        "before": ["'x'", INFINITE, "x'00'", "-7.5"],
        "grade": ["'x'", INFINITE, "x'00'"],
        "undoes": ["serial", "'x'", "-1", "9223372036854775807", "serial + 1"],
        "grader": ["x'ff'", "CAST(x'ff' AS TEXT)", "''"],
        "batch": ["-1", "'x'", "9223372036854775807", "-9223372036854775808", "1"],
        "key": ["x'ff'", "CAST(x'ff' AS TEXT)"],
        "given": ["'x'", INFINITE, "x'00'"],
        "given_estimate": ["'x'", INFINITE],
        "given_time": ["x'ff'", "7", "CAST(x'ff' AS TEXT)"],
    },
    "counters": {"value": ["-1", "'x'", "x'00'", "1.5", "9223372036854775807", "-9223372036854775808", INFINITE]},
}
MODEL = {
    "empty": description(lambda text: b""),
    "not JSON": description(lambda text: b"x"),
    "not UTF-8": description(lambda text: b'"\xff"'),
    "a list": description(lambda text: b"[]"),
    "null": description(lambda text: b"null"),
    "a number": description(lambda text: b"7"),
    "empty object": description(lambda text: b"{}"),
    "nested": description(lambda text: DEEP.encode()),
    "nested part": description(lambda text: b'{"format": 5, "embedding": ' + DEEP.encode()),
    "long number": description(lambda text: b"1" * 5000),
    **{
        f"without {key}": description(lambda text, key=key: text.pop(key) and None)
        for key in ("format", "fingerprint", "embedding", "distribution", "hyperparameters", "sha256")
    },
    **{
        f"{key} {value!r}": description(lambda text, key=key, value=value: text.update({key: value}))
        for key in ("embedding", "distribution", "hyperparameters", "sha256", "fingerprint", "format")
        for value in (None, [], "x", 7)
    },
    "hyperparameters of other types": values("hyperparameters", alpha="x", kernel=[], nu=None, sharpness={}),
    "more hyperparameters": values("hyperparameters", **{"\x1b[31m": "x" * 10_000}),
    "hyperparameters not finite": values("hyperparameters", alpha=float("nan"), nu=float("inf")),
    **{
        f"distribution {key} {value!r}"[:60]: values("distribution", **{key: value})
        for key, wrong in {
            "n_neighbors": (-1, 0, 10**9, 10**30, "x", None, 1.5, float("nan"), True, []),
            "weights": ("x", None, 7, []),
            "frequency_weight": (-1, 2, float("nan"), float("inf"), "x", None),
            "threshold_weight": (-1, 0, 2, float("nan"), "x", None),
            "n_order": (-1, 0, 1, 3, 10**9, "x", None, 1.5),
        }.items()
        for value in wrong
    },
    **{
        f"embedding {key} {value!r}"[:60]: values("embedding", **{key: value})
        for key, wrong in {
            "locality": (-1, 0, float("nan"), float("inf"), 1e308, "x", None),
            "scale": (0, -1, float("nan"), 1e-320, "x", None),
            "rescaling_scale": (0, float("nan"), "x", None),
            "sharpnesses": ([], [0.5, 0.5], ["x"], None, 7, [float("nan")], [-1e308], [[]], "ab"),
        }.items()
        for value in wrong
    },
    **{
        f"{name} {how}": array(name, edit)
        for name in (
            *("mean", "offset", "coefficients", "landmarks", "linear", "projection.components", "projection.mean"),
            *("rescaling.directions", "rescaling.factors", "distribution.score_index", "distribution.coefficients"),
            *("distribution.frequencies", "distribution.labels", "distribution.nearest", "distribution.scores"),
            "distribution.thresholds",
        )
        for how, edit in {
            "missing": lambda a: None,
            "empty": lambda a: a[:0],
            "of another type": lambda a: a.astype(np.int8),
            "shorter": lambda a: a[:-1],
            "of one number": lambda a: np.array(1.0),
            "of more dimensions": lambda a: a[None],
            "longer": lambda a: np.concatenate([a, a]),
            "not finite": filled(np.nan) if name != "distribution.score_index" else filled(-1),
            "huge": lambda a: (a * 0 + (2**62 if a.dtype.kind == "i" else 1e38)).astype(a.dtype),
        }.items()
    },
    "complex": array("mean", lambda a: a.astype(np.complex64)),
    "of truth values": array("mean", lambda a: a.astype(bool)),
    "labels descending": array("distribution.labels", lambda a: a[::-1]),
    "labels equal": array("distribution.labels", lambda a: a * 0),
    "labels infinite": array("distribution.labels", filled(np.inf)),
    "frequencies negative": array("distribution.frequencies", lambda a: -a),
    "thresholds descending": array("distribution.thresholds", lambda a: a[::-1]),
    "arrays empty": content(lambda data: b""),
    "arrays short": content(lambda data: data[:100]),
    "arrays long": content(lambda data: data + b"x"),
    "header huge": content(header_of_size(2**63)),
    "header of a terabyte": content(header_of_size(10**12)),
    "header empty": content(header_of("{}")),
    "header not JSON": content(header_of("x")),
    "header nested": content(header_of(DEEP)),
    "array of a huge shape": content(
        header_of('{"mean":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,0]}}')
    ),
    "array of an unknown type": content(header_of('{"mean":{"dtype":"F4","shape":[0],"data_offsets":[0,0]}}')),
    "array of bfloat16": content(header_of('{"mean":{"dtype":"BF16","shape":[0],"data_offsets":[0,0]}}')),
    "array of float8": content(header_of('{"mean":{"dtype":"F8_E4M3","shape":[0],"data_offsets":[0,0]}}')),
    "JSON is a directory": lambda collection: replace_model(collection, ".json", directory),
    "arrays are a directory": lambda collection: replace_model(collection, ".safetensors", directory),
    "JSON is a pipe": lambda collection: replace_model(collection, ".json", fifo),
    "arrays are a pipe": lambda collection: replace_model(collection, ".safetensors", fifo),
    "JSON is endless": lambda collection: replace_model(collection, ".json", lambda path: path.symlink_to("/dev/zero")),
}
OTHERS = {
    "path of a pipe": path_of(fifo),
    "path of a directory": path_of(directory),
    "path of a link to itself": path_of(lambda path: path.symlink_to(path) or path),
    "all pictures deleted": execute("DELETE FROM pictures"),
    "features deleted": execute("DELETE FROM features"),
    "a feature deleted": execute("DELETE FROM features WHERE id = 7"),
    "a thumbnail deleted": execute("DELETE FROM thumbnails WHERE id = 1"),
    "embeddings deleted": execute("DELETE FROM embeddings"),
    "meta deleted": execute("DELETE FROM meta"),
    "counters deleted": execute("DELETE FROM counters"),
    "no model, but embeddings": execute("DELETE FROM meta WHERE key = 'model'"),
    "ids of pictures huge": execute("UPDATE pictures SET id = 9223372036854775807 - id"),
    "id of a picture huge": execute("UPDATE pictures SET id = 9223372036854775807 WHERE id = 3"),
    "id of a picture negative": execute("UPDATE pictures SET id = -3 WHERE id = 3"),
    "all grades equal": execute("UPDATE pictures SET grade = 1"),
    "no grades": execute("UPDATE pictures SET grade = NULL"),
    "all features equal": execute("UPDATE features SET vector = zeroblob(48)"),
    "an embedding of a stranger": execute(
        "INSERT INTO embeddings SELECT 1000, vector, NULL, NULL FROM embeddings LIMIT 1"
    ),
    "a stranger's feature": execute("INSERT INTO features SELECT 1000, vector, NULL FROM features LIMIT 1"),
    "changes that undo each other": execute(
        "UPDATE grade_changes SET undoes = (SELECT max(serial) FROM grade_changes)"
    ),
    "network nested": network("n.onnx", DEEP),
    "network no JSON": network("n.onnx", "x"),
    "network of another type": network("n.onnx", "[]"),
    "network of a huge size": network("n.onnx", '{"size": 1e99, "mean": [0, 0, 0], "std": [1, 1, 1]}'),
    "network that is none": network("n.onnx", '{"size": 8, "mean": [0, 0, 0], "std": [1, 1, 1]}'),
    "network with its preprocessing in a pipe": settings_pipe,
    "own network that is none": own_network,
    "own network with endless weights": lambda collection: own_network(
        collection, b"\x0a\x08location\x12\x09/dev/zero"
    ),
    "own network is a directory": lambda collection: (
        directory(collection / "network-0123456789abcdef.onnx"),
        meta("extractor", "network-0123456789abcdef.onnx")(collection),
    ),
    "own network is a pipe": lambda collection: (
        fifo(collection / "network-0123456789abcdef.onnx"),
        meta("extractor", "network-0123456789abcdef.onnx")(collection),
    ),
    "finetuning is a file": lambda collection: (collection / "finetuning").write_bytes(b"x"),
    "pictures is a file": lambda collection: (collection / "pictures").write_bytes(b"x"),
    "lock is a directory": lambda collection: (
        (collection / "writer.lock").unlink(),
        (collection / "writer.lock").mkdir(),
    ),
}


def replace_model(collection, suffix, make):
    file = collection / f"{model_of(collection)}{suffix}"
    file.unlink()
    make(file)


def _shortened(value):
    return repr(value) if len(value) <= 30 else f"{value[:20]!r} of {len(value)}"


CASES = {f"meta {key} = {_shortened(value)}": meta(key, value) for key, all_ in META.items() for value in all_}
CASES |= {
    f"pictures.{column} = {_shortened(value)}": execute(f"UPDATE pictures SET {column} = {value} WHERE id = 3")
    for column, all_ in PICTURES.items()
    for value in all_
}
CASES |= {
    f"{table}.{column} = {_shortened(value)}{' everywhere' if everywhere else ''}": execute(
        f"UPDATE OR REPLACE {table} SET {column} = {value}"
        + ("" if everywhere else f" WHERE rowid = (SELECT min(rowid) FROM {table})")
    )
    for table, columns in ROWS.items()
    for column, all_ in columns.items()
    for value in all_
    for everywhere in ((True, False) if table in ("features", "embeddings") and column != "id" else (True,))
}
CASES |= {f"model: {name}": change for name, change in MODEL.items()} | OTHERS
