"""What a library tells about pictures, made of one state of the collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ordrank._types import Vote
from ordrank.collection.answering import Compared, Query
from ordrank.errors import UnknownError
from ordrank.service.snapshot import Snapshot


@dataclass(frozen=True)
class GradeCount:
    """A grade, the number behind it, and how many pictures were given it."""

    grade: str
    value: float
    pictures: int


@dataclass(frozen=True)
class Overview:
    """A collection in numbers; ``changed`` counts grades that changed since the model was fitted."""

    name: str
    pictures: int
    graded: int
    grades: tuple[GradeCount, ...]
    features: str
    model: dict[str, Any] | None
    fitted: str | None
    changed: int
    error: float | None


@dataclass(frozen=True)
class Picture:
    """A picture of the collection: ``grade`` was given, ``estimate`` is there if none was."""

    id: int
    name: str
    grade: str | None
    estimate: str | None
    value: float | None
    width: int
    height: int


@dataclass(frozen=True)
class Page:
    """Some of the pictures that were asked for, and how many there are in all."""

    total: int
    items: tuple[Picture, ...]


@dataclass(frozen=True)
class Assessment:
    """What the collection says about one picture.

    Attributes
    ----------
    kind : {"picture", "query"}
        Whether it belongs to the collection.
    id : int or str
        Its number, or what an uploaded picture is called from now on.
    name, grade : str
        The grade is estimated, from the votes of others.
    value : float
    known_grade : str or None
    votes : tuple of Vote
    position : tuple of three floats
        Where to show it.
    """

    kind: str
    id: int | str
    name: str
    grade: str
    value: float
    known_grade: str | None
    votes: tuple[Vote, ...]
    position: tuple[float, float, float]


@dataclass(frozen=True)
class Ranked:
    """A picture as an answer, d² = order² + appearance²."""

    id: int
    name: str
    grade: str
    estimated: bool
    distance: float
    order_distance: float
    appearance_distance: float


@dataclass(frozen=True)
class RankedPage:
    """Some of the pictures that qualify, nearest first, and how many do."""

    answer: Assessment
    total: int
    items: tuple[Ranked, ...]


@dataclass(frozen=True)
class Points:
    """Pictures as points: n numbers as int32, n × 3 positions and n grades as float32, all little endian."""

    count: int
    total: int
    content: bytes


def row_of(state: Snapshot, number: int) -> int:
    """Row of the picture of that number, which there must be."""
    row = state.album.row(number)
    if row is None:
        raise unknown_picture(number)
    return row


def unknown_picture(number: int) -> UnknownError:
    """Return what is raised where there is none."""
    return UnknownError(f"the collection has no picture with the number {number}")


def tell_picture(state: Snapshot, row: int) -> Picture:
    """Say what is known of a picture."""
    given, value = not np.isnan(state.grades[row]), float(state.values[row])
    shown = None if np.isnan(value) else state.header.show(value)
    return Picture(
        id=int(state.album.ids[row]),
        name=state.album.names[row],
        grade=shown if given else None,
        estimate=None if given else shown,
        value=None if np.isnan(value) else value,
        width=state.album.widths[row],
        height=state.album.heights[row],
    )


def tell_assessment(state: Snapshot, query: Query, token: str | None, compared: Compared) -> Assessment:
    """Say how a query was graded; ``token`` is there if it does not belong to the collection."""
    known = np.nan if query.own is None else state.grades[row_of(state, query.own)]
    x, y, z = state.trained.view(query.place[None])[0].tolist()
    return Assessment(
        kind="picture" if token is None else "query",
        id=token or query.own or 0,
        name=query.name,
        grade=state.header.show(compared.value),
        value=compared.value,
        known_grade=None if np.isnan(known) else state.header.show(known),
        votes=state.comparer.votes(state.header, compared.shares),
        position=(x, y, z),
    )


def tell_ranked(state: Snapshot, compared: Compared) -> tuple[Ranked, ...]:
    """Say which pictures were found, nearest first."""
    rows = np.searchsorted(state.album.ids, compared.ids).tolist()
    distances = (compared.distances.tolist(), compared.order.tolist(), compared.appearance.tolist())
    pictures = (tell_picture(state, row) for row in rows)
    return tuple(
        Ranked(picture.id, picture.name, picture.grade or picture.estimate or "", picture.grade is None, *measured)
        for picture, *measured in zip(pictures, *distances, strict=True)
    )
