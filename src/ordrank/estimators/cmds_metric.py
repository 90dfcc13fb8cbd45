"""cMDS-DML, the method of the paper."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ordrank._types import FloatArray, SolverResult
from ordrank.backend import backend_of
from ordrank.errors import CollapsedScaleWarning, InputError, RepairedDistancesWarning
from ordrank.estimators.labels import OrdinalLabels
from ordrank.estimators.linear_metric import LinearMetric
from ordrank.estimators.parameters import check_choice, check_integer, check_number
from ordrank.geometry import check_distance_matrix, classical_mds, label_distances, repair_distances
from ordrank.neighbors import TargetNeighbors, target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.locality import LocalityTerm
from ordrank.solvers import lbfgs, steepest_descent


class CMDSMetric(LinearMetric):
    r"""Ordinal distance metric learning with classical multidimensional scaling.

    Distances between the labels are turned into ideal positions y by classical MDS, and a linear map L is
    fitted to them while target neighbours keep their distance:

    .. math:: \min_{L, c}\ \tfrac12\sum_i\|Lx_i - cy_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \|\delta_p\|^2\right)^2

    The defaults are the paper's, made for raw pixels of one data set: ``mu``, ``gamma`` and ``tol`` carry
    units. On other data use ``solver="fast", scale="fixed"``, a small ``alpha`` and features of about unit
    size.

    Parameters
    ----------
    n_components : int, default=3
        Dimension s of the new space. The labels fill at most m - 1 dimensions; positions are zero beyond.
    n_neighbors : int, default=5
        Target neighbours K of each sample, among the samples of its label.
    beta : float, default=1.0
        Added to \|a - b\| for different labels a, b. Every value >= 0 gives Euclidean distances.
    mu : float, default=1e-10
        Weight of the local term.
    gamma, rho, sigma : float, default=1e-9, 0.5, 0.05
        Armijo's rule of ``solver="paper"``: first step, reduction, demanded share of the predicted decrease.
    max_line_search : int, default=20
        Trials per step of ``solver="paper"``.
    solver : {"paper", "fast"}, default="paper"
        Steepest descent as in the paper's Algorithm 2, or preconditioned L-BFGS with exact steps.
    scale : {"free", "fixed"}, default="free"
        Whether c is learned, as in the paper, or 1. A free scale lets (L, c) shrink towards zero, which a
        good solver does; such a fit raises :class:`~ordrank.errors.CollapsedScaleWarning`.
    init : {"identity", "lstsq"} or array of shape (n_components, n_features), default="identity"
        First L: the paper's [I 0], the (ridge) least-squares fit of the positions, or a given one.
        Directions without any training variance are never touched: what L has there at the start remains,
        unless ``alpha`` is positive.
    alpha : float, default=0.0
        Ridge on L; 0 in the paper.
    label_distances : array-like of shape (m, m), optional
        Distances between the m distinct labels in rising order, instead of \|a - b\| + beta.
    repair : {"error", "cailliez", "nearest"}, default="error"
        What to do with label distances that are not Euclidean: refuse, add the smallest sufficient constant,
        or take the nearest Euclidean ones.
    max_iter : int, default=1000
        Iterations of the solver. The paper does not state its number.
    tol : float, default=1e-6
        ``solver="paper"``: stop when the norm of the gradient is below it, as in the paper, which does not
        state its value. ``solver="fast"``: stop when the predicted decrease is below ``tol`` times the
        objective.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples; ``transform`` subtracts it.
    scale_ : float
        c.
    labels_ : ndarray of shape (m,)
        Distinct labels; positions in their order for a categorical.
    label_positions_ : ndarray of shape (m, n_components)
        Ideal position of each label.
    label_repair_ : Repair
        What was changed in the label distances, and by how much.
    negative_mass_ : float
        Share of the spectrum of the given label distances that no points can realise.
    objective_, n_iter_, stop_reason_, history_
        Final objective, iterations, why the solver stopped, and its path.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` where X had names.

    Examples
    --------
    >>> import numpy as np
    >>> from ordrank import CMDSMetric
    >>> rng = np.random.default_rng(0)
    >>> X, grade = rng.normal(size=(60, 8)), np.repeat([1, 2, 5], 20)
    >>> X[:, 0] += grade
    >>> metric = CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", mu=1e-4, alpha=1.0).fit(X, grade)
    >>> metric.transform(X).shape
    (60, 2)
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        n_neighbors: int = 5,
        beta: float = 1.0,
        mu: float = 1e-10,
        gamma: float = 1e-9,
        rho: float = 0.5,
        sigma: float = 0.05,
        max_line_search: int = 20,
        solver: Literal["paper", "fast"] = "paper",
        scale: Literal["free", "fixed"] = "free",
        init: Literal["identity", "lstsq"] | ArrayLike = "identity",
        alpha: float = 0.0,
        label_distances: ArrayLike | None = None,
        repair: Literal["error", "cailliez", "nearest"] = "error",
        max_iter: int = 1000,
        tol: float = 1e-6,
    ) -> None:
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.beta = beta
        self.mu = mu
        self.gamma = gamma
        self.rho = rho
        self.sigma = sigma
        self.max_line_search = max_line_search
        self.solver = solver
        self.scale = scale
        self.init = init
        self.alpha = alpha
        self.label_distances = label_distances
        self.repair = repair
        self.max_iter = max_iter
        self.tol = tol

    def _learn(self, X: NDArray[np.floating], labels: OrdinalLabels) -> None:
        Y = self._place_labels(labels).astype(X.dtype)
        neighbors = target_neighbors(X, labels.index, self.n_neighbors)
        objective = CMDSObjective(
            X, Y, self._local_term(X, neighbors), alpha=self.alpha, free_scale=self.scale == "free"
        )
        result = self._solve(objective, self._start(objective, X))
        L, self.scale_ = objective.unpack(result.x)
        self.components_ = L.copy()
        self._record(result, "Raise max_iter, scale the features, or use solver='fast'.")
        if self.scale == "free":
            self._warn_if_collapsed(X, neighbors)

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, minimum=1)
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_integer("max_line_search", self.max_line_search, minimum=1)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_number("beta", self.beta)
        check_number("mu", self.mu, at_least=0)
        check_number("alpha", self.alpha, at_least=0)
        check_number("tol", self.tol, at_least=0)
        check_number("gamma", self.gamma, above=0)
        check_number("rho", self.rho, above=0, below=1)
        check_number("sigma", self.sigma, above=0, below=1)
        check_choice("solver", self.solver, ("paper", "fast"))
        check_choice("scale", self.scale, ("free", "fixed"))
        check_choice("repair", self.repair, ("error", "cailliez", "nearest"))

    def _place_labels(self, labels: OrdinalLabels) -> FloatArray:
        """Ideal position of every sample, (n, s): the n × n route at the price of the m × m one."""
        distances = self._distances_between(labels)
        repair = repair_distances(distances, self.repair)
        if repair.method != "none":
            warnings.warn(
                f"the label distances were not Euclidean and were repaired with repair={repair.method!r}: "
                f"constant added {repair.constant:.3g}, relative change of the squared distances "
                f"{repair.relative_change:.3g}",
                RepairedDistancesWarning,
                stacklevel=3,
            )
        counts = np.bincount(labels.index)
        self.label_repair_ = repair
        self.negative_mass_ = classical_mds(distances**2, self.n_components, counts).negative_mass
        self.label_positions_ = classical_mds(repair.D, self.n_components, counts).points
        return self.label_positions_[labels.index]

    def _distances_between(self, labels: OrdinalLabels) -> FloatArray:
        m = len(labels.distinct)
        if self.label_distances is None:
            return label_distances(labels.distinct, self.beta)
        given = check_distance_matrix(self.label_distances, "label_distances")
        if len(given) != m:
            raise InputError(f"label_distances is {len(given)} × {len(given)}, but y has {m} distinct labels")
        return given

    def _local_term(self, X: NDArray[np.floating], neighbors: TargetNeighbors) -> LocalityTerm | None:
        if len(neighbors) == 0 or self.mu == 0:
            return None
        pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
        return LocalityTerm(pairs, neighbors.squared_distances, self.mu)

    def _start(self, objective: CMDSObjective, X: NDArray[np.floating]) -> NDArray[np.floating]:
        shape = (self.n_components, X.shape[1])
        if isinstance(self.init, str):
            check_choice("init", self.init, ("identity", "lstsq"))
            if self.init == "identity":
                return objective.pack(np.eye(*shape, dtype=X.dtype), 1.0)
            # The fitting term is quadratic, and the local one is flat at L = 0: one Newton step from there.
            zero = objective.pack(np.zeros(shape, dtype=X.dtype), 1.0)
            _, gradient = objective.value_and_gradient(zero, objective.image(zero))
            return objective.pack(-objective.unpack(objective.precondition(gradient))[0], 1.0)
        given = np.array(self.init, dtype=X.dtype)
        if given.shape != shape or not np.isfinite(given).all():
            raise InputError(
                f"init must be 'identity', 'lstsq' or a finite array of shape {shape}, got shape {given.shape}"
            )
        return objective.pack(given, 1.0)

    def _solve(self, objective: CMDSObjective, start: NDArray[np.floating]) -> SolverResult:
        if self.solver == "fast":
            return lbfgs(objective, start, max_iter=self.max_iter, tol=self.tol)
        return steepest_descent(
            objective,
            start,
            gamma=self.gamma,
            rho=self.rho,
            sigma=self.sigma,
            max_line_search=self.max_line_search,
            max_iter=self.max_iter,
            tol=self.tol,
        )

    def _warn_if_collapsed(self, X: NDArray[np.floating], neighbors: TargetNeighbors) -> None:
        """Say so if (L, c) shrank towards zero: the scale has gone and the local term did not hold L up."""
        if abs(self.scale_) > 0.1:
            return
        if len(neighbors) > 0:
            mapped = X @ self.components_.T
            kept = np.sum((mapped[neighbors.first] - mapped[neighbors.second]) ** 2, dtype=np.float64)
            if kept > 0.01 * neighbors.squared_distances.sum():
                return
        warnings.warn(
            f"the free scale collapsed: c went from 1 to {self.scale_:.2g}, and the map shrank with it, because "
            "(L, c) = 0 minimises the fitting term. Distances may no longer follow the labels. Set "
            "scale='fixed', or raise mu",
            CollapsedScaleWarning,
            stacklevel=3,
        )
