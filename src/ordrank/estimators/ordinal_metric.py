"""The default model: an order map and as much of the original distance as the order can bear."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from threading import Lock
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from ordrank._types import Array, FloatArray, IntArray
from ordrank.backend import as_given, backend_of, is_tensor
from ordrank.errors import InputError
from ordrank.estimators.ballots import LOCALITIES, Ballots, LeftOut
from ordrank.estimators.groups import largest_group, number_groups
from ordrank.estimators.label_positions import place_by_value, place_labels
from ordrank.estimators.learned_metric import check_size, extremes
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
from ordrank.estimators.parameters import check_choice, check_device, check_integer, check_number
from ordrank.estimators.recipes import ALPHAS, NUS, SHARPNESSES, Candidate, Grids, Recipe, choose_recipes
from ordrank.estimators.weights import weigh_samples
from ordrank.neighbors import target_neighbors
from ordrank.smoothing import RidgeFit, left_out_distances

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

_OF_THE_MAP = ("order_components_", "landmarks_", "coefficients_")

_ONE_FIT_AT_A_TIME = Lock()


class OrdinalMetric(OrderedMetric):
    r"""Distance that puts a sample at its grade and, inside the grade, similar samples first.

    .. math:: d^2(x, x') = \|f(x) - f(x')\|^2 + \lambda^2\|x - x'\|^2

    The order map f sends samples to the ideal positions y of their labels, found by classical MDS of the label
    distances \|a - b\| + β. It is linear or in the space of a kernel and minimises, for samples and positions of
    unit mean square,

    .. math:: \frac1{2n}\sum_i\|f(x_i) - y_i\|^2
              + \frac{\alpha t}2\left(\|f\|^2 + \nu\,\mathrm{tr}(Z^TGZ)\right)
              + \frac\mu P\sum_p\left(\|f(x_i) - f(x_j)\|^2 - \tau\|x_i - x_j\|^2\right)^2 .

    G is the Laplacian of the neighbour graph of labelled and unlabelled samples, Z the values of f at them before
    its mean is taken off, p runs over the P pairs of target neighbours. t is the mean square of the features in
    which f is linear and the middle term is a plain ridge: 1 for a linear map without graph, less with one, so that
    α and ν have a meaning of their own. With μ = 0 the solution is a closed form, and what would happen without any
    one sample is known exactly; that is how everything set to ``"auto"`` is chosen, inside the training set. Up to 300
    samples do not tell for certain which kernel is best: f is then a mean over kernels, each with the ridge that suits
    it, in proportion to how probable they are. Of more than 1500 samples as many are drawn to choose by, and all are
    learned from, a block at a time: X is never copied as a whole and may be a ``numpy.memmap``, except with μ > 0.
    ``transform`` gives f in the first s columns and λ times the samples of unit size in the other d.

    Parameters
    ----------
    n_components : int, optional
        Dimension s of the order map; by default 2, or 1 for two labels.
    beta : float, default=1.0
        Added between different labels, in units of the standard deviation of the labels. 0 makes the grades a
        line (regression), large values make them equally far from each other (classification).
    alpha : float or "auto", default="auto"
        Ridge, relative to the mean square of the features: how smooth f is.
    mu : float, default=0.0
        Weight of the local term, which asks target neighbours to keep their distances in f as well. What is
        ``"auto"`` is then chosen as for 0.
    locality : float or "auto", default="auto"
        λ: the share of the original distance.
    n_neighbors : int, default=5
        Target neighbours of each sample, for the local term.
    kernel : {"auto", "linear", "rbf"}, default="auto"
        ``"rbf"`` is a Gaussian and a linear part, see :class:`~ordrank.smoothing.KernelMap`.
    sharpness : float or "auto", default="auto"
        Of the Gaussian: the larger, the more local. 1 means that it falls to 1/e at the typical distance of two
        samples.
    nu : float or "auto", default="auto"
        Weight of the graph relative to the ridge, for a fit with unlabelled samples. ``"auto"`` uses the graph
        only where it helps.
    tau : float, default=1.0
        Share of their squared distance that target neighbours should keep in f.
    class_weight : {"balanced"}, optional
        Let every label count the same, however many samples it has.
    label_distances : array-like of shape (m, m), optional
        Distances between the m distinct labels in rising order, instead of \|a - b\| + β.
    repair : {"error", "cailliez", "nearest"}, default="error"
        What to do with given label distances that are not Euclidean.
    max_iter, tol : int and float, default=200 and 1e-6
        Of the solver, which is needed for μ > 0 only.
    random_state : int, RandomState or None, default=0
        Draws landmarks and samples to validate on where there are more than a few hundred.
    device : {None, "cpu", "cuda"}, default=None
        Where ``fit`` goes over all samples; None is where X is. What is chosen automatically, on at most 1500 samples,
        and the graph of unlabelled ones are computed on the CPU wherever X is.

    Attributes
    ----------
    kernel_, sharpness_, alpha_, nu_, locality_, n_components_
        What was chosen, or given. Of a mean over kernels, the Gaussian with the largest share. Of more than 1500
        samples the ridge of those that were drawn serves all, and ``alpha_`` is its share of the features of all.
    candidates_ : list of Candidate
        Everything that was tried: recipe, score, leave-one-out displacement, mean error of the grades, and its share
        in the map; of more than 1500 samples on those that were drawn.
    mean_, size_ : ndarray of shape (d,) and float
        Mean and root mean square of the training samples, with which samples are brought to unit size. ``mean_`` and
        the arrays of f are tensors on the device of X if X was one.
    labels_, label_positions_ : ndarray of shape (m,) and (m, s)
        Distinct labels and their ideal positions.
    order_components_, offset_ : ndarray of shape (s, d) and (s,)
        Linear part of f: ``order_components_ @ (x - mean_) - offset_``.
    landmarks_, sharpnesses_, coefficients_ : ndarray of shape (m, d), J numbers, and ndarray of shape (J, m, s)
        Of a kernel map: for each sharpness ω the Gaussians ``exp(-ω/2 * squared_distance(x, landmarks_)) @
        coefficients_[j]`` are added, for x of unit size.
    neighborhoods_ : Neighborhoods
        Nearest neighbours of training samples (of those with a weight), each left out of the fit, alone or with its
        group, among all of them or among 1500 that were drawn; only if ``mu`` is 0.
    components_ : ndarray of shape (s + d, d)
        Of a linear map only: ``transform`` is the product with it, up to a constant.
    label_repair_, negative_mass_
        With ``label_distances``: what was changed in them, and the part of them that no points can realise.
    objective_, n_iter_, stop_reason_, history_
        Value of the objective, and what the solver did.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from ordrank import OrdinalMetric
    >>> rng = np.random.default_rng(0)
    >>> X, grade = rng.normal(size=(60, 8)), np.repeat([1, 2, 5], 20)
    >>> X[:, 0] += grade
    >>> metric = OrdinalMetric().fit(X, grade)
    >>> metric.n_components_, metric.transform(X).shape
    (2, (60, 10))
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        beta: float = 1.0,
        alpha: float | Literal["auto"] = "auto",
        mu: float = 0.0,
        locality: float | Literal["auto"] = "auto",
        n_neighbors: int = 5,
        kernel: Literal["auto", "linear", "rbf"] = "auto",
        sharpness: float | Literal["auto"] = "auto",
        nu: float | Literal["auto"] = "auto",
        tau: float = 1.0,
        class_weight: Literal["balanced"] | None = None,
        label_distances: ArrayLike | None = None,
        repair: Literal["error", "cailliez", "nearest"] = "error",
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: Any = 0,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.beta = beta
        self.alpha = alpha
        self.mu = mu
        self.locality = locality
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.sharpness = sharpness
        self.nu = nu
        self.tau = tau
        self.class_weight = class_weight
        self.label_distances = label_distances
        self.repair = repair
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device

    def fit(
        self,
        X: ArrayLike | Array,
        y: ArrayLike | Array,
        unlabeled: ArrayLike | Array | None = None,
        sample_weight: ArrayLike | Array | None = None,
        groups: ArrayLike | Array | None = None,
    ) -> Self:
        """Learn the distance.

        Parameters
        ----------
        X : array-like or tensor of shape (n, d)
            Samples; scaled here as a whole, so that only proportions between features matter.
        y : array-like or tensor of shape (n,)
            Ordered labels: numbers, whose gaps count, or an ordered pandas categorical.
        unlabeled : array-like or tensor of shape (n_unlabeled, d), optional
            More samples, without labels. Where they help, they shape the map; at most 4000, drawn at random. Fewer
            than a tenth of the labelled ones are left out.
        sample_weight : array-like or tensor of shape (n,), optional
            How much each sample counts in the map; samples of weight 0 are left out. Automatic choices weigh the
            distances from the positions, but count the mistaken grades of all samples alike.
        groups : array-like or tensor of shape (n,), optional
            To whom each sample belongs, for samples that are not independent, if queries will be of others: pictures
            of patients, where those of new patients are to be graded. Everything is then chosen as if all samples of
            a group were left out together. Numbers or words.

        Returns
        -------
        OrdinalMetric
            Itself.
        """
        self._check_parameters()
        samples, labels = self._validated(X, y, self.device)
        balanced = self.class_weight == "balanced"
        if groups is not None:
            groups = number_groups(groups, samples)
        samples, labels, weights, counted = weigh_samples(samples, labels.on_host(), sample_weight, balanced=balanced)
        to_numpy = backend_of(samples).to_numpy
        others = self._validated_unlabeled(unlabeled, to_numpy(samples[:0]))
        if len(samples) <= SEARCH_SAMPLES:  # so few are all chosen by, which is the host's work
            samples = to_numpy(samples)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))
        self.labels_ = labels.distinct
        self.label_positions_ = self._place(np.bincount(labels.index, weights).astype(np.float64))
        linear = self.kernel != "rbf"
        everything = Samples.measured(samples, labels.index, self.label_positions_, weights, linear=linear)
        self._fit_to(everything, others, rng, None if groups is None else groups[counted])
        for name in {"mean_", "offset_", *_OF_THE_MAP} & vars(self).keys():
            setattr(self, name, as_given(getattr(self, name), X))
        return self

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
        drawn = None if groups is None else number_groups(groups[rows], rows)
        pictures, grades = everything.draw(rows, others, drawn), self.labels_[everything.labels(rows)]
        # Limits of threads hold for the whole process: two fits at a time would lift each other's.
        with _ONE_FIT_AT_A_TIME:
            threads = _threads_of_blas()
            with threads.limit(limits=1):
                recipes = self._choose(pictures, grades, rng)
            few = len(everything) <= SEARCH_SAMPLES and self.kernel_ == "linear"
            with threads.limit(limits=1 if few or len(pictures.X) <= FEW_SAMPLES else None):
                fits = self._learn(list(recipes), list(recipes.values()), pictures, everything, rows, rng)
            with threads.limit(limits=1):  # votes are counted in threads of their own
                left_out = partial(left_out_distances, fits, list(recipes.values()))
                self._choose_locality(left_out, pictures, grades, rows, len(everything), rng)
        return self

    def _check_parameters(self) -> None:
        check_device(self.device)
        if self.n_components is not None:
            check_integer("n_components", self.n_components, minimum=1)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_number("beta", self.beta, at_least=0)
        for name in ("mu", "tau", "tol"):
            check_number(name, getattr(self, name), at_least=0)
        for name, bounds in {
            "alpha": {"above": 0.0},
            "sharpness": {"above": 0.0},
            "nu": {"at_least": 0.0},
            "locality": {"at_least": 0.0},
        }.items():
            if not _is_auto(getattr(self, name)):
                check_number(name, getattr(self, name), **bounds)
        check_choice("kernel", self.kernel, ("auto", "linear", "rbf"))
        if self.kernel == "linear" and not _is_auto(self.sharpness):
            raise InputError("sharpness is that of a kernel; use kernel='rbf', or leave it at 'auto'")
        check_choice("repair", self.repair, ("error", "cailliez", "nearest"))
        if self.class_weight is not None:
            check_choice("class_weight", self.class_weight, ("balanced",))

    def _validated_unlabeled(
        self, unlabeled: ArrayLike | Array | None, none: NDArray[np.floating]
    ) -> NDArray[np.floating]:
        """Unlabelled samples on the host, of the type of ``none`` (0, d), which is what they are by default."""
        if unlabeled is None:
            return none
        if is_tensor(unlabeled):
            unlabeled = backend_of(unlabeled).to_numpy(unlabeled)
        checks: dict[str, Any] = {"dtype": none.dtype, "ensure_min_samples": 0}
        others: NDArray[np.floating] = validate_data(self, unlabeled, reset=False, **checks)
        if len(others):
            check_size(others, extremes(others))
        return others

    def _prepare(
        self, everything: Samples, others: NDArray[np.floating], rng: np.random.Generator
    ) -> NDArray[np.floating]:
        """Keep what brings samples to unit mean square; the unlabelled samples that matter, brought to it."""
        self.mean_, self.size_ = everything.mean, everything.size
        if self.size_ == 0:
            raise InputError("all samples that count are identical; there is no distance to learn")
        pointless = len(others) < FEW_UNLABELED * len(everything) if _is_auto(self.nu) else self.nu == 0
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

    def _learn(
        self,
        recipes: Sequence[Recipe],
        shares: Sequence[float],
        pictures: Pictures,
        everything: Samples,
        rows: IntArray,
        rng: np.random.Generator,
    ) -> list[RidgeFit]:
        """Learn from all labelled samples; ``rows`` of them are those in ``pictures``, by which is chosen."""
        for name in {*_OF_THE_MAP, "neighborhoods_"} & vars(self).keys():
            delattr(self, name)  # of an earlier fit of another kind
        exact = max(len(pictures.X), len(everything)) <= EXACT_SAMPLES
        landmarks = pictures.X if exact else draw_landmarks(pictures.X, LANDMARKS, rng)
        maps: list[OrderMap] = []
        fits: list[RidgeFit] = []
        for recipe in recipes:
            design = Design(pictures, feature_map(pictures.X, landmarks, recipe.sharpness))
            fits.append(self._fit_design(design, recipe, everything, rows))
            B = self._coefficients(fits[-1], design, everything)
            maps.append(design.order_map(B, fits[-1].path.feature_mean, recipe.nu))
            if pictures.groups is not None and len(rows) < len(everything):
                # What a whole group has added to sums over all samples is not known: the drawn ones tell.
                fits[-1] = design.path(recipe.nu).at(recipe.alpha)
        self._keep(OrderMap.mean(maps, shares), landmarks)
        return fits

    def _fit_design(self, design: Design, recipe: Recipe, everything: Samples, rows: IntArray) -> RidgeFit:
        if len(rows) == len(everything):
            return design.path(recipe.nu).at(recipe.alpha)
        path = design.path_of_all(everything, rows, recipe.nu)
        if _is_auto(self.alpha):
            # How large errors are does not depend on the number of samples, and so does not the best ridge: it is
            # that of the sample, and a smaller share of the scatter of all.
            self.alpha_ *= design.scatter(recipe.nu) / path.scatter
        return path.at(self.alpha_)

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

    def _choose(self, pictures: Pictures, labels: FloatArray, rng: np.random.Generator) -> dict[Recipe, float]:
        """Choose recipes of maps, and the share of each in the mean; the last one is the one that is told."""
        sharpnesses: list[float | None] = [] if self.kernel == "rbf" else [None]
        if self.kernel != "linear":
            sharpnesses += _values(self.sharpness, SHARPNESSES)
        nus = [0.0] if pictures.laplacian is None else _values(self.nu, (0.0, *NUS))
        grids = Grids(sharpnesses, nus, _values(self.alpha, ALPHAS))
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

    def _keep(self, order: OrderMap, landmarks: NDArray[np.floating]) -> None:
        """Keep what ``transform`` needs."""
        self.order_components_ = (order.slope.T / self.size_).astype(landmarks.dtype)
        self.offset_ = order.offset
        self.sharpnesses_ = tuple(order.coefficients)
        if order.coefficients:
            self.landmarks_ = landmarks
            self.coefficients_ = np.stack(list(order.coefficients.values())).astype(landmarks.dtype)


@cache
def _threads_of_blas() -> ThreadpoolController:
    """Found once: a search through all loaded libraries takes as long as a small fit."""
    return ThreadpoolController().select(user_api="blas")


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _values(given: Any, automatic: Sequence[float]) -> list[float]:
    return list(automatic) if _is_auto(given) else [float(given)]
