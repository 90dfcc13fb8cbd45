"""The demonstration: drawn fruit, four distances, their scores and pictures."""

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
from ordrank._types import FloatArray, IntArray
from ordrank.datasets import Fruit, make_fruit
from ordrank.errors import InputError
from ordrank.estimators import CMDSMetric, OrdinalRanker, UnitMeanSquare
from ordrank.experiments import figures
from ordrank.experiments.machine import describe_machine
from ordrank.pages import html_figure, html_page, html_table

METHODS = {
    "Euclidean": "plain distance between the features",
    "paper": "cMDS-DML with the published parameters and solver",
    "fast": "the same model with a fixed scale, a ridge and the fast solver; ridge and local weight are "
    "chosen by cross-validation inside the training part",
    "OrdinalMetric": "the default model: an order map and a share of the plain distance, everything chosen by itself "
    "inside the training part",
}
# How neighbours vote where the method does not choose it.
VOTES: dict[str, Any] = {"n_neighbors": 5, "weights": "distance"}


@dataclass(frozen=True)
class DemoRow:
    """Scores of one method on the test pictures; ``seconds`` is the time of the fit, choices included."""

    method: str
    mae: float
    order_preservation: float
    same_grade_at_10: float
    same_plant_at_3_in_grade: float
    seconds: float


@dataclass(frozen=True)
class Demo:
    """What the demonstration found, as numbers and as files to write."""

    rows: tuple[DemoRow, ...]
    chosen: dict[str, dict[str, Any]]
    settings: dict[str, Any]
    files: dict[str, bytes]

    def as_document(self) -> dict[str, Any]:
        """Everything but the files, for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"rows": rows, "chosen": self.chosen, "settings": self.settings} | describe_machine()


@dataclass(frozen=True)
class _Split:
    """Features of the pictures in the units of pixels, and which pictures are in which part."""

    fruit: Fruit
    X: FloatArray
    train: IntArray
    test: IntArray


def draw_fruit(n_pictures: int = 600, *, size: int = 64, seed: int = 0, tell: Callable[[str], object] = str) -> Fruit:
    """Draw the pictures of the demonstration.

    Parameters
    ----------
    n_pictures : int
        At least 60, so that every grade has training pictures to choose by.
    size : int
        Pixels of a picture's side.
    seed : int
    tell : callable
        Is told what happens next.
    """
    if n_pictures < 60:
        raise InputError(f"the demonstration needs at least 60 pictures, got {n_pictures}")
    tell(f"drawing {n_pictures} fruits")
    return make_fruit(n_pictures, size=size, random_state=seed)


def run_demo(
    n_pictures: int = 600,
    *,
    size: int = 64,
    seed: int = 0,
    tell: Callable[[str], object] = str,
    fruit: Fruit | None = None,
) -> Demo:
    """Fit the four distances on one half of the pictures, score them on the other.

    Parameters
    ----------
    n_pictures, size, tell
        See :func:`draw_fruit`.
    seed : int
        Of the drawing and of the split.
    fruit : Fruit, optional
        What :func:`draw_fruit` has drawn with the same numbers.
    """
    fruit = fruit or draw_fruit(n_pictures, size=size, seed=seed, tell=tell)
    split = _split(fruit, seed)
    fitted, rows = {}, []
    for method, build in {"Euclidean": _euclidean, "paper": _paper, "fast": _fast, "OrdinalMetric": _ordinal}.items():
        tell(f"fitting {method}")
        begin = time.perf_counter()
        fitted[method] = build(split)
        rows.append(_score(method, fitted[method], split, time.perf_counter() - begin))
    tell("drawing figures")
    settings = {"pictures": n_pictures, "size": size, "seed": seed}
    settings |= {"training": len(split.train), "features": split.X.shape[1]}
    return Demo(tuple(rows), _chosen(fitted), settings, _files(fitted, split, rows))


def _split(fruit: Fruit, seed: int) -> _Split:
    pixels = fruit.images.reshape(len(fruit.images), -1).astype(np.float64)
    # As in the paper: centred, not scaled, fitted on all pictures; labels play no part in it.
    X = PCA(min(100, len(pixels) // 4), random_state=seed).fit_transform(pixels)
    rng = np.random.default_rng(seed)
    shuffled = [rng.permutation(np.flatnonzero(fruit.grade == grade)) for grade in np.unique(fruit.grade)]
    train = np.sort(np.concatenate([members[: len(members) // 2] for members in shuffled]))
    return _Split(fruit, X, train, np.setdiff1d(np.arange(len(X)), train))


def _euclidean(split: _Split) -> OrdinalRanker:
    return OrdinalRanker("passthrough", **VOTES).fit(split.X[split.train], split.fruit.grade[split.train])


def _paper(split: _Split) -> OrdinalRanker:
    with warnings.catch_warnings():
        # With its published step the literal solver never converges; the table shows where it got to.
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
    everything = ranker.rank(queries, k=len(split.train))
    nearest = ranker.rank(queries, k=10)
    inside = metrics.inside_grade(everything, grade[split.test], 3)
    return DemoRow(
        method=method,
        mae=metrics.mean_absolute_error(grade[split.test], ranker.predict(queries)),
        order_preservation=metrics.order_preservation(
            ranker.embedding_,
            grade[split.train],
            queries=_mapped(ranker, queries),
            query_labels=grade[split.test],
        ),
        same_grade_at_10=metrics.same_grade_precision(nearest, grade[split.test]),
        same_plant_at_3_in_grade=metrics.same_subject_precision(inside, plant[split.train], plant[split.test]),
        seconds=seconds,
    )


def _mapped(ranker: OrdinalRanker, X: FloatArray) -> FloatArray:
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
    """Two rows for each of three queries, of low, middle and high grade."""
    grade, images = split.fruit.grade, split.fruit.images
    rows = []
    for wanted in np.unique(grade)[[0, len(np.unique(grade)) // 2, -1]]:
        query = int(split.test[grade[split.test] == wanted][1])
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


def table_of(rows: Sequence[DemoRow]) -> tuple[list[str], list[list[str]]]:
    """Head and cells of the table of scores."""
    head = ["method", "MAE ↓", "order kept ↑", "same grade@10 ↑", "same plant@3 in grade ↑", "fit s"]
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
    legend = "".join(f"<li><b>{method}</b>: {text}</li>" for method, text in METHODS.items())
    return html_page(
        "ordrank: ripening fruit",
        [
            "<p>Half of the pictures are graded and teach a distance; the other half are queries.</p>",
            html_table(*table_of(rows)),
            f"<ul>{legend}</ul>",
            html_figure(
                pictures["ranking.png"],
                "A query at the left and its ten nearest training pictures with their ripeness; a dashed frame "
                "marks another ripeness than the query's.",
            ),
            html_figure(
                pictures["distances.png"],
                "Distance of every training picture from one unripe fruit (×), grouped by ripeness; bars are "
                "medians. A good distance is layered: the riper, the further.",
            ),
            html_figure(
                pictures["embedding.png"],
                "The training pictures in the space in which the learned distance is Euclidean, along its three main "
                "directions.",
            ),
        ],
    )
