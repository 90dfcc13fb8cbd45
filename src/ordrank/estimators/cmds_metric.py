"""Ordinal distance metric learning with classical multidimensional scaling (cMDS-DML)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ordrank._protocols import Array
from ordrank.backend import backend_of, is_tensor
from ordrank.errors import CollapsedScaleWarning, InputError, warn_caller
from ordrank.estimators._label_positions import positions_from_distances
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._linear import LinearMetric
from ordrank.estimators._validation import check_choice, check_components, check_integer, check_number
from ordrank.geometry import label_distances
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm
from ordrank.solvers import SolverResult, lbfgs, steepest_descent


class CMDSMetric(LinearMetric):
    r"""Ordinal distance metric learning with classical multidimensional scaling.

    Classical MDS turns distances between the labels into ideal positions y. A linear map L is fitted to them while
    target neighbours keep their distance:

    .. math:: \min_{L, c}\ \tfrac12\sum_i\|Lx_i - cy_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \|\delta_p\|^2\right)^2

    The defaults are the paper's, for raw pixels of one data set: ``mu``, ``gamma`` and ``tol`` are not dimensionless.
    On other data use ``solver="fast", scale="fixed"``, a small ``alpha`` and features of about unit scale.

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
        Armijo's rule of ``solver="paper"``: first step, reduction, required fraction of the predicted decrease.
    max_line_search : int, default=20
        Trials per step of ``solver="paper"``.
    solver : {"paper", "fast"}, default="paper"
        Steepest descent as in the paper's Algorithm 2, or preconditioned L-BFGS with exact steps. Where the
        local term dominates, the objective has several minima and the two may end in different ones.
    scale : {"free", "fixed"}, default="free"
        Whether c is learned, as in the paper, or 1. With a free scale (L, c) = 0 minimises the fitting term; a fit
        that loses the labels because of it emits :class:`~ordrank.errors.CollapsedScaleWarning`.
    init : {"identity", "lstsq"} or array of shape (n_components, n_features), default="identity"
        Initial L: the paper's [I 0], the (ridge) least-squares fit of the positions, or a given one.
        In directions without training variance L keeps its initial value unless ``alpha`` is positive.
    alpha : float, default=0.0
        Ridge on L; 0 in the paper.
    label_distances : array-like of shape (m, m), optional
        Distances between the m distinct labels in ascending order, instead of \|a - b\| + beta.
    repair : {"error", "cailliez", "nearest"}, default="error"
        What to do with label distances that are not Euclidean: raise, add the smallest sufficient constant, or take
        the nearest Euclidean ones.
    max_iter : int, default=1000
        Iterations of the solver. The paper does not state its number.
    tol : float, default=1e-6
        ``solver="paper"``: stop when the norm of the gradient is below it, as in the paper, which does not
        state its value. ``solver="fast"``: stop when the predicted decrease is below ``tol`` times the
        objective.
    device : {None, "cpu", "cuda"}, default=None
        Where ``fit`` computes; None is the device of X.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        L; a tensor on the device of X if X was one.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples; ``transform`` subtracts it. A tensor if X was one.
    scale_ : float
        c.
    labels_ : ndarray of shape (m,)
        Distinct labels; positions in their order for a categorical.
    label_positions_ : ndarray of shape (m, n_components)
        Ideal position of each label.
    label_repair_ : Repair
        What was changed in the label distances, and by how much.
    negative_mass_ : float
        Fraction of the spectrum of the given label distances that no points can realise.
    objective_, n_iter_, stop_reason_, history_
        Final objective, iterations, why the solver stopped, and its path.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` if X had names.

    References
    ----------
    P. Yu and Q. Li, "Ordinal distance metric learning with MDS for image ranking".

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
        device: str | None = None,
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
        self.device = device

    def _learn(self, X: Array, labels: OrdinalLabels) -> None:
        Y = self._targets(X, labels)
        local = self._local_term(X, labels.index)
        objective = CMDSObjective(X, Y, local, alpha=self.alpha, free_scale=self.scale == "free")
        result = self._solve(objective, self._start(objective, X))
        L, c = objective.unpack(result.x)
        self.components_, self.scale_ = backend_of(X).asarray(L, X), float(c)
        other_solver = "" if self.solver == "fast" else ", or use solver='fast'"
        self._record(result)
        self._warn_unless_converged(result, f"Raise max_iter, scale the features{other_solver}.")
        if self.scale == "free":
            self._warn_if_collapsed(objective, X, Y)

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

    def _targets(self, X: Array, labels: OrdinalLabels) -> Array:
        """Return ideal positions (n, s) of the samples; MDS of m labels weighted by counts equals that of n samples."""
        check_components(self.n_components, len(labels.distinct), X.shape[1])
        given = self.label_distances
        distances = label_distances(labels.distinct, self.beta) if given is None else given
        positions = positions_from_distances(distances, self.n_components, labels.counts, self.repair)
        self.label_repair_, self.negative_mass_ = positions.repair, positions.negative_mass
        self.label_positions_ = positions.points
        return backend_of(X).asarray(self.label_positions_, X)[labels.index]

    def _local_term(self, X: Array, label_index: Array) -> LocalDistanceTerm | None:
        if self.mu == 0:
            return None
        neighbors = target_neighbors(X, label_index, self.n_neighbors)
        if not len(neighbors):
            return None
        pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
        return LocalDistanceTerm(pairs, neighbors.squared_distances, self.mu)

    def _start(self, objective: CMDSObjective, X: Array) -> Array:
        shape = (self.n_components, X.shape[1])
        if isinstance(self.init, str):
            check_choice("init", self.init, ("identity", "lstsq"))
            if self.init == "identity":
                return objective.pack(np.eye(*shape), 1.0)
            return objective.pack(self._least_squares_start(objective, X), 1.0)
        try:
            given = np.array(backend_of(self.init).to_numpy(self.init) if is_tensor(self.init) else self.init, float)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != shape or not np.isfinite(given).all():
            raise InputError(
                f"init must be 'identity', 'lstsq' or a finite array of shape {shape}, got shape {given.shape}"
            )
        return objective.pack(given, 1.0)

    def _least_squares_start(self, objective: CMDSObjective, X: Array) -> Array:
        """Return the minimiser of the fitting term, moved off a possible saddle point of the local term."""
        # The fitting term is quadratic and the local one has zero gradient at L = 0: one Newton step from there.
        zero = objective.pack(np.zeros((self.n_components, X.shape[1])), 1.0)
        _, gradient = objective.value_and_gradient(zero, objective.image(zero))
        L = -objective.unpack(objective.precondition(gradient))[0]
        if self.mu == 0:
            return L
        # With a perfect fit, or a zero column of positions, target neighbours coincide and the gradient of the local
        # term vanishes. Add a thousandth of the principal directions, with signs invariant to the choice of axes.
        backend, (eigenvalues, basis) = backend_of(X), objective.span()
        rows = min(self.n_components, len(eigenvalues))
        largest = list(range(len(eigenvalues) - 1, len(eigenvalues) - 1 - rows, -1))
        directions = basis[:, largest].T
        skewness = backend.to_numpy(((X @ directions.T) ** 3).sum(axis=0))
        spread = np.linalg.norm(self.label_positions_) / np.sqrt(len(self.label_positions_))
        step = 1e-3 * spread * np.sqrt(len(X) / backend.to_numpy(eigenvalues[largest]))
        L[:rows] += backend.asarray(np.where(skewness < 0, -step, step), X)[:, None] * directions
        return L

    def _solve(self, objective: CMDSObjective, start: Array) -> SolverResult:
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

    def _warn_if_collapsed(self, objective: CMDSObjective, X: Array, Y: Array) -> None:
        """Warn if c went to zero, or fell while the mapped samples lost the labels.

        With (L, c) → 0, or L determined by the local term alone, the remaining directions are unrelated to the labels.
        The fraction of ‖Z‖² along Y is dimensionless; least squares gives the largest possible one.
        """
        if abs(self.scale_) >= 0.5:
            return
        backend, dot = backend_of(X), backend_of(X).dot
        Z = X @ self.components_.T
        norms = float(dot(Z, Z) * dot(Y, Y))
        reached = float(dot(Z, Y) ** 2 / norms) if norms > 0 else 0.0
        # Coordinates in the eigenvectors of the samples are orthogonal, and their squared norms the eigenvalues.
        eigenvalues, basis = objective.span()
        projected = basis.T @ backend.transposed_product(X, Y) / eigenvalues[:, None] ** 0.5
        possible = float(dot(projected, projected) / dot(Y, Y))
        if reached >= 0.5 * possible and abs(self.scale_) >= 0.01:
            return
        warn_caller(
            f"the free scale collapsed: c went from 1 to {self.scale_:.2g}, because (L, c) = 0 minimises the fitting "
            f"term. The mapped samples follow their ideal positions with R² = {reached:.2g}; a linear map can reach "
            f"{possible:.2g}. Set scale='fixed'",
            CollapsedScaleWarning,
        )
