"""Leave-one-out k-NN errors of ordinal maps, and the selection of the appearance weight λ by them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from joblib import cpu_count
from numpy.typing import DTypeLike, NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.estimators._knn_selection import HeldOutNeighbors, candidate_k, significantly_larger
from ordrank.kernel_ridge import pairwise_squared_distances
from ordrank.neighbors.voting import medians_of_first, vote_weights

# The bound of the k smallest is taken from this many times k groups of columns.
_GROUPS_PER_NEIGHBOR = 2
_ROWS_PER_BLOCK = 100

# From rows (q,) to squared distances (q, n) in an ordinal map, each row held out and infinitely far from itself.
Distances = Callable[[IntArray], NDArray[np.floating]]
LooDistances = Callable[[DTypeLike], Distances]


class _Block:
    """Validation samples (q,), few enough to stay in the cache, and their feature distances to all X (n, d)."""

    def __init__(self, rows: IntArray, X: NDArray[np.floating], dtype: DTypeLike) -> None:
        self.rows, self._X, self._dtype = rows, X, dtype
        self._appearance: NDArray[np.floating] | None = None

    @property
    def appearance(self) -> NDArray[np.floating]:
        """Squared distances (q, n), computed once, in the first thread that needs them."""
        if self._appearance is None:
            self._appearance = pairwise_squared_distances(self._X[self.rows], self._X).astype(self._dtype, copy=False)
        return self._appearance


@dataclass(frozen=True)
class _Predictions:
    """Neighbours of validation samples for one λ, and absolute errors (v, q) for each number of neighbours."""

    neighbors: HeldOutNeighbors
    errors: FloatArray

    @classmethod
    def concatenate(cls, parts: Sequence[_Predictions]) -> _Predictions:
        neighbors = HeldOutNeighbors.concatenate([part.neighbors for part in parts])
        return cls(neighbors, np.concatenate([part.errors for part in parts], axis=1))

    @cached_property
    def mae(self) -> FloatArray:
        """Mean absolute errors (v,)."""
        return np.asarray(self.errors.mean(axis=1))

    @property
    def best_errors(self) -> FloatArray:
        """Errors (q,) of the k with the lowest MAE."""
        return np.asarray(self.errors[self.mae.argmin()])


class LeaveOneOutKNN:
    """k-NN predictions of held-out samples in the space of an ordinal map and λ times the features.

    X (n, d) are labelled samples of unit mean square, of which ``n_validation`` are predicted. At most ``n_held_out``
    samples are held out together.
    """

    def __init__(
        self,
        X: NDArray[np.floating],
        labels: FloatArray,
        n_validation: int,
        rng: np.random.Generator,
        n_held_out: int = 1,
        defaults: Defaults = DEFAULTS,
    ) -> None:
        self._defaults = defaults
        self._distinct, self._index = np.unique(labels, return_inverse=True)
        self._candidates, self._n_threads = candidate_k(len(X), n_held_out, defaults), cpu_count()
        self._pool = ThreadPoolExecutor(self._n_threads)  # its threads end when this object is collected
        # Many samples in single precision: faster, and predictions do not depend on the digits.
        self._dtype = np.float64 if len(X) <= defaults.few_samples else np.float32
        drawn = rng.permutation(len(X))[:n_validation]
        ends = [0, *(end for end in defaults.elimination_rounds if defaults.few_samples < len(drawn) > end), len(drawn)]
        self._rounds = [self._blocks(np.sort(drawn[start:end]), X) for start, end in pairwise(ends)]

    def errors(self, maps: Sequence[LooDistances]) -> list[FloatArray]:
        """Return absolute errors (q,) in each ordinal map, with the default λ and the k of lowest MAE."""
        distances = list(self._pool.map(lambda one: one(self._dtype), maps))

        def squared(block: _Block) -> NDArray[np.floating]:
            stacked = np.empty((len(distances), *block.appearance.shape), dtype=self._dtype)
            for buffer, of_rows in zip(stacked, distances, strict=True):
                buffer[:] = of_rows(block.rows)
            stacked += self._dtype(self._defaults.locality**2) * block.appearance
            return stacked

        return [each.best_errors for each in self._predict(squared, list(chain.from_iterable(self._rounds)))]

    def select_locality(self, loo: LooDistances, localities: Sequence[float]) -> tuple[float, HeldOutNeighbors]:
        """Return λ and the leave-one-out neighbours with it.

        λ is the default, unless another one, with any k, has a significantly lower MAE; then the largest that costs
        significantly less than the tolerated increase, because λ keeps similar samples together inside a grade.
        Of many samples, values that are worse on the first rounds of validation samples are eliminated (O. Maron and
        A. Moore, "Hoeffding races", NIPS 1993), and the largest is doubled while it is the best. A single value is
        returned.
        """
        distances = loo(self._dtype)

        def predict(blocks: Sequence[_Block], tried: Sequence[float]) -> dict[float, _Predictions]:
            weights = np.square(tried, dtype=self._dtype)[:, None, None]

            def squared(block: _Block) -> NDArray[np.floating]:
                stacked = weights * block.appearance
                stacked += distances(block.rows)
                return np.asarray(stacked)

            return dict(zip(tried, self._predict(squared, blocks), strict=True))

        found: dict[float, _Predictions] = {}
        seen: list[_Block] = []
        for blocks in self._rounds:
            new = predict(blocks, list(found or localities))
            found = {value: _Predictions.concatenate([found[value], new[value]]) for value in found} or new
            seen += blocks
            if len(localities) > 1 and blocks is not self._rounds[-1]:
                while 0 < (largest := max(found)) < self._defaults.max_locality and _best(found)[0] == largest:
                    found |= predict(seen, [2 * largest])
                found = {value: found[value] for value in self._remaining(found)}
        selected = self._select(found) if len(found) > 1 else next(iter(found))
        return selected, found[selected].neighbors

    def _blocks(self, rows: IntArray, X: NDArray[np.floating]) -> list[_Block]:
        """Return blocks of validation samples, the same number for each thread."""
        n_blocks = self._n_threads * -(-len(rows) // (self._n_threads * _ROWS_PER_BLOCK))
        return [_Block(part, X, self._dtype) for part in np.array_split(rows, min(n_blocks, len(rows)))]

    def _predict(
        self, squared: Callable[[_Block], NDArray[np.floating]], blocks: Sequence[_Block]
    ) -> Iterator[_Predictions]:
        """Yield predictions in several spaces, given the squared distances (spaces, q, n) of a block in all of them."""
        # NumPy selects and sorts without the interpreter's lock, so threads run in parallel.
        found = list(self._pool.map(lambda block: self._predict_block(block.rows, squared(block)), blocks))
        return map(_Predictions.concatenate, zip(*found, strict=True))

    def _predict_block(self, rows: IntArray, squared: NDArray[np.floating]) -> list[_Predictions]:
        indices, smallest = _k_smallest(squared.reshape(-1, squared.shape[2]), self._candidates[-1])
        distances = np.sqrt(smallest, dtype=np.float64)
        medians = medians_of_first(self._index[indices], vote_weights(distances), self._candidates, len(self._distinct))
        predicted = self._distinct[medians].reshape(len(self._candidates), *squared.shape[:2])
        errors = np.abs(predicted - self._distinct[self._index[rows]])
        neighbors = zip(np.split(indices, len(squared)), np.split(distances, len(squared)), strict=True)
        return [_Predictions(HeldOutNeighbors(rows, *found), errors[:, space]) for space, found in enumerate(neighbors)]

    def _remaining(self, found: dict[float, _Predictions]) -> list[float]:
        """Return the λ that are not worse than the best; the default one must be worse beyond doubt."""
        defaults, best = self._defaults, found[_best(found)[0]].best_errors

        def is_worse(value: float) -> bool:
            limit = defaults.standard_errors if value == defaults.locality else defaults.elimination_standard_errors
            return significantly_larger(found[value].best_errors, best, defaults, limit)

        return [value for value in found if not is_worse(value)]

    def _select(self, found: dict[float, _Predictions]) -> float:
        """Return the default λ or the best, then the largest that costs little."""
        value, k = _best(found)
        default, best = self._defaults.locality, found[value].errors[k]
        if default in found and not significantly_larger(found[default].errors[-1], best, self._defaults):
            value, k = default, -1
        reference = found[value].errors[k]
        tolerated, worst = self._defaults.locality_tolerance * reference.mean(), reference.max()

        def costs_little(other: float) -> bool:
            # One more sample with the worst error: a few samples that agree prove little.
            increase = np.append(found[other].errors[k] - reference, worst)
            bound = increase.mean() + self._defaults.standard_errors * increase.std() / np.sqrt(len(increase))
            return bool(bound < tolerated)

        return max([value, *filter(costs_little, found)])


def _best(found: dict[float, _Predictions]) -> tuple[float, int]:
    """Return the λ, and the position of the k, with the lowest MAE."""
    value = min(found, key=lambda value: found[value].mae.min())
    return value, int(found[value].mae.argmin())


def _k_smallest(values: NDArray[np.floating], k: int) -> tuple[IntArray, NDArray[np.floating]]:
    """Return the columns (q, k) of the k smallest values of each row (q, n), and these values, ascending.

    The k-th smallest of the minima of groups of columns bounds the k-th smallest of all, and few more than k values
    are below it: only they are sorted.
    """
    q, n = values.shape
    size = max(1, int(n / (_GROUPS_PER_NEIGHBOR * k)))
    n_groups = n // size
    minima = values[:, : size * n_groups].reshape(q, size, n_groups).min(axis=1)
    found = np.flatnonzero(values <= np.partition(minima, k - 1, axis=1)[:, k - 1, None])
    bounds = np.searchsorted(found, np.arange(0, values.size + 1, n))
    start, end = bounds[:-1, None], bounds[1:, None]
    positions = start + np.arange((end - start).max())
    small = np.take(np.take(values, found), positions, mode="clip")
    small[positions >= end] = np.inf
    found = np.take(found, start + np.argsort(small, axis=1)[:, :k])
    return found - np.arange(0, values.size, n)[:, None], np.take(values, found)
