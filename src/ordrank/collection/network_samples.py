"""The pictures that fine-tuned networks were trained on, by content: also those that were removed since.

A network knows the grades of these pictures. So their outputs in the network that was trained without them are kept,
and which of them were held out together.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import IntArray

_TABLE = "network_samples"
SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (network TEXT, sha256 TEXT, unit INTEGER NOT NULL, outputs BLOB NOT NULL, "
    "PRIMARY KEY (network, sha256)) WITHOUT ROWID"
)
# Groups with graded pictures that were not all held out together; if all are of one group, none is held out now either.
_SPLIT_GROUPS = f"""
SELECT 1 FROM checked_pictures AS pictures
LEFT JOIN checked_{_TABLE} AS seen ON seen.network = ? AND seen.sha256 = pictures.sha256
WHERE grade IS NOT NULL AND subject IS NOT NULL
AND (SELECT count(DISTINCT coalesce(subject, id)) FROM checked_pictures WHERE grade IS NOT NULL) > 1
GROUP BY subject HAVING count(DISTINCT coalesce(unit, -1)) > 1 LIMIT 1
"""


def record(
    cursor: sqlite3.Cursor, network: str, sha256: Sequence[str], units: IntArray, outputs: NDArray[np.float32]
) -> None:
    """Record the pictures that a network was trained on; those of one unit were held out together."""
    rows = [
        (network, *key, vector.astype("<f4").tobytes())
        for *key, vector in zip(sha256, units.tolist(), outputs, strict=True)
    ]
    cursor.executemany(f"INSERT OR REPLACE INTO {_TABLE} (network, sha256, unit, outputs) VALUES (?, ?, ?, ?)", rows)


def forget(cursor: sqlite3.Cursor, networks: Collection[str]) -> None:
    """Forget what networks were trained on."""
    cursor.executemany(f"DELETE FROM {_TABLE} WHERE network = ?", [(network,) for network in networks])


def held_out_outputs(connection: sqlite3.Connection, network: str, sha256: str) -> NDArray[np.float32] | None:
    """Return the outputs of a picture in the network that was trained without it; None if none was trained on it."""
    if not _exists(connection):
        return None
    statement = f"SELECT outputs FROM checked_{_TABLE} WHERE network = ? AND sha256 = ?"
    found = connection.execute(statement, (network, sha256)).fetchone()
    if found is None:
        return None
    if not isinstance(found[0], bytes) or len(found[0]) % 4:
        raise sqlite3.DatabaseError("the outputs of a network are truncated")
    return np.frombuffer(found[0], dtype="<f4")


def has_seen_groups(connection: sqlite3.Connection, network: str) -> bool:
    """Return whether a network has seen other pictures of the group of one that it is to be held out for."""
    return _exists(connection) and connection.execute(_SPLIT_GROUPS, (network,)).fetchone() is not None


def _exists(connection: sqlite3.Connection) -> bool:
    """Return whether there is the table: a collection of an older format may have none."""
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone() is not None
