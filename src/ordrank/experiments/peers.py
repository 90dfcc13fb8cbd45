"""What people would otherwise use: peers of the model, each with its own search inside the training set."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.svm import SVC, SVR

from ordrank._types import FloatArray, IntArray
from ordrank.errors import PeerFailedError
from ordrank.experiments.contender import Contender, Params
from ordrank.experiments.peer_environment import learn_elsewhere
from ordrank.experiments.peer_search import (
    FEW_LABELS,
    SEED,
    SMALL,
    Predict,
    StartMap,
    StartPredictor,
    describe,
    grid,
    search_metric,
    search_predictor,
)

PACKAGES = ("mord", "skordinal")  # of the ``peers`` extra

RELATIVE_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times 1 / mean squared distance of the training samples
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
ORDINAL_PENALTIES = (1.0, 10.0, 100.0, 1000.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SHRINKAGES = (0.001, 0.01, 0.1, 0.4, 0.7, 0.95)
SPREADS = (5.0, 100.0)  # mean squared distance of training samples that learned maps start from
DIMENSIONS = (2, 10)
MAP_ITERATIONS = 30
MACHINE_ITERATIONS = 10_000  # a support vector machine that has not converged by then was given too large a C
LARGEST_REDSVM = 1300  # its time grows with samples times labels


def peers() -> list[Contender]:
    """Every peer, the cheap ones first."""
    kernels, spreads = {"relative_gamma": RELATIVE_GAMMAS}, grid(spread=SPREADS, n_components=DIMENSIONS)
    return [
        _metric("Euclidean k-NN", _start_identity, [{}]),
        _predictor("LDA", _start_lda, grid(shrinkage=SHRINKAGES)),
        _metric("LDA + k-NN", _start_lda_map, grid(shrinkage=SHRINKAGES, n_components=(1, 2, 4, 16))),
        _predictor("SVC (RBF)", _start_svc, grid(**kernels, C=PENALTIES)),
        _predictor("SVR (RBF)", _start_svr, grid(**kernels, C=PENALTIES)),
        _predictor("Kernel ridge", _start_ridge, grid(**kernels, alpha=RIDGES)),
        *_mord(),
        _metric("NCA + k-NN", _start_nca, spreads, large=grid(spread=SPREADS[:1], n_components=DIMENSIONS)),
        *_skordinal(),
        _metric("LMNN + k-NN", partial(_start_elsewhere, method="LMNN", n_neighbors=3), spreads, largest=SMALL),
        _metric("MLKR + k-NN", partial(_start_elsewhere, method="MLKR"), spreads, largest=SMALL),
    ]


def _predictor(
    name: str, start: StartPredictor, points: Sequence[Params], large: Sequence[Params] | None = None, **limits: Any
) -> Contender:
    return Contender(name, "peer", search_predictor(start, points, large), _choices(points, large), **limits)


def _metric(
    name: str, start: StartMap, points: Sequence[Params], large: Sequence[Params] | None = None, **limits: Any
) -> Contender:
    return Contender(name, "peer", search_metric(start, points, large), _choices(points, large), **limits)


def _choices(points: Sequence[Params], large: Sequence[Params] | None) -> str:
    text = describe(points) or "votes alone"
    return f"{text}; with more than {SMALL} training samples {describe(large)}" if large else text


def _mord() -> Iterator[Contender]:
    """Linear models of ordered classes."""
    points = grid(alpha=ALPHAS)
    # With 60 labels a search takes half a minute with the default 1000 iterations; 100 spoil the result.
    yield _ordinal("mord", "LogisticAT", points, most_labels=FEW_LABELS)
    yield _ordinal("mord", "LogisticIT", points, most_labels=FEW_LABELS)
    yield _ordinal("mord", "OrdinalRidge", points)


def _skordinal() -> Iterator[Contender]:
    """The same all-threshold model with a solver that copes with many labels, and kernel machines."""
    rbf, package = grid(relative_gamma=RELATIVE_GAMMAS, C=ORDINAL_PENALTIES), "skordinal.classifiers"
    yield _ordinal(package, "LogisticAT", grid(alpha=ALPHAS))
    yield _ordinal(package, "SVOR", rbf, {"constraints": "explicit"}, title="SVOREX", largest=SMALL)
    yield _ordinal(package, "SVOR", rbf, {"constraints": "implicit"}, title="SVORIM", largest=SMALL)
    # Close to SVORIM, with a solver for more samples; one fit with 60 labels takes a second or two even so.
    coarse = grid(relative_gamma=(0.3, 1.0, 3.0), C=(1.0, 10.0))
    yield _ordinal(package, "REDSVM", rbf, large=coarse, largest=LARGEST_REDSVM, most_labels=FEW_LABELS)


def _start_rbf(
    X: FloatArray, target: FloatArray | IntArray, build: Callable[[Params], Any], finish: Callable[[Any], FloatArray]
) -> Callable[[Params], Predict]:
    """Fit with a Gaussian kernel whose squared distances are computed once, and whose matrix once per width."""
    squared = euclidean_distances(X, squared=True)
    unit = 1 / squared.mean()

    @lru_cache(maxsize=1)
    def kernel(relative_gamma: float) -> FloatArray:
        return np.asarray(np.exp(-relative_gamma * unit * squared))

    def fit(params: Params) -> Predict:
        relative = params["relative_gamma"]
        model = build(params).fit(kernel(relative), target)

        def predict(Q: FloatArray) -> FloatArray:
            return finish(model.predict(np.exp(-relative * unit * euclidean_distances(Q, X, squared=True))))

        return predict

    return fit


def _start_svc(X: FloatArray, y: FloatArray) -> Callable[[Params], Predict]:
    classes, codes = np.unique(y, return_inverse=True)
    return _start_rbf(
        X,
        codes,
        lambda params: SVC(C=params["C"], kernel="precomputed", max_iter=MACHINE_ITERATIONS),
        lambda found: classes[found],
    )


def _start_svr(X: FloatArray, y: FloatArray) -> Callable[[Params], Predict]:
    mean, spread = y.mean(), y.std() or 1.0  # C and ε have a meaning only relative to the spread of the grades
    on_scale = _on_scale(y)
    return _start_rbf(
        X,
        (y - mean) / spread,
        lambda params: SVR(C=params["C"], epsilon=0.1, kernel="precomputed", max_iter=MACHINE_ITERATIONS),
        lambda found: on_scale(mean + spread * found),
    )


def _start_ridge(X: FloatArray, y: FloatArray) -> Callable[[Params], Predict]:
    mean, on_scale = y.mean(), _on_scale(y)  # kernel ridge has no intercept of its own
    return _start_rbf(
        X,
        y - mean,
        lambda params: KernelRidge(alpha=params["alpha"], kernel="precomputed"),
        lambda found: on_scale(mean + found),
    )


def _on_scale(y: FloatArray) -> Predict:
    """Nearest existing label where labels are few, else the range of the labels.

    The grade with the least expected absolute error is a median, hence a label: rounding rarely costs and often
    gains, and it makes regression and classification answer the same question.
    """
    labels = np.unique(y)
    if len(labels) > FEW_LABELS:
        return lambda grades: np.clip(grades, labels[0], labels[-1])
    borders = (labels[1:] + labels[:-1]) / 2
    return lambda grades: labels[np.searchsorted(borders, grades)]


def _start_classifier(X: FloatArray, y: FloatArray, build: Callable[[Params], Any]) -> Callable[[Params], Predict]:
    """Fit a classifier of codes 0, 1, ... and give labels back; ``build`` turns parameters into a classifier."""
    classes, codes = np.unique(y, return_inverse=True)

    def fit(params: Params) -> Predict:
        model = build(params).fit(X, codes)
        return lambda Q: classes[model.predict(Q).astype(np.int64)]

    return fit


def _start_lda(X: FloatArray, y: FloatArray) -> Callable[[Params], Predict]:
    return _start_classifier(X, y, lambda params: LinearDiscriminantAnalysis(solver="lsqr", **params))


def _ordinal(
    module: str,
    name: str,
    points: Sequence[Params],
    fixed: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    **rest: Any,
) -> Contender:
    """A classifier of ordered classes from a package of the ``peers`` extra."""
    start = partial(_start_ordinal, module=module, name=name, fixed=fixed or {})
    return _predictor(f"{title or name} ({module.partition('.')[0]})", start, points, **rest)


def _start_ordinal(
    X: FloatArray, y: FloatArray, *, module: str, name: str, fixed: Mapping[str, Any]
) -> Callable[[Params], Predict]:
    try:
        classifier = getattr(importlib.import_module(module), name)
    except ImportError as error:
        package = module.partition(".")[0]
        raise PeerFailedError(f"{package} is not installed: make peers, or pip install 'ordrank[peers]'") from error
    unit = 1 / euclidean_distances(X, squared=True).mean()

    def build(params: Params) -> Any:
        given = dict(params)
        if "relative_gamma" in given:
            given["gamma"] = unit * given.pop("relative_gamma")
        return classifier(**given, **fixed)

    return _start_classifier(X, y, build)


def _start_identity(X: FloatArray, y: FloatArray) -> Callable[[Params], FloatArray]:
    return lambda params: np.eye(X.shape[1])


def _start_lda_map(X: FloatArray, y: FloatArray) -> Callable[[Params], FloatArray]:
    """Discriminant directions, whitened by the shrunk covariance within labels; the strongest of them."""
    _, codes = np.unique(y, return_inverse=True)

    @lru_cache(maxsize=1)
    def directions(shrinkage: float) -> FloatArray:
        model = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(X, codes)
        return np.asarray(model.scalings_[:, : codes.max()].T)

    return lambda params: directions(params["shrinkage"])[: params["n_components"]]


def _start_nca(X: FloatArray, y: FloatArray) -> Callable[[Params], FloatArray]:
    _, codes = np.unique(y, return_inverse=True)

    def learn(params: Params) -> FloatArray:
        factor = _factor(X, params["spread"])
        n_components = min(params["n_components"], X.shape[1], len(X))
        model = NeighborhoodComponentsAnalysis(n_components, init="pca", max_iter=MAP_ITERATIONS, random_state=SEED)
        return np.asarray(factor * model.fit(factor * X, codes).components_)

    return learn


def _start_elsewhere(X: FloatArray, y: FloatArray, **fixed: Any) -> Callable[[Params], FloatArray]:
    """Maps of metric-learn, fitted in the environment it needs; ``fixed`` names the method."""

    def learn(params: Params) -> FloatArray:
        factor = _factor(X, params["spread"])
        order = {"n_components": params["n_components"], "max_iter": MAP_ITERATIONS, "random_state": SEED}
        return factor * learn_elsewhere(factor * X, y, order | fixed)

    return learn


def _factor(X: FloatArray, spread: float) -> float:
    """Number to multiply centred samples with, for a given mean squared distance.

    NCA, LMNN and MLKR have a unit of length built in (exp(-d²), a margin of 1). From a start far larger than that
    unit they see one neighbour only, from one far smaller no neighbourhood at all, and they do not get away from
    it in practice.
    """
    return float(np.sqrt(spread / (2 * np.mean(np.sum(X**2, axis=1)))))
