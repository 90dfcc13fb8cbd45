"""How well wrong grades are found: ordrank's leave-one-out probabilities, and cleanlab.

A share of the grades is shifted by one or two, reflected into the scale. Every method gives each sample a suspicion;
the score is the average precision with which it ranks the shifted ones first. A random order scores the share.

ordrank: the score of ``ordrank doctor`` from the leave-one-out probabilities of one fit; for comparison also the
probability of the given grade, which cleanlab calls self-confidence.
cleanlab, classification: its label quality from out-of-sample probabilities of a classifier. cleanlab, regression: its
label quality from out-of-sample predictions of a regression. "doctor's score" applies ordrank's score to the
probabilities of the same classifiers, to separate the score from the model. Out-of-sample is by five stratified folds.
Prints one JSON document. cleanlab: ``make baselines``.

    python experiments/benchmarks/wrong_grades.py [--only ordrank] [--datasets umist,fgnet] [--data DIR] [--repeats 10]
                                                  [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from ordrank_experiments.graded_data import GradedData, load_graded
from ordrank_experiments.machine import describe_machine, print_document
from ordrank_experiments.scaling import UnitMeanSquare
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray
from ordrank.collection.doctor import suspicion

SEED = 2027
SHARES = (0.05, 0.1)
MAX_SAMPLES = 1500
DATASETS = ("umist", "fgnet", "retinamnist", "fruit", "winequality-red", "coffee-leaf")
TREES = 200

Suspicions = dict[str, FloatArray]  # by the name of the method; the higher, the more suspicious


def falsify(y: FloatArray, share: float, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the grades with a share of them shifted by one or two, reflected into the scale, and which these are.

    Where a shift by two is reflected to the grade itself, as in the middle of three grades, the shift is by one.
    """
    labels, codes = np.unique(y, return_inverse=True)
    chosen = rng.choice(len(y), round(share * len(y)), replace=False)
    shift = rng.choice([-2, -1, 1, 2], len(chosen))
    shifted = _reflected(codes[chosen] + shift, len(labels))
    shifted = np.where(shifted == codes[chosen], _reflected(codes[chosen] + np.sign(shift), len(labels)), shifted)
    wrong, is_wrong = y.copy(), np.zeros(len(y), dtype=np.bool_)
    wrong[chosen], is_wrong[chosen] = labels[shifted], True
    return wrong, is_wrong


def _reflected(codes: NDArray[Any], count: int) -> NDArray[Any]:
    """Reflect codes at 0 and at count - 1."""
    codes = np.abs(codes)
    return np.clip(np.where(codes > count - 1, 2 * (count - 1) - codes, codes), 0, count - 1)


def ordrank_suspicions(X: FloatArray, y: FloatArray) -> Suspicions:
    """Fit the default model once, and use its leave-one-out probabilities."""
    ranker: Any = OrdinalRanker().fit(X, y)
    return suspicions_of(ranker, y)


def suspicions_of(ranker: Any, y: FloatArray) -> Suspicions:
    """Return the doctor's score, and for comparison how improbable the given grade is, from ``loo_proba_``."""
    proba, codes = np.asarray(ranker.loo_proba_), np.searchsorted(ranker.classes_, y)
    return {"ordrank doctor": suspicion(proba, codes), "ordrank, self_confidence": -proba[np.arange(len(y)), codes]}


def classification_suspicions(X: FloatArray, y: FloatArray) -> Suspicions:
    """Use out-of-sample probabilities of two classifiers, by cleanlab's scores and by the doctor's."""
    from cleanlab.rank import get_label_quality_scores

    _, codes = np.unique(y, return_inverse=True)
    classifiers = {
        "logistic regression": make_pipeline(UnitMeanSquare(), LogisticRegression(C=100.0, max_iter=1000)),
        "extra trees": ExtraTreesClassifier(TREES, random_state=SEED),
    }
    found = {}
    for name, classifier in classifiers.items():
        proba = cross_val_predict(classifier, X, codes, cv=_folds(), method="predict_proba")
        for score in ("self_confidence", "normalized_margin"):
            found[f"cleanlab, {name}, {score}"] = -get_label_quality_scores(codes, proba, method=score)
        found[f"doctor's score, {name}"] = suspicion(proba, codes)
    return found


def regression_suspicions(X: FloatArray, y: FloatArray) -> Suspicions:
    """Use out-of-sample predictions of two regressions, by cleanlab's scores."""
    from cleanlab.regression.rank import get_label_quality_scores

    _, codes = np.unique(y, return_inverse=True)
    folds = list(_folds().split(X, codes))
    regressions = {
        "ridge regression": make_pipeline(UnitMeanSquare(), RidgeCV(np.logspace(-4, 2, 13))),
        "extra trees": ExtraTreesRegressor(TREES, max_features=1 / 3, random_state=SEED),
    }
    found = {}
    for name, regression in regressions.items():
        predictions = cross_val_predict(regression, X, y, cv=folds)
        for score in ("outre", "residual"):
            quality = get_label_quality_scores(y, predictions, method=score)
            found[f"cleanlab regression, {name}, {score}"] = -quality
    return found


def _folds() -> StratifiedKFold:
    return StratifiedKFold(5, shuffle=True, random_state=SEED)


METHODS: dict[str, Callable[[FloatArray, FloatArray], Suspicions]] = {
    "ordrank": ordrank_suspicions,
    "classification": classification_suspicions,
    "regression": regression_suspicions,
}


def measure(
    data: GradedData,
    share: float,
    repeat: int,
    methods: Mapping[str, Callable[[FloatArray, FloatArray], Suspicions]] = METHODS,
) -> dict[str, dict[str, float]]:
    """Return average precision and time of each method, after one falsification."""
    y, is_wrong = falsify(data.y, share, np.random.default_rng((SEED, repeat)))
    found = {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels of few samples
        for suspicions in methods.values():
            begin = time.perf_counter()
            by_name = suspicions(data.X, y)
            seconds = (time.perf_counter() - begin) / len(by_name)
            for name, scores in by_name.items():
                precision = float(average_precision_score(is_wrong, scores))
                found[name] = {"average_precision": precision, "seconds": seconds}
    return found


def summarise(found: list[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """Return mean and standard deviation over the repeats, by method."""
    rows = []
    for name in found[0]:
        precision = [one[name]["average_precision"] for one in found]
        rows.append(
            {
                "method": name,
                "mean": round(float(np.mean(precision)), 4),
                "std": round(float(np.std(precision, ddof=1)), 4) if len(found) > 1 else None,
                "repeats": len(found),
                "seconds": round(float(np.mean([one[name]["seconds"] for one in found])), 2),
            }
        )
    return rows


def _drawn(data: GradedData) -> GradedData:
    """Return at most as many samples as ``loo_proba_`` covers."""
    rows = np.sort(np.random.default_rng(SEED).permutation(len(data.y))[:MAX_SAMPLES])
    return replace(data, X=data.X[rows], y=data.y[rows])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=METHODS, action="append", help="kind of methods, more than once for several")
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    methods = {name: METHODS[name] for name in arguments.only or METHODS}
    rows = []
    for name in arguments.datasets.split(","):
        data = _drawn(load_graded(name, arguments.data))
        for share in SHARES:
            repeats = (delayed(measure)(data, share, repeat, methods) for repeat in range(arguments.repeats))
            found = summarise(Parallel(n_jobs=arguments.jobs)(repeats))
            rows += [{"data": name, "n": len(data.y), "share": share} | row for row in found]
            sys.stderr.writelines(f"{name} {share} {row}\n" for row in found)
    document = {"benchmark": "wrong grades", "seed": SEED, "repeats": arguments.repeats, "rows": rows}
    print_document(document | describe_machine("cleanlab"), arguments.out)


if __name__ == "__main__":
    main()
