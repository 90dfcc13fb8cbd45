"""LDMLR, the convex baseline of the paper."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ordrank._protocols import Array
from ordrank.backend import backend_of
from ordrank.errors import InputError
from ordrank.estimators._labels import OrdinalLabels
from ordrank.estimators._linear import LinearMetric
from ordrank.estimators._validation import check_choice, check_integer, check_number
from ordrank.geometry import label_distances
from ordrank.neighbors import target_neighbors
from ordrank.objectives import LDMLRObjective
from ordrank.objectives.ldmlr import ordinal_scatter
from ordrank.solvers import projected_gradient

_MAX_FEATURES = 10_000  # of which a fit needs some 5 GB


class LDMLR(LinearMetric):
    r"""Linear distance metric learning for ranking (Li et al. 2015).

    Learn A ⪰ 0 that increases distances between different labels, with weights that grow with their difference, and
    keeps the distances of target neighbours:

    .. math:: \min_{A\succeq 0}\ -\sum_{ij}\omega_{ij}d_A^2(x_i, x_j)
              + \mu\sum_p\left(d_A^2 - d_I^2\right)^2, \qquad
              \omega_{ij} = (|r_i - r_j| + 1)^p \text{ if } r_i \ne r_j \text{ else } 0

    starting from A = I. If the differences of target neighbours do not span the differences of labels, as is common
    with fewer samples than features, the objective is unbounded and A depends on ``max_iter``.

    Parameters
    ----------
    n_neighbors : int, default=5
        Target neighbours K of each sample.
    mu : float, default=1e3
        Weight of the local term.
    p : float, default=1.0
        Exponent of the weights.
    step : {"unit", "exact"}, default="unit"
        The literal update A ← Π(A - ∇h(A)), which converges on suitably scaled data only, or a convergent
        projected gradient with exact steps.
    max_iter : int, default=30
        Iterations, T in the paper: 30 for UMIST, 50 for FG-NET.
    tol : float, default=1e-8
        Stop when the relative change of A falls below it.
    device : {None, "cpu", "cuda"}, default=None
        Where ``fit`` computes; None is the device of X.

    Attributes
    ----------
    components_ : ndarray of shape (rank, n_features)
        L with A = LᵀL, one row for each positive eigenvalue of A, largest first; a tensor on the device of X if X was
        one.
    mean_ : ndarray of shape (n_features,)
        Mean of the training samples; ``transform`` subtracts it. A tensor if X was one.
    labels_ : ndarray of shape (m,)
        Distinct labels; positions in their order for a categorical.
    bounded_ : bool
        Whether the objective has a minimum on these data.
    objective_, n_iter_, stop_reason_, history_
        Final objective, iterations, why the solver stopped, and its path.
    n_features_in_ : int
        Number of features; ``feature_names_in_`` if X had names.

    References
    ----------
    C. Li, Q. Liu, J. Liu and H. Lu, "Ordinal distance metric learning for image ranking", IEEE TNNLS 26(7), 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from ordrank import LDMLR
    >>> rng = np.random.default_rng(0)
    >>> X, grade = rng.normal(size=(60, 4)), np.repeat([1, 2, 5], 20)
    >>> LDMLR(mu=1.0, step="exact", max_iter=500).fit(X, grade).get_mahalanobis_matrix().shape
    (4, 4)
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        mu: float = 1e3,
        p: float = 1.0,
        step: Literal["unit", "exact"] = "unit",
        max_iter: int = 30,
        tol: float = 1e-8,
        device: str | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.mu = mu
        self.p = p
        self.step = step
        self.max_iter = max_iter
        self.tol = tol
        self.device = device

    def _check_parameters(self) -> None:
        check_integer("n_neighbors", self.n_neighbors, minimum=1)
        check_integer("max_iter", self.max_iter, minimum=1)
        check_number("mu", self.mu, above=0)
        check_number("p", self.p, above=0)
        check_number("tol", self.tol, at_least=0)
        check_choice("step", self.step, ("unit", "exact"))

    def _learn(self, X: Array, labels: OrdinalLabels) -> None:
        if X.shape[1] > _MAX_FEATURES:
            raise InputError(
                f"LDMLR learns a matrix of {X.shape[1]} × {X.shape[1]} features, and {_MAX_FEATURES} features are the "
                "most; reduce them first, for example with sklearn.decomposition.PCA"
            )
        neighbors = target_neighbors(X, labels.index, self.n_neighbors)
        pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
        weights = label_distances(labels.distinct, beta=1.0) ** self.p
        scatter = ordinal_scatter(X, labels.index, weights)
        objective = LDMLRObjective(X, scatter, pairs, neighbors.squared_distances, mu=self.mu)
        start = backend_of(X).asarray(np.eye(X.shape[1]), X)
        # The unit step may diverge; the solver then stops and reports it.
        with np.errstate(over="ignore", invalid="ignore"):
            result = projected_gradient(objective, start, step=self.step, max_iter=self.max_iter, tol=self.tol)
        self.components_ = _factor(result.x)
        self.bounded_ = _is_bounded(scatter, objective.target_scatter())
        self._record(result)
        self._warn_unless_converged(result, self._hint())

    def _hint(self) -> str:
        """Return advice for a fit that did not converge."""
        if not bool(self.components_.any()):
            return "A is zero: the unit step overshoots on features of this size. Scale them, or use step='exact'."
        if not self.bounded_:
            return (
                "The objective has no minimum on these data, because differences between labels leave the span of "
                "the differences between target neighbours: A depends on max_iter. Reduce the number of features."
            )
        return "Raise max_iter." if self.step == "exact" else "Raise max_iter, or use step='exact'."


def _factor(A: Array) -> Array:
    """Return L with A = LᵀL from the positive eigenvalues of A, largest first; at least one row."""
    backend = backend_of(A)
    values, vectors = backend.eigh(A)
    rank = max(1, int((values > values[-1] * len(A) * backend.finfo_eps(A)).sum()))
    largest = list(range(len(A) - 1, len(A) - 1 - rank, -1))
    return (vectors[:, largest] * values[largest].clip(min=0) ** 0.5).T


def _is_bounded(scatter: Array, target_scatter: Array) -> bool:
    """Return whether the label scatter C vanishes on the complement of the span of all target differences.

    Along A = vvᵀ with v orthogonal to every δ_p the local term is constant, and -vᵀCv must not decrease.
    """
    backend = backend_of(scatter)
    rounding = len(scatter) * backend.finfo_eps(scatter)
    values, vectors = backend.eigh(target_scatter)
    null = vectors[:, values <= values[-1] * rounding]
    if null.shape[1] == 0:
        return True
    return bool(abs(null.T @ scatter @ null).max() <= 1e3 * rounding * abs(scatter).max())
