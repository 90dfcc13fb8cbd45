"""Means over splits, paired significance tests, and their summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.stats

from ordrank._protocols import FloatArray
from ordrank_experiments.conditions import INDEPENDENT_RULES
from ordrank_experiments.method import Kind, Method
from ordrank_experiments.own_methods import DEFAULT
from ordrank_experiments.scores import Score

LEVEL = 0.05
PERMUTATIONS = 10_000
MIN_SPLITS = 5  # below, a t-test over splits is meaningless
SHOWN_CHOICES = 5
MEANS = (
    "accuracy", "kappa", "tau", "rps", "calibration", "order_preservation", "ndcg", "same_subject_in_grade",
    "same_subject", "search_seconds", "fit_seconds", "predict_seconds",
)  # fmt: skip

PROBABILISTIC = ("rps", "calibration")

Condition: TypeAlias = tuple[str, str, int]  # benchmark, rule, n
Outcome: TypeAlias = Literal["win", "tie", "loss", "undecided", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Row:
    """Mean scores of one method in one condition, over the ``repeats`` of ``splits`` that it finished.

    ``chosen`` counts the most frequent hyperparameter values; ``failure`` says why splits are missing.
    """

    benchmark: str
    rule: str
    n: int
    method: str
    kind: Kind
    splits: int
    repeats: int
    n_train: float
    n_test: float
    failure: str | None
    mae_mean: float | None
    mae_std: float | None
    accuracy: float | None
    kappa: float | None
    tau: float | None
    rps: float | None
    calibration: float | None
    order_preservation: float | None
    ndcg: float | None
    same_subject_in_grade: float | None
    same_subject: float | None
    search_seconds: float | None
    fit_seconds: float | None
    predict_seconds: float | None
    chosen: dict[str, int]

    @property
    def condition(self) -> Condition:
        """Benchmark, split rule and number of training samples."""
        return self.benchmark, self.rule, self.n


@dataclass(frozen=True)
class PairedTest:
    """The default model against another method in one condition.

    Attributes
    ----------
    benchmark, rule, n, method, kind
        Condition and other method.
    outcome : {"win", "tie", "loss", "undecided", "not run"}
        Of the default model, two-sided, at the level of 5 %.
    difference : float or None
        Mean MAE of the other method minus that of the default model, on the splits that both finished.
    p, uncorrected_p : float or None
        p-value of the corrected resampled t-test, and of the paired t-test that assumes independent splits.
    splits, splits_won : int
        Splits that both finished, and those on which the default model is strictly better.
    """

    benchmark: str
    rule: str
    n: int
    method: str
    kind: Kind
    outcome: Outcome
    difference: float | None
    p: float | None
    uncorrected_p: float | None
    splits: int
    splits_won: int

    @property
    def condition(self) -> Condition:
        """Benchmark, split rule and number of training samples."""
        return self.benchmark, self.rule, self.n

    @property
    def uncorrected_outcome(self) -> Outcome:
        """Outcome if splits were independent; for a single split, the outcome itself."""
        if self.uncorrected_p is None or self.difference is None:
            return self.outcome
        return decide(self.difference, self.uncorrected_p)


def make_rows(scores: Iterable[Score], methods: Sequence[Method]) -> list[Row]:
    """Return the rows of each condition, in the order of the methods."""
    kinds = {method.name: method.kind for method in methods}
    return [
        _row(condition, name, kinds[name], by_method[name])
        for condition, by_method in _by_condition(scores).items()
        for name in kinds
        if name in by_method
    ]


def paired_tests(scores: Iterable[Score], methods: Sequence[Method]) -> list[PairedTest]:
    """Test the default model against every method that has the same information, so not the transductive one."""
    others = [method for method in methods if method.kind in ("paper", "baseline")]
    return [
        _paired_test(condition, other, by_method[DEFAULT], by_method[other.name])
        for condition, by_method in _by_condition(scores).items()
        for other in others
        if DEFAULT in by_method and other.name in by_method
    ]


def summarise(rows: Sequence[Row], tests: Sequence[PairedTest]) -> dict[str, Any]:
    """Count wins, ties and losses of the default model, by method and by condition."""
    conditions = [_standing(condition, rows, tests) for condition in dict.fromkeys(row.condition for row in rows)]
    baselines, paper = ([test for test in tests if test.kind == kind] for kind in ("baseline", "paper"))
    return {
        "conditions": conditions,
        **{
            key: sum(condition[key] for condition in conditions)
            for key in ("best_or_tied", "best_or_tied_uncorrected", "lowest")
        },
        "against_baselines": _count(test.outcome for test in baselines),
        "against_paper": _count(test.outcome for test in paper),
        "against_baselines_uncorrected": _count(test.uncorrected_outcome for test in baselines),
        "by_method": {
            name: _count(test.outcome for test in tests if test.method == name)
            for name in dict.fromkeys(test.method for test in tests)
        },
    }


def corrected_resampled_t(differences: FloatArray, test_per_train: float) -> float:
    r"""Return the two-sided p-value of a paired t-test over overlapping random splits.

    :math:`t = \bar d / \sqrt{(1/J + n_{test}/n_{train})\, s^2}` with J - 1 degrees of freedom. The second term
    corrects for splits that share samples. With many more test than training samples the test is very strict: with 30
    and 545, significance needs a mean difference of almost nine standard deviations.

    Parameters
    ----------
    differences : ndarray of shape (J,)
        At least two.
    test_per_train : float
        Ratio of test to training samples; 0 gives the uncorrected test.

    References
    ----------
    C. Nadeau and Y. Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    n_splits = len(differences)
    error = np.sqrt((1 / n_splits + test_per_train) * differences.var(ddof=1))
    mean = abs(float(differences.mean()))
    if error <= 1e-12 * mean or error == 0:  # the same difference on every split, up to rounding
        return 1.0 if mean == 0 else 0.0
    return float(2 * scipy.stats.t.sf(mean / error, n_splits - 1))


def paired_permutation(differences: FloatArray, seed: int = 0) -> float:
    """Return the two-sided p-value of the mean of paired differences (n,) under random signs."""
    rng = np.random.default_rng(seed)
    signs = rng.integers(0, 2, size=(PERMUTATIONS, len(differences))) * 2 - 1
    as_large = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9
    return float((1 + as_large.sum()) / (1 + PERMUTATIONS))


def decide(difference: float, p: float | None) -> Outcome:
    """Return the outcome for the default model; ``difference`` is positive where it is better."""
    if p is None:
        return "undecided"
    if p >= LEVEL:
        return "tie"
    return "win" if difference > 0 else "loss"


def _by_condition(scores: Iterable[Score]) -> dict[Condition, dict[str, list[Score]]]:
    grouped: dict[Condition, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        grouped[score.split.benchmark, score.split.rule, score.split.n][score.method].append(score)
    return grouped


def _row(condition: Condition, method: str, kind: Kind, scores: Sequence[Score]) -> Row:
    errors = np.array([score.mae for score in scores if score.mae is not None])
    counts = Counter(_choice(name, value) for score in scores for name, value in score.chosen.items())
    means: dict[str, Any] = {name: _mean(scores, name) for name in MEANS}
    return Row(
        *condition,
        method=method,
        kind=kind,
        splits=len(scores),
        repeats=len(errors),
        n_train=float(np.mean([score.n_train for score in scores])),
        n_test=float(np.mean([score.n_test for score in scores])),
        failure=next((score.failure for score in scores if score.failure), None),
        mae_mean=float(errors.mean()) if len(errors) else None,
        mae_std=float(errors.std(ddof=1)) if len(errors) > 1 else None,
        chosen=dict(counts.most_common(SHOWN_CHOICES)),
        **means,
    )


def _choice(name: str, value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return f"{name} {value:.3g}" if number else f"{name} {value}"


def _mean(scores: Sequence[Score], name: str) -> float | None:
    values = [getattr(score, name) for score in scores if getattr(score, name) is not None]
    if name in PROBABILISTIC and len(values) < sum(score.mae is not None for score in scores):
        return None  # a mean over the splits that allow probabilities would not compare with other methods
    return float(np.mean(values)) if values else None


def _paired_test(condition: Condition, method: Method, own: Sequence[Score], others: Sequence[Score]) -> PairedTest:
    by_repeat = {score.split.repeat: score for score in own if score.mae is not None}
    pairs = [(by_repeat[s.split.repeat], s) for s in others if s.mae is not None and s.split.repeat in by_repeat]
    if not pairs:
        return PairedTest(*condition, method.name, method.kind, "not run", None, None, None, 0, 0)
    differences = np.array([_mae(other) - _mae(default) for default, other in pairs])
    mean, p = float(differences.mean()), _p_value(pairs, differences)
    uncorrected = corrected_resampled_t(differences, 0.0) if len(pairs) >= MIN_SPLITS else None
    won = int((differences > 0).sum())
    return PairedTest(*condition, method.name, method.kind, decide(mean, p), mean, p, uncorrected, len(pairs), won)


def _p_value(pairs: Sequence[tuple[Score, Score]], differences: FloatArray) -> float | None:
    """Test over splits, or over the test samples of a single split; None with a few splits."""
    if len(pairs) >= MIN_SPLITS:
        independent = pairs[0][0].split.rule in INDEPENDENT_RULES
        ratio = 0.0 if independent else float(np.mean([own.n_test / own.n_train for own, _ in pairs]))
        return corrected_resampled_t(differences, ratio)
    own, other = pairs[0]
    if len(pairs) > 1 or own.errors is None or other.errors is None:
        return None
    return paired_permutation(np.array(other.errors) - np.array(own.errors))


def _mae(result: Score | Row) -> float:
    value = result.mae if isinstance(result, Score) else result.mae_mean
    assert value is not None
    return value


def _standing(condition: Condition, rows: Sequence[Row], tests: Sequence[PairedTest]) -> dict[str, Any]:
    """Compare the default model with the best other method that finished every split, and list losses to any."""
    complete = {row.method: row for row in rows if row.condition == condition and row.repeats == row.splits}
    own = complete.get(DEFAULT)
    best = min((row for row in complete.values() if row.kind in ("paper", "baseline")), key=_mae, default=None)
    here = [test for test in tests if test.condition == condition]
    lost = [test.method for test in here if test.outcome == "loss"]
    lost_uncorrected = [test.method for test in here if test.uncorrected_outcome == "loss"]
    tested = any(test.p is not None for test in here)
    margin = _mae(best) - _mae(own) if best and own else None
    return {
        **dict(zip(("benchmark", "rule", "n"), condition, strict=True)),
        "mae": own.mae_mean if own else None,
        "best_other": best.method if best else None,
        "best_other_mae": best.mae_mean if best else None,
        "margin": margin,
        "lowest": margin is not None and margin >= 0,
        "tested": tested,
        "best_or_tied": own is not None and tested and not lost,
        "best_or_tied_uncorrected": own is not None and tested and not lost_uncorrected,
        "lost_to": lost,
        "lost_to_uncorrected": lost_uncorrected,
    }


def _count(outcomes: Iterable[Outcome]) -> dict[Outcome, int]:
    counts = Counter(outcomes)
    return {outcome: counts[outcome] for outcome in OUTCOMES}
