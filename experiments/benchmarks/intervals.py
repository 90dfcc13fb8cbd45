"""Coverage and width of 90 % intervals of grades: ordrank, MAPIE, and an oracle.

Half of the samples are for training, by random splits or with whole people (plants) in one half. Every interval is a
contiguous set of grades, from a lowest to a highest one.

ordrank: ``predict_interval`` of the default model, fitted with ``groups`` where people are left out. MAPIE: CV+ (Barber
et al. 2021) of a kernel ridge regression and of a random forest, with five folds, of whole people where these are left
out; both ends are rounded inwards to a grade, which changes no coverage. Oracle: among the test samples with the same
predicted median (of the default model) the shortest contiguous set of grades that holds 90 % of their true grades. It
uses the test grades, and covers more than 90 % where one grade crosses that line; it is no lower bound for methods that
use more of a sample than its median.

``coverage`` is the share of test samples inside their interval, ``by_grade`` the same for each grade with at least 50
test samples a split on average; ``width`` is highest minus lowest grade, on the label scale, ``grades`` the number of
grades of the set. Means over splits; ``std`` is over splits. Prints one JSON document. MAPIE: ``make baselines``.

    python experiments/benchmarks/intervals.py [--only ordrank] [--datasets umist,fgnet] [--data DIR] [--repeats 10]
                                               [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from ordrank_experiments.graded_data import GRADED, GradedData, load_graded
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.scaling import UnitMeanSquare
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit, StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray
from ordrank.metrics import nearest_label

SEED = 2028
COVERAGE = 0.9
FOLDS = 5
MIN_TEST_SAMPLES = 50  # of a grade, for its own coverage
RIDGES, GAMMAS = (1e-3, 1e-2, 1e-1, 1.0), (0.1, 0.3, 1.0, 3.0)  # γ for samples of unit mean square


@dataclass(frozen=True)
class SplitSamples:
    """Training and test samples; ``groups`` are those of the training samples if no test sample shares one."""

    X: FloatArray
    y: FloatArray
    groups: NDArray[Any] | None
    X_test: FloatArray
    y_test: FloatArray

    @property
    def labels(self) -> FloatArray:
        """Distinct grades of the training samples."""
        return np.unique(self.y)


Intervals = dict[str, FloatArray]  # (n_test, 2), lowest and highest grade, by the name of the method


def split(data: GradedData, rule: str, repeat: int) -> SplitSamples:
    """Draw one half for training: "random", or "people", with every person in one half and labels in proportion."""
    if rule == "random":
        train, test = next(ShuffleSplit(1, test_size=0.5, random_state=SEED + repeat).split(data.X))
        return SplitSamples(data.X[train], data.y[train], None, data.X[test], data.y[test])
    assert data.groups is not None
    _, codes = np.unique(data.y, return_inverse=True)
    halves = StratifiedGroupKFold(2, shuffle=True, random_state=SEED + repeat)
    train, test = next(halves.split(data.X, codes, data.groups))
    return SplitSamples(data.X[train], data.y[train], data.groups[train], data.X[test], data.y[test])


def ordrank_intervals(samples: SplitSamples) -> Intervals:
    """Return the intervals of the default model."""
    ranker: Any = OrdinalRanker().fit(samples.X, samples.y, groups=samples.groups)
    return {"ordrank": np.asarray(ranker.predict_interval(samples.X_test, coverage=COVERAGE), dtype=np.float64)}


def oracle_intervals(samples: SplitSamples) -> Intervals:
    """Return the shortest intervals, given the medians that the default model predicts and the true test grades."""
    ranker = OrdinalRanker().fit(samples.X, samples.y, groups=samples.groups)
    medians = np.asarray(ranker.predict(samples.X_test), dtype=np.float64)
    return {"oracle": oracle(medians, samples.y_test)}


def oracle(medians: FloatArray, grades: FloatArray) -> FloatArray:
    """Return for every sample (n,) the shortest interval with 90 % of the grades of all with the same median."""
    intervals = np.empty((len(grades), 2))
    for median in np.unique(medians):
        same = medians == median
        intervals[same] = shortest_interval(grades[same])
    return intervals


def shortest_interval(grades: FloatArray) -> tuple[float, float]:
    """Return the ends of the shortest interval with at least 90 % of the grades (n,), the lowest of equal ones."""
    ordered = np.sort(grades)
    inside = int(np.ceil(COVERAGE * len(ordered) - 1e-9))
    widths = ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]
    first = int(widths.argmin())
    return float(ordered[first]), float(ordered[first + inside - 1])


def mapie_intervals(samples: SplitSamples) -> Intervals:
    """Return CV+ intervals of two regressions, rounded to grades."""
    from mapie.regression import CrossConformalRegressor

    grouped = samples.groups is not None
    folds = GroupKFold(FOLDS) if grouped else KFold(FOLDS, shuffle=True, random_state=SEED)
    found = {}
    for name, regression in {"kernel ridge": kernel_ridge(samples), "random forest": random_forest()}.items():
        mapie = CrossConformalRegressor(regression, confidence_level=COVERAGE, method="plus", cv=folds)
        mapie.fit_conformalize(samples.X, samples.y, groups=samples.groups)
        _, ends = mapie.predict_interval(samples.X_test)
        found[f"MAPIE CV+, {name}"] = rounded_inwards(ends[:, :, 0], samples.labels)
    return found


def rounded_inwards(ends: FloatArray, labels: FloatArray) -> FloatArray:
    """Return the lowest and highest label inside each interval (n, 2); the label nearest to its middle if none is."""
    first, last = np.searchsorted(labels, ends[:, 0]), np.searchsorted(labels, ends[:, 1], side="right") - 1
    nearest = nearest_label(labels, ends.mean(axis=1))
    empty = first > last
    return np.asarray(labels[np.column_stack([np.where(empty, nearest, first), np.where(empty, nearest, last)])])


def random_forest() -> Any:
    """Return a random forest with Breiman's share of features for a regression."""
    return RandomForestRegressor(200, max_features=1 / 3, random_state=SEED)


def kernel_ridge(samples: SplitSamples) -> Any:
    """Return a kernel ridge regression with the ridge and bandwidth of least cross-validated error, not fitted."""
    folds = GroupKFold(FOLDS) if samples.groups is not None else KFold(FOLDS, shuffle=True, random_state=SEED)
    regression = TransformedTargetRegressor(
        make_pipeline(UnitMeanSquare(), KernelRidge(kernel="rbf")), transformer=StandardScaler()
    )
    prefix = "regressor__kernelridge__"
    grid = {f"{prefix}alpha": RIDGES, f"{prefix}gamma": GAMMAS}
    search = GridSearchCV(regression, grid, cv=folds, scoring="neg_mean_absolute_error", refit=False)
    return regression.set_params(**search.fit(samples.X, samples.y, groups=samples.groups).best_params_)


METHODS: dict[str, Callable[[SplitSamples], Intervals]] = {
    "ordrank": ordrank_intervals,
    "MAPIE": mapie_intervals,
    "oracle": oracle_intervals,
}


def score(intervals: FloatArray, samples: SplitSamples) -> dict[str, Any]:
    """Return coverage, width and number of grades, and covered and all test samples of each grade."""
    y, labels = samples.y_test, np.unique(np.concatenate([samples.y, samples.y_test]))
    inside = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    first, last = (np.searchsorted(labels, intervals[:, end]) for end in (0, 1))
    return {
        "coverage": float(inside.mean()),
        "width": float((intervals[:, 1] - intervals[:, 0]).mean()),
        "grades": float((last - first + 1).mean()),
        "by_grade": {float(grade): (int(inside[y == grade].sum()), int((y == grade).sum())) for grade in np.unique(y)},
    }


def measure(
    data: GradedData, rule: str, repeat: int, methods: Mapping[str, Callable[[SplitSamples], Intervals]] = METHODS
) -> dict[str, dict[str, Any]]:
    """Return the scores of all methods on one split."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grades of few samples
        samples = split(data, rule, repeat)
        found = [method(samples) for method in methods.values()]
    return {name: score(intervals, samples) for one in found for name, intervals in one.items()}


def summarise(found: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return means and standard deviations over the splits, by method."""
    rows = []
    for name in found[0]:
        scores = [one[name] for one in found]
        row: dict[str, Any] = {"method": name, "repeats": len(found)}
        for key in ("coverage", "width", "grades"):
            values = [score[key] for score in scores]
            row[key] = round(float(np.mean(values)), 4)
            row[f"{key}_std"] = round(float(np.std(values, ddof=1)), 4) if len(values) > 1 else None
        rows.append(row | {"by_grade": _by_grade([score["by_grade"] for score in scores])})
    return rows


def _by_grade(counts: Sequence[Mapping[float, tuple[int, int]]]) -> dict[str, float]:
    """Return the coverage of each grade with enough test samples, over all splits."""
    coverage = {}
    for grade in sorted({grade for one in counts for grade in one}):
        covered, total = (sum(one.get(grade, (0, 0))[i] for one in counts) for i in (0, 1))
        if total >= MIN_TEST_SAMPLES * len(counts):
            coverage[f"{grade:g}"] = round(covered / total, 4)
    return coverage


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=METHODS, action="append", help="kind of methods, more than once for several")
    parser.add_argument("--datasets", default=",".join(GRADED))
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    methods = {name: METHODS[name] for name in arguments.only or METHODS}
    rows = []
    for name in arguments.datasets.split(","):
        data = load_graded(name, arguments.data)
        for rule in ("random",) if data.groups is None else ("random", "people"):
            repeats = (delayed(measure)(data, rule, repeat, methods) for repeat in range(arguments.repeats))
            found = summarise(Parallel(n_jobs=arguments.jobs)(repeats))
            rows += [{"data": name, "n": len(data.y), "split": rule} | row for row in found]
            sys.stderr.writelines(f"{name} {rule} {row}\n" for row in found)
    document = {
        "benchmark": "intervals",
        "coverage": COVERAGE,
        "seed": SEED,
        "repeats": arguments.repeats,
        "rows": rows,
    }
    print_document(document | describe_machine("mapie"), arguments.out)


if __name__ == "__main__":
    main()
