"""Read the grades of pictures from the folders they are in."""

from __future__ import annotations

from collections.abc import Iterable

from ordrank.collection.ingest.csv_table import quoted_list
from ordrank.collection.types import Header
from ordrank.errors import InputError

UNGRADED = "ungraded"  # the folder of pictures without a grade


def read_folder_grades(names: Iterable[str], header: Header) -> dict[str, float]:
    """Return the grades of pictures by name: those that the outermost of their folders are named after.

    Pictures outside of all folders, and those in the folder ``ungraded``, have none. Raise InputError if another folder
    is not named after a grade.

    Parameters
    ----------
    names : iterable of str
        Names of the pictures: their paths, with slashes.
    header : Header
        With the order of grades that are words.
    """
    folders = {name: name.partition("/")[0] for name in names if "/" in name}
    graded = {name: folder for name, folder in folders.items() if folder.casefold() != UNGRADED}
    values, unknown = {}, []
    for folder in sorted(set(graded.values())):
        try:
            values[folder] = header.parse_grade(folder)
        except InputError:
            unknown.append(folder)
    if unknown:
        raise InputError(_message(unknown, header.order))
    return {name: values[folder] for name, folder in graded.items()}


def _message(unknown: list[str], order: tuple[str, ...] | None) -> str:
    found = f"without a CSV file the folders are the grades, and {quoted_list(unknown)}"
    if order is None:
        return (
            f"{found} {'is not a number' if len(unknown) == 1 else 'are not numbers'}; name grades that are words with "
            "--order, lowest first, or a CSV file with --labels, and call the folder of pictures without a grade "
            f"{UNGRADED!r}"
        )
    return (
        f"{found} {'is' if len(unknown) == 1 else 'are'} not in the order of grades {quoted_list(order)}; correct "
        f"--order, or rename the folder, to {UNGRADED!r} if its pictures have no grade"
    )
