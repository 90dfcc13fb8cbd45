"""JSON in the settings of a collection, whose database may come from anyone."""

from __future__ import annotations

import json
import sqlite3
from typing import Any


def parse_stored(text: str) -> Any:
    """Return what a stored JSON text holds. Raise DatabaseError if it is none, or nested too deeply to be read."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise sqlite3.DatabaseError(f"a setting is not JSON: {error}") from None
