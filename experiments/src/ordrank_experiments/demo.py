"""The demonstration: scores and figures of four distances on drawn fruit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline

from ordrank import metrics
from ordrank._protocols import FloatArray, IntArray
from ordrank.datasets import Fruit, make_fruit
from ordrank.errors import InputError
from ordrank.estimators import CMDSMetric, OrdinalRanker
from ordrank_experiments import figures
from ordrank_experiments.machine import describe_machine
from ordrank_experiments.report import Section, Table, as_page
from ordrank_experiments.scaling import UnitMeanSquare

METHODS = {
    "Euclidean": "Euclidean distance of the features",
    "paper": "cMDS-DML with the published parameters and solver",
    "fast": "the same model with a fixed scale, a ridge and the fast solver; ridge and local weight by "
    "cross-validation in the training part",
    "OrdinalMetric": "the default model: a learned embedding and a share of the Euclidean distance, hyperparameters by "
    "leave-one-out in the training part",
}
CAPTIONS = {
    "ranking": "A query at the left and its ten nearest training pictures with their ripeness; a dashed frame marks "
    "another ripeness than the query's.",
    "distances": "Distance of every training picture from one unripe fruit (×), grouped by ripeness; bars are medians. "
    "A good distance is layered: the riper, the further.",
    "embedding": "The training pictures in the space in which the learned distance is Euclidean, along its three main "
    "directions.",
}
Progress = Callable[[str, int, int], object]
# k-NN of the methods that do not select it.
VOTES: dict[str, Any] = {"n_neighbors": 5, "weights": "distance"}


@dataclass(frozen=True)
class DemoRow:
    """Scores of one method on the test pictures; ``seconds`` is the time of the fit with model selection."""

    method: str
    mae: float
    order_preservation: float
    same_grade_at_10: float
    same_plant_at_3_in_grade: float
    seconds: float


@dataclass(frozen=True)
class Demo:
    """Scores, and files to write."""

    rows: tuple[DemoRow, ...]
    chosen: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    files: dict[str, bytes]

    def as_document(self) -> dict[str, Any]:
        """Return everything but the files, for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"rows": rows, "chosen": self.chosen, "settings": self.settings} | describe_machine()


@dataclass(frozen=True)
class _Split:
    """Principal components of the pictures, and the indices of both parts."""

    fruit: Fruit
    X: FloatArray
    train: IntArray
    test: IntArray


def _silent(stage: str, done: int, total: int) -> None:
    """Report no progress."""


def draw_fruit(n_pictures: int = 600, *, size: int = 64, seed: int = 0, progress: Progress = _silent) -> Fruit:
    """Draw the pictures of the demonstration.

    Parameters
    ----------
    n_pictures : int
        At least 60, so that every grade has enough training pictures.
    size : int
        Side of a picture in pixels.
    seed : int
    progress : callable
        Called with ``(stage, 0, 0)`` before each stage.
    """
    if n_pictures < 60:
        raise InputError(f"the demonstration needs at least 60 pictures, got {n_pictures}")
    progress(f"drawing {n_pictures} fruits", 0, 0)
    return make_fruit(n_pictures, size=size, random_state=seed)


def run_demo(
    n_pictures: int = 600,
    *,
    size: int = 64,
    seed: int = 0,
    progress: Progress = _silent,
    fruit: Fruit | None = None,
) -> Demo:
    """Fit four distances on one half of the pictures and score them on the other.

    Parameters
    ----------
    n_pictures, size, progress
        See :func:`draw_fruit`.
    seed : int
        Of the drawing and of the split.
    fruit : Fruit, optional
        Result of :func:`draw_fruit` with the same arguments.
    """
    fruit = fruit or draw_fruit(n_pictures, size=size, seed=seed, progress=progress)
    split = _split(fruit, seed)
    fitted, rows = {}, []
    for method, build in {"Euclidean": _euclidean, "paper": _paper, "fast": _fast, "OrdinalMetric": _ordinal}.items():
        progress(f"fitting {method}", 0, 0)
        begin = time.perf_counter()
        fitted[method] = build(split)
        rows.append(_score(method, fitted[method], split, time.perf_counter() - begin))
    progress("drawing figures", 0, 0)
    settings = {"pictures": n_pictures, "size": size, "seed": seed}
    settings |= {"training": len(split.train), "features": split.X.shape[1]}
    return Demo(tuple(rows), _chosen(fitted), settings, _files(fitted, split, rows))


def _split(fruit: Fruit, seed: int) -> _Split:
    pixels = fruit.images.reshape(len(fruit.images), -1).astype(np.float64)
    # As in the paper: centred, not scaled, of all pictures.
    X = PCA(min(100, len(pixels) // 4), random_state=seed).fit_transform(pixels)
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(fruit.grade == grade)) for grade in np.unique(fruit.grade)]
    train = np.sort(np.concatenate([members[: len(members) // 2] for members in shuffled]))
    return _Split(fruit, X, train, np.setdiff1d(np.arange(len(X)), train))


def _euclidean(split: _Split) -> OrdinalRanker:
    return OrdinalRanker("passthrough", **VOTES).fit(split.X[split.train], split.fruit.grade[split.train])


def _paper(split: _Split) -> OrdinalRanker:
    with warnings.catch_warnings():
        # With the published step size the solver does not converge.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return OrdinalRanker(CMDSMetric(), **VOTES).fit(split.X[split.train], split.fruit.grade[split.train])


def _fast(split: _Split) -> OrdinalRanker:
    X, grade = split.X[split.train], split.fruit.grade[split.train]
    metric = make_pipeline(UnitMeanSquare(), CMDSMetric(solver="fast", scale="fixed", init="lstsq"))
    ranker = OrdinalRanker(metric, **VOTES)
    grid = {"metric__cmdsmetric__alpha": [0.01, 0.1, 1.0, 10.0], "metric__cmdsmetric__mu": [0.0, 0.01, 0.1]}
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(ranker, grid, scoring="neg_mean_absolute_error", cv=folds)
    best: OrdinalRanker = search.fit(X, grade).best_estimator_
    return best


def _ordinal(split: _Split) -> OrdinalRanker:
    return OrdinalRanker().fit(split.X[split.train], split.fruit.grade[split.train])


def _chosen(fitted: dict[str, OrdinalRanker]) -> dict[str, dict[str, Any]]:
    fast, ordinal = fitted["fast"].metric_[-1], fitted["OrdinalMetric"]
    metric = ordinal.metric_
    return {
        "fast": {"alpha": fast.alpha, "mu": fast.mu},
        "OrdinalMetric": {
            "kernel": metric.kernel_,
            "sharpness": metric.sharpness_,
            "alpha": metric.alpha_,
            "locality": metric.locality_,
            "votes": ordinal.n_neighbors_,
        },
    }


def _score(method: str, ranker: OrdinalRanker, split: _Split, seconds: float) -> DemoRow:
    queries, grade, plant = split.X[split.test], split.fruit.grade, split.fruit.plant
    inside = metrics.inside_grade(ranker.rank(queries, k=len(split.train)), grade[split.test], 3)
    return DemoRow(
        method=method,
        mae=metrics.mean_absolute_error(grade[split.test], ranker.predict(queries)),
        order_preservation=metrics.order_preservation(
            ranker.embedding_,
            grade[split.train],
            queries=_embedded(ranker, queries),
            query_labels=grade[split.test],
        ),
        same_grade_at_10=metrics.same_grade_precision(ranker.rank(queries, k=10), grade[split.test]),
        same_plant_at_3_in_grade=metrics.same_subject_precision(inside, plant[split.train], plant[split.test]),
        seconds=seconds,
    )


def _embedded(ranker: OrdinalRanker, X: FloatArray) -> FloatArray:
    return X if isinstance(ranker.metric_, str) else np.asarray(ranker.metric_.transform(X))


def _files(fitted: dict[str, OrdinalRanker], split: _Split, rows: list[DemoRow]) -> dict[str, bytes]:
    grade = split.fruit.grade[split.train]
    anchor = int(np.flatnonzero(grade == 0)[0])
    panels = {
        title: np.linalg.norm(fitted[method].embedding_ - fitted[method].embedding_[anchor], axis=1)
        for title, method in (("before: Euclidean distance", "Euclidean"), ("after: learned distance", "OrdinalMetric"))
    }
    pictures = {
        "distances.png": figures.distances_from_one(panels, grade, anchor, "ripeness"),
        "embedding.png": figures.embedding_3d(
            PCA(3).fit_transform(fitted["OrdinalMetric"].embedding_), grade, "training pictures", "ripeness"
        ),
        "ranking.png": figures.ranking_strips(_strips(fitted, split)),
    }
    files = {name: figures.as_bytes(figure) for name, figure in pictures.items()}
    return files | {"report.html": _page(rows, files)}


def _strips(fitted: dict[str, OrdinalRanker], split: _Split) -> list[figures.StripRow]:
    """Return two rows for each of three queries, of low, middle and high grade."""
    grade, images = split.fruit.grade, split.fruit.images
    rows = []
    for level in np.unique(grade)[[0, len(np.unique(grade)) // 2, -1]]:
        query = int(split.test[grade[split.test] == level][1])
        for method in ("Euclidean", "OrdinalMetric"):
            ranker = fitted[method]
            ranking = ranker.rank(split.X[[query]], k=10)
            estimate = ranker.predict(split.X[[query]])[0]
            rows.append(
                figures.StripRow(
                    metric=method,
                    query=images[query],
                    query_caption=f"is {grade[query]}, estimated {estimate:g}",
                    results=list(images[split.train[ranking.indices[0]]]),
                    captions=[f"{label:g}" for label in ranking.labels[0]],
                    right=list(ranking.labels[0] == grade[query]),
                )
            )
    return rows


def table_of(rows: Sequence[DemoRow]) -> Table:
    """Return head and cells of the table of scores."""
    head = ["method", "MAE ↓", "order preservation ↑", "same grade@10 ↑", "same plant@3 in grade ↑", "fit s"]
    cells = [
        [
            row.method,
            f"{row.mae:.3f}",
            f"{row.order_preservation:.3f}",
            f"{row.same_grade_at_10:.3f}",
            f"{row.same_plant_at_3_in_grade:.3f}",
            f"{row.seconds:.2f}",
        ]
        for row in rows
    ]
    return head, cells


def _page(rows: list[DemoRow], pictures: dict[str, bytes]) -> bytes:
    section = Section(
        "Four distances",
        ["Half of the pictures are graded and used for training; the other half are queries."],
        [table_of(rows), (["method", "description"], [list(method) for method in METHODS.items()])],
        list(CAPTIONS),
    )
    return as_page("ordrank: ripening fruit", [section], pictures, CAPTIONS)
