"""Changes that a stranger may have made to a collection, by name."""

import json

import numpy as np

from tests.collection.crafted import (
    DEEP,
    INFINITE,
    array,
    content,
    description,
    directory,
    execute,
    fifo,
    filled,
    header_of,
    header_of_size,
    meta,
    model_of,
    network,
    own_network,
    path_of,
    settings_pipe,
    values,
)

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
