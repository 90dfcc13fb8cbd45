"""Selection of k and of the vote weights by neighbours of held-out samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators._defaults import DEFAULTS, Defaults
from ordrank.neighbors.voting import median_vote

# Weights of votes to select from, the default last.
VOTE_WEIGHTS = ("uniform", "distance")


@dataclass(frozen=True)
class HeldOutNeighbors:
    """Nearest training samples of samples that were held out of the fit, alone or with their group or fold."""

    rows: IntArray  # (q,), of the held-out samples in the training set
    indices: IntArray  # (q, k), of their neighbours in the training set, nearest first
    distances: FloatArray  # (q, k)

    @classmethod
    def concatenate(cls, parts: Sequence[HeldOutNeighbors]) -> HeldOutNeighbors:
        """Return the neighbours of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def of_rows(self, rows: IntArray) -> HeldOutNeighbors:
        """Return the same with the row numbers of a larger set, of which these samples are the ``rows``."""
        return HeldOutNeighbors(rows[self.rows], rows[self.indices], self.distances)

    def errors(self, labels: FloatArray, k: int, *, weights: str = "distance") -> FloatArray:
        """Return absolute errors (q,) of the k-NN predictions, for labels (n,) of all samples."""
        votes, distances = labels[self.indices[:, :k]], self.distances[:, :k]
        return np.abs(median_vote(votes, distances, weights) - labels[self.rows])


def significantly_larger(
    errors: FloatArray, reference: FloatArray, defaults: Defaults = DEFAULTS, standard_errors: float | None = None
) -> bool:
    """Return whether paired errors (q,) exceed the reference by more than so many standard errors of the mean."""
    difference = errors - reference
    factor = defaults.standard_errors if standard_errors is None else standard_errors
    threshold = factor * (difference.std() / np.sqrt(len(difference)))
    return len(difference) >= defaults.min_validation and bool(difference.mean() > threshold)


def default_k(n_samples: int, n_held_out: int = 1, defaults: Defaults = DEFAULTS) -> int:
    """Return the default number of voting neighbours: a third of the samples, at most 101.

    Never more than remain if ``n_held_out`` samples are held out together.
    """
    return max(1, min(defaults.max_neighbors, n_samples // defaults.samples_per_neighbor, n_samples - n_held_out))


def candidate_k(n_samples: int, n_held_out: int = 1, defaults: Defaults = DEFAULTS) -> list[int]:
    """Return the numbers of voting neighbours to select from, the default last."""
    default = default_k(n_samples, n_held_out, defaults)
    return [k for k in defaults.fewer_neighbors if k < default] + [default]


def select_votes(
    neighbors: HeldOutNeighbors,
    labels: FloatArray,
    candidates: Sequence[int],
    weights: Sequence[str] = VOTE_WEIGHTS,
    *,
    defaults: Defaults = DEFAULTS,
) -> tuple[int, str]:
    """Return k and the vote weights: the last of each, unless others have a significantly lower MAE.

    ``labels`` (n,) has all samples.
    """
    errors = {(k, weight): neighbors.errors(labels, k, weights=weight) for k in candidates for weight in weights}
    default, best = (candidates[-1], weights[-1]), min(errors, key=lambda pair: float(errors[pair].mean()))
    return best if significantly_larger(errors[default], errors[best], defaults) else default


def beats_constant(
    errors: FloatArray, rows: IntArray, labels: FloatArray, groups: IntArray, defaults: Defaults
) -> bool:
    """Return whether errors (q,) are below those of one prediction for all samples by a standard error over the groups.

    Samples of a group are dependent, so each group counts once. The constant is the vote of all held-out samples of
    other groups. ``labels`` and ``groups`` (n,) have all samples, of which ``rows`` (q,) were held out; if these are of
    one group, nothing is known of others, and the result is False.
    """
    own, groups = labels[rows], groups[rows]
    if len(np.unique(groups)) < 2:
        return False
    gains = []
    for group in np.unique(groups):
        members, others = groups == group, own[groups != group][None]
        constant = median_vote(others, np.ones_like(others), "uniform")
        gains.append(float(np.mean(np.abs(constant - own[members]) - errors[members])))
    standard_error = float(np.std(gains, ddof=1)) / len(gains) ** 0.5
    return float(np.mean(gains)) > defaults.group_standard_errors * standard_error
