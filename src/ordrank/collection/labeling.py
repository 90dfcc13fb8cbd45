"""What people say about the pictures of a collection: grades, confirmations, comparisons."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np

from ordrank.collection.access import open_judgements, read_store
from ordrank.collection.annotations import (
    ComparedPicture,
    Disagreement,
    GivenGrade,
    GraderPair,
    GradersReport,
    GraderSummary,
    SuggestedPair,
    Suggestion,
)
from ordrank.collection.change_log import MAX_LOGGED
from ordrank.collection.comparing import Comparing
from ordrank.collection.database import check_exists, translate_errors
from ordrank.collection.judgements import UNNAMED, Grading
from ordrank.collection.live import LiveSnapshot
from ordrank.collection.per_snapshot import PerSnapshot
from ordrank.collection.snapshot import Snapshot, inode_of
from ordrank.collection.store import Store
from ordrank.collection.suggestions import Suggester
from ordrank.collection.types import AcquireLock, Picture
from ordrank.errors import InputError, NewGradeError
from ordrank.labeling import agreement

# Seconds that a change waits for the database: a training that stores its results for many pictures takes long.
_TIMEOUT = 60.0
_MAX_NAME = 100
_NOT_IN_NAMES = ("Cc", "Cs")  # categories: control characters, and halves of characters
_MAX_DISAGREEMENTS = 200


class Labeling:
    """Records what people say, one change at a time, also while the collection is trained; thread-safe.

    The connection stays open: opening one takes as long as a change.

    Parameters
    ----------
    directory : Path
    live : LiveSnapshot
        Refreshed with each change.
    write_lock : callable
        Returns a lock that other processes hold while they change something.
    """

    def __init__(self, directory: Path, live: LiveSnapshot, write_lock: AcquireLock) -> None:
        self._directory, self._live = directory, live
        self._comparing, self._suggester = Comparing(directory, live), Suggester(directory, live)
        self._graders = PerSnapshot(live, self._graders_report)
        self._write_lock, self._writing = write_lock, Lock()  # to wait in turn, instead of polling the database
        self._opened: Store | None = None
        self._opened_by: tuple[int, int] | None = None  # process, whose children must not use it, and inode of the file

    def grade(
        self,
        pictures: Sequence[str | int],
        grade: str | float | None,
        *,
        grader: str | None = None,
        allow_new: bool = True,
        key: str | None = None,
    ) -> list[Picture]:
        """Set the grade of pictures, by name or id, or withdraw it (None), all or none; on disk when this returns.

        Parameters
        ----------
        pictures : sequence of str or int
        grade : str, float or None
        grader : str, optional
            Who says so. The grade of a picture with several graders is their consensus.
        allow_new : bool
            If False, raise NewGradeError for a grade that is not on the scale of a trained collection.
        key : str, optional
            A name for this change, by which it can be undone; it is not made again if its key was used before. Raise
            ConflictError if that was for another change.
        """
        if len(pictures) > MAX_LOGGED:
            raise InputError(f"{len(pictures)} pictures are more than the {MAX_LOGGED} that can be graded at once")
        snapshot, name = self._live.current(*pictures), _grader_name(grader)  # fail before waiting for other writers
        value = None if grade is None else snapshot.parse_grade(str(grade))
        if value is not None and not allow_new and snapshot.is_off_scale(value):
            raise NewGradeError(_off_scale(snapshot, value))
        ids = _ids(snapshot, pictures)
        with self._store() as store:
            store.give_grades(ids, value, name, key)
            return self._refreshed(ids)

    def undo(self, *, grader: str | None = None, key: str | None = None) -> list[Picture]:
        """Undo a call of :meth:`grade` by a grader: that with a key, else the last that was not undone.

        Return its pictures; none if there is nothing to undo. What others gave meanwhile stands. Raise ConflictError
        if the grader has graded one of the pictures again since.
        """
        with self._store() as store:
            return self._refreshed(store.undo_grades(_grader_name(grader), key))

    def confirm(self, picture: str | int, grade: str | float | None = None, *, is_confirmed: bool = True) -> Picture:
        """Record that someone has looked at the grade of a picture and kept it: it is not suspected again.

        Parameters
        ----------
        picture : str or int
        grade : str or float, optional
            The grade that was looked at, by default the present one. Raise ConflictError if it is another by now.
        is_confirmed : bool
            If False, forget that it was confirmed.
        """
        snapshot = self._live.current(picture)
        row = snapshot.row_of(picture)
        kept = float(snapshot.grades[row]) if grade is None else snapshot.parse_grade(str(grade))
        if is_confirmed and np.isnan(kept):
            raise InputError(f"{snapshot.images.names[row]} has no grade that could be confirmed")
        with self._store() as store:
            store.confirm_grade(int(snapshot.images.ids[row]), kept if is_confirmed else None)
        return snapshot.picture(row)

    def compare(self, first: str | int, second: str | int, outcome: int | None, *, grader: str | None = None) -> int:
        """Record which of two pictures, by name or id, is higher, and return the number of all comparisons.

        Parameters
        ----------
        first, second : str or int
        outcome : {1, -1, 0} or None
            1 if the first is higher, -1 if the second is, 0 if they are equal; None withdraws the comparison.
        grader : str, optional
            Who says so. Another comparison of the same pictures by the same grader replaces it.
        """
        if outcome not in (1, -1, 0, None):
            raise InputError(f"the outcome of a comparison is 1, -1 or 0, not {outcome!r}")
        snapshot, name = self._live.current(first, second), _grader_name(grader)
        a, b = (int(snapshot.images.ids[snapshot.row_of(picture)]) for picture in (first, second))
        if a == b:
            raise InputError("a picture cannot be compared with itself; name two pictures")
        with self._store() as store:
            if outcome is None:
                store.withdraw_comparison(a, b, name)
            else:
                store.put_comparison(a, b, outcome, name)
            return store.count_comparisons()

    def next_pair(self, *, grader: str | None = None, skip: Sequence[tuple[int, int]] = ()) -> SuggestedPair | None:
        """Return the two pictures whose comparison is most informative; None if there is no other pair.

        Pairs of ids in ``skip``, and those that the grader has compared, are not returned.
        """
        return self._comparing.next_pair(_grader_name(grader), skip)

    def compared(self) -> tuple[ComparedPicture, ...]:
        """Return the compared pictures, lowest first."""
        return self._comparing.compared()

    def count_comparisons(self) -> int:
        """Return the number of all comparisons."""
        with read_store(self._directory) as store:
            return store.count_comparisons()

    def suggest(self, k: int = 20, *, grader: str | None = None) -> list[Suggestion]:
        """Return the pictures without a grade whose grades would help most, most useful first, each with its reason.

        Grades that were given since the last training count. See :func:`ordrank.labeling.active.choose_samples`.

        Parameters
        ----------
        k : int
            At most so many; at most 1000.
        grader : str, optional
            Who will grade. Up to five named graders get different pictures.
        """
        return self._suggester.suggest(k, _grader_name(grader))

    def grades_of(self, picture: str | int) -> tuple[GivenGrade, ...]:
        """Return who gave a picture which grade, in the order of time."""
        snapshot = self._live.current(picture)
        number = int(snapshot.images.ids[snapshot.row_of(picture)])
        with read_store(self._directory) as store:
            return tuple(_given_grade(snapshot, grading) for grading in store.gradings(number))

    def graders(self) -> GradersReport:
        """Return who graded how much, how far graders agree, and where they differ."""
        return self._graders.current()

    def _graders_report(self, snapshot: Snapshot) -> GradersReport:
        with read_store(self._directory) as store:
            gradings = [one for one in store.gradings() if snapshot.images.row(one.picture) is not None]
        ratings = agreement.Ratings.from_rows((one.picture, one.grader, one.grade) for one in gradings)
        found = agreement.consensus(ratings)
        differing = agreement.disagreements(ratings, found)
        by_picture: dict[object, list[Grading]] = {}
        for grading in gradings:
            by_picture.setdefault(grading.picture, []).append(grading)
        return GradersReport(
            tuple(
                GraderSummary(
                    str(one.grader), one.n_graded, one.n_compared, _known(one.error), _known(one.bias), one.weight
                )
                for one in agreement.grader_scores(ratings, found)
            ),
            tuple(
                GraderPair(str(pair.first), str(pair.second), pair.n_common, _known(pair.kappa))
                for pair in agreement.pairwise_agreement(ratings)
            ),
            tuple(_disagreement(snapshot, by_picture[one.sample]) for one in differing[:_MAX_DISAGREEMENTS]),
            len(differing),
        )

    def close(self) -> None:
        """Close the connection; the next change opens another one."""
        with self._writing:
            self._disconnect()

    @contextmanager
    def _store(self) -> Iterator[Store]:
        with self._write_lock(), self._writing, translate_errors(self._directory):
            store = self._connected()
            try:
                self._live.refresh()  # so that the next refresh has one change to apply
                yield store
            except BaseException:
                self._disconnect()
                raise

    def _connected(self) -> Store:
        check_exists(self._directory)
        user = (os.getpid(), inode_of(self._directory))
        if self._opened is None or user != self._opened_by:
            self._disconnect()
            self._opened, self._opened_by = open_judgements(self._directory, timeout=_TIMEOUT), user
        return self._opened

    def _disconnect(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _refreshed(self, pictures: Sequence[int]) -> list[Picture]:
        self._live.refresh()
        snapshot = self._live.current()
        return [snapshot.picture(snapshot.row_of(picture)) for picture in pictures]


def _ids(snapshot: Snapshot, pictures: Sequence[str | int]) -> list[int]:
    return list(dict.fromkeys(int(snapshot.images.ids[snapshot.row_of(picture)]) for picture in pictures))


def _grader_name(grader: str | None) -> str:
    """Return the name of a grader as it is stored: the same name may be typed as different characters."""
    name = unicodedata.normalize("NFC", (grader or UNNAMED).strip())
    if len(name) > _MAX_NAME or any(unicodedata.category(character) in _NOT_IN_NAMES for character in name):
        raise InputError(f"the name of a grader has at most {_MAX_NAME} characters, and no control characters")
    return name


def _off_scale(snapshot: Snapshot, value: float) -> str:
    shown = snapshot.header.format_grade
    lowest, highest = shown(float(snapshot.labels[0])), shown(float(snapshot.labels[-1]))
    return f"no picture has the grade {shown(value)} yet: the grades go from {lowest} to {highest}"


def _given_grade(snapshot: Snapshot, grading: Grading) -> GivenGrade:
    return GivenGrade(grading.grader, snapshot.header.format_grade(grading.grade), grading.time)


def _disagreement(snapshot: Snapshot, gradings: Sequence[Grading]) -> Disagreement:
    found = snapshot.picture(snapshot.row_of(gradings[0].picture))
    return Disagreement(found.id, found.name, tuple(_given_grade(snapshot, one) for one in gradings), found.grade)


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
