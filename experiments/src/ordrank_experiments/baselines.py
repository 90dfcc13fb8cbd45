"""Other packages to compare with, each with model selection inside the training set."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.svm import SVC, SVR

from ordrank._protocols import FloatArray, IntArray
from ordrank.metrics import nearest_label
from ordrank_experiments.baseline_environment import fit_in_environment
from ordrank_experiments.baseline_search import (
    FEW_LABELS,
    FOLDS,
    SEED,
    SMALL,
    Predict,
    Predictor,
    StartMap,
    StartPredictor,
    describe,
    grid,
    median_predictor,
    search_metric,
    search_predictor,
)
from ordrank_experiments.method import BaselineFailedError, Method, Params

PACKAGES = ("mord", "skordinal")  # of the extra ``baselines``

RELATIVE_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0)  # times 1 / mean squared distance of the training samples
PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
ORDINAL_PENALTIES = (1.0, 10.0, 100.0, 1000.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
ALPHAS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
SHRINKAGES = (0.001, 0.01, 0.1, 0.4, 0.7, 0.95)
SPREADS = (5.0, 100.0)  # mean squared distance of the training samples before a map is learned
DIMENSIONS = (2, 10)
MAP_ITERATIONS = 30
SVM_ITERATIONS = 10_000  # not converged by then: C is too large
REDSVM_MAX_SAMPLES = 1300  # its time grows with samples times labels
TREES, TREES_IN_SEARCH = 500, 100
FOREST = {"min_samples_leaf": (1, 3, 8), "max_features": (0.1, 0.5)}  # max_features as a share of the features
BOOSTING = {"max_leaf_nodes": (4, 16), "min_samples_leaf": (3, 20)}
BOOSTING_ROUNDS = 100
GAUSSIAN_PROCESS_MAX_SAMPLES = 1500


def baselines() -> list[Method]:
    """Return all baselines, the cheap ones first."""
    kernels, spreads = {"relative_gamma": RELATIVE_GAMMAS}, grid(spread=SPREADS, n_components=DIMENSIONS)
    return [
        _metric("Euclidean k-NN", _start_identity, [{}]),
        _predictor("LDA", _start_lda, grid(shrinkage=SHRINKAGES)),
        _metric("LDA + k-NN", _start_lda_map, grid(shrinkage=SHRINKAGES, n_components=(1, 2, 4, 16))),
        _predictor("SVC (RBF)", _start_svc, grid(**kernels, C=PENALTIES)),
        _predictor("SVR (RBF)", _start_svr, grid(**kernels, C=PENALTIES)),
        _predictor("Kernel ridge", _start_ridge, grid(**kernels, alpha=RIDGES)),
        _forest(),
        _boosting(),
        _gaussian_process(),
        *_mord(),
        _metric("NCA + k-NN", _start_nca, spreads, large=grid(spread=SPREADS[:1], n_components=DIMENSIONS)),
        *_skordinal(),
        _metric("LMNN + k-NN", partial(_start_metric_learn, method="LMNN", n_neighbors=3), spreads, max_samples=SMALL),
        _metric("MLKR + k-NN", partial(_start_metric_learn, method="MLKR"), spreads, max_samples=SMALL),
    ]


def _predictor(
    name: str, start: StartPredictor, points: Sequence[Params], large: Sequence[Params] | None = None, **limits: Any
) -> Method:
    return Method(name, "baseline", search_predictor(start, points, large), _choices(points, large), **limits)


def _metric(
    name: str, start: StartMap, points: Sequence[Params], large: Sequence[Params] | None = None, **limits: Any
) -> Method:
    return Method(name, "baseline", search_metric(start, points, large), _choices(points, large), **limits)


def _choices(points: Sequence[Params], large: Sequence[Params] | None) -> str:
    text = describe(points) or "k-NN voting only"
    return f"{text}; with more than {SMALL} training samples {describe(large)}" if large else text


def _mord() -> Iterator[Method]:
    """Yield linear models of ordered classes."""
    points = grid(alpha=ALPHAS)
    # With 60 labels a search takes 30 s with the default 1000 iterations; 100 iterations give bad results.
    yield _ordinal("mord", "LogisticAT", points, max_labels=FEW_LABELS)
    yield _ordinal("mord", "LogisticIT", points, max_labels=FEW_LABELS)
    yield _ordinal("mord", "OrdinalRidge", points)


def _skordinal() -> Iterator[Method]:
    """Yield the same all-threshold model with a faster solver, and kernel machines."""
    rbf, package = grid(relative_gamma=RELATIVE_GAMMAS, C=ORDINAL_PENALTIES), "skordinal.classifiers"
    yield _ordinal(package, "LogisticAT", grid(alpha=ALPHAS))
    yield _ordinal(package, "SVOR", rbf, {"constraints": "explicit"}, title="SVOREX", max_samples=SMALL)
    yield _ordinal(package, "SVOR", rbf, {"constraints": "implicit"}, title="SVORIM", max_samples=SMALL)
    # Close to SVORIM, with a solver for more samples; one fit with 60 labels still takes a second or two.
    coarse = grid(relative_gamma=(0.3, 1.0, 3.0), C=(1.0, 10.0))
    yield _ordinal(package, "REDSVM", rbf, large=coarse, max_samples=REDSVM_MAX_SAMPLES, max_labels=FEW_LABELS)


def _start_rbf(
    X: FloatArray,
    target: FloatArray | IntArray,
    build: Callable[[Params], Any],
    finish: Callable[[Any], FloatArray],
    calibrate: Callable[[Any, FloatArray], Any] | None = None,
) -> Callable[[Params], Predictor]:
    """Fit with a Gaussian kernel; squared distances are computed once, the kernel matrix once per bandwidth.

    ``calibrate`` maps an unfitted model and the kernel matrix to one with ``predict_proba``, fitted when it is called.
    """
    squared = euclidean_distances(X, squared=True)
    unit = 1 / squared.mean()

    @lru_cache(maxsize=1)
    def kernel(relative_gamma: float) -> FloatArray:
        return np.asarray(np.exp(-relative_gamma * unit * squared))

    def fit(params: Params) -> Predictor:
        relative = params["relative_gamma"]
        model = build(params).fit(kernel(relative), target)

        def kernel_with(Q: FloatArray) -> FloatArray:
            return np.asarray(np.exp(-relative * unit * euclidean_distances(Q, X, squared=True)))

        def predict(Q: FloatArray) -> FloatArray:
            return finish(model.predict(kernel_with(Q)))

        if calibrate is None:
            return Predictor(predict)
        return Predictor(predict, lambda Q: calibrate(build(params), kernel(relative)).predict_proba(kernel_with(Q)))

    return fit


def _start_svc(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)

    def calibrate(model: SVC, kernel: FloatArray) -> Any:
        folds = min(FOLDS, int(counts.min()))
        return CalibratedClassifierCV(model, cv=folds, ensemble=False).fit(kernel, codes)

    return _start_rbf(
        X,
        codes,
        lambda params: SVC(C=params["C"], kernel="precomputed", max_iter=SVM_ITERATIONS),
        lambda found: classes[found],
        calibrate if counts.min() > 1 else None,  # a label of one sample cannot be in two folds
    )


def _start_svr(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    mean, spread = y.mean(), y.std() or 1.0  # C and ε are relative to the spread of the grades
    on_scale = _on_scale(y)
    return _start_rbf(
        X,
        (y - mean) / spread,
        lambda params: SVR(C=params["C"], epsilon=0.1, kernel="precomputed", max_iter=SVM_ITERATIONS),
        lambda found: on_scale(mean + spread * found),
    )


def _start_ridge(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    mean, on_scale = y.mean(), _on_scale(y)  # KernelRidge has no intercept
    return _start_rbf(
        X,
        y - mean,
        lambda params: KernelRidge(alpha=params["alpha"], kernel="precomputed"),
        lambda found: on_scale(mean + found),
    )


def _on_scale(y: FloatArray) -> Predict:
    """Return a map to the nearest label if there are few labels, else to the range of the labels.

    The minimiser of the expected absolute error is a median, hence a label.
    """
    labels = np.unique(y)
    if len(labels) > FEW_LABELS:
        return lambda grades: np.clip(grades, labels[0], labels[-1])
    borders = (labels[1:] + labels[:-1]) / 2
    return lambda grades: labels[np.searchsorted(borders, grades)]


def _start_classifier(X: FloatArray, y: FloatArray, build: Callable[[Params], Any]) -> Callable[[Params], Predictor]:
    """Fit ``build(params)`` on class codes 0, 1, ... and predict labels."""
    classes, codes = np.unique(y, return_inverse=True)

    def fit(params: Params) -> Predictor:
        model = build(params).fit(X, codes)
        return Predictor(lambda Q: classes[model.predict(Q).astype(np.int64)], getattr(model, "predict_proba", None))

    return fit


def _start_lda(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    return _start_classifier(X, y, lambda params: LinearDiscriminantAnalysis(solver="lsqr", **params))


def _forest() -> Method:
    """Return extremely randomised trees (Geurts et al. 2006)."""
    points = grid(**FOREST)
    search, final = (partial(_start_forest, trees=trees) for trees in (TREES_IN_SEARCH, TREES))
    text = f"{describe(points)}, each with {TREES_IN_SEARCH} trees, then {TREES} trees; median of the probabilities"
    return Method("Extra trees", "baseline", search_predictor(search, points, final=final), text)


def _start_forest(X: FloatArray, y: FloatArray, *, trees: int) -> Callable[[Params], Predictor]:
    labels, codes = np.unique(y, return_inverse=True)

    def fit(params: Params) -> Predictor:
        model = ExtraTreesClassifier(trees, random_state=SEED, **params).fit(X, codes)
        return median_predictor(labels, model.predict_proba)

    return fit


def _boosting() -> Method:
    """Return gradient boosted trees."""
    points = grid(**BOOSTING)
    text = (
        f"{describe(points)}; {BOOSTING_ROUNDS} rounds; median of the probabilities, or with more than {FEW_LABELS} "
        "labels the label nearest to a regression of the absolute error"
    )
    return Method("Gradient boosting", "baseline", search_predictor(_start_boosting, points), text)


def _start_boosting(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    labels, codes = np.unique(y, return_inverse=True)
    fixed = {"max_iter": BOOSTING_ROUNDS, "early_stopping": False, "random_state": SEED}

    def fit(params: Params) -> Predictor:
        if len(labels) > FEW_LABELS:
            regression = HistGradientBoostingRegressor(loss="absolute_error", **fixed, **params).fit(X, y)
            return Predictor(lambda Q: labels[nearest_label(labels, regression.predict(Q))])
        model = HistGradientBoostingClassifier(**fixed, **params).fit(X, codes)
        return median_predictor(labels, model.predict_proba)

    return fit


def _gaussian_process() -> Method:
    """Return a Gaussian process regression."""
    text = "c·RBF + white noise by marginal likelihood, from three starts, without folds; label nearest to the mean"
    fit = search_predictor(_start_gaussian_process, [{}])
    return Method("Gaussian process", "baseline", fit, text, max_samples=GAUSSIAN_PROCESS_MAX_SAMPLES)


def _start_gaussian_process(X: FloatArray, y: FloatArray) -> Callable[[Params], Predictor]:
    labels = np.unique(y)
    length = np.sqrt(euclidean_distances(X, squared=True).mean())
    kernel = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(length, (1e-2 * length, 1e2 * length)) + WhiteKernel(0.5)
    borders = (labels[1:] + labels[:-1]) / 2

    def fit(params: Params) -> Predictor:
        model = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=2, random_state=SEED).fit(X, y)

        def predict_proba(Q: FloatArray) -> FloatArray:
            """Return the normal distribution of a new grade, noise included, between the midpoints of the labels."""
            mean, std = model.predict(Q, return_std=True)
            below = norm.cdf(borders, mean[:, None], std[:, None])
            return np.asarray(np.diff(below, axis=1, prepend=0.0, append=1.0))

        return Predictor(lambda Q: labels[nearest_label(labels, model.predict(Q))], predict_proba)

    return fit


def _ordinal(
    module: str,
    name: str,
    points: Sequence[Params],
    fixed: Mapping[str, Any] | None = None,
    *,
    title: str | None = None,
    **rest: Any,
) -> Method:
    """Return a classifier of ordered classes from a package of the extra ``baselines``."""
    start = partial(_start_ordinal, module=module, name=name, fixed=fixed or {})
    return _predictor(f"{title or name} ({module.partition('.')[0]})", start, points, **rest)


def _start_ordinal(
    X: FloatArray, y: FloatArray, *, module: str, name: str, fixed: Mapping[str, Any]
) -> Callable[[Params], Predictor]:
    try:
        classifier = getattr(importlib.import_module(module), name)
    except ImportError as error:
        package = module.partition(".")[0]
        raise BaselineFailedError(
            f"{package} is not installed: make baselines, or pip install 'ordrank-experiments[baselines]'"
        ) from error
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
    """Learn the leading discriminant directions, whitened by the shrunk within-class covariance."""
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


def _start_metric_learn(X: FloatArray, y: FloatArray, **fixed: Any) -> Callable[[Params], FloatArray]:
    """Learn a map of metric-learn in its own environment; ``fixed`` names the method."""

    def learn(params: Params) -> FloatArray:
        factor = _factor(X, params["spread"])
        given = {"n_components": params["n_components"], "max_iter": MAP_ITERATIONS, "random_state": SEED}
        return factor * fit_in_environment(factor * X, y, given | fixed)

    return learn


def _factor(X: FloatArray, spread: float) -> float:
    """Return the factor that gives centred samples the mean squared distance ``spread``.

    NCA, LMNN and MLKR have a fixed unit of length (exp(-d²), a margin of 1) and in practice do not recover from an
    initial scale far from it.
    """
    return float(np.sqrt(spread / (2 * np.mean(np.sum(X**2, axis=1)))))
