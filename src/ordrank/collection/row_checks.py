"""Checks of the rows of a collection, whose database may come from anyone.

SQLite stores any type in any column, and foreign keys are those of whoever made the file. All that is computed with
rows relies on what is checked here; vectors are checked when they are decoded.
"""

from __future__ import annotations

import sqlite3

_MAX_ID = 2**31 - 1  # that of clients and of displayed points
_MAX_COUNT = 2**53  # far from overflow
_GRADE = "(typeof({0}) = 'real' AND abs({0}) < 1e300)"  # squares and sums of finite numbers may not be finite
_OPTIONAL_GRADE = "({0} IS NULL OR " + _GRADE + ")"
_TEXT = "typeof({0}) = 'text'"
_NAME = f"({_TEXT} AND instr({{0}}, char(0)) = 0)"  # of a file
_OPTIONAL_TEXT = "typeof({0}) IN ('text', 'null')"
_COUNT = f"(typeof({{0}}) = 'integer' AND {{0}} BETWEEN 0 AND {_MAX_COUNT})"
_INTEGER = "typeof({0}) = 'integer'"
# Conditions on the values of each column, by table.
_COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "pictures": {
        f"{{0}} BETWEEN 0 AND {_MAX_ID}": ("id",),
        _NAME: ("name", "path"),
        _TEXT: ("sha256",),
        _INTEGER: ("mtime_ns",),
        _COUNT: ("size", "width", "height"),
        _OPTIONAL_GRADE: ("grade", "estimate", "lowest", "highest"),
        _OPTIONAL_TEXT: ("subject",),
    },
    "gradings": {_TEXT: ("grader", "time"), _GRADE: ("grade",), _OPTIONAL_GRADE: ("estimate",)},
    "comparisons": {_TEXT: ("grader", "time"), "{0} IN (-1, 0, 1)": ("outcome",), "first < {0}": ("second",)},
    "confirmed": {_GRADE: ("grade",)},
    "implied": {_GRADE: ("grade",)},
    "trained": {_OPTIONAL_GRADE: ("grade",)},
    "added": {},
    "trainings": {_COUNT: ("number", "pictures", "graded"), _OPTIONAL_GRADE: ("error",), _TEXT: ("time", "features")},
    "grade_changes": {
        _COUNT: ("serial", "batch"),
        _OPTIONAL_GRADE: ("before", "grade", "given", "given_estimate"),
        _TEXT: ("grader",),
        _OPTIONAL_TEXT: ("key", "given_time"),
        "({0} IS NULL OR typeof({0}) = 'integer')": ("undoes",),
    },
    "counters": {_TEXT: ("key",), _COUNT: ("value",)},
}


def check_rows(connection: sqlite3.Connection) -> None:
    """Raise DatabaseError if a value is not of the type and in the range of its column, or of an unknown picture."""
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for table, columns in _COLUMNS.items():
        if table not in present or (table == "grade_changes" and "gradings" not in present):  # of an older format
            continue
        for condition, names in columns.items():
            for name in names:
                wrong = f"SELECT 1 FROM {table} WHERE ({condition.format(name)}) IS NOT TRUE LIMIT 1"
                if connection.execute(wrong).fetchone() is not None:
                    raise sqlite3.DatabaseError(f"{table} has an invalid {name}")
        if table != "pictures" and connection.execute(f"PRAGMA foreign_key_check({table})").fetchone() is not None:
            raise sqlite3.DatabaseError(f"{table} names a picture that does not exist")
