"""Read the group of each picture, such as the person it shows, from the CSV file of the grades."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ordrank.collection.ingest.csv_table import quoted, read_table
from ordrank.collection.ingest.picture_names import PictureNames
from ordrank.errors import GradesError


def read_groups(
    file: Path,
    known: Collection[str],
    *,
    in_folder: Collection[str] | None = None,
    file_column: str,
    group_column: str,
) -> dict[str, str]:
    """Return the groups of known pictures by name; pictures with an empty cell have none.

    Raise GradesError if a picture has two groups. The file is one whose grades :func:`read_grades` has accepted.
    """
    table = read_table(file, (file_column, group_column))
    file_at, group_at = map(table.header.index, (file_column, group_column))
    rows = [(line, cells) for line, cells in table.rows if len(cells) == len(table.header)]
    names = PictureNames(known, table.column(file_column), in_folder)
    groups: dict[str, str] = {}
    for line, cells in rows:
        name, group = names.find(cells[file_at]), cells[group_at].strip()
        if name is None or not group:
            continue
        if groups.setdefault(name, group) != group:
            problem = f"line {line}: {quoted(name)} has group {quoted(group)} here and {quoted(groups[name])} above"
            raise GradesError(f"{file}: {problem}; give it one", (problem,))
    return groups
