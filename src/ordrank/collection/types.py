"""What a collection holds and returns: frozen dataclasses, with ``to_frame()`` where a table is meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray

from ordrank._format import format_percent
from ordrank._protocols import Extractor, FloatArray
from ordrank.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

COVERAGE = 0.9  # of the intervals that are shown
NOVEL = 0.01  # p-value below which a picture is unlike the others

# Returns a context that holds a lock.
AcquireLock: TypeAlias = Callable[[], AbstractContextManager[object]]


# Rows of the database ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Header:
    """Settings that hold for all pictures of a collection.

    Attributes
    ----------
    extractor, fingerprint : str
        Name of the feature extractor, and the version of the features it computes.
    dim : int
        Length of a feature vector.
    order : tuple of str, or None
        Names of the grades, lowest first; a grade is then an index into it. None for numeric grades.
    model : str or None
        Name of the model that the embeddings belong to; None before the first fit.
    by_folder : bool
        Whether new pictures that ``fit`` reads without labels have the grades that their folders are named after.
    """

    extractor: str
    fingerprint: str
    dim: int
    order: tuple[str, ...] | None = None
    model: str | None = None
    by_folder: bool = False

    def with_features(self, extractor: Extractor) -> Header:
        """Return the same settings with the features of another extractor."""
        return replace(self, extractor=extractor.name, fingerprint=extractor.fingerprint, dim=extractor.dim)

    def format_grade(self, value: float) -> str:
        """Return a grade as the user writes it: a number, or the nearest name (the lower one half-way)."""
        if self.order is None:
            return f"{value:.12g}"  # enough digits for dates and the like, too few to show rounding
        return self.order[min(max(int(np.ceil(value - 0.5)), 0), len(self.order) - 1)]

    def parse_grade(self, text: str) -> float:
        """Return the number of a grade that a user wrote. Raise InputError if it is not a grade of this collection."""
        text = text.strip()
        if self.order is not None:
            if text not in self.order:
                raise InputError(f"{text} is not a grade of this collection; its grades are {', '.join(self.order)}")
            return float(self.order.index(text))
        try:
            value = np.nan if "_" in text else float(text)  # float() accepts 1_000
        except ValueError:
            value = np.nan
        if not np.isfinite(value):
            raise InputError(f"{text} is not a grade: the grades of this collection are numbers")
        return value


class FileStamp(NamedTuple):
    """Path, size and modification time of a file: equal stamps mean an unchanged file."""

    path: str
    size: int
    mtime_ns: int


class ImageRow(NamedTuple):
    """One row of the table ``pictures``."""

    id: int
    name: str
    path: str
    sha256: str
    size: int
    mtime_ns: int
    width: int
    height: int
    grade: float | None
    estimate: float | None
    lowest: float | None
    highest: float | None
    group: str | None


@dataclass(frozen=True)
class EmbeddedBatch:
    """Embeddings of some pictures and the grades estimated from them, without regard to a picture's own grade.

    Attributes
    ----------
    vectors : ndarray of shape (n, s + d)
    estimates : ndarray of shape (n, 3)
        Estimated grade, and the lowest and highest grade of its interval.
    held_out : ndarray of shape (n, s + m), or None
        Of pictures whose grade was in the fit: ordinal coordinates from a fit without that grade, then, if they were
        held out of the threshold model too, their m probabilities; NaN elsewhere.
    """

    vectors: NDArray[np.float32]
    estimates: FloatArray
    held_out: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class BadPicture:
    """A file that could not be used; the reason continues a sentence that begins with its name.

    ``duplicate_of`` names a picture with the same content and no other grade: nothing is lost without the file.
    """

    name: str
    reason: str
    duplicate_of: str | None = None


# Results -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """A picture of the collection.

    Attributes
    ----------
    id, name : int and str
    grade : str or None
        The one it was given.
    estimate, lowest, highest : str or None
        Estimated grade and its interval, computed without its own grade; None before the first fit.
    value : float or None
        Number of the grade, else of the estimate.
    width, height : int
    date : str
        When its file was changed last.
    """

    id: int
    name: str
    grade: str | None
    estimate: str | None
    lowest: str | None
    highest: str | None
    value: float | None
    width: int
    height: int
    date: str


class ListOptions(TypedDict, total=False):
    """Options of :meth:`Collection.pictures`, see :class:`ListRequest`."""

    grade: str | None
    given: bool | None
    search: str
    sort: str
    descending: bool
    offset: int
    limit: int
    step: int


@dataclass(frozen=True)
class ListRequest:
    """Which pictures to list.

    Attributes
    ----------
    grade : str or None
        Only those of this grade, given or estimated.
    given : bool or None
        Only those whose grade was given (True), or was not (False).
    search : str
        Only those whose names have all these words in them, whatever their case.
    sort : {"grade", "spectrum", "estimate", "certainty", "name", "date"}
        ``spectrum`` is by grade and, within a grade, by the learned order; ``certainty`` begins with the least certain.
    descending : bool
    offset, limit : int
        How many to skip, and how many to return.
    step : int
        Return every so many-th, for an overview.
    """

    grade: str | None = None
    given: bool | None = None
    search: str = ""
    sort: str = "grade"
    descending: bool = False
    offset: int = 0
    limit: int = 60
    step: int = 1

    def __post_init__(self) -> None:
        if self.limit < 1 or self.offset < 0 or self.step < 1:
            raise InputError(
                f"limit and step must be at least 1 and offset at least 0; they are {self.limit}, {self.step} and "
                f"{self.offset}"
            )


@dataclass(frozen=True)
class PicturePage:
    """A page of the pictures that match a filter, and how many match in all."""

    total: int
    items: tuple[Picture, ...]


@dataclass(frozen=True)
class Points:
    """Embeddings as points to display: ``count`` of ``total`` pictures.

    ``content`` holds int32 ids (n,), float32 positions (n, 3) and float64 grades (n,), little endian.
    """

    count: int
    total: int
    content: bytes


@dataclass(frozen=True)
class QueryPicture:
    """A decoded picture with its features, ready to be ranked against any model of the collection."""

    name: str
    sha256: str
    features: NDArray[np.float32]
    thumbnail: bytes = field(repr=False)


@dataclass(frozen=True)
class RankRequest:
    """Which pictures to return for a query.

    Attributes
    ----------
    k, offset : int
        Number of pictures, and how many of the nearest to skip.
    within_grade : bool
        Only pictures of the estimated grade of the query.
    lowest, highest : str or None
        Only pictures with grades in this closed range, as the user writes them.
    with_position : bool
        Also compute the display position of the query, which takes longer than the search of a small collection.
    """

    k: int = 10
    offset: int = 0
    within_grade: bool = False
    lowest: str | None = None
    highest: str | None = None
    with_position: bool = False

    def __post_init__(self) -> None:
        if self.k < 1 or self.offset < 0:
            raise InputError(f"k must be at least 1 and offset at least 0; they are {self.k} and {self.offset}")


@dataclass(frozen=True)
class GradeProbability:
    """Probability of a grade."""

    grade: str
    probability: float


@dataclass(frozen=True)
class RankedPicture:
    """A picture at a distance from the query, distance² = order_distance² + appearance_distance²."""

    id: int
    name: str
    grade: str
    estimated: bool
    distance: float
    order_distance: float
    appearance_distance: float


@dataclass(frozen=True)
class RankResult:
    """Estimated grade of a query and the pictures ranked for it.

    Attributes
    ----------
    query : str
        Name or file of the query.
    id : int or None
        Its id if it belongs to the collection.
    grade, value : str and float
        Estimated grade: the median of its distribution. That of a picture of the collection does not depend on the
        grade it was given.
    lowest, highest : str
        Ends of the interval of grades. Such intervals hold the true grade of nine pictures in ten, whatever it is;
        the probabilities inside one need not add up to that.
    known_grade : str or None
        The grade it was given in the collection.
    probabilities : tuple of GradeProbability
        One for each grade, ascending.
    novelty : float or None
        p-value that it is like the pictures of the collection; small, it is unlike any of them. None if unknown.
    position : tuple of three floats, or None
        Where to display it among :class:`Points`, if requested.
    total : int
        Number of pictures that match the request.
    hits : tuple of RankedPicture
        Nearest first.
    thumbnail : bytes
        JPEG of the query; empty for pictures of the collection, see :meth:`Collection.thumbnail`.
    """

    query: str
    id: int | None
    grade: str
    value: float
    lowest: str
    highest: str
    known_grade: str | None
    probabilities: tuple[GradeProbability, ...]
    novelty: float | None
    position: tuple[float, float, float] | None
    total: int
    hits: tuple[RankedPicture, ...]
    thumbnail: bytes = field(repr=False)

    @property
    def is_novel(self) -> bool:
        """Whether the query is unlike the pictures of the collection, so that its estimate means little."""
        return self.novelty is not None and self.novelty < NOVEL

    @property
    def shown_grade(self) -> str:
        """Estimate with its interval, for example "2 (1–3)"."""
        return format_interval(self.grade, self.lowest, self.highest)

    @property
    def explanation(self) -> str:
        """What the estimate means, in words."""
        if self.is_novel:
            return (
                f"Unlike anything in this collection (p = {self.novelty:.2g}): the estimate {self.grade} means little."
            )
        span = f"{self.lowest} alone" if self.lowest == self.highest else f"{self.lowest} to {self.highest}"
        text = f"{self.grade} is the middle estimate; for 9 pictures in 10 the interval, here {span}, holds the grade."
        likeliest = max(self.probabilities, key=lambda each: each.probability)
        if likeliest.grade != self.grade:
            text += f" The likeliest single grade is {likeliest.grade} ({format_percent(likeliest.probability)})."
        return text

    def to_frame(self) -> pd.DataFrame:
        """Return the ranked pictures as a pandas DataFrame, one row each."""
        return frame_of([asdict(hit) for hit in self.hits], list(RankedPicture.__dataclass_fields__))


def format_interval(grade: str, lowest: str | None, highest: str | None) -> str:
    """Return an estimate with its interval, which is left out if it is the estimate alone."""
    return grade if lowest is None or lowest == highest else f"{grade} ({lowest}–{highest})"


def frame_of(rows: Sequence[Any], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError:
        raise InputError("data frames need pandas: pip install pandas") from None
    return pd.DataFrame(rows, columns=list(columns))
