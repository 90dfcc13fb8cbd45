"""The order map: from pictures to the ideal positions of their labels, and the automatic choice of its kind.

All choices are made with the training samples only, by exact leave-one-out errors of a closed form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.estimators.ballots import USUAL_LOCALITY, Ballots, clearly_more
from ordrank.smoothing import (
    KernelMap,
    LinearMap,
    Moments,
    RidgePath,
    graph_laplacian,
    mean_and_size,
    moments_of,
    near_mean,
    row_blocks,
)
from ordrank.smoothing.kernels import LINEAR_SHARE

SHARPNESSES = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ALPHAS = tuple(10.0 ** (power / 2) for power in range(-12, 1))
NUS = (10.0, 100.0, 1e3, 1e4)

# A search over kernels uses at most so many landmarks; their eigendecomposition is its main cost. The worth of a graph
# shows only in a map that can follow it.
SEARCH_LANDMARKS = 300
SEARCH_LANDMARKS_WITH_GRAPH = 600
# Of more samples so many are drawn, labelled and unlabelled, to choose by: time and memory stay bounded.
SEARCH_SAMPLES = 1500
# And so many are graded with each candidate.
SEARCH_BALLOTS = 300
# Of more samples the graph is tried with so many kernels only.
MANY_SAMPLES = 2000
KERNELS_WITH_GRAPH = 3
# Candidates this much further from their positions than the best are not asked for their grades.
HOPELESS = 1.25
# Recipes this much less probable than the most probable one are left out of the mean.
LEAST_SHARE = 0.02
_LISTED_ROWS = 100_000


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
        What is to be small, see :attr:`~ordrank.smoothing.RidgeFit.score`.
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
    """The values among which a recipe is chosen; one value means that it is given."""

    sharpnesses: Sequence[float | None]
    nus: Sequence[float]
    alphas: Sequence[float]


@dataclass(frozen=True)
class Pictures:
    """What a map is learned from.

    Attributes
    ----------
    X : ndarray of shape (N, d)
        Samples of unit mean square, the n labelled ones first.
    Y : ndarray of shape (n, s)
        Ideal positions of the labelled ones.
    weights : ndarray of shape (n,)
    laplacian : sparse array of shape (N, N), optional
        Of the neighbour graph of all samples; None without unlabelled ones.
    """

    X: NDArray[np.floating]
    Y: FloatArray
    weights: FloatArray
    laplacian: Any = None

    @property
    def labelled(self) -> NDArray[np.floating]:
        """The samples with a label, (n, d)."""
        return self.X[: len(self.Y)]

    @property
    def others(self) -> NDArray[np.floating]:
        """The samples without, (N - n, d)."""
        return self.X[len(self.Y) :]

    def joined(self, others: NDArray[np.floating]) -> Pictures:
        """The labelled samples, joined by a graph with these unlabelled ones if there are any."""
        X = np.vstack([self.labelled, others])
        return Pictures(X, self.Y, self.weights, graph_laplacian(X) if len(others) else None)


def unit_size(X: NDArray[np.floating], mean: FloatArray, size: float) -> NDArray[np.floating]:
    """Samples (n, d) about their mean (d,), in units of their size, of the same type."""
    return np.asarray((X - mean.astype(X.dtype)) / X.dtype.type(size))


@dataclass(frozen=True)
class Samples:
    """All labelled samples, however many: as they were given, and brought to unit size only a block at a time.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        May be larger than memory, for example a ``numpy.memmap``.
    mean, size : ndarray of shape (d,) and float
        With which they are brought to unit mean square.
    index : ndarray of shape (n,)
        Which label each sample has.
    positions : ndarray of shape (m, s)
        Ideal positions of the labels, of weighted mean zero.
    weights : ndarray of shape (n,)
    sums : Moments, optional
        Of the samples as they are, where they are known already.
    """

    X: NDArray[np.floating]
    mean: FloatArray
    size: float
    index: IntArray
    positions: FloatArray
    weights: FloatArray
    sums: Moments | None = None

    @classmethod
    def measured(
        cls, X: NDArray[np.floating], index: IntArray, positions: FloatArray, weights: FloatArray, *, linear: bool
    ) -> Samples:
        """Find mean and size; of many samples of which a linear map may be learned, all sums in the same pass."""
        given = cls(X, np.zeros(X.shape[1]), 1.0, index, positions, weights)
        if len(X) <= SEARCH_SAMPLES or X.shape[1] > SEARCH_SAMPLES or not linear:
            mean, size = mean_and_size(X, weights)
            return replace(given, mean=mean, size=size)
        sums = given.sums_about(near_mean(X))
        return replace(given, mean=sums.mean, size=sums.size(), sums=sums)

    def __len__(self) -> int:
        return len(self.X)

    def unit(self, rows: IntArray | slice) -> NDArray[np.floating]:
        """Some of them, at unit size."""
        return unit_size(self.X[rows], self.mean, self.size)

    def labels(self, rows: IntArray) -> IntArray:
        """Which label some of them have."""
        return self.index[rows]

    def targets(self, rows: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        """Positions (r, s) and weights (r,) of some of them."""
        return self.positions[self.index[rows]], self.weights[rows]

    def draw(self, rows: IntArray, others: NDArray[np.floating]) -> Pictures:
        """Some of them, joined by a graph with unlabelled samples of unit size if there are any."""
        Y, weights = self.targets(rows)
        if len(rows) < len(self):
            Y = Y - np.average(Y, axis=0, weights=weights)
        return Pictures(self.unit(rows), Y, weights).joined(others)

    def moments(self) -> Moments:
        """Sums over the samples at unit size."""
        sums, size = self.sums or self.sums_about(self.mean), self.size
        return replace(sums, mean=(sums.mean - self.mean) / size, gram=sums.gram / size**2, cross=sums.cross / size)

    def moments_of_features(self, feature_map: LinearMap | KernelMap, near: FloatArray) -> Moments:
        """Sums over the features (n, p) of the samples at unit size, about a point near their mean: one pass."""
        rows = row_blocks(len(self), len(near))
        return moments_of(((feature_map.features(self.unit(part)), *self.targets(part)) for part in rows), near)

    def sums_about(self, near: FloatArray) -> Moments:
        """Sums over the samples as they are, about a point near their mean: one pass."""
        return moments_of(((self.X[rows], *self.targets(rows)) for rows in row_blocks(*self.X.shape)), near)


@dataclass(frozen=True)
class OrderMap:
    r"""The order map, for samples of unit size.

    .. math:: f(x) = W^Tx + \sum_j C_j^T\left[\exp\left(-\tfrac{\omega_j}2\|x - l_i\|^2\right)\right]_i - o

    Attributes
    ----------
    slope : ndarray of shape (d, s)
        W, the linear parts of all kernels.
    offset : ndarray of shape (s,)
        o.
    landmarks : ndarray of shape (m, d)
        l; none for a linear map.
    coefficients : dict
        C of shape (m, s) for each sharpness ω.
    """

    slope: FloatArray
    offset: FloatArray
    landmarks: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0)))
    coefficients: dict[float, FloatArray] = field(default_factory=dict)


def mean_map(maps: Sequence[OrderMap], shares: Sequence[float]) -> OrderMap:
    """Mean of maps with the same landmarks, if they have any, with weights (shares) of sum 1."""
    coefficients: dict[float, FloatArray] = {}
    for share, one in zip(shares, maps, strict=True):
        for sharpness, C in one.coefficients.items():
            coefficients[sharpness] = coefficients.get(sharpness, 0.0) + share * C
    slope, offset = (
        np.asarray(sum(share * value for share, value in zip(shares, values, strict=True)))
        for values in ([one.slope for one in maps], [one.offset for one in maps])
    )
    return OrderMap(slope, offset, max((one.landmarks for one in maps), key=len), coefficients)


class Design:
    """Features of the labelled samples for one kernel, in the axes of the graph term.

    With G the Laplacian and Φ the features of all samples, the penalty ‖B‖² + ν tr(BᵀΦᵀGΦB) is ‖B‖² again for
    features φ(I + νΦᵀGΦ)^(-1/2): in the eigenvectors of ΦᵀGΦ every ν is a scaling of columns.
    """

    def __init__(self, pictures: Pictures, feature_map: LinearMap | KernelMap) -> None:
        self.feature_map, self._pictures = feature_map, pictures
        self._rotation: FloatArray | None = None
        self._roughness: FloatArray | None = None
        everything = pictures.labelled if pictures.laplacian is None else pictures.X
        features = feature_map.features(everything)
        if pictures.laplacian is not None:
            roughness, self._rotation = np.linalg.eigh(features.T @ (pictures.laplacian @ features))
            self._roughness = np.maximum(roughness, 0.0)
            features = features[: len(pictures.Y)] @ self._rotation
        self._features: FloatArray = features

    def path(self, nu: float) -> RidgePath:
        """Ridge regression of the positions for a weight of the graph."""
        return RidgePath(self._features * self._scales(nu), self._pictures.Y, self._pictures.weights)

    def path_of_all(self, samples: Samples, rows: IntArray, nu: float) -> RidgePath:
        """The same for all samples, of which the design has only ``rows``: one pass, no features are kept.

        Features that are the samples themselves are multiplied in their own precision, others in double.
        """
        if self._plain:
            moments = samples.moments()
        else:
            near = self.feature_map.features(self._pictures.labelled).mean(axis=0)
            moments = samples.moments_of_features(self.feature_map, near)
        if self._rotation is not None:
            moments = moments.changed(self._rotation * self._scales(nu))
        Y, weights = samples.targets(rows)
        return RidgePath(self._features * self._scales(nu), Y, weights, moments)

    def features_of(self, X: NDArray[np.floating], nu: float) -> NDArray[np.floating]:
        """Features (n, p) of a path for samples of unit size (n, d); samples themselves keep their type."""
        features = X if self._plain else self.feature_map.features(X)
        return features if self._rotation is None else features @ (self._rotation * self._scales(nu))

    def scatter(self, nu: float) -> float:
        """Total weighted scatter of the features of its samples."""
        weights, features = self._pictures.weights, self._features * self._scales(nu)
        mean = weights @ features / weights.sum()
        return float(weights @ np.einsum("ij,ij->i", features, features) - weights.sum() * (mean @ mean))

    def order_map(self, coefficients: FloatArray, feature_mean: FloatArray, nu: float) -> OrderMap:
        """Return the map whose coefficients (p, s) of a path's features these are."""
        scaled = self._scales(nu)[:, None] * coefficients
        B = scaled if self._rotation is None else self._rotation @ scaled
        offset, features = feature_mean @ coefficients, self.feature_map
        if isinstance(features, LinearMap):
            return OrderMap(features.on_samples(B), offset)
        C, landmarks = features.on_landmarks(B), features.landmarks
        return OrderMap(LINEAR_SHARE * landmarks.T @ C, offset, landmarks, {features.sharpness: C})

    @property
    def _plain(self) -> bool:
        """Whether the features of the map are the samples themselves."""
        return isinstance(self.feature_map, LinearMap) and self.feature_map.plain

    def _scales(self, nu: float) -> FloatArray:
        if self._roughness is None:
            return np.ones(self._features.shape[1])
        return np.asarray(1 / np.sqrt(1 + nu * self._roughness))


def paths_of(
    recipes: Iterable[Recipe],
    pictures: Pictures,
    everything: Samples,
    rows: IntArray,
    landmarks: NDArray[np.floating],
) -> Iterator[tuple[Recipe, Design, RidgePath]]:
    """Return what recipes, grouped by kernel and graph, have in common, which is made once.

    Parameters
    ----------
    recipes : iterable of Recipe
    pictures : Pictures
        Samples by which was chosen.
    everything : Samples
    rows : ndarray
        Those of them that are the labelled ones of ``pictures``; the paths are those of all.
    landmarks : ndarray of shape (m, d)
    """
    for sharpness, of_kernel in groupby(recipes, key=lambda recipe: recipe.sharpness):
        design = Design(pictures, feature_map(pictures.X, landmarks, sharpness))
        for nu, of_graph in groupby(of_kernel, key=lambda recipe: recipe.nu):
            path = design.path(nu) if len(rows) == len(everything) else design.path_of_all(everything, rows, nu)
            for recipe in of_graph:
                yield recipe, design, path


def choose_recipes(
    pictures: Pictures, labels: FloatArray, grids: Grids, rng: np.random.Generator, *, average: bool
) -> list[Candidate]:
    """Choose kernel, graph and ridge by exact leave-one-out, and give each recipe its share in the map.

    The graph term is used only if it brings the samples nearer to their positions by more than one standard
    error. Then the best score decides, among the candidates that do not clearly mistake more grades than the
    one that mistakes fewest. Asked for their grades are the best score, and every second ridge that comes nearly
    as close to the positions as the closest. For a mean, all that cannot be told from this best one share the map, in
    proportion to their probability given the labels, see :attr:`~ordrank.smoothing.RidgeFit.log_evidence`.

    Parameters
    ----------
    pictures : Pictures
    labels : ndarray of shape (n,)
        As numbers.
    grids : Grids
    rng : Generator
        Draws landmarks and samples to grade where there are many.
    average : bool
        Whether the map is a mean over recipes; else the best one has it alone.

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
    members = [trial for trial in fine if not clearly_more(trial.displacements, best.displacements)]
    shares = _shares(members if average else [best])
    return [Candidate(t.recipe, t.score, t.displacement, t.mistake, shares.get(id(t), 0.0)) for t in trials]


def feature_map(
    X: NDArray[np.floating], landmarks: NDArray[np.floating], sharpness: float | None
) -> LinearMap | KernelMap:
    """Features of all samples X (N, d) themselves, or of a kernel with landmarks (m, d) if it has a sharpness."""
    return LinearMap(X) if sharpness is None else KernelMap(landmarks, sharpness)


def draw_landmarks(X: NDArray[np.floating], n_landmarks: int, rng: np.random.Generator) -> NDArray[np.floating]:
    """Some of the rows of X, in their order, or all if there are no more."""
    return X if len(X) <= n_landmarks else X[np.sort(rng.permutation(len(X))[:n_landmarks])]


def draw_rows(n_rows: int, most: int, rng: np.random.Generator) -> IntArray:
    """At most so many of the row numbers below ``n_rows``, rising; of very many rows no list is made."""
    if n_rows <= _LISTED_ROWS:
        return np.sort(rng.permutation(n_rows)[:most])
    return np.sort(rng.choice(n_rows, min(most, n_rows), replace=False, shuffle=False))


@dataclass
class _Trial:
    """A recipe on trial."""

    recipe: Recipe
    score: float
    log_evidence: float
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
    ballots = Ballots(pictures.labelled, labels, SEARCH_BALLOTS, rng)
    n_landmarks = SEARCH_LANDMARKS if pictures.laplacian is None else SEARCH_LANDMARKS_WITH_GRAPH
    landmarks = draw_landmarks(pictures.X, n_landmarks, rng)
    with_graph = [nu for nu in grids.nus if nu > 0]
    if len(pictures.X) <= MANY_SAMPLES or len(with_graph) in (0, len(grids.nus)):
        return _try_kernels(pictures, ballots, landmarks, grids)
    trials = _try_kernels(replace(pictures, laplacian=None), ballots, landmarks, replace(grids, nus=[0.0]))
    best = list(dict.fromkeys(trial.recipe.sharpness for trial in sorted(trials, key=lambda trial: trial.score)))
    kernels = replace(grids, sharpnesses=best[:KERNELS_WITH_GRAPH], nus=with_graph)
    return trials + _try_kernels(pictures, ballots, landmarks, kernels)


def _try_kernels(pictures: Pictures, ballots: Ballots, landmarks: NDArray[np.floating], grids: Grids) -> list[_Trial]:
    """Try every recipe; of the decompositions only one is kept at a time, they are large."""
    trials: list[_Trial] = []
    for sharpness in grids.sharpnesses:
        design = Design(pictures, feature_map(pictures.X, landmarks, sharpness))
        for nu in grids.nus:
            path = design.path(nu)
            fits = [path.at(alpha) for alpha in grids.alphas]
            new = [
                _Trial(
                    Recipe(sharpness, nu, fit.alpha),
                    fit.score,
                    fit.log_evidence,
                    fit.smoother.displacements,
                    place % 2 == 0,
                )
                for place, fit in enumerate(fits)
            ]
            so_far = [trial for trial in trials if (trial.recipe.nu > 0) == (nu > 0)] + new
            asked = {id(trial) for trial in _to_be_graded(so_far)}
            for trial, fit in zip(new, fits, strict=True):
                if id(trial) in asked:
                    trial.errors = ballots.errors(fit.smoother.squared_distances_left_out(ballots.rows), USUAL_LOCALITY)
            trials += new
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


def _shares(trials: Sequence[_Trial]) -> dict[int, float]:
    """Probability of each trial, by its identity; that of the improbable ones goes to the others."""
    log_evidence = np.array([trial.log_evidence for trial in trials])
    probability = np.exp(log_evidence - log_evidence.max())
    probability[probability < LEAST_SHARE] = 0.0
    return {id(trial): float(share) for trial, share in zip(trials, probability / probability.sum(), strict=True)}
