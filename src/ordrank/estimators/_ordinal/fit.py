"""The fit of OrdinalMetric as plain functions: from training data and options to a fitted embedding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.errors import InputError, warn_caller
from ordrank.estimators._defaults import Defaults
from ordrank.estimators._knn_selection import HeldOutNeighbors
from ordrank.estimators._ordinal.cross_validation import LeaveOneOutKNN
from ordrank.estimators._ordinal.design import DesignMatrix, RidgeMap, draw_landmarks, feature_map
from ordrank.estimators._ordinal.embedding import OrdinalEmbedding, normalize
from ordrank.estimators._ordinal.model_selection import Candidate, Hyperparameters, SearchGrid, select_hyperparameters
from ordrank.estimators._ordinal.solve import LocalTermOptions, closed_form, unflatten
from ordrank.estimators._ordinal.training_data import SelectionSubset, TrainingData, draw_rows
from ordrank.estimators._threads import blas_threads
from ordrank.estimators._validation import is_auto, largest_group
from ordrank.kernel_ridge import DiscriminantRescaling, RidgeFit, local_discriminant_metric, loo_squared_distances
from ordrank.solvers import SolverResult

# Coordinates of normalised unlabelled samples: squared distances of such samples have hardly a correct digit.
_MAX_DISTANCE = 1e7


@dataclass(frozen=True)
class FitOptions:
    """Parameters of :class:`~ordrank.OrdinalMetric` that the fit depends on; ``"auto"`` is selected."""

    kernel: str
    sharpness: Any
    alpha: Any
    nu: Any
    locality: Any
    discriminant: bool
    local: LocalTermOptions


@dataclass(frozen=True)
class OrdinalFit:
    """Result of a fit."""

    embedding: OrdinalEmbedding
    hyperparameters: Hyperparameters  # of the Gaussian with the largest weight, if a mean over kernels
    candidates: list[Candidate]
    solution: SolverResult
    # With a local term, which has no closed form, both are None.
    loo_neighbors: HeldOutNeighbors | None
    loo_positions: FloatArray | None  # (n, s), values of the ordinal map; None if it was not selected on all samples

    def with_rows_of(self, rows: IntArray, n_rows: int) -> OrdinalFit:
        """Return the same for a larger set of which the fitted samples are the ``rows`` (n,); NaN for the others."""
        if len(rows) == n_rows or self.loo_neighbors is None:
            return self
        positions = None
        if self.loo_positions is not None:
            positions = np.full((n_rows, self.loo_positions.shape[1]), np.nan)
            positions[rows] = self.loo_positions
        return replace(self, loo_neighbors=self.loo_neighbors.of_rows(rows), loo_positions=positions)


def fit_embedding(
    data: TrainingData,
    label_values: FloatArray,
    options: FitOptions,
    unlabeled: NDArray[np.floating],
    rng: np.random.Generator,
    defaults: Defaults,
    groups: IntArray | None = None,
) -> OrdinalFit:
    """Select hyperparameters on some of the labelled samples, fit the map to all, then select λ.

    ``label_values`` (m,) are the distinct labels; ``unlabeled`` (n_unlabeled, d) is not normalised and may be empty.
    Members of ``groups`` (n,), of which there are at least two, are held out together.
    """
    if data.scale == 0:
        raise InputError("all samples with a positive weight are identical; there is no distance to learn")
    unlabeled = _useful_unlabeled(unlabeled, data, options, rng, defaults)
    rows = np.arange(len(data))
    if len(data) > defaults.selection_samples:
        rows = draw_rows(len(data), defaults.selection_samples, rng)
    subset, labels = data.subset(rows), label_values[data.labels(rows)]
    subset = subset.with_unlabeled(unlabeled, defaults.graph_neighbors)
    if groups is not None:
        subset = _with_groups(subset, groups[rows])
    with blas_threads(1):
        candidates, weights = _select(subset, labels, options, rng, defaults)
    linear_of_few = len(rows) == len(data) and list(weights)[-1].sharpness is None
    # Without graph and local term no matrix is larger than the subset, and sums over all samples run in threads.
    small = subset.laplacian is None and options.local.mu == 0
    single = small or linear_of_few or len(subset.X) <= defaults.single_thread_samples
    with blas_threads(1 if single else None):
        embedding, hyperparameters, fits, result = _solve(weights, subset, data, rows, options, rng, defaults)
    with blas_threads(1):  # cross-validation runs in threads
        n_validation = max(defaults.validation_samples, defaults.validation_products // len(data))
        knn = LeaveOneOutKNN(subset.labelled, labels, n_validation, rng, largest_group(subset.groups), defaults)
        loo = partial(loo_squared_distances, fits, list(weights.values()))
        locality, neighbors = knn.select_locality(loo, _values(options.locality, defaults.localities))
    closed = options.local.mu == 0
    loo_neighbors = neighbors.of_rows(rows) if closed else None
    positions = _loo_positions(fits, weights.values()) if closed and len(rows) == len(data) else None
    embedding = replace(embedding, locality=locality)
    return OrdinalFit(embedding, hyperparameters, candidates, result, loo_neighbors, positions)


def _loo_positions(fits: Sequence[RidgeFit], weights: Iterable[float]) -> FloatArray:
    """Return the values (n, s) of the mean of the maps at each sample, held out of the fit alone or with its group."""
    parts = (weight * (fit.problem.Y - fit.loo_errors) for fit, weight in zip(fits, weights, strict=True))
    return np.asarray(np.sum(list(parts), axis=0))


def _with_groups(subset: SelectionSubset, groups: IntArray) -> SelectionSubset:
    """Return the subset with group numbers from 0; without groups, and with a warning, if there is only one."""
    distinct, numbers = np.unique(groups, return_inverse=True)
    if len(distinct) > 1:
        return replace(subset, groups=numbers)
    warn_caller(
        f"the {len(groups)} samples drawn for model selection are all of one group, so each was held out alone: the "
        "selected hyperparameters suit this group, and perhaps no other. Train on more samples of other groups",
        UserWarning,
    )
    return subset


def _useful_unlabeled(
    unlabeled: NDArray[np.floating],
    data: TrainingData,
    options: FitOptions,
    rng: np.random.Generator,
    defaults: Defaults,
) -> NDArray[np.floating]:
    """Return the unlabelled samples to build the graph with, normalised: none if too few or if ν is 0."""
    unused = len(unlabeled) < defaults.min_unlabeled * len(data) if is_auto(options.nu) else options.nu == 0
    drawn = unlabeled[:0] if unused else draw_landmarks(unlabeled, defaults.max_unlabeled, rng)
    drawn = normalize(drawn, data.mean, data.scale)
    farthest = float(np.abs(drawn).max(initial=0.0))
    if farthest > _MAX_DISTANCE:
        raise InputError(
            f"an unlabelled sample is {farthest:.0e} times as far from the mean of the labelled ones as they are on "
            "average; remove it, or give both the same units"
        )
    return drawn


def _select(
    subset: SelectionSubset, labels: FloatArray, options: FitOptions, rng: np.random.Generator, defaults: Defaults
) -> tuple[list[Candidate], dict[Hyperparameters, float]]:
    """Return all candidates, and the selected ones with their weights, the one that is reported last."""
    sharpnesses: list[float | None] = [] if options.kernel == "rbf" else [None]
    if options.kernel != "linear":
        sharpnesses += _values(options.sharpness, defaults.sharpnesses)
    nus = [0.0] if subset.laplacian is None else _values(options.nu, (0.0, *defaults.nus))
    extend = options.kernel != "linear" and is_auto(options.sharpness)
    grid = SearchGrid(sharpnesses, nus, _values(options.alpha, defaults.alphas), extend)
    if grid.is_single:
        return [], {Hyperparameters(grid.sharpnesses[0], grid.nus[0], grid.alphas[0]): 1.0}
    # A mean of minimisers of the local term, which is not quadratic, would minimise nothing.
    candidates = select_hyperparameters(subset, labels, grid, rng, defaults, average=options.local.mu == 0)
    selected = [candidate for candidate in candidates if candidate.weight > 0]
    selected.sort(key=lambda candidate: (candidate.hyperparameters.sharpness is not None, candidate.weight))
    return candidates, {candidate.hyperparameters: candidate.weight for candidate in selected}


def _solve(
    weights: Mapping[Hyperparameters, float],
    subset: SelectionSubset,
    data: TrainingData,
    rows: IntArray,
    options: FitOptions,
    rng: np.random.Generator,
    defaults: Defaults,
) -> tuple[OrdinalEmbedding, Hyperparameters, list[RidgeFit], SolverResult]:
    """Fit the map of each selected candidate to all labelled samples, of which ``rows`` are the subset.

    Return the embedding with λ = 0, the hyperparameters that are reported, a ridge fit of each candidate for
    leave-one-out distances, and the solver's run.
    """
    everything = len(rows) == len(data)
    exact = everything and len(subset.X) <= defaults.exact_samples
    landmarks = subset.X if exact else draw_landmarks(subset.X, defaults.n_landmarks, rng)
    rescaling = DiscriminantRescaling.identity(subset.X.shape[1])
    if options.discriminant and list(weights)[-1].sharpness is not None and everything:
        rescaling = local_discriminant_metric(
            subset.labelled,
            data.labels(rows),
            subset.weights,
            within=defaults.discriminant_within,
            between=defaults.discriminant_between,
            power=defaults.discriminant_power,
        )
    maps: list[RidgeMap] = []
    fits: list[RidgeFit] = []
    for selected in weights:
        design = DesignMatrix(subset, feature_map(subset.X, landmarks, selected.sharpness, defaults))
        problem = design.problem(selected.nu) if everything else design.gram_ridge(data, rows, selected.nu)
        hyperparameters = selected
        if not everything and is_auto(options.alpha):
            # The noise does not depend on n, so the ridge ρ of the subset suits all samples: α is smaller.
            alpha = selected.alpha * (design.scatter(selected.nu) / problem.scatter)
            hyperparameters = replace(selected, alpha=alpha)
        fit: RidgeFit = problem.at(hyperparameters.alpha)
        # The moments of all samples do not show what a group contributed, so leave-one-group-out uses the subset.
        by_subset = subset.groups is not None and not everything
        fits.append(design.path(selected.nu).at(selected.alpha) if by_subset else fit)
        if selected.sharpness is not None and not rescaling.is_identity:
            # Every label shaped the rescaling, so leave-one-out fits must not use it; only the map does.
            design = DesignMatrix(subset, feature_map(subset.X, landmarks, selected.sharpness, defaults, rescaling))
            fit = design.problem(selected.nu).at(selected.alpha)
        if options.local.mu > 0:  # of one candidate only
            result = data.solve_with_local_term(fit, design, selected.nu, options.local)
            B = unflatten(result.x, fit.problem.Y.shape[1])
        else:
            B = fit.coefficients()
        maps.append(design.ridge_map(B, fit.problem.feature_mean, selected.nu))
    if options.local.mu == 0:
        result = closed_form(fit)
    ridge_map = RidgeMap.weighted_mean(maps, list(weights.values()))
    return _embedding(data, ridge_map, landmarks, rescaling), hyperparameters, fits, result


def _embedding(
    data: TrainingData, ridge_map: RidgeMap, landmarks: NDArray[np.floating], rescaling: DiscriminantRescaling
) -> OrdinalEmbedding:
    if not ridge_map.coefficients:
        landmarks, rescaling = landmarks[:0], DiscriminantRescaling.identity(landmarks.shape[1])
    coefficients = list(ridge_map.coefficients.values()) or [np.empty((0, len(ridge_map.offset)))]
    dtype = landmarks.dtype
    # Contiguous, as arrays are after a round trip through a file: the products then have the same digits.
    return OrdinalEmbedding(
        mean=data.mean,
        scale=data.scale,
        linear=np.ascontiguousarray(ridge_map.slope.T / data.scale, dtype=dtype),
        offset=ridge_map.offset,
        locality=0.0,
        sharpnesses=tuple(ridge_map.coefficients),
        landmarks=rescaling(landmarks).astype(dtype),
        coefficients=np.stack(coefficients).astype(dtype),
        rescaling=DiscriminantRescaling(
            np.ascontiguousarray(rescaling.directions, dtype=dtype), rescaling.factors.astype(dtype), rescaling.scale
        ),
    )


def _values(given: Any, automatic: Sequence[float]) -> list[float]:
    return list(automatic) if is_auto(given) else [float(given)]
