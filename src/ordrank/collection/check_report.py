"""What :meth:`Collection.check` returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Damage:
    """What is damaged in a collection, and what restores it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class OriginalFiles:
    """How many of the files of the pictures are as they were read, are not, and are not there."""

    unchanged: int
    changed: int
    missing: int


@dataclass(frozen=True)
class CheckReport:
    """Outcome of verifying a collection.

    Attributes
    ----------
    rows : int
        Rows of its database.
    has_checksums : bool
        Whether these have checksums; not in a collection of an older format.
    damage : tuple of Damage
        Empty if nothing is damaged. A file of a picture that is gone or has changed is no damage, unless it is in the
        directory of the collection.
    files : OriginalFiles or None
        None if the rows that name the files are damaged.
    """

    rows: int
    has_checksums: bool
    damage: tuple[Damage, ...]
    files: OriginalFiles | None
