"""Our contenders: the default model, the same with ungraded pictures, and the methods of the paper."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.estimators import OrdinalRanker
from ordrank.experiments import methods, tables
from ordrank.experiments.contender import Clock, Contender, Fitted, Params
from ordrank.experiments.paper import Cell, Dataset
from ordrank.experiments.protocol import Learned
from ordrank.neighbors import k_nearest
from ordrank.votes import count_votes

OURS = "OrdinalMetric"
TRANSDUCTIVE = "OrdinalMetric + unlabelled"
LARGEST_LDMLR = 200  # a search of the baseline takes minutes beyond

# Fitted attributes that tell how a fit went, not what was chosen.
_NOT_CHOSEN = frozenset({"n_features_in_", "n_iter_", "objective_", "stop_reason_", "scale_", "size_"})


def our_contenders(dataset: Dataset) -> list[Contender]:
    """The default model twice, then the paper's methods with the number of iterations it has for ``dataset``."""
    learners: dict[str, tuple[Callable[[FloatArray, IntArray, Cell], Learned], int | None]] = {
        tables.CMDS_CALIBRATED: (methods.calibrated_cmds, None),
        tables.LDMLR_CALIBRATED: (methods.calibrated_ldmlr, LARGEST_LDMLR),
        tables.EUCLIDEAN: (methods.euclidean, None),
    }
    return [
        Contender(
            OURS,
            "ours",
            partial(_fit_ranker, see_test=False),
            "OrdinalRanker() as it comes; told who is on the training pictures where those of the test part are others",
        ),
        Contender(
            TRANSDUCTIVE,
            "transductive",
            partial(_fit_ranker, see_test=True),
            "the same, given the test samples without their grades when it is fitted",
        ),
        *(
            Contender(name, "paper", partial(_fit_learned, learn=learn, dataset=dataset), _choices(name), largest)
            for name, (learn, largest) in learners.items()
        ),
    ]


def _choices(name: str) -> str:
    return f"as in the re-run of the paper, K = 5, s = 3: {methods.OPEN_CHOICES[name]}"


def _fit_ranker(
    X_train: FloatArray,
    y_train: FloatArray,
    X_test: FloatArray,
    groups: NDArray[Any] | None = None,
    *,
    see_test: bool,
) -> Fitted:
    """Fit the default model; what it chooses it chooses inside its fit, so there is no search to time apart."""
    seen: dict[str, Any] = {"unlabeled": X_test} if see_test else {}
    clock = Clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels with few samples are part of the data sets
        ranker = OrdinalRanker().fit(X_train, y_train, groups=groups, **seen)
        fit_seconds = clock.lap()
        grades = np.asarray(ranker.predict(X_test), dtype=np.float64)
        predict_seconds = clock.lap()
        embedded = np.asarray(ranker.metric_.transform(X_test), dtype=np.float64)
    train = np.asarray(ranker.embedding_, dtype=np.float64)
    return Fitted(grades, train, embedded, chosen_by(ranker), 0.0, fit_seconds, predict_seconds)


def chosen_by(ranker: Any) -> Params:
    """Single values that a fitted ranker and its metric have chosen, by the name of the attribute."""
    metric = ranker.metric_
    last = metric[-1] if hasattr(metric, "steps") else metric
    found = {**vars(ranker), **vars(last)}
    return {
        name.removesuffix("_"): value
        for name, value in found.items()
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
) -> Fitted:
    """Learn a distance as in the re-run of the paper; neighbours vote with their mean."""
    cell = Cell(dataset, len(X_train), X_train.shape[1], K=5, s=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early stops and small folds are part of these methods
        learned = learn(X_train, y_train.astype(np.int64), cell)
    clock = Clock()
    Z_train, Z_test = (np.asarray(learned.embed(X), dtype=np.float64) for X in (X_train, X_test))
    nearest, distances = k_nearest(Z_train, Z_test, min(learned.votes, len(Z_train)))
    grades = count_votes(y_train[nearest], distances, aggregate="mean", weights="uniform")
    chosen = learned.chosen | {"votes": learned.votes}
    return Fitted(grades, Z_train, Z_test, chosen, learned.choice_seconds, learned.fit_seconds, clock.lap())
