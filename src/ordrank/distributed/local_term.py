"""The objective with a local term over shards: every evaluation is a sum of shard sums, the map is an argument.

What a shard needs of others is where the map sends the neighbours of its samples: images (n, s), which workers hand to
each other. Samples stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.backend import PairOperator, backend_of
from ordrank.distributed.engine import SMALL_FAN_IN
from ordrank.distributed.sharded_samples import ShardedSamples, itself
from ordrank.distributed.shards import Shard
from ordrank.distributed.sizes import Weighed
from ordrank.distributed.sums import Frame
from ordrank.distributed.target_neighbors import Pairs, joined_pairs, pairs_by_second, pairs_of
from ordrank.estimators.order_map import Design
from ordrank.objectives.locality import LocalityTerm
from ordrank.smoothing import RidgeFit


@dataclass(frozen=True)
class Part(Weighed):
    """A shard's share of the objective.

    Attributes
    ----------
    features, Y, weights : ndarray of shape (n, p), (n, s) and (n,)
        Of its samples; features have weighted mean zero over all shards, weights the sum 1.
    halo : list of (int, ndarray)
        Samples of other shards that are neighbours: which shard, and which of its rows.
    own, every : PairOperator
        Pairs among its samples and then the halo: those that begin here, and after them also those that only end here,
        whose pull is needed while their value is another shard's.
    n_own : int
        Pairs that begin here.
    targets : ndarray of shape (P,)
        Squared distances that all these pairs should have.
    """

    features: NDArray[np.floating]
    Y: NDArray[np.floating]
    weights: NDArray[np.floating]
    halo: list[tuple[int, IntArray]]
    own: PairOperator
    every: PairOperator
    n_own: int
    targets: FloatArray

    def images(self, place: int, images: Sequence[NDArray[np.floating]]) -> NDArray[np.floating]:
        """Images of its samples and of the halo."""
        return np.vstack([images[place], *(images[other][rows] for other, rows in self.halo)])


def prepare(
    shard: Shard,
    place: int,
    begin: Pairs,
    end: Sequence[Pairs],
    frame: Frame,
    starts: IntArray,
    features: Features,
    tau: float,
) -> Part:
    """A shard's share: read once, then kept in the memory of a worker as long as that lives.

    Parameters
    ----------
    shard, place : Shard and int
        And which of the shards it is.
    begin, end : Pairs and list of Pairs
        Pairs that begin in the shard, and those that end in it.
    frame : Frame
    starts : ndarray of shape (S,)
        Row of the first sample of each shard.
    features : Features
    tau : float
        Share of their squared distance that pairs should keep.
    """
    X, index, weights = frame.placed(shard.whole())
    F = features.of(frame.unit(X))
    first_row, stop = int(starts[place]), int(starts[place]) + len(X)
    into = joined_pairs(*end)
    into = into.where((into.first < first_row) | (into.first >= stop))
    into = into.where(np.argsort(into.second, kind="stable"))  # near each other in memory
    every = joined_pairs(begin, into)
    rows = np.concatenate([begin.second, into.first])
    foreign = np.unique(rows[(rows < first_row) | (rows >= stop)])
    owner = np.searchsorted(starts, foreign, side="right") - 1
    halo = [(int(other), foreign[owner == other] - starts[other]) for other in np.unique(owner)]

    def local(row: IntArray) -> IntArray:
        inside = (row >= first_row) & (row < stop)
        return np.where(inside, row - first_row, len(X) + np.searchsorted(foreign, row))

    def operator(pairs: Pairs) -> PairOperator:
        return backend_of(F).pairs(local(pairs.first), local(pairs.second), len(X) + len(foreign), F)

    Y = frame.positions[index].astype(F.dtype)
    share = (weights / features.total).astype(F.dtype)
    return Part(F, Y, share, halo, operator(begin), operator(every), len(begin), tau * every.squared_distances)


@dataclass(frozen=True)
class Features(Weighed):
    """Features of weighted mean zero, of samples at unit size; Σω is their ``total`` weight."""

    design: Design
    nu: float
    mean: FloatArray
    total: float

    def of(self, unit: NDArray[np.floating]) -> NDArray[np.floating]:
        """Features (n, p) of samples (n, d)."""
        features = self.design.features_of(unit, self.nu)
        return features - self.mean.astype(features.dtype)


def image(part: Part, L: FloatArray) -> NDArray[np.floating]:
    """Where the map (s, p), or several below each other, sends the samples of a shard."""
    return part.features @ L.T.astype(part.features.dtype)


def value_and_gradient(
    part: Part, place: int, images: list[NDArray[np.floating]], mu: float
) -> tuple[float, FloatArray]:
    """Share of ½Σω‖z - y‖² + μΣ(‖z_i - z_j‖² - t)², and of its gradient in the map."""
    Z, n = part.images(place, images), len(part.Y)
    backend = backend_of(Z)
    residual = Z[:n] - part.Y
    W = part.weights[:, None] * residual
    value = 0.5 * backend.dot(residual, W)
    excess = part.every.dots(Z, Z)
    excess -= part.targets
    value += mu * backend.dot(excess[: part.n_own], excess[: part.n_own])
    W += 4 * mu * part.every.laplacian_product(excess, Z)[:n]
    return float(value), np.asarray(W.T @ part.features, dtype=np.float64)


def line_polynomial(part: Part, place: int, images: list[NDArray[np.floating]], mu: float) -> FloatArray:
    """Share of the five coefficients of the value at Z + t dZ, the images being those of both."""
    both, n = part.images(place, images), len(part.Y)
    s, dot = part.Y.shape[1], backend_of(both).dot
    residual, change = both[:n, :s] - part.Y, both[:n, s:]
    weighted = part.weights[:, None] * change
    line = np.zeros(5)
    line[:3] = (
        0.5 * dot(residual, part.weights[:, None] * residual),
        dot(residual, weighted),
        0.5 * dot(change, weighted),
    )
    term = LocalityTerm(part.own, part.targets[: part.n_own], mu)
    return line + np.array(term.line_polynomial(both[:, :s].copy(), both[:, s:].copy()))


def added(*parts: Any) -> Any:
    """Sum of numbers or arrays, or of tuples of them."""
    if isinstance(parts[0], tuple):
        return tuple(sum(column) for column in zip(*parts, strict=True))
    return sum(parts)


class ShardedObjective:
    r"""The objective of the order map over shards, with the contract of a preconditioned objective.

    .. math:: \tfrac12\sum_i\omega_i\|Lx_i - y_i\|^2 + \tfrac\alpha2\|L\|^2
              + \mu\sum_p\left(\|L\delta_p\|^2 - \tau\|\delta_p\|^2\right)^2

    The image of a point is the point itself: nothing of the size of the samples comes to the client.

    Parameters
    ----------
    samples : ShardedSamples
    parts : list of futures of Part
    fit : RidgeFit
        The solution without the local term, from sums over all samples.
    mu : float
        Weight of the local term per pair.
    """

    def __init__(self, samples: ShardedSamples, parts: list[Any], fit: RidgeFit, mu: float) -> None:
        self._engine, self._parts, self._mu = samples.engine, parts, mu
        self._places = list(range(len(parts)))
        self._alpha = fit.alpha * fit.path.scatter / fit.path.total
        self._n_components = fit.path.Y.shape[1]
        moments = fit.path.moments
        assert moments is not None  # many samples have sums
        values, vectors = np.linalg.eigh(moments.gram / moments.total)
        kept = values > values[-1] * max(moments.n_samples, len(values)) * np.finfo(np.float64).eps
        self._eigenvalues, self._basis = values[kept], vectors[:, kept]

    def image(self, x: FloatArray) -> FloatArray:
        """The point itself."""
        return x

    def value(self, x: FloatArray, z: FloatArray) -> float:
        """f(L)."""
        return self.value_and_gradient(x, z)[0]

    def value_and_gradient(self, x: FloatArray, z: FloatArray) -> tuple[float, FloatArray]:
        """f(L) and its gradient: one round for the images, one for the sums."""
        L = self._map(x)
        with self._engine.phase("gradients"):
            value, gradient = self._summed(value_and_gradient, L)
        ridge = 0.5 * self._alpha * float(x @ x)
        return value + ridge, gradient.reshape(-1) + self._alpha * x

    def line_polynomial(self, x: FloatArray, z: FloatArray, dx: FloatArray, dz: FloatArray) -> FloatArray:
        """Quartic coefficients of f along dx."""
        with self._engine.phase("lines"):
            line: FloatArray = self._summed(line_polynomial, np.vstack([self._map(x), self._map(dx)]))
        line[:3] += self._alpha * np.array([0.5 * (x @ x), x @ dx, 0.5 * (dx @ dx)])
        return line

    def precondition(self, gradient: FloatArray) -> FloatArray:
        """(XᵀΩX + αI)⁻¹: the inverse Hessian of the fitting term."""
        G = self._map(gradient)
        inside = G @ self._basis
        solved = (inside / (self._eigenvalues + self._alpha)) @ self._basis.T
        solved += (G - inside @ self._basis.T) / self._alpha
        return np.asarray(solved.reshape(-1))

    def _map(self, x: FloatArray) -> FloatArray:
        return x.reshape(self._n_components, -1)

    def _summed(self, task: Any, L: FloatArray) -> Any:
        images = self._engine.each(image, self._parts, L=L)
        shares = self._engine.each(task, self._parts, self._places, images=images, mu=self._mu)
        return self._engine.total(added, shares, SMALL_FAN_IN)


def prepared_parts(samples: ShardedSamples, nearest: list[Any], features: Features, tau: float) -> list[Any]:
    """Futures of every shard's share of the objective."""
    engine, starts = samples.engine, samples.starts
    places = list(range(len(samples.shards)))
    begin = engine.each(pairs_of, nearest, starts.tolist())
    grouped = engine.each(pairs_by_second, nearest, starts.tolist(), starts=starts)
    end = [[engine.once(getitem, group, place) for group in grouped] for place in places]
    there = engine.once(itself, features)
    return engine.each(
        prepare, samples.shards, places, begin, end, frame=samples.frame, starts=starts, features=there, tau=tau
    )
