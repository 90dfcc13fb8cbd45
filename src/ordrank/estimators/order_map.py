"""The order map: from pictures to the ideal positions of their labels, and the automatic choice of its kind.

All choices are made with the training samples only, by exact leave-one-out errors of a closed form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray
from ordrank.estimators.ballots import USUAL_LOCALITY, Ballots, clearly_more
from ordrank.smoothing import FeatureMap, KernelMap, LinearMap, RidgeFit, RidgePath

WIDTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ALPHAS = tuple(10.0 ** (power / 2) for power in range(-12, 1))
NUS = (10.0, 100.0, 1e3, 1e4)

# A search over kernels uses at most so many landmarks; their eigendecomposition is its main cost.
SEARCH_LANDMARKS = 300
# And grades so many samples with each candidate.
SEARCH_BALLOTS = 300
# Candidates this much further from their positions than the best are not asked for their grades.
HOPELESS = 1.25


@dataclass(frozen=True)
class Recipe:
    """What kind of map.

    Attributes
    ----------
    width : float or None
        Of the kernel; None for a linear map.
    nu : float
        Weight of the graph of all pictures, relative to the ridge.
    alpha : float
        Ridge, relative to the total scatter of the features.
    """

    width: float | None
    nu: float
    alpha: float


@dataclass(frozen=True)
class Candidate:
    """A recipe and how well it does when each sample is left out in turn."""

    recipe: Recipe
    score: float
    displacement: float
    mistake: float | None  # mean absolute error of the grades, where it was asked for


@dataclass(frozen=True)
class Grids:
    """The values among which a recipe is chosen; one value means that it is given."""

    widths: Sequence[float | None]
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


class Design:
    """Features of the labelled samples for one kernel, in the axes of the graph term.

    With G the Laplacian and Φ the features of all samples, the penalty ‖B‖² + ν tr(BᵀΦᵀGΦB) is ‖B‖² again for
    features φ(I + νΦᵀGΦ)^(-1/2): in the eigenvectors of ΦᵀGΦ every ν is a scaling of columns.
    """

    def __init__(self, pictures: Pictures, feature_map: FeatureMap) -> None:
        self.feature_map, self._pictures = feature_map, pictures
        self._rotation: FloatArray | None = None
        self._roughness: FloatArray | None = None
        if pictures.laplacian is None:
            self._features = feature_map.features(pictures.labelled)
            return
        everything = feature_map.features(pictures.X)
        roughness, self._rotation = np.linalg.eigh(everything.T @ (pictures.laplacian @ everything))
        self._roughness = np.maximum(roughness, 0.0)
        self._features = everything[: len(pictures.Y)] @ self._rotation

    @property
    def dtype(self) -> Any:
        """Of the samples."""
        return self._pictures.X.dtype

    def path(self, nu: float) -> RidgePath:
        """Ridge regression of the positions for a weight of the graph."""
        return RidgePath(self._features * self._scales(nu), self._pictures.Y, self._pictures.weights)

    def of_map(self, coefficients: FloatArray, nu: float) -> FloatArray:
        """Coefficients (p, s) of a path's features as coefficients of the features of the map."""
        scaled = self._scales(nu)[:, None] * coefficients
        return scaled if self._rotation is None else self._rotation @ scaled

    def _scales(self, nu: float) -> FloatArray:
        if self._roughness is None:
            return np.ones(self._features.shape[1])
        return np.asarray(1 / np.sqrt(1 + nu * self._roughness))


def choose_recipe(
    pictures: Pictures, labels: FloatArray, grids: Grids, rng: np.random.Generator
) -> tuple[Recipe, list[Candidate]]:
    """Choose kernel, graph and ridge by exact leave-one-out.

    The graph term is used only if it brings the samples clearly nearer to their positions, by one standard
    error. Then the best score decides, among the candidates that do not clearly mistake more grades than the
    one that mistakes fewest.

    Parameters
    ----------
    pictures : Pictures
    labels : ndarray of shape (n,)
        As numbers.
    grids : Grids
    rng : Generator
        Draws landmarks and samples to grade where there are many.
    """
    ballots = Ballots(pictures.labelled, labels, SEARCH_BALLOTS, rng)
    fits = list(_fits(pictures, grids, rng))
    fits = _with_or_without_graph(fits)
    nearest = min(fit.displacement for _, fit in fits)
    best_score = min(fits, key=lambda entry: entry[1].score)
    errors: dict[Recipe, FloatArray] = {}
    for recipe, fit in fits:
        decade = (recipe.alpha == grids.alphas[0]) or np.isclose(np.log10(recipe.alpha) % 1, 0, atol=1e-6)
        if recipe == best_score[0] or (decade and fit.displacement <= HOPELESS * nearest):
            errors[recipe] = ballots.errors(fit.squared_distances_left_out(ballots.rows), USUAL_LOCALITY)
    fewest = min(errors.values(), key=lambda error: float(error.mean()))
    fine = {recipe for recipe, error in errors.items() if not clearly_more(error, fewest)}
    chosen = min((entry for entry in fits if entry[0] in fine), key=lambda entry: entry[1].score)[0]
    mistakes = {recipe: float(error.mean()) for recipe, error in errors.items()}
    tried = [Candidate(recipe, fit.score, fit.displacement, mistakes.get(recipe)) for recipe, fit in fits]
    return chosen, tried


def draw_landmarks(X: NDArray[np.floating], n_landmarks: int, rng: np.random.Generator) -> NDArray[np.floating]:
    """Some of the rows of X, in their order, or all if there are no more."""
    if len(X) <= n_landmarks:
        return X
    return X[np.sort(rng.permutation(len(X))[:n_landmarks])]


def _fits(pictures: Pictures, grids: Grids, rng: np.random.Generator) -> Iterator[tuple[Recipe, RidgeFit]]:
    landmarks = draw_landmarks(pictures.X, SEARCH_LANDMARKS, rng)
    for width in grids.widths:
        design = Design(pictures, LinearMap() if width is None else KernelMap(landmarks, width))
        for nu in grids.nus:
            path = design.path(nu)
            for alpha in grids.alphas:
                yield Recipe(width, nu, alpha), path.at(alpha)


def _with_or_without_graph(fits: list[tuple[Recipe, RidgeFit]]) -> list[tuple[Recipe, RidgeFit]]:
    without = [entry for entry in fits if entry[0].nu == 0]
    with_graph = [entry for entry in fits if entry[0].nu > 0]
    if not without or not with_graph:
        return fits
    plain, graph = (min(part, key=lambda entry: entry[1].score)[1] for part in (without, with_graph))
    gain = plain.displacements - graph.displacements
    return with_graph if gain.mean() > gain.std() / np.sqrt(len(gain)) else without
