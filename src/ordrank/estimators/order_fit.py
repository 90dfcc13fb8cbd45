"""How an order map is chosen and learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from threading import Lock
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import ThreadpoolController

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import backend_of
from ordrank.errors import InputError
from ordrank.estimators.ballots import LOCALITIES, Ballots, LeftOut
from ordrank.estimators.groups import largest_group, number_groups
from ordrank.estimators.label_positions import place_by_value, place_labels
from ordrank.estimators.order_map import (
    SEARCH_SAMPLES,
    Design,
    OrderMap,
    Pictures,
    Samples,
    draw_landmarks,
    draw_rows,
    feature_map,
)
from ordrank.estimators.order_solver import closed_form, with_local_term
from ordrank.estimators.ordered_metric import OrderedMetric
from ordrank.estimators.parameters import is_auto
from ordrank.estimators.recipes import ALPHAS, NUS, SHARPNESSES, Candidate, Grids, Recipe, choose_recipes
from ordrank.neighbors import target_neighbors
from ordrank.smoothing import Lens, RidgeFit, left_out_distances, lens_of

USUAL_COMPONENTS = 2
# Up to so many samples the kernel is exact; beyond, Nyström's with so many landmarks.
EXACT_SAMPLES = 2000
LANDMARKS = 1000
# Of more unlabelled samples these are drawn: their graph and features are held in memory.
MOST_UNLABELED = 4000
# Most samples on which locality and votes are tried.
BALLOTS = 1500
# Fewer of more than 4000 samples, down to these: a large fit has better things to do.
BALLOT_ELEMENTS = 6_000_000
FEW_BALLOTS = 300
# Threads of a BLAS wait for each other longer than they work on kernels no larger than this, or on a linear map of as
# many samples as are searched.
FEW_SAMPLES = 1000
# Unlabelled samples for each labelled one, below which they are too few to shape a map.
FEW_UNLABELED = 0.1

OF_THE_MAP = ("order_components_", "lens_directions_", "lens_stretches_", "landmarks_", "coefficients_")

_ONE_FIT_AT_A_TIME = Lock()


class OrderFit(OrderedMetric):
    """What :class:`~ordrank.OrdinalMetric` does to learn; its parameters and attributes are described there."""

    n_components: int | None
    beta: float
    alpha: float | Literal["auto"]
    mu: float
    locality: float | Literal["auto"]
    n_neighbors: int
    lens: bool
    kernel: Literal["auto", "linear", "rbf"]
    sharpness: float | Literal["auto"]
    nu: float | Literal["auto"]
    tau: float
    label_distances: ArrayLike | None
    repair: Literal["error", "cailliez", "nearest"]
    max_iter: int
    tol: float
    labels_: FloatArray
    label_positions_: FloatArray

    def _fit_to(
        self,
        everything: Samples,
        others: NDArray[np.floating],
        rng: np.random.Generator,
        groups: IntArray | None = None,
    ) -> Self:
        """Choose by some of the labelled samples, learn from all; members of groups (n,) are left out together."""
        others = self._prepare(everything, others, rng)
        rows = np.arange(min(len(everything), SEARCH_SAMPLES))
        if len(everything) > SEARCH_SAMPLES:
            rows = draw_rows(len(everything), SEARCH_SAMPLES, rng)
        pictures, grades = everything.draw(rows, others), self.labels_[everything.labels(rows)]
        if groups is not None:
            pictures = replace(pictures, groups=number_groups(groups[rows], rows))
        # Limits of threads hold for the whole process: two fits at a time would lift each other's.
        with _ONE_FIT_AT_A_TIME:
            threads = _threads_of_blas()
            with threads.limit(limits=1):
                recipes = self._choose(pictures, grades, rng)
            few = len(everything) <= SEARCH_SAMPLES and self.kernel_ == "linear"
            with threads.limit(limits=1 if few or len(pictures.X) <= FEW_SAMPLES else None):
                fits = self._learn(recipes, pictures, everything, rows, rng)
            with threads.limit(limits=1):  # votes are counted in threads of their own
                left_out = partial(left_out_distances, fits, list(recipes.values()))
                self._choose_locality(left_out, pictures, grades, rows, len(everything), rng)
        return self

    def _prepare(
        self, everything: Samples, others: NDArray[np.floating], rng: np.random.Generator
    ) -> NDArray[np.floating]:
        """Keep what brings samples to unit mean square; the unlabelled samples that matter, brought to it."""
        self.mean_, self.size_ = everything.mean, everything.size
        if self.size_ == 0:
            raise InputError("all samples that count are identical; there is no distance to learn")
        pointless = len(others) < FEW_UNLABELED * len(everything) if is_auto(self.nu) else self.nu == 0
        return self._unit(others[:0] if pointless else draw_landmarks(others, MOST_UNLABELED, rng))

    def _place(self, label_weights: FloatArray) -> FloatArray:
        """Ideal positions of the labels, of weighted mean square 1; zero beyond the dimensions that they fill."""
        most = len(self.labels_) - 1
        self.n_components_ = min(USUAL_COMPONENTS, most) if self.n_components is None else self.n_components
        kept = min(self.n_components_, most)
        if self.label_distances is None:
            points = place_by_value(self.labels_, kept, self.beta, label_weights)
        else:
            placed = place_labels(self.label_distances, kept, label_weights, self.repair)
            points, self.label_repair_, self.negative_mass_ = placed.points, placed.repair, placed.negative_mass
        size = np.sqrt(label_weights @ np.einsum("ij,ij->i", points, points) / label_weights.sum())
        return np.pad(points / size, [(0, 0), (0, self.n_components_ - kept)])

    def _choose(self, pictures: Pictures, labels: FloatArray, rng: np.random.Generator) -> dict[Recipe, float]:
        """Choose recipes of maps, and the share of each in the mean; the last one is the one that is told."""
        sharpnesses: list[float | None] = [] if self.kernel == "rbf" else [None]
        if self.kernel != "linear":
            sharpnesses += _values(self.sharpness, SHARPNESSES)
        nus = [0.0] if pictures.laplacian is None else _values(self.nu, (0.0, *NUS))
        sharper = self.kernel != "linear" and is_auto(self.sharpness)
        grids = Grids(sharpnesses, nus, _values(self.alpha, ALPHAS), sharper)
        self.candidates_: list[Candidate] = []
        recipes = {Recipe(grids.sharpnesses[0], grids.nus[0], grids.alphas[0]): 1.0}
        if len(grids.sharpnesses) * len(grids.nus) * len(grids.alphas) > 1:
            # The local term is not quadratic: a mean of its solutions would solve nothing.
            self.candidates_ = choose_recipes(pictures, labels, grids, rng, average=self.mu == 0)
            taken = [candidate for candidate in self.candidates_ if candidate.share > 0]
            taken.sort(key=lambda candidate: (candidate.recipe.sharpness is not None, candidate.share))
            recipes = {candidate.recipe: candidate.share for candidate in taken}
        main = list(recipes)[-1]
        self.kernel_ = "linear" if main.sharpness is None else "rbf"
        self.sharpness_, self.nu_, self.alpha_ = main.sharpness, main.nu, main.alpha
        return recipes

    def _learn(
        self,
        recipes: Mapping[Recipe, float],
        pictures: Pictures,
        everything: Samples,
        rows: IntArray,
        rng: np.random.Generator,
    ) -> list[RidgeFit]:
        """Learn from all labelled samples; ``rows`` of them are those in ``pictures``, by which is chosen.

        Returned are fits, one for each recipe, that know what would be without some of these.
        """
        for name in {*OF_THE_MAP, "neighborhoods_"} & vars(self).keys():
            delattr(self, name)  # of an earlier fit of another kind
        exact = max(len(pictures.X), len(everything)) <= EXACT_SAMPLES
        landmarks = pictures.X if exact else draw_landmarks(pictures.X, LANDMARKS, rng)
        lens = self._lens_for(pictures, everything, rows)
        maps: list[OrderMap] = []
        fits: list[RidgeFit] = []
        for recipe in recipes:
            design = Design(pictures, feature_map(pictures.X, landmarks, recipe.sharpness))
            fit = self._fit_design(design, recipe, everything, rows)
            if pictures.groups is None or len(rows) == len(everything):
                fits.append(fit)
            else:  # What a whole group has added to sums over all samples is not known: the drawn ones tell.
                fits.append(design.path(recipe.nu).at(recipe.alpha))
            if recipe.sharpness is not None and not lens.is_plain:
                # All samples have shaped the lens: a fit that tells what would be without some must not see through it.
                design = Design(pictures, feature_map(pictures.X, landmarks, recipe.sharpness, lens))
                fit = design.path(recipe.nu).at(recipe.alpha)
            B = self._coefficients(fit, design, everything)
            maps.append(design.order_map(B, fit.path.feature_mean, recipe.nu))
        self._keep(OrderMap.mean(maps, list(recipes.values())), lens, landmarks)
        return fits

    def _lens_for(self, pictures: Pictures, everything: Samples, rows: IntArray) -> Lens:
        """Plain glass for a linear map, and where only some samples are at hand."""
        if not self.lens or self.kernel_ != "rbf" or len(rows) < len(everything):
            return Lens.plain(pictures.X.shape[1])
        return lens_of(pictures.labelled, everything.labels(rows), pictures.weights)

    def _fit_design(self, design: Design, recipe: Recipe, everything: Samples, rows: IntArray) -> RidgeFit:
        if len(rows) == len(everything):
            return design.path(recipe.nu).at(recipe.alpha)
        path = design.path_of_all(everything, rows, recipe.nu)
        if is_auto(self.alpha):
            # How large errors are does not depend on the number of samples, and so does not the best ridge: it is
            # that of the sample, and a smaller share of the scatter of all.
            self.alpha_ *= design.scatter(recipe.nu) / path.scatter
        return path.at(self.alpha_)

    def _coefficients(self, fit: RidgeFit, design: Design, everything: Samples) -> FloatArray:
        """Coefficients of the order map, (p, s): the closed form, and from there the solver if μ > 0."""
        if self.mu == 0:
            self._record(closed_form(fit), "")
            return fit.coefficients()
        path, unit = fit.path, everything.unit(slice(None))
        backend = backend_of(unit)
        if path.moments is None:
            neighbors = target_neighbors(unit.astype(np.float64), everything.index, self.n_neighbors)
            features: Array = path.centred / path.root[:, None]
            Y: Array = path.Y
        else:  # of many samples in single precision no double copy is made
            neighbors = target_neighbors(unit, everything.index, self.n_neighbors)
            features = design.features_of(unit, self.nu_)
            features -= backend.asarray(path.feature_mean, features)
            Y = backend.asarray(self.label_positions_, features)[everything.index]
        solver: dict[str, Any] = {"mu": self.mu, "tau": self.tau, "max_iter": self.max_iter, "tol": self.tol}
        result = with_local_term(fit, features, Y, everything.weights, neighbors, **solver)
        self._record(result, "Raise max_iter, or lower mu.")
        return np.asarray(backend_of(result.x).to_numpy(result.x), dtype=np.float64).reshape(self.n_components_, -1).T

    def _keep(self, order: OrderMap, lens: Lens, landmarks: NDArray[np.floating]) -> None:
        """Keep what ``transform`` needs."""
        # Rows one after the other, as they come back from a file or from a cluster: products then have the same digits.
        self.order_components_ = np.ascontiguousarray(order.slope.T / self.size_, dtype=landmarks.dtype)
        self.offset_ = order.offset
        self.sharpnesses_ = tuple(order.coefficients)
        self.lens_size_ = lens.size
        if order.coefficients:
            self.lens_directions_ = np.ascontiguousarray(lens.directions, dtype=landmarks.dtype)
            self.lens_stretches_ = lens.stretches.astype(landmarks.dtype)
            self.landmarks_ = lens(landmarks).astype(landmarks.dtype)
            self.coefficients_ = np.stack(list(order.coefficients.values())).astype(landmarks.dtype)

    def _choose_locality(
        self,
        left_out: LeftOut,
        pictures: Pictures,
        grades: FloatArray,
        rows: IntArray,
        n_samples: int,
        rng: np.random.Generator,
    ) -> None:
        """Choose how much of the original distance to keep by votes on samples that are left out of the fit."""
        n_ballots = min(BALLOTS, max(FEW_BALLOTS, BALLOT_ELEMENTS // n_samples))
        ballots = Ballots(pictures.labelled, grades, n_ballots, rng, largest_group(pictures.groups))
        localities = _values(self.locality, LOCALITIES)
        self.locality_, near = ballots.choose(left_out, localities)
        if self.mu == 0:
            self.neighborhoods_ = near.renumbered(rows)


@cache
def _threads_of_blas() -> ThreadpoolController:
    """Found once: a search through all loaded libraries takes as long as a small fit."""
    return ThreadpoolController().select(user_api="blas")


def _values(given: Any, automatic: Sequence[float]) -> list[float]:
    return list(automatic) if is_auto(given) else [float(given)]
