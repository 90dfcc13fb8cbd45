"""Means over the splits of photographs, paired tests of their methods, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ordrank._protocols import FloatArray
from ordrank_experiments.photo_methods import FROZEN, PhotoScore, outputs_of
from ordrank_experiments.significance import MIN_SPLITS, Outcome, corrected_resampled_t, decide, paired_permutation

MEASURES = (
    "mae", "accuracy", "kappa", "tau", "same_subject", "same_subject_in_grade", "possible_in_grade", "coverage",
    "width", "fit_seconds",
)  # fmt: skip

PhotoCondition: TypeAlias = tuple[str, str]  # data and rule


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation (None of a single one) of values of splits, in the order of the repeats."""

    mean: float
    std: float | None
    by_split: tuple[float | None, ...]


@dataclass(frozen=True)
class PhotoRow:
    """Scores of one method in one condition, over the ``repeats`` of ``splits`` that it finished.

    ``scores`` has a Spread of each of MEASURES, None if it is not applicable; ``failure`` says why splits are missing.
    """

    data: str
    rule: str
    method: str
    splits: int
    repeats: int
    n_train: float
    n_test: float
    failure: str | None
    scores: dict[str, Spread | None]

    @property
    def condition(self) -> PhotoCondition:
        """Data and rule."""
        return self.data, self.rule

    @property
    def mae(self) -> float | None:
        """Mean of the MAE."""
        spread = self.scores["mae"]
        return None if spread is None else spread.mean


@dataclass(frozen=True)
class PhotoTest:
    """A paired test of the MAE of two methods in one condition.

    Attributes
    ----------
    data, rule, method, other
        Condition and methods.
    outcome : {"win", "tie", "loss", "undecided", "not run"}
        Of ``method``, two-sided, at the level of 5 %.
    difference : float or None
        Mean MAE of ``other`` minus that of ``method``, on the splits that both finished.
    p, uncorrected_p : float or None
        p-value of the corrected resampled t-test, and of the paired t-test that assumes independent splits. If all
        repeats have the same test pictures, ``p`` is of a permutation test over these, of errors averaged over repeats.
    splits, splits_won : int
        Splits that both finished, and those on which ``method`` is strictly better.
    """

    data: str
    rule: str
    method: str
    other: str
    outcome: Outcome
    difference: float | None
    p: float | None
    uncorrected_p: float | None
    splits: int
    splits_won: int


@dataclass(frozen=True)
class Count:
    """In ``count`` of ``cases``, the pairs of a condition and a loss."""

    count: int
    cases: int


def make_rows(scores: Iterable[PhotoScore]) -> list[PhotoRow]:
    """Return a row of each condition and method, in the order in which they are met."""
    found: dict[tuple[str, str, str], list[PhotoScore]] = {}
    for score in scores:
        found.setdefault((score.data, score.rule, score.method), []).append(score)
    conditions = dict.fromkeys(key[:2] for key in found)
    return [_row(found[key]) for condition in conditions for key in found if key[:2] == condition]


def _row(scores: Sequence[PhotoScore]) -> PhotoRow:
    first = scores[0]
    return PhotoRow(
        first.data,
        first.rule,
        first.method,
        splits=len(scores),
        repeats=sum(score.mae is not None for score in scores),
        n_train=float(np.mean([score.n_train for score in scores])),
        n_test=float(np.mean([score.n_test for score in scores])),
        failure=next((score.failure for score in scores if score.failure), None),
        scores={name: _spread([getattr(score, name) for score in scores]) for name in MEASURES},
    )


def _spread(by_split: Sequence[float | None]) -> Spread | None:
    values = [value for value in by_split if value is not None]
    if not values:
        return None
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), std, tuple(by_split))


def paired_tests(scores: Iterable[PhotoScore], losses: Sequence[str]) -> list[PhotoTest]:
    """Test the first loss against all other methods, and the ranker against the outputs for the other losses."""
    found: dict[tuple[str, str], dict[str, list[PhotoScore]]] = {}
    for score in scores:
        found.setdefault((score.data, score.rule), {}).setdefault(score.method, []).append(score)
    first, *rest = losses
    pairs = [(first, FROZEN), (first, outputs_of(first))]
    pairs += [(first, other) for loss in rest for other in (loss, outputs_of(loss))]
    pairs += [(loss, outputs_of(loss)) for loss in rest]
    return [_test(by_method[method], by_method[other]) for by_method in found.values() for method, other in pairs]


def _test(own: Sequence[PhotoScore], others: Sequence[PhotoScore]) -> PhotoTest:
    first = own[0]
    names = first.data, first.rule, first.method, others[0].method
    by_repeat = {score.repeat: score for score in own}
    pairs = [(by_repeat[other.repeat], other) for other in others]
    differences = np.array([b.mae - a.mae for a, b in pairs if a.mae is not None and b.mae is not None])
    if not len(differences):
        return PhotoTest(*names, "not run", None, None, None, 0, 0)
    of_pictures = [np.subtract(b.errors, a.errors) for a, b in pairs if a.errors is not None and b.errors is not None]
    p = uncorrected = None
    if of_pictures:
        p = paired_permutation(np.mean(of_pictures, axis=0))
    elif len(differences) >= MIN_SPLITS:
        p = corrected_resampled_t(differences, float(np.mean([a.n_test / a.n_train for a, _ in pairs])))
        uncorrected = corrected_resampled_t(differences, 0.0)
    return _tested(names, differences, p, uncorrected)


def _tested(
    names: tuple[str, str, str, str], differences: FloatArray, p: float | None, uncorrected: float | None
) -> PhotoTest:
    mean, won = float(differences.mean()), int((differences > 0).sum())
    return PhotoTest(*names, decide(mean, p), mean, p, uncorrected, len(differences), won)


def summarise(rows: Sequence[PhotoRow], losses: Sequence[str]) -> dict[str, Count]:
    """Count the conditions and losses in which the mean MAE on tuned features is below another."""
    errors = {(row.condition, row.method): row.mae for row in rows}
    conditions = list(dict.fromkeys(row.condition for row in rows))

    def count(other_of: dict[str, str]) -> Count:
        pairs = [(errors[c, loss], errors[c, other]) for c in conditions for loss, other in other_of.items()]
        complete = [(own, other) for own, other in pairs if own is not None and other is not None]
        return Count(sum(own < other for own, other in complete), len(complete))

    return {
        "tuned_below_frozen": count(dict.fromkeys(losses, FROZEN)),
        "ranker_below_outputs": count({loss: outputs_of(loss) for loss in losses}),
    }
