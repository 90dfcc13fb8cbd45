"""Reports on a collection as a whole: imports, fits, scores of cross-validation, what may be wrong with pictures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ordrank._format import format_percent, pluralize
from ordrank.collection.types import BadPicture, frame_of

if TYPE_CHECKING:
    import pandas as pd

# Error relative to that of always the median grade, up to which a result is called so.
_VERDICTS = ((0.35, "very good"), (0.6, "good"), (0.8, "fair"), (0.95, "poor"))
_FLATTERING = (
    "; this flatters, because the fine-tuned network has seen other pictures of the groups that are held out: run "
    "`ordrank finetune` again"
)
_POOR = 0.8
FEW_PICTURES = 10  # of a grade: too few to learn it from
# Graded pictures below which the leave-one-out error is optimistic, because the model was selected by it: for drawn
# fruits, two fifths of which had random grades, it was 20 % too small with 30, 8 % with 60 and 5 % with 120 of them.
# With right grades it was not.
FEW_GRADED = 100
_ENOUGH_TO_FINETUNE = 500  # graded pictures with which fine-tuning was measured


@dataclass(frozen=True)
class ImportReport:
    """Outcome of reading the files of a folder.

    Attributes
    ----------
    read, known : int
        Pictures that were read, and those that had not changed since they were read before.
    bad : tuple of BadPicture
        Files that could not be used.
    ignored : int
        Files without the suffix of a picture.
    missing : int
        Pictures of the collection that are not in the folder; they are kept.
    regraded : int
        Pictures that had another grade before.
    reread : int
        Pictures of the collection that were read again because it gets other features.
    not_found : tuple of str
        Names in skipped lines of the CSV file, whose pictures are missing.
    """

    read: int = 0
    known: int = 0
    bad: tuple[BadPicture, ...] = ()
    ignored: int = 0
    missing: int = 0
    regraded: int = 0
    reread: int = 0
    not_found: tuple[str, ...] = ()


@dataclass(frozen=True)
class RemovalReport:
    """How many pictures were removed from a collection, and how many are left."""

    removed: int
    left: int


@dataclass(frozen=True)
class FeatureChoice:
    """Features that were chosen automatically.

    Attributes
    ----------
    features : str
    errors : dict
        Leave-one-out mean absolute error by features, alone or joined by ``+``, in the order they were compared; empty
        if too few pictures have grades.
    pictures : int
        Graded pictures on which they were compared.
    advice : str or None
        What to install for better features.
    """

    features: str
    errors: dict[str, float]
    pictures: int
    advice: str | None


@dataclass(frozen=True)
class FitReport:
    """Outcome of a fit.

    Attributes
    ----------
    pictures, graded : int
        Size of the collection.
    imported : ImportReport
    model : dict
        Hyperparameters that were selected.
    error, error_median : float
        Leave-one-out mean absolute error of the graded pictures, and that of always the median grade. The model was
        selected by it, so that it is optimistic for few or noisy grades; :meth:`Collection.evaluate` holds pictures out
        of the selection too. Comparisons of pictures do not count for it.
    verdict : str
        The error in words.
    advice : str or None
        What would help most, if the result is poor.
    features : FeatureChoice or None
        Why these features were chosen; None if they were named, or stayed as they were.
    """

    pictures: int
    graded: int
    imported: ImportReport
    model: dict[str, Any]
    error: float
    error_median: float
    verdict: str
    advice: str | None
    features: FeatureChoice | None = None


@dataclass(frozen=True)
class FinetuneReport:
    """Outcome of fine-tuning.

    Attributes
    ----------
    adopted : bool
        Whether the collection has the features of the network now: only if they are better.
    error_before, error_after : float
        Leave-one-out mean absolute error of the graded pictures with the features before, and with those of the
        network; each picture has those of a network that was trained without it, and without its group.
    features_before, undone_to : str
        Features of ``error_before``, those that the collection had, and those that undoing leads to: without any
        fine-tuned network. They are the same if the network before has seen groups that are held out now.
    network : str or None
        File of the network in the collection, if it was adopted.
    pictures, networks, steps : int
        Graded pictures, networks that were trained on them, and batches of all these together.
    seconds : float
        Of the whole run; after an interrupt, of the last part.
    selection : tuple of dict
        ``parameters`` and ``error`` of the candidates that were chosen from, the default first.
    """

    adopted: bool
    error_before: float
    error_after: float
    features_before: str
    undone_to: str
    network: str | None
    pictures: int
    networks: int
    steps: int
    seconds: float
    selection: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class GradeCount:
    """A grade as text and number, how many pictures were given it, and for how many others it is estimated."""

    grade: str
    value: float
    pictures: int
    estimated: int


@dataclass(frozen=True)
class Info:
    """Summary of a collection.

    Attributes
    ----------
    directory, name : str
    format : int
        Version of the file format.
    pictures, graded : int
    grades : tuple of GradeCount
        In ascending order; named grades also where no picture has them.
    features : str
        Name of the feature extractor.
    finetuned : dict or None
        What its network was trained on, if it was fine-tuned on grades of the collection.
    dimensions : dict
        Of the features, of their principal components, and of the order embedding.
    model : dict or None
        Hyperparameters that were selected; None before the first fit.
    fitted : str or None
        Time of the last fit.
    error : float or None
        Leave-one-out mean absolute error of that fit.
    balanced : bool
        Whether every grade had the same weight in it.
    groups : int
        Number of groups whose pictures are held out together; 0 if none are named.
    changed, added, removed : int
        What waits for training: grades that have changed since, pictures that were added or whose files have changed,
        and pictures that were removed.
    not_embedded : int
        How many of those that were added have no embedding yet, because a fit was interrupted.
    bytes : int
        Size on disk.
    """

    directory: str
    name: str
    format: int
    pictures: int
    graded: int
    grades: tuple[GradeCount, ...]
    features: str
    finetuned: dict[str, Any] | None
    dimensions: dict[str, int]
    model: dict[str, Any] | None
    fitted: str | None
    error: float | None
    balanced: bool
    groups: int
    changed: int
    added: int
    removed: int
    not_embedded: int
    bytes: int


@dataclass(frozen=True)
class Evaluation:
    """Scores of graded pictures that were held out of the fit: cross-validated, or from outside the collection.

    Attributes
    ----------
    pictures, folds : int
        How many were scored, and the folds of the cross-validation; 0 for pictures from outside.
    mae, mae_std : float
        Mean absolute error, and its standard deviation over the folds; that is None for pictures from outside.
    mae_median : float
        That of predicting the median grade of the training folds, or of the collection.
    accuracy, kappa, tau : float
        Share of exact grades and quadratic-weighted kappa, both of rounded estimates, and Kendall's τ.
    coverage : float
        Share of the pictures whose grade is in its 90 % interval.
    rps : float
        Ranked probability score of the distributions, in units of the grades.
    grades : tuple of str
    confusion : tuple of tuples of int
        Pictures by given grade (row) and estimated grade (column).
    mae_by_grade : tuple of float
        None for a grade that no scored picture has.
    verdict : str
        The result in words.
    advice : str or None
        What would help most, if the result is poor.
    read : ImportReport or None
        Outcome of reading pictures from outside.
    in_collection : tuple of str
        Those of them that are in the collection, by content: the model knows them, so they were not scored.
    """

    pictures: int
    folds: int
    mae: float
    mae_std: float | None
    mae_median: float
    accuracy: float
    kappa: float
    tau: float
    coverage: float
    rps: float
    grades: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    mae_by_grade: tuple[float | None, ...]
    verdict: str
    advice: str | None
    read: ImportReport | None = None
    in_collection: tuple[str, ...] = ()


@dataclass(frozen=True)
class PictureGrade:
    """A picture and its given grade; None if it has none."""

    id: int
    name: str
    grade: str | None


@dataclass(frozen=True)
class SuspectGrade:
    """A given grade that is improbable without it.

    Attributes
    ----------
    id, name, grade : int, str and str
        The picture and its given grade.
    estimate, lowest, highest : str
        Estimated grade and its interval, computed without the given grade.
    probability : float
        Of the given grade.
    score : float
        How improbable it is compared with the likeliest grade; the larger, the more suspect.
    neighbors : tuple of PictureGrade
        The nearest pictures that vote on the estimate.
    """

    id: int
    name: str
    grade: str
    estimate: str
    lowest: str
    highest: str
    probability: float
    score: float
    neighbors: tuple[PictureGrade, ...]


@dataclass(frozen=True)
class NearCopy:
    """Two pictures that look almost the same.

    Attributes
    ----------
    first, second : PictureGrade
    relative_distance : float
        In units of the usual distance to the nearest picture.
    leaks : bool
        Whether groups are named and these two are of different ones: held out alone, either shows the other.
    """

    first: PictureGrade
    second: PictureGrade
    relative_distance: float
    leaks: bool

    @property
    def has_different_grades(self) -> bool:
        """Whether both have a grade, and not the same."""
        return None not in (self.first.grade, self.second.grade) and self.first.grade != self.second.grade


@dataclass(frozen=True)
class NovelPicture:
    """A picture far from all others: its distance in units of the usual one."""

    id: int
    name: str
    grade: str | None
    relative_distance: float


@dataclass(frozen=True)
class DoctorReport:
    """What may be wrong with a collection, worst first, and what would help.

    Attributes
    ----------
    pictures, graded : int
        How many were examined.
    suspects : tuple of SuspectGrade
    near_copies : tuple of NearCopy
    novel : tuple of NovelPicture
    error, error_median : float
        Held-out mean absolute error of the last fit, and that of always the median grade.
    verdict : str
    advice : tuple of str
        What would help most, first.
    """

    pictures: int
    graded: int
    suspects: tuple[SuspectGrade, ...]
    near_copies: tuple[NearCopy, ...]
    novel: tuple[NovelPicture, ...]
    error: float
    error_median: float
    verdict: str
    advice: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """Return the suspect grades as a pandas DataFrame, one row each."""
        return frame_of([asdict(suspect) for suspect in self.suspects], list(SuspectGrade.__dataclass_fields__))


def verdict(error: float, error_median: float, *, has_seen_groups: bool = False) -> str:
    """Return a mean absolute error in words, compared with that of always the median grade.

    ``has_seen_groups`` is that of the store.
    """
    if error_median <= 0:
        return "all pictures have the same grade"
    ratio = error / error_median
    removed = format_percent(1 - ratio, " ")
    found = (
        f"{word}: {removed} less error than always the median grade" for limit, word in _VERDICTS if ratio <= limit
    )
    return next(found, "useless: hardly better than always the median grade") + _FLATTERING * has_seen_groups


def is_poor(error: float, error_median: float) -> bool:
    """Return whether the error is close to that of always the median grade."""
    return error > _POOR * error_median


def advice_for(counts: dict[str, int], features: str) -> str:
    """Return the one thing that would help a poor result most, given pictures by grade and the features."""
    total, rare = sum(counts.values()), min(counts, key=lambda grade: counts[grade])
    if total < FEW_PICTURES * len(counts):
        return f"grade more pictures: {total} for {pluralize(len(counts), 'grade')} are few"
    if features.startswith("pixels"):
        return (
            "use other features: pixels show little more than colour and layout; install a pretrained network with "
            "pip install 'ordrank[photos]', then train with --features auto"
        )
    if counts[rare] < FEW_PICTURES:
        return f"grade more pictures of grade {rare}, of which there are {counts[rare]}"
    if total >= _ENOUGH_TO_FINETUNE and not features.startswith("network-"):
        return "fine-tune a network on these grades with `ordrank finetune`"
    return "check the grades with `ordrank doctor`, and grade more pictures"
