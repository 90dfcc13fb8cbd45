"""The default model, the same fitted with unlabelled samples, and the methods of the paper."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators import OrdinalRanker
from ordrank.neighbors import k_nearest
from ordrank_experiments import paper_methods, tables
from ordrank_experiments.method import Method, MethodResult, Params, Stopwatch
from ordrank_experiments.paper import Cell, Dataset
from ordrank_experiments.protocol import Learned

DEFAULT = "OrdinalMetric"
TRANSDUCTIVE = "OrdinalMetric + unlabelled"
LDMLR_MAX_SAMPLES = 200  # beyond, its model selection takes minutes

# Fitted attributes that are no hyperparameters.
_NOT_CHOSEN = frozenset({"n_features_in_", "n_iter_", "objective_", "stop_reason_", "scale_", "size_"})


def own_methods(dataset: Dataset) -> list[Method]:
    """Return the default model, the transductive one, and the paper's methods with their settings for ``dataset``."""
    learners: dict[str, tuple[Callable[[FloatArray, IntArray, Cell], Learned], int | None]] = {
        tables.CMDS_CALIBRATED: (paper_methods.calibrated_cmds, None),
        tables.LDMLR_CALIBRATED: (paper_methods.calibrated_ldmlr, LDMLR_MAX_SAMPLES),
        tables.EUCLIDEAN: (paper_methods.euclidean, None),
    }
    return [
        Method(
            DEFAULT,
            "default",
            partial(_fit_ranker, transductive=False),
            "OrdinalRanker() with default parameters; groups are the people where training and test people differ",
        ),
        Method(
            TRANSDUCTIVE,
            "transductive",
            partial(_fit_ranker, transductive=True),
            "the same, fitted with the test samples as unlabelled samples",
        ),
        *(
            Method(
                name,
                "paper",
                partial(_fit_learned, learn=learn, dataset=dataset),
                f"as in the re-run of the paper, K = 5, s = 3: {paper_methods.OPEN_CHOICES[name]}",
                max_samples,
            )
            for name, (learn, max_samples) in learners.items()
        ),
    ]


def _fit_ranker(
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    groups: NDArray[Any] | None = None,
    *,
    transductive: bool,
) -> MethodResult:
    """Fit the default model; model selection is part of its fit and not timed separately."""
    unlabeled: dict[str, Any] = {"unlabeled": X_test} if transductive else {}
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some labels of these data sets have few samples
        ranker = OrdinalRanker().fit(X_train, y_train, groups=groups, **unlabeled)
        fit_seconds = watch.lap()
        grades = np.asarray(ranker.predict(X_test), dtype=np.float64)
        predict_seconds = watch.lap()
        Z_test = np.asarray(ranker.metric_.transform(X_test), dtype=np.float64)
        proba = np.asarray(ranker.predict_proba(X_test)) if hasattr(ranker, "predict_proba") else None
    Z_train = np.asarray(ranker.embedding_, dtype=np.float64)
    chosen = chosen_hyperparameters(ranker)
    return MethodResult(grades, Z_train, Z_test, chosen, 0.0, fit_seconds, predict_seconds, proba)


def chosen_hyperparameters(ranker: Any) -> Params:
    """Return the scalar fitted attributes of a ranker and its metric by name."""
    metric = ranker.metric_
    last = metric[-1] if hasattr(metric, "steps") else metric
    return {
        name.removesuffix("_"): value
        for name, value in {**vars(ranker), **vars(last)}.items()
        if name.endswith("_") and not name.startswith("_") and name not in _NOT_CHOSEN
        if isinstance(value, (bool, int, float, str))
    }


def _fit_learned(
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    groups: NDArray[Any] | None = None,
    *,
    learn: Callable[[FloatArray, IntArray, Cell], Learned],
    dataset: Dataset,
) -> MethodResult:
    """Learn a distance as in the re-run of the paper; predict the mean grade of the nearest neighbours."""
    cell = Cell(dataset, len(X_train), X_train.shape[1], K=5, s=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early stops and small folds are part of these methods
        learned = learn(X_train, y_train.astype(np.int64), cell)
    watch = Stopwatch()
    Z_train, Z_test = (np.asarray(learned.embed(X), dtype=np.float64) for X in (X_train, X_test))
    nearest, _ = k_nearest(Z_train, Z_test, min(learned.votes, len(Z_train)))
    grades = y_train[nearest].mean(axis=1)
    chosen = learned.chosen | {"votes": learned.votes}
    return MethodResult(grades, Z_train, Z_test, chosen, learned.choice_seconds, learned.fit_seconds, watch.lap())
