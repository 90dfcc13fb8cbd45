"""Selection of kernel, graph weight and ridge by closed-form leave-one-out on the training samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np

from ordrank._protocols import FloatArray
from ordrank.estimators._defaults import Defaults
from ordrank.estimators._knn_selection import significantly_larger
from ordrank.estimators._ordinal.cross_validation import LeaveOneOutKNN
from ordrank.estimators._ordinal.design import DesignMatrix, draw_landmarks, feature_map
from ordrank.estimators._ordinal.training_data import SelectionSubset
from ordrank.estimators._validation import largest_group
from ordrank.kernel_ridge import RidgePath, loo_squared_distances
from ordrank.kernel_ridge.ridge import PathFit

_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Hyperparameters:
    """Kernel, graph weight and ridge of one map."""

    sharpness: float | None  # ω, the inverse squared bandwidth of the Gaussian; None for a linear map
    nu: float  # ν, the weight of the graph relative to the ridge
    alpha: float  # α, the ridge relative to the total scatter of the features


@dataclass(frozen=True)
class Candidate:
    """Hyperparameters and their leave-one-out scores."""

    hyperparameters: Hyperparameters
    score: float  # see ordrank.kernel_ridge.ridge.PathFit.score; lower is better
    loo_distance: float  # unweighted mean leave-one-out distance of the samples from their ideal positions
    mae: float | None  # of leave-one-out k-NN predictions; None if not evaluated
    weight: float  # in the fitted map; 0 if not selected


@dataclass(frozen=True)
class SearchGrid:
    """Values to select from; a single value is given by the user.

    With ``extend_sharpness`` the largest sharpness is doubled while it is the best.
    """

    sharpnesses: Sequence[float | None]
    nus: Sequence[float]
    alphas: Sequence[float]
    extend_sharpness: bool = False

    @property
    def is_single(self) -> bool:
        return len(self.sharpnesses) * len(self.nus) * len(self.alphas) == 1


def select_hyperparameters(
    subset: SelectionSubset,
    labels: FloatArray,
    grid: SearchGrid,
    rng: np.random.Generator,
    defaults: Defaults,
    *,
    average: bool,
) -> list[Candidate]:
    """Score the grid by closed-form leave-one-out and give each candidate its weight in the map.

    1. The graph is used only if it lowers the leave-one-out distance by more than one standard error.
    2. Candidates are excluded if their leave-one-out k-NN errors are significantly larger than the lowest. Only the
       best score and every second ridge with nearly the lowest leave-one-out distance are evaluated by k-NN.
    3. The best score of the others is selected. Of few samples the map is a mean over kernels: the best candidate of
       each, weighted by its posterior probability. Half a score is the log of an error, so the probability is
       proportional to error^(1 - n).

    All candidates that were scored are returned; their weights have the sum 1. Without ``average`` only one has a
    weight.
    """
    if len(subset.unlabeled) > defaults.selection_samples:
        unlabeled = draw_landmarks(subset.unlabeled, defaults.selection_samples, rng)
        subset = subset.with_unlabeled(unlabeled, defaults.graph_neighbors)
    trials = _GridSearch(subset, labels, rng, defaults).run(grid)
    eligible = _with_or_without_graph(trials, defaults.graph_standard_errors)
    evaluated = [(t, t.errors) for t in _worth_evaluating(eligible, defaults) if t.errors is not None]
    lowest = min((errors for _, errors in evaluated), key=lambda errors: float(errors.mean()))
    accepted = [trial for trial, errors in evaluated if not significantly_larger(errors, lowest, defaults)]
    best = min(accepted, key=lambda trial: trial.score)
    weights = {best.hyperparameters: 1.0}
    if average and len(labels) <= defaults.few_samples and best.hyperparameters.nu == 0:
        weights = _posterior_weights(accepted, len(labels), defaults.min_weight)
    return [
        Candidate(t.hyperparameters, t.score, t.loo_distance, t.mae, weights.get(t.hyperparameters, 0.0))
        for t in trials
    ]


@dataclass
class _Trial:
    """Hyperparameters with scores; ``errors`` of leave-one-out k-NN are filled in if they are worth evaluating."""

    hyperparameters: Hyperparameters
    score: float
    loo_distances: FloatArray
    is_sampled: bool  # one of the ridges that may be evaluated by k-NN
    errors: FloatArray | None = None

    @property
    def loo_distance(self) -> float:
        """Unweighted mean leave-one-out distance; the score is weighted."""
        return float(self.loo_distances.mean())

    @property
    def mae(self) -> float | None:
        return None if self.errors is None else float(self.errors.mean())


class _GridSearch:
    """A grid search with common validation samples and landmarks."""

    def __init__(
        self, subset: SelectionSubset, labels: FloatArray, rng: np.random.Generator, defaults: Defaults
    ) -> None:
        self._subset, self._defaults = subset, defaults
        self._knn = LeaveOneOutKNN(
            subset.labelled, labels, defaults.validation_samples, rng, largest_group(subset.groups), defaults
        )
        has_graph = subset.laplacian is not None
        n_landmarks = defaults.search_landmarks_with_graph if has_graph else defaults.search_landmarks
        self._landmarks = draw_landmarks(subset.X, n_landmarks, rng)

    def run(self, grid: SearchGrid) -> list[_Trial]:
        """Score every candidate; of many samples the graph only with the kernels that are best without it."""
        subset, with_graph = self._subset, [nu for nu in grid.nus if nu > 0]
        if len(subset.X) <= self._defaults.exact_samples or len(with_graph) in (0, len(grid.nus)):
            return self._score(subset, grid)
        trials = self._score(replace(subset, laplacian=None), replace(grid, nus=[0.0]))
        ordered = sorted(trials, key=lambda trial: trial.score)
        best = list(dict.fromkeys(trial.hyperparameters.sharpness for trial in ordered))
        best = best[: self._defaults.kernels_with_graph]
        return trials + self._score(subset, SearchGrid(best, with_graph, grid.alphas))

    def _score(self, subset: SelectionSubset, grid: SearchGrid) -> list[_Trial]:
        """Score one kernel's k-NN predictions while factorising the next."""
        trials: list[_Trial] = []
        sharpnesses = list(grid.sharpnesses)
        while sharpnesses:
            for sharpness, nu, path in _prefetch(self._paths(subset, sharpnesses, grid.nus)):
                rivals = [trial for trial in trials if (trial.hyperparameters.nu > 0) == (nu > 0)]
                trials += self._score_ridges(sharpness, nu, [path.at(alpha) for alpha in grid.alphas], rivals)
            best = min(trials, key=lambda trial: trial.score).hyperparameters.sharpness
            is_last = grid.extend_sharpness and best == sharpnesses[-1]
            sharpnesses = [2 * best] if is_last and best is not None and best < self._defaults.max_sharpness else []
        return trials

    def _paths(
        self, subset: SelectionSubset, sharpnesses: Sequence[float | None], nus: Sequence[float]
    ) -> Iterator[tuple[float | None, float, RidgePath]]:
        """Yield the ridge path of each kernel and graph weight, one at a time because they are large."""
        for sharpness in sharpnesses:
            design = DesignMatrix(subset, feature_map(subset.X, self._landmarks, sharpness, self._defaults))
            for nu in nus:
                yield sharpness, nu, design.path(nu)

    def _score_ridges(
        self, sharpness: float | None, nu: float, fits: Sequence[PathFit], rivals: Sequence[_Trial]
    ) -> list[_Trial]:
        """Score the ridges of one kernel; k-NN errors only if they may win against their rivals."""
        step = self._defaults.ridge_step
        trials = [
            _Trial(Hyperparameters(sharpness, nu, fit.alpha), fit.score, fit.loo_distances, position % step == 0)
            for position, fit in enumerate(fits)
        ]
        promising = {id(trial) for trial in _worth_evaluating([*rivals, *trials], self._defaults)}
        evaluated = [(trial, fit) for trial, fit in zip(trials, fits, strict=True) if id(trial) in promising]
        if evaluated:
            errors = self._knn.errors([partial(loo_squared_distances, [fit], [1.0]) for _, fit in evaluated])
            for (trial, _), each in zip(evaluated, errors, strict=True):
                trial.errors = each
        return trials


def _prefetch(items: Iterator[_Item]) -> Iterator[_Item]:
    """Yield items, each computed in a thread while the one before it is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _worth_evaluating(trials: Sequence[_Trial], defaults: Defaults) -> list[_Trial]:
    """Return the trials to evaluate by k-NN; adding trials only removes others, except for the best score."""
    best = min(trials, key=lambda trial: trial.score)
    limit = defaults.max_loo_distance * min(trial.loo_distance for trial in trials)
    return [t for t in trials if t is best or (t.is_sampled and t.loo_distance <= limit)]


def _with_or_without_graph(trials: list[_Trial], standard_errors: float) -> list[_Trial]:
    without = [trial for trial in trials if trial.hyperparameters.nu == 0]
    with_graph = [trial for trial in trials if trial.hyperparameters.nu > 0]
    if not without or not with_graph:
        return trials
    plain, graph = (min(part, key=lambda trial: trial.score).loo_distances for part in (without, with_graph))
    gain = plain - graph
    return with_graph if gain.mean() > standard_errors * (gain.std() / np.sqrt(len(gain))) else without


def _posterior_weights(trials: Sequence[_Trial], n_samples: int, min_weight: float) -> dict[Hyperparameters, float]:
    """Return the posterior probability of the best candidate of each kernel, without improbable ones."""
    best: dict[float | None, _Trial] = {}
    for trial in sorted(trials, key=lambda trial: -trial.score):
        best[trial.hyperparameters.sharpness] = trial
    scores = np.array([trial.score for trial in best.values()])
    probability = np.exp(-0.5 * (n_samples - 1) * (scores - scores.min()))
    probability[probability < min_weight] = 0.0
    weights = probability / probability.sum()
    return {trial.hyperparameters: float(weight) for trial, weight in zip(best.values(), weights, strict=True)}
