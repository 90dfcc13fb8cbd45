"""The objective with a local term, as a sum over shards.

A shard needs the images z = Lx (n, s) of neighbours in other shards, its halo; workers exchange images, never samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.backend import PairOperator, backend_of
from ordrank.distributed._sizeof import ArraySizeof
from ordrank.distributed.engine import SMALL_FAN_IN
from ordrank.distributed.shard_stats import Encoding
from ordrank.distributed.shards import Shard
from ordrank.distributed.target_neighbors import Pairs, concatenate_pairs, pairs_by_second, pairs_of
from ordrank.estimators._ordinal.design import DesignMatrix
from ordrank.kernel_ridge import RidgeFit
from ordrank.objectives.local import LocalDistanceTerm

if TYPE_CHECKING:
    from ordrank.distributed.sharded_data import ShardedData


@dataclass(frozen=True)
class CentredFeatures(ArraySizeof):
    """Features of normalised samples, of weighted mean zero; ``total`` is Σω."""

    design: DesignMatrix
    nu: float
    mean: FloatArray
    total: float

    def transform(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the features (n, p) of normalised samples (n, d)."""
        features = self.design.features_of(X, self.nu)
        return features - self.mean.astype(features.dtype)


@dataclass(frozen=True)
class ShardTerm(ArraySizeof):
    """What a shard contributes to the objective.

    Attributes
    ----------
    number : int
        Which of the shards it is.
    features, Y, weights : ndarray of shape (n, p), (n, s) and (n,)
        Centred features, target positions, and weights whose sum over all shards is 1.
    halo : list of (int, ndarray)
        Neighbours in other shards: number of the shard, rows within it.
    own, incident : PairOperator
        Pairs (i, j) among samples and halo: i in this shard; these, then those with only j in this shard, which add
        to the gradient but whose value belongs to the shard of i.
    n_own : int
        Pairs with i in this shard.
    targets : ndarray of shape (P,)
        Squared distances that the incident pairs should have.
    """

    number: int
    features: NDArray[np.floating]
    Y: NDArray[np.floating]
    weights: NDArray[np.floating]
    halo: list[tuple[int, IntArray]]
    own: PairOperator
    incident: PairOperator
    n_own: int
    targets: FloatArray

    def with_halo(self, images: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        """Return the images of the shard's samples and its halo, from those of all shards."""
        return np.vstack([images[self.number], *(images[other][rows] for other, rows in self.halo)])


def build_term(
    shard: Shard,
    number: int,
    outgoing: Pairs,
    incoming: Sequence[Pairs],
    encoding: Encoding,
    starts: IntArray,
    features: CentredFeatures,
    tau: float,
) -> ShardTerm:
    """Load a shard and build its term, which stays in the memory of the worker.

    ``outgoing`` and ``incoming`` are the pairs (i, j) with i, and with j, in the shard; ``starts`` (S,) are the row
    numbers of the first sample of each shard; ``tau`` is the share of their squared distance that pairs should keep.
    """
    X, index, weights = encoding.encode(shard.load())
    F = features.transform(encoding.normalize(X))
    start, stop = int(starts[number]), int(starts[number]) + len(X)
    foreign = concatenate_pairs(*incoming)
    foreign = foreign.select((foreign.first < start) | (foreign.first >= stop))
    foreign = foreign.select(np.argsort(foreign.second, kind="stable"))  # near each other in memory
    incident = concatenate_pairs(outgoing, foreign)
    rows = np.concatenate([outgoing.second, foreign.first])
    outside = np.unique(rows[(rows < start) | (rows >= stop)])
    owner = np.searchsorted(starts, outside, side="right") - 1
    halo = [(int(other), outside[owner == other] - starts[other]) for other in np.unique(owner)]

    def local(row: IntArray) -> IntArray:
        inside = (row >= start) & (row < stop)
        return np.where(inside, row - start, len(X) + np.searchsorted(outside, row))

    def operator(pairs: Pairs) -> PairOperator:
        return backend_of(F).pairs(local(pairs.first), local(pairs.second), len(X) + len(outside), F)

    Y = encoding.positions[index].astype(F.dtype)
    share, targets = (weights / features.total).astype(F.dtype), tau * incident.squared_distances
    return ShardTerm(number, F, Y, share, halo, operator(outgoing), operator(incident), len(outgoing), targets)


def build_terms(samples: ShardedData, nearest: list[Any], features: CentredFeatures, tau: float) -> list[Any]:
    """Return futures of the :class:`ShardTerm` of every shard."""
    engine, starts = samples.engine, samples.starts
    numbers = list(range(len(samples.shards)))
    outgoing = engine.map(pairs_of, nearest, starts.tolist())
    grouped = engine.map(pairs_by_second, nearest, starts.tolist(), starts=starts)
    incoming = [[engine.submit(getitem, group, number) for group in grouped] for number in numbers]
    common = {"encoding": samples.encoding, "starts": starts, "features": engine.broadcast(features), "tau": tau}
    return engine.map(build_term, samples.shards, numbers, outgoing, incoming, **common)


def image(term: ShardTerm, L: FloatArray) -> NDArray[np.floating]:
    """Return the images (n, s) of a shard's samples under L (s, p), or (n, 2s) under two maps stacked."""
    return np.asarray(backend_of(term.features).inner(term.features, L))


def value_and_gradient(term: ShardTerm, images: list[NDArray[np.floating]], mu: float) -> tuple[float, FloatArray]:
    """Return a shard's part of ½Σω‖z - y‖² + μΣ(‖z_i - z_j‖² - t)² and of its gradient (s, p) in the map."""
    Z, n = term.with_halo(images), len(term.Y)
    backend = backend_of(Z)
    residual = Z[:n] - term.Y
    W = term.weights[:, None] * residual
    value = 0.5 * backend.dot(residual, W)
    excess = term.incident.dots(Z, Z)
    excess -= term.targets
    value += mu * backend.dot(excess[: term.n_own], excess[: term.n_own])
    W += 4 * mu * term.incident.laplacian_product(excess, Z)[:n]
    return float(value), np.asarray(backend.transposed_product(W, term.features), dtype=np.float64)


def line_polynomial(term: ShardTerm, images: list[NDArray[np.floating]], mu: float) -> FloatArray:
    """Return a shard's part of the five coefficients of the value at Z + t dZ; images are [Z, dZ]."""
    both, n = term.with_halo(images), len(term.Y)
    s, dot = term.Y.shape[1], backend_of(both).dot
    residual, change = both[:n, :s] - term.Y, both[:n, s:]
    weights = term.weights[:, None]
    fit = [
        0.5 * dot(residual, weights * residual),
        dot(residual, weights * change),
        0.5 * dot(change, weights * change),
    ]
    local = LocalDistanceTerm(term.own, term.targets[: term.n_own], mu)
    return np.array([*fit, 0.0, 0.0]) + np.array(local.line_polynomial(both[:, :s].copy(), both[:, s:].copy()))


def add(*parts: Any) -> Any:
    """Return the sum of numbers or arrays, or the sums of tuples of them."""
    if isinstance(parts[0], tuple):
        return tuple(sum(column) for column in zip(*parts, strict=True))
    return sum(parts)


class ShardedObjective:
    r"""The objective of the ordinal map over shards, a :class:`~ordrank._protocols.PreconditionedObjective`.

    .. math:: \tfrac12\sum_i\omega_i\|Lx_i - y_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \tau\|\delta_p\|^2\right)^2

    ``image`` is the identity: images of the samples stay on the workers.

    Parameters
    ----------
    samples : ShardedData
    terms : list of futures of ShardTerm
    fit : RidgeFit
        The solution without the local term.
    mu : float
        Weight of the local term per pair.
    """

    def __init__(self, samples: ShardedData, terms: list[Any], fit: RidgeFit, mu: float) -> None:
        self._engine, self._terms, self._mu = samples.engine, terms, mu
        self._alpha = fit.alpha * fit.problem.scatter / fit.problem.total
        self._n_components = fit.problem.Y.shape[1]
        moments = fit.problem.moments
        assert moments is not None  # a problem over shards is made of moments
        values, vectors = np.linalg.eigh(moments.gram / moments.total)
        kept = values > values[-1] * max(moments.n_samples, len(values)) * np.finfo(np.float64).eps
        self._eigenvalues, self._basis = values[kept], vectors[:, kept]

    def image(self, x: FloatArray) -> FloatArray:
        """Return x."""
        return x

    def value(self, x: FloatArray, z: FloatArray) -> float:
        """Return f(L)."""
        return self.value_and_gradient(x, z)[0]

    def value_and_gradient(self, x: FloatArray, z: FloatArray) -> tuple[float, FloatArray]:
        """Return f(L) and its gradient: one round of tasks for the images, one for the sums."""
        with self._engine.phase("gradients"):
            value, gradient = self._sum(value_and_gradient, self._map(x))
        ridge = 0.5 * self._alpha * float(x @ x)
        return value + ridge, gradient.reshape(-1) + self._alpha * x

    def line_polynomial(self, x: FloatArray, z: FloatArray, dx: FloatArray, dz: FloatArray) -> FloatArray:
        """Return the quartic coefficients of f along dx."""
        with self._engine.phase("line searches"):
            line: FloatArray = self._sum(line_polynomial, np.vstack([self._map(x), self._map(dx)]))
        line[:3] += self._alpha * np.array([0.5 * (x @ x), x @ dx, 0.5 * (dx @ dx)])
        return line

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """Multiply by (XᵀΩX + αI)⁻¹, the inverse Hessian of the fitting term."""
        G = self._map(gradient)
        inside = G @ self._basis
        solved = (inside / (self._eigenvalues + self._alpha)) @ self._basis.T
        solved += (G - inside @ self._basis.T) / self._alpha
        return np.asarray(solved.reshape(-1))

    def _map(self, x: FloatArray) -> FloatArray:
        return x.reshape(self._n_components, -1)

    def _sum(self, task: Any, L: FloatArray) -> Any:
        images = self._engine.map(image, self._terms, L=L)
        parts = self._engine.map(task, self._terms, images=images, mu=self._mu)
        return self._engine.tree_reduce(add, parts, SMALL_FAN_IN)
