"""The automatic choice of an order map: what kernel, how much of the graph, how strong a ridge.

All choices are made with the training samples only, by exact leave-one-out errors of a closed form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.estimators.ballots import Ballots, clearly_more
from ordrank.estimators.groups import largest_group
from ordrank.estimators.order_map import SEARCH_SAMPLES, Design, Pictures, draw_landmarks, feature_map
from ordrank.smoothing import RidgePath, left_out_distances
from ordrank.smoothing.ridge import PathFit

_Item = TypeVar("_Item")

SHARPNESSES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# Where that is best, larger ones are tried up to this: hardly more than copies are then alike, as in tables of words.
SHARPEST = 64.0
ALPHAS = tuple(10.0 ** (power / 2) for power in range(-12, 1))
NUS = (10.0, 100.0, 1e3, 1e4)

# A search over kernels uses at most so many landmarks; their eigendecomposition is its main cost. The worth of a graph
# shows only in a map that can follow it.
SEARCH_LANDMARKS = 300
SEARCH_LANDMARKS_WITH_GRAPH = 600
# And so many are graded with each candidate.
SEARCH_BALLOTS = 300
# Of more samples the graph is tried with so many kernels only.
MANY_SAMPLES = 2000
KERNELS_WITH_GRAPH = 3
# Candidates this much further from their positions than the best are not asked for their grades.
HOPELESS = 1.25
# Of more samples the best kernel has the map alone: it is nearly certain, and every other one would cost as much again.
FEW_SAMPLES = 300
# Kernels this much less probable than the most probable one have no share.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Recipe:
    """What kind of map.

    Attributes
    ----------
    sharpness : float or None
        Of the kernel; None for a linear map.
    nu : float
        Weight of the graph of all pictures, relative to the ridge.
    alpha : float
        Ridge, relative to the total scatter of the features, which a graph makes smaller.
    """

    sharpness: float | None
    nu: float
    alpha: float


@dataclass(frozen=True)
class Candidate:
    """A recipe and how well it does when each sample is left out in turn.

    Attributes
    ----------
    recipe : Recipe
    score : float
        What is to be small, see :attr:`~ordrank.smoothing.ridge.PathFit.score`.
    displacement : float
        Mean distance of the samples from their ideal positions.
    mistake : float or None
        Mean absolute error of the grades, where it was asked for.
    share : float
        Its part in the map.
    """

    recipe: Recipe
    score: float
    displacement: float
    mistake: float | None
    share: float


@dataclass(frozen=True)
class Grids:
    """The values among which a recipe is chosen; one value means that it is given.

    With ``sharper`` the largest sharpness is doubled while it is the best.
    """

    sharpnesses: Sequence[float | None]
    nus: Sequence[float]
    alphas: Sequence[float]
    sharper: bool = False


def choose_recipes(
    pictures: Pictures, labels: FloatArray, grids: Grids, rng: np.random.Generator, *, average: bool
) -> list[Candidate]:
    """Choose kernel, graph and ridge by exact leave-one-out, and give each recipe its share in the map.

    The graph term is used only if it brings the samples nearer to their positions by more than one standard
    error. Then the best score decides, among the candidates that do not clearly mistake more grades than the
    one that mistakes fewest. Asked for their grades are the best score, and every second ridge that comes nearly
    as close to the positions as the closest.

    Few samples do not tell which kernel is best. The map is then a mean: of every kernel the best such candidate,
    in proportion to how probable the scores make it. Scores are twice the log of an error, so that is one over
    the error to the power of the number of samples that it was found with.

    Parameters
    ----------
    pictures : Pictures
    labels : ndarray of shape (n,)
        As numbers.
    grids : Grids
    rng : Generator
        Draws landmarks and samples to grade where there are many.
    average : bool
        Whether a map of few samples may be a mean.

    Returns
    -------
    list of Candidate
        Everything that was tried; the shares have the sum 1.
    """
    if len(pictures.others) > SEARCH_SAMPLES:
        others = draw_landmarks(pictures.others, SEARCH_SAMPLES, rng)
        pictures = pictures.joined(others)
    trials = _try_all(pictures, labels, grids, rng)
    eligible = _with_or_without_graph(trials)
    graded = [(trial, trial.errors) for trial in _to_be_graded(eligible) if trial.errors is not None]
    fewest = min((errors for _, errors in graded), key=lambda errors: float(errors.mean()))
    fine = [trial for trial, errors in graded if not clearly_more(errors, fewest)]
    best = min(fine, key=lambda trial: trial.score)
    uncertain = average and len(labels) <= FEW_SAMPLES and best.recipe.nu == 0
    shares = _shares(fine, len(labels)) if uncertain else {best.recipe: 1.0}
    return [Candidate(t.recipe, t.score, t.displacement, t.mistake, shares.get(t.recipe, 0.0)) for t in trials]


def _shares(trials: Sequence[_Trial], n_samples: int) -> dict[Recipe, float]:
    """Probability of the best recipe of each kernel; that of the improbable ones goes to the others."""
    best: dict[float | None, _Trial] = {}
    for trial in sorted(trials, key=lambda trial: -trial.score):
        best[trial.recipe.sharpness] = trial
    scores = np.array([trial.score for trial in best.values()])
    probability = np.exp(-0.5 * (n_samples - 1) * (scores - scores.min()))
    probability[probability < LEAST_SHARE] = 0.0
    shares = probability / probability.sum()
    return {trial.recipe: float(share) for trial, share in zip(best.values(), shares, strict=True)}


@dataclass
class _Trial:
    """A recipe on trial."""

    recipe: Recipe
    score: float
    displacements: FloatArray
    second: bool  # one of every second ridge
    errors: FloatArray | None = None  # absolute errors of the grades of left-out samples

    @property
    def displacement(self) -> float:
        return float(self.displacements.mean())

    @property
    def mistake(self) -> float | None:
        return None if self.errors is None else float(self.errors.mean())


def _try_all(pictures: Pictures, labels: FloatArray, grids: Grids, rng: np.random.Generator) -> list[_Trial]:
    """Try every recipe; of many samples the graph only with the kernels that do best without it."""
    ballots = Ballots(pictures.labelled, labels, SEARCH_BALLOTS, rng, largest_group(pictures.groups))
    n_landmarks = SEARCH_LANDMARKS if pictures.laplacian is None else SEARCH_LANDMARKS_WITH_GRAPH
    landmarks = draw_landmarks(pictures.X, n_landmarks, rng)
    with_graph = [nu for nu in grids.nus if nu > 0]
    if len(pictures.X) <= MANY_SAMPLES or len(with_graph) in (0, len(grids.nus)):
        return _try_kernels(pictures, ballots, landmarks, grids)
    trials = _try_kernels(replace(pictures, laplacian=None), ballots, landmarks, replace(grids, nus=[0.0]))
    best = list(dict.fromkeys(trial.recipe.sharpness for trial in sorted(trials, key=lambda trial: trial.score)))
    kernels = replace(grids, sharpnesses=best[:KERNELS_WITH_GRAPH], nus=with_graph, sharper=False)
    return trials + _try_kernels(pictures, ballots, landmarks, kernels)


def _try_kernels(pictures: Pictures, ballots: Ballots, landmarks: NDArray[np.floating], grids: Grids) -> list[_Trial]:
    """Try every recipe; while samples vote in the maps of one kernel, the next is decomposed."""
    trials: list[_Trial] = []
    sharpnesses = list(grids.sharpnesses)
    while sharpnesses:
        for sharpness, nu, path in _ahead(_paths(pictures, landmarks, sharpnesses, grids.nus)):
            rivals = [trial for trial in trials if (trial.recipe.nu > 0) == (nu > 0)]
            trials += _try_ridges(sharpness, nu, [path.at(alpha) for alpha in grids.alphas], rivals, ballots)
        best = min(trials, key=lambda trial: trial.score).recipe.sharpness
        is_last = grids.sharper and best == sharpnesses[-1]
        sharpnesses = [2 * best] if is_last and best is not None and best < SHARPEST else []
    return trials


def _paths(
    pictures: Pictures, landmarks: NDArray[np.floating], sharpnesses: Sequence[float | None], nus: Sequence[float]
) -> Iterator[tuple[float | None, float, RidgePath]]:
    """Decompositions for each kernel and weight of the graph, one at a time: they are large."""
    for sharpness in sharpnesses:
        design = Design(pictures, feature_map(pictures.X, landmarks, sharpness))
        for nu in nus:
            yield sharpness, nu, design.path(nu)


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The same items, each made in a thread while the one before it is used."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


def _try_ridges(
    sharpness: float | None, nu: float, fits: Sequence[PathFit], rivals: Sequence[_Trial], ballots: Ballots
) -> list[_Trial]:
    """Trials of one kernel; only of those that may win against their rivals are the grades asked for."""
    trials = [
        _Trial(Recipe(sharpness, nu, fit.alpha), fit.score, fit.displacements, place % 2 == 0)
        for place, fit in enumerate(fits)
    ]
    asked = {id(trial) for trial in _to_be_graded([*rivals, *trials])}
    graded = [(trial, fit) for trial, fit in zip(trials, fits, strict=True) if id(trial) in asked]
    if graded:
        of_each = ballots.errors([partial(left_out_distances, [fit], [1.0]) for _, fit in graded])
        for (trial, _), errors in zip(graded, of_each, strict=True):
            trial.errors = errors
    return trials


def _to_be_graded(trials: Sequence[_Trial]) -> list[_Trial]:
    """Trials worth grading; adding trials never makes one of the others worth it, but for the best score."""
    best = min(trials, key=lambda trial: trial.score)
    nearest = min(trial.displacement for trial in trials)
    return [t for t in trials if t is best or (t.second and t.displacement <= HOPELESS * nearest)]


def _with_or_without_graph(trials: list[_Trial]) -> list[_Trial]:
    without = [trial for trial in trials if trial.recipe.nu == 0]
    with_graph = [trial for trial in trials if trial.recipe.nu > 0]
    if not without or not with_graph:
        return trials
    plain, graph = (min(part, key=lambda trial: trial.score).displacements for part in (without, with_graph))
    gain = plain - graph
    return with_graph if gain.mean() > gain.std() / np.sqrt(len(gain)) else without
