"""Error with the grades of some pictures of a pool: those that ordrank suggests, random ones, the most uncertain ones.

Half of each data set is the pool, the other half is tested on. Grades are given in batches, to 5, 10, 15, 20, 30 and
40 % of the pool; after each batch ``OrdinalRanker()`` is fitted to them and to the ungraded pictures of the pool, on
principal components of the features as in a collection. ``ordrank``: ``ordrank.labeling.active.choose_samples``, from
features before there is a model, then from embeddings and expected errors. ``uncertainty``: the largest variances of
the predicted grade, after a first random batch. ``random``: with the same first batch. ``all`` has all grades of the
pool. Data: UMIST (150 principal components), drawn fruit (100), coffee leaves (efficientnet-lite0).

``mae`` and ``std`` are over the runs, ``maes`` those of each run. ``comparisons`` are with 40 % of the grades: mean,
standard error and sign of the paired differences, ordrank minus the other. Prints one JSON document.

    python experiments/benchmarks/active_choice.py [--datasets umist,fruit] [--data DIR] [--runs 20] [--jobs 1]
                                                   [--out FILE]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from ordrank_experiments.datasets import extract_photos
from ordrank_experiments.graded_data import load_graded
from ordrank_experiments.machine import describe_machine, print_document
from PIL import Image
from threadpoolctl import threadpool_limits

from ordrank import OrdinalRanker
from ordrank._protocols import FloatArray, IntArray
from ordrank.collection.projection import fit_projection
from ordrank.features import find_extractor
from ordrank.labeling.active import choose_samples, expected_error

SEED = 2041  # used once; the method was chosen with other seeds
DATASETS = ("umist", "fruit", "coffee-leaf")
FRACTIONS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
OURS, OTHERS = "ordrank", ("uncertainty", "random")
_BLOCK = 16  # pictures in memory


@dataclass(frozen=True)
class Pool:
    """Features of a pool (p, d) and of test pictures (t, d), and their grades."""

    X: NDArray[np.float32]
    y: FloatArray
    X_test: NDArray[np.float32]
    y_test: FloatArray
    order: IntArray  # (p,), random

    def fit(self, graded: IntArray) -> Any:
        """Return the ranker fitted to graded pictures and all others; None if they have one grade only."""
        rest = np.setdiff1d(np.arange(len(self.y)), graded)
        if len(np.unique(self.y[graded])) < 2:
            return None
        return OrdinalRanker().fit(self.X[graded], self.y[graded], self.X[rest] if len(rest) else None)

    def error(self, ranker: Any, graded: IntArray) -> float:
        """Return the mean absolute error on the test pictures."""
        found = self.y[graded[0]] if ranker is None else ranker.predict(self.X_test)
        return float(np.abs(found - self.y_test).mean())


Strategy: TypeAlias = Callable[[Pool, Any, IntArray, int], IntArray]  # pool, ranker, graded, how many: which


def suggested(pool: Pool, ranker: Any, graded: IntArray, k: int) -> IntArray:
    """Return what ordrank suggests."""
    rest = np.setdiff1d(np.arange(len(pool.y)), graded)
    if ranker is None:
        choices = choose_samples(pool.X[rest], k, labeled=pool.X[graded])
    else:
        embedded = ranker.metric_.transform(pool.X)
        error = expected_error(ranker.predict_proba(pool.X[rest]), ranker.classes_)
        choices = choose_samples(embedded[rest], k, labeled=embedded[graded], error=error)
    return rest[[choice.index for choice in choices]]


def most_uncertain(pool: Pool, ranker: Any, graded: IntArray, k: int) -> IntArray:
    """Return the pictures with the largest variances of the predicted grade."""
    if ranker is None:
        return random(pool, ranker, graded, k)
    rest = np.setdiff1d(np.arange(len(pool.y)), graded)
    proba, labels = ranker.predict_proba(pool.X[rest]), np.asarray(ranker.classes_, dtype=np.float64)
    return rest[np.argsort(-(proba @ labels**2 - (proba @ labels) ** 2), kind="stable")[:k]]


def random(pool: Pool, ranker: Any, graded: IntArray, k: int) -> IntArray:
    """Return random pictures."""
    return pool.order[~np.isin(pool.order, graded)][:k]


STRATEGIES: dict[str, Strategy] = {OURS: suggested, "uncertainty": most_uncertain, "random": random}


def split(X: NDArray[np.float32], y: FloatArray, seed: tuple[int, int]) -> Pool:
    """Draw the pool, and project all features to its principal components."""
    rng = np.random.default_rng(seed)
    pool, test = np.split(rng.permutation(len(y)), [len(y) // 2])
    project = fit_projection([X[pool]])
    return Pool(project(X[pool]), y[pool], project(X[test]), y[test], rng.permutation(len(pool)))


def curve(pool: Pool, strategy: Strategy) -> list[float]:
    """Return the errors with each fraction of the grades."""
    graded, ranker, errors = np.empty(0, dtype=np.int64), None, []
    for fraction in FRACTIONS:
        chosen = strategy(pool, ranker, graded, round(fraction * len(pool.y)) - len(graded))
        graded = np.concatenate([graded, chosen])
        ranker = pool.fit(graded)
        errors.append(pool.error(ranker, graded))
    return errors


def measure(X: NDArray[np.float32], y: FloatArray, seed: tuple[int, int]) -> dict[str, list[float]]:
    """Return the errors of one run, by strategy; of all grades one."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # grades of few samples
        pool, everything = split(X, y, seed), np.arange(len(y) // 2)
        errors = {name: curve(pool, strategy) for name, strategy in STRATEGIES.items()}
        return errors | {"all": [pool.error(pool.fit(everything), everything)]}


def rows(name: str, found: list[dict[str, list[float]]]) -> Iterator[dict[str, Any]]:
    """Yield mean and standard deviation by strategy and fraction."""
    for strategy in (*STRATEGIES, "all"):
        errors = np.array([one[strategy] for one in found])
        for fraction, of_runs in zip((1.0,) if strategy == "all" else FRACTIONS, errors.T, strict=True):
            yield {"data": name, "strategy": strategy, "fraction": fraction, "runs": len(found), **spread(of_runs)}


def spread(errors: FloatArray) -> dict[str, Any]:
    """Return mean and standard deviation of the errors of all runs, and these."""
    std = float(errors.std(ddof=1)) if len(errors) > 1 else None
    return {"mae": float(errors.mean()), "std": std, "maes": errors.round(4).tolist()}


def compared(name: str, found: list[dict[str, list[float]]]) -> Iterator[dict[str, Any]]:
    """Yield the paired differences of ordrank from the others, with the most grades of each."""
    ours = np.array([one[OURS][-1] for one in found])
    for other in (*OTHERS, "all"):
        theirs = np.array([one[other][-1] for one in found])
        difference = ours - theirs
        error = float(difference.std(ddof=1) / len(found) ** 0.5) if len(found) > 1 else None
        yield {
            "data": name,
            "against": other,
            "difference": float(difference.mean()),
            "standard_error": error,
            "ratio": float(ours.mean() / theirs.mean()),
            "better": int((difference < 0).sum()),
            "worse": int((difference > 0).sum()),
        }


def load(name: str, data: Path | None) -> tuple[NDArray[np.float32], FloatArray]:
    """Return the features of a data set and its grades."""
    if name != "coffee-leaf":
        graded = load_graded(name, data)
        return graded.X.astype(np.float32), graded.y
    extractor = find_extractor("efficientnet-lite0")
    with tempfile.TemporaryDirectory() as folder:
        photos = extract_photos(name, Path(folder), data)
        blocks = [photos.files[start : start + _BLOCK] for start in range(0, len(photos.files), _BLOCK)]
        features = [extractor.extract([Image.open(file).convert("RGB") for file in block]) for block in blocks]
    return np.vstack(features), photos.grade


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    document: dict[str, Any] = {"benchmark": "active choice", "seed": options.seed, "runs": options.runs}
    document |= {"fractions": FRACTIONS, "data": [], "rows": [], "comparisons": []}
    for name in options.datasets.split(","):
        begin = time.perf_counter()
        X, y = load(name, options.data)
        repeats = (delayed(measure)(X, y, (options.seed, run)) for run in range(options.runs))
        found = Parallel(n_jobs=options.jobs)(repeats)
        counts = np.unique(y, return_counts=True)[1].tolist()
        document["data"].append({"data": name, "pool": len(y) // 2, "test": len(y) - len(y) // 2, "counts": counts})
        document["rows"] += rows(name, found)
        document["comparisons"] += compared(name, found)
        sys.stderr.write(f"{name} {time.perf_counter() - begin:.0f} s\n")
        sys.stderr.writelines(f"{row}\n" for row in compared(name, found))
    print_document(document | describe_machine("onnxruntime"), options.out)


if __name__ == "__main__":
    main()
