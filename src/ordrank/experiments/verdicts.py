"""From scores of single splits to rows, paired tests and verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import scipy.stats

from ordrank._types import FloatArray
from ordrank.experiments.contender import Contender, Kind
from ordrank.experiments.ours import OURS
from ordrank.experiments.scores import Score

LEVEL = 0.05
PERMUTATIONS = 10_000
FEWEST_SPLITS = 5  # with fewer, equal differences are an accident and a t-test says nothing
SHOWN_CHOICES = 5
MEANS = (
    "accuracy", "kappa", "tau", "order_kept", "ndcg", "same_subject_in_grade", "same_subject",
    "search_seconds", "fit_seconds", "predict_seconds",
)  # fmt: skip

Place: TypeAlias = tuple[str, str, int]  # contest, rule, n
Outcome: TypeAlias = Literal["win", "tie", "loss", "undecided", "not run"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(frozen=True)
class Row:
    """One method in one condition: means over the splits it finished, ``repeats`` of ``splits``.

    ``chosen`` counts the most frequent values of what was chosen, ``failure`` says why splits are missing; what
    does not apply is None.
    """

    contest: str
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
    order_kept: float | None
    ndcg: float | None
    same_subject_in_grade: float | None
    same_subject: float | None
    search_seconds: float | None
    fit_seconds: float | None
    predict_seconds: float | None
    chosen: dict[str, int]

    @property
    def place(self) -> Place:
        """Where it stands."""
        return self.contest, self.rule, self.n


@dataclass(frozen=True)
class Verdict:
    """Our default model against one other in one condition.

    Attributes
    ----------
    contest, rule, n, method, kind
        Against whom, and where.
    verdict : {"win", "tie", "loss", "undecided", "not run"}
        From our side, at the level of 5 %, two-sided; undecided where there is too little to test by.
    difference : float or None
        MAE of the other minus ours on the splits that both finished: positive where ours is better.
    p, plain_p : float or None
        Of the test that decides, and of the plain paired t-test, which takes splits for independent.
    splits, splits_won : int
        How many both finished, and on how many of them ours is strictly better.
    """

    contest: str
    rule: str
    n: int
    method: str
    kind: Kind
    verdict: Outcome
    difference: float | None
    p: float | None
    plain_p: float | None
    splits: int
    splits_won: int


def make_rows(scores: Iterable[Score], contenders: Sequence[Contender]) -> list[Row]:
    """Rows condition by condition, the contenders in their order."""
    kinds = {contender.name: contender.kind for contender in contenders}
    found = _by_place(scores)
    return [
        _row(place, name, kinds[name], mine[name]) for place, mine in found.items() for name in kinds if name in mine
    ]


def make_verdicts(scores: Iterable[Score], contenders: Sequence[Contender]) -> list[Verdict]:
    """Our default model against everyone who sees what it sees; who sees more is in no verdict."""
    rivals = [contender for contender in contenders if contender.kind in ("paper", "peer")]
    return [
        _verdict(place, rival, mine[OURS], mine[rival.name])
        for place, mine in _by_place(scores).items()
        for rival in rivals
        if OURS in mine and rival.name in mine
    ]


def summarise(rows: Sequence[Row], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """How often ours wins, ties and loses, against whom, and how it stands in each condition."""
    places = [_stand(place, rows, verdicts) for place in dict.fromkeys(row.place for row in rows)]
    return {
        "places": places,
        "best_or_tied": sum(place["best_or_tied"] for place in places),
        "best_or_tied_plain_test": sum(place["best_or_tied_plain_test"] for place in places),
        "lowest": sum(place["lowest"] for place in places),
        "against_peers": _count(verdict for verdict in verdicts if verdict.kind == "peer"),
        "against_paper": _count(verdict for verdict in verdicts if verdict.kind == "paper"),
        "against_peers_plain_test": _count((verdict for verdict in verdicts if verdict.kind == "peer"), plain=True),
        "by_method": {
            name: _count(verdict for verdict in verdicts if verdict.method == name)
            for name in dict.fromkeys(verdict.method for verdict in verdicts)
        },
    }


def corrected_resampled_t(differences: FloatArray, test_per_train: float) -> float:
    r"""Two-sided p of a paired t-test over random splits that overlap (Nadeau and Bengio, 2003).

    :math:`t = \bar d / \sqrt{(1/J + n_{test}/n_{train})\, s^2}` with J - 1 degrees of freedom: the second term makes
    up for splits that share samples, which the plain test takes for independent. Where there are many more test than
    training samples it is very strict: with 30 and 545, a mean difference has to be nearly nine
    standard deviations, so a tie there says little.

    Parameters
    ----------
    differences : ndarray of shape (J,)
        At least two.
    test_per_train : float
        Test samples for each training sample.
    """
    n_splits = len(differences)
    error = np.sqrt((1 / n_splits + test_per_train) * differences.var(ddof=1))
    mean = abs(float(differences.mean()))
    if error <= 1e-12 * mean or error == 0:  # the same difference on every split, up to rounding
        return 1.0 if mean == 0 else 0.0
    return float(2 * scipy.stats.t.sf(mean / error, n_splits - 1))


def paired_permutation(differences: FloatArray, seed: int = 0) -> float:
    """Two-sided p of the mean of paired differences (n,): how often random signs reach as far."""
    rng = np.random.default_rng(seed)
    signs = rng.integers(0, 2, size=(PERMUTATIONS, len(differences))) * 2 - 1
    reached = np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9
    return float((1 + reached.sum()) / (1 + PERMUTATIONS))


def by_plain_test(verdict: Verdict) -> Outcome:
    """The outcome if splits were independent; of a single split, the outcome itself."""
    if verdict.plain_p is None or verdict.difference is None:
        return verdict.verdict
    return decide(verdict.difference, verdict.plain_p)


def _by_place(scores: Iterable[Score]) -> dict[Place, dict[str, list[Score]]]:
    found: dict[Place, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        found[score.match.contest, score.match.rule, score.match.n][score.method].append(score)
    return found


def _row(place: Place, method: str, kind: Kind, scores: Sequence[Score]) -> Row:
    errors = np.array([score.mae for score in scores if score.mae is not None])
    failures = [score.failure for score in scores if score.failure]
    counts = Counter(_choice(name, value) for score in scores for name, value in score.chosen.items())
    means: dict[str, Any] = {name: _mean(scores, name) for name in MEANS}
    contest, rule, n = place
    return Row(
        contest=contest,
        rule=rule,
        n=n,
        method=method,
        kind=kind,
        splits=len(scores),
        repeats=len(errors),
        n_train=float(np.mean([score.n_train for score in scores])),
        n_test=float(np.mean([score.n_test for score in scores])),
        failure=failures[0] if failures else None,
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
    return float(np.mean(values)) if values else None


def _verdict(place: Place, rival: Contender, ours: Sequence[Score], theirs: Sequence[Score]) -> Verdict:
    by_repeat = {score.match.repeat: score for score in ours if score.mae is not None}
    pairs = [(by_repeat[s.match.repeat], s) for s in theirs if s.mae is not None and s.match.repeat in by_repeat]
    if not pairs:
        return Verdict(*place, rival.name, rival.kind, "not run", None, None, None, 0, 0)
    gains = np.array([_mae(theirs) - _mae(ours) for ours, theirs in pairs])
    gain, p = float(gains.mean()), _p_value(pairs, gains)
    plain = corrected_resampled_t(gains, 0.0) if len(pairs) >= FEWEST_SPLITS else None
    won = int((gains > 0).sum())
    return Verdict(*place, rival.name, rival.kind, decide(gain, p), gain, p, plain, len(pairs), won)


def decide(gain: float, p: float | None) -> Outcome:
    """Read a test from our side."""
    if p is None:
        return "undecided"
    if p >= LEVEL:
        return "tie"
    return "win" if gain > 0 else "loss"


def _p_value(pairs: Sequence[tuple[Score, Score]], gains: FloatArray) -> float | None:
    """Over splits, or over the test samples of a single one; None where there is nothing to test by."""
    if len(pairs) >= FEWEST_SPLITS:
        return corrected_resampled_t(gains, float(np.mean([ours.n_test / ours.n_train for ours, _ in pairs])))
    ours, theirs = pairs[0]
    if len(pairs) > 1 or ours.errors is None or theirs.errors is None:
        return None
    return paired_permutation(np.array(theirs.errors) - np.array(ours.errors))


def _mae(one: Score | Row) -> float:
    """MAE of what is known to have run."""
    value = one.mae if isinstance(one, Score) else one.mae_mean
    assert value is not None
    return value


def _stand(place: Place, rows: Sequence[Row], verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Ours in one condition: the best rival that finished every split, the margin to it, and losses to anyone."""
    complete = {row.method: row for row in rows if row.place == place and row.repeats == row.splits}
    ours = complete.get(OURS)
    best = min((row for row in complete.values() if row.kind in ("paper", "peer")), key=_mae, default=None)
    here = [verdict for verdict in verdicts if (verdict.contest, verdict.rule, verdict.n) == place]
    lost = [verdict.method for verdict in here if verdict.verdict == "loss"]
    lost_plain = [verdict.method for verdict in here if by_plain_test(verdict) == "loss"]
    tested = any(verdict.p is not None for verdict in here)
    margin = _mae(best) - _mae(ours) if best and ours else None
    return {
        "contest": place[0], "rule": place[1], "n": place[2],
        "ours": ours.mae_mean if ours else None,
        "best_rival": best.method if best else None,
        "best_rival_mae": best.mae_mean if best else None,
        "margin": margin,
        "lowest": margin is not None and margin >= 0,
        "tested": tested,
        "best_or_tied": ours is not None and tested and not lost,
        "best_or_tied_plain_test": ours is not None and tested and not lost_plain,
        "lost_to": lost,
        "lost_to_plain_test": lost_plain,
    }  # fmt: skip


def _count(verdicts: Iterable[Verdict], *, plain: bool = False) -> dict[Outcome, int]:
    """How often each outcome; by the plain test where there are splits to make one over."""
    found = Counter(by_plain_test(verdict) if plain else verdict.verdict for verdict in verdicts)
    return {outcome: found[outcome] for outcome in OUTCOMES}
