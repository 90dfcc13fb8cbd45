"""How many comparisons it takes to order pictures, and what they add to a few grades.

200 drawn fruits; the true order is that of the ripeness they were drawn with. For each number of comparisons a picture
Kendall's τ of positions and ripeness. ``chosen`` pairs are those of the largest expected information, ``random`` ones
are drawn; ``features`` are pixels, as in a collection without a network, or none. Answers are ``exact``, or ``10 %
wrong``: reversed with that probability, or ``close pairs wrong``, by the model of Bradley and Terry with the noise at
which 10 % of the answers about random pairs would be wrong: chosen pairs are closer, and more often wrong.

Then the 20 first grades of these fruits, and chosen comparisons: the default ranker is fitted to the given and the
implied grades, and scored on 400 other fruits by mean absolute error and τ of the mean of the predicted distribution.
``loo_mae`` is what leave-one-out says, of the given grades only. Prints one JSON document.

    python experiments/benchmarks/comparisons.py [--runs 10] [--seed 2042] [--jobs 1] [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image
from scipy.optimize import brentq
from scipy.stats import kendalltau
from threadpoolctl import threadpool_limits

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray
from ordrank.collection.projection import fit_projection
from ordrank.datasets import Fruit, make_fruit
from ordrank.features.pixels import Pixels
from ordrank.labeling.comparisons import Comparisons, Grades, Positions
from ordrank.labeling.pair_choice import choose_pair
from ordrank.labeling.position_model import (
    Hyperparameters,
    PositionModel,
    given_grades,
    graded_model,
    implied_grades,
    squared_distances,
    unscaled_model,
)

SEED = 2042
N, N_TEST, N_GRADES, PER_PICTURE = 200, 400, 20, 5
WRONG = 0.1
SIZES = (200, 500, 1000, 2000)
# As in a collection: a fit with all comparisons when there are so many times as many, a selection of hyperparameters.
REFIT, SELECT = 1.2, 1.5

Answers = Callable[[int, int], int]


@dataclass
class Session:
    """Positions that follow the answers, as in a collection."""

    model: PositionModel
    grades: Grades
    rows: list[tuple[int, int, int]] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hyperparameters: Hyperparameters = self.model.start
        self.positions: Positions = self.fit()
        self.n_fitted = self.n_selected = 0

    def fit(self) -> Positions:
        """Return the positions by all answers."""
        return self.model.fit(Comparisons.from_rows(self.rows), self.hyperparameters, self.grades)

    def ask(self, answer: Answers) -> None:
        """Choose a pair and take in the answer."""
        begin = time.perf_counter()
        pair = choose_pair(self.positions, [(i, j) for i, j, _ in self.rows], seed=len(self.rows))
        assert pair is not None
        self.rows.append((*pair, answer(*pair)))
        count = len(self.rows)
        if count > REFIT * (self.n_fitted + 10):
            if count > SELECT * self.n_selected:
                self.select()
            self.positions, self.n_fitted = self.fit(), count
        else:
            self.positions = self.positions.with_answer(*self.rows[-1])
        self.milliseconds.append(1000 * (time.perf_counter() - begin))

    def select(self) -> None:
        """Select the hyperparameters by the answers so far."""
        found = self.model.select(Comparisons.from_rows(self.rows), self.grades, self.hyperparameters)
        self.hyperparameters, self.n_selected = found, len(self.rows)


def answers_of(kind: str, ripeness: FloatArray, rng: np.random.Generator) -> Answers:
    """Return a function that compares two fruits."""
    noise = logistic_noise(ripeness) if kind == "close pairs wrong" else 0.0

    def answer(i: int, j: int) -> int:
        difference = ripeness[i] - ripeness[j] + (noise * rng.logistic() if noise else 0.0)
        is_reversed = kind == "10 % wrong" and rng.random() < WRONG
        return int(np.sign(difference)) * (-1 if is_reversed else 1)

    return answer


def logistic_noise(ripeness: FloatArray) -> float:
    """Return the scale of the noise with which a tenth of the answers about random pairs are wrong."""
    i, j = np.triu_indices(len(ripeness), 1)
    apart = np.abs(ripeness[i] - ripeness[j])
    return float(brentq(lambda scale: (1 / (1 + np.exp(apart / scale))).mean() - WRONG, 1e-2, 10.0))


def pixels(fruit: Fruit) -> FloatArray:
    """Return the features of a collection without a network."""
    return Pixels().extract([Image.fromarray(image) for image in fruit.images]).astype(np.float64)


def chosen_curve(model: PositionModel, ripeness: FloatArray, answer: Answers) -> tuple[list[float], list[float]]:
    """Return τ after each comparison a picture, and the time of each answer in milliseconds."""
    session, curve = Session(model, Grades.none()), []
    for count in range(1, PER_PICTURE * N + 1):
        session.ask(answer)
        if count % N == 0:
            curve.append(tau(session.fit().mean, ripeness))
    return curve, session.milliseconds


def random_curve(model: PositionModel, ripeness: FloatArray, answer: Answers, rng: np.random.Generator) -> list[float]:
    """Return τ after each comparison a picture, of different random pairs."""
    pairs = np.column_stack(np.triu_indices(N, 1))
    pairs = rng.permutation(pairs)[: PER_PICTURE * N]
    rows = [(i, j, answer(i, j)) for i, j in pairs.tolist()]
    curve = []
    for count in range(N, len(rows) + 1, N):
        comparisons = Comparisons.from_rows(rows[:count])
        curve.append(tau(model.fit(comparisons, model.select(comparisons)).mean, ripeness))
    return curve


def tau(positions: FloatArray, ripeness: FloatArray) -> float:
    """Return Kendall's τ."""
    return float(kendalltau(positions, ripeness).statistic)


def measure(run: int, seed: int) -> tuple[dict[str, list[float]], list[float], list[dict[str, float]]]:
    """Return the curves of one run, the times of its answers, and its scores by the number of comparisons."""
    fruit = make_fruit(N + N_TEST, size=48, random_state=1000 * seed + run)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grades of few samples
        curves, times = measure_order(fruit, run, seed)
        graded = measure_grades(fruit, run, seed)
    sys.stderr.write(f"{run} { {key: np.round(curve, 3).tolist() for key, curve in curves.items()} }\n")
    return curves, times, graded


def measure_order(fruit: Fruit, run: int, seed: int) -> tuple[dict[str, list[float]], list[float]]:
    """Return the curves of one run by answers, pairs and features, and the times with features."""
    ripeness, X = fruit.ripeness[:N], pixels(fruit)[:N]
    curves, times = {}, []
    for kind in ("exact", "10 % wrong", "close pairs wrong"):
        for features, model in (("pixels", unscaled_model(N, X)), ("none", unscaled_model(N))):
            rng = np.random.default_rng((seed, run))
            answer = answers_of(kind, ripeness, rng)
            curves[f"{kind}|chosen|{features}"], milliseconds = chosen_curve(model, ripeness, answer)
            times += milliseconds if features == "pixels" else []
            curves[f"{kind}|random|{features}"] = random_curve(model, ripeness, answer, rng)
    return curves, times


def measure_grades(fruit: Fruit, run: int, seed: int) -> list[dict[str, float]]:
    """Return the scores of a ranker of 20 grades, and with the grades that comparisons imply."""
    rng = np.random.default_rng((seed, run, 1))
    features = pixels(fruit)
    project = fit_projection([features[:N].astype(np.float32)])
    X, true = project(features.astype(np.float32)), fruit.grade.astype(np.float64)
    given = np.full(N, np.nan)
    graded = rng.choice(N, N_GRADES, replace=False)
    given[graded] = true[graded]
    labels = np.unique(given[graded])
    ranker = fitted(X[:N], given)
    estimates = np.asarray(ranker.predict(X[:N]), dtype=np.float64)
    estimates[~np.isnan(given)] = ranker.grade_distribution_.median(ranker.loo_proba_)
    session = Session(graded_model(labels, estimates, features[:N]), given_grades(given, labels))
    answer = answers_of("exact", fruit.ripeness, rng)
    found = [scores(ranker, X, fruit, given, np.full(N, np.nan))]
    for count in range(1, PER_PICTURE * N + 1):
        session.ask(answer)
        if count % N == 0:
            session.select()
            implied = implied_grades(session.fit(), given, labels)
            found.append(scores(fitted(X[:N], np.where(np.isnan(given), implied, given)), X, fruit, given, implied))
    return found


def fitted(X: Any, grades: FloatArray) -> OrdinalRanker:
    """Fit the default ranker, to samples without grades too."""
    known = ~np.isnan(grades)
    return OrdinalRanker().fit(X[known], grades[known], X[~known])


def scores(ranker: OrdinalRanker, X: Any, fruit: Fruit, given: FloatArray, implied: FloatArray) -> dict[str, float]:
    """Return errors on other fruits, what leave-one-out says of them, and how many grades are implied and wrong."""
    proba = np.asarray(ranker.predict_proba(X[N:]))
    labelled = np.where(np.isnan(given), implied, given)
    is_given = ~np.isnan(given[~np.isnan(labelled)])
    medians = ranker.grade_distribution_.median(ranker.loo_proba_[is_given])
    is_implied = ~np.isnan(implied)
    return {
        "mae": float(np.abs(ranker.predict(X[N:]) - fruit.grade[N:]).mean()),
        "tau": tau(proba @ ranker.classes_, fruit.ripeness[N:]),
        "loo_mae": float(np.abs(medians - given[~np.isnan(given)]).mean()),
        "implied": float(is_implied.sum()),
        "wrong": float((implied[is_implied] != fruit.grade[:N][is_implied]).sum()),
    }


def measure_times(seed: int) -> list[dict[str, float]]:
    """Return the milliseconds of an answer and the next pair, and of a fit, with five random comparisons a picture."""
    rows = []
    for n in SIZES:
        rng = np.random.default_rng((seed, n))
        X = rng.normal(size=(n, 20))
        model, first = PositionModel(np.zeros(n), 1.0, squared_distances(X)), rng.integers(n, size=PER_PICTURE * n)
        second = (first + rng.integers(1, n, size=len(first))) % n
        comparisons = Comparisons(first, second, np.where(X[first, 0] > X[second, 0], 1, -1))
        answered = list(zip(first.tolist(), second.tolist(), strict=True))
        begin = time.perf_counter()
        positions = model.fit(comparisons, model.start)
        fit, each = time.perf_counter() - begin, []
        for i in range(20):
            begin = time.perf_counter()
            pair = choose_pair(positions, answered, seed=i)
            assert pair is not None
            positions = positions.with_answer(*pair, 1)
            each.append(time.perf_counter() - begin)
        rows.append({"pictures": n, "answer": round(1000 * float(np.median(each)), 1), "fit": round(1000 * fit)})
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    runs = (delayed(measure)(run, options.seed) for run in range(options.runs))
    curves, milliseconds, graded = zip(*Parallel(n_jobs=options.jobs)(runs), strict=True)
    times = [one for each in milliseconds for one in each]
    with threadpool_limits(1):
        by_size = measure_times(options.seed)
    document = {
        "benchmark": "comparisons",
        "seed": options.seed,
        "runs": options.runs,
        "pictures": N,
        "order": [order_row(key, [one[key] for one in curves]) for key in curves[0]],
        "grades": [
            {"comparisons": N * i, **{key: round(float(np.mean([one[i][key] for one in graded])), 4) for key in row}}
            for i, row in enumerate(graded[0])
        ],
        "milliseconds": {str(q): round(float(np.percentile(times, q)), 1) for q in (50, 95, 99, 100)},
        "times": by_size,
    }
    print_document(document | describe_machine(), options.out)


def order_row(key: str, curves: list[list[float]]) -> dict[str, Any]:
    """Return mean and lowest τ over the runs, by the number of comparisons a picture."""
    answers, pairs, features = key.split("|")
    table = np.array(curves)
    return {
        "answers": answers,
        "pairs": pairs,
        "features": features,
        "tau": np.round(table.mean(axis=0), 4).tolist(),
        "lowest": np.round(table.min(axis=0), 4).tolist(),
    }


if __name__ == "__main__":
    main()
