"""Small instances of every objective, for the contract suites."""

from functools import partial

import numpy as np

from ordrank.backend import backend_of
from ordrank.geometry import classical_mds, label_distances
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective, LDMLRObjective
from ordrank.objectives.ldmlr import ordinal_scatter
from ordrank.objectives.local import LocalDistanceTerm
from tests.contracts.backends import put


def samples(seed=0, n=40, d=5, dtype=np.float64):
    rng = np.random.default_rng(seed)
    label = np.arange(n) % 4
    X = rng.normal(size=(n, d))
    X[:, 0] += label
    return (X - X.mean(axis=0)).astype(dtype), label


def cmds_parts(seed=0, n=40, d=5, s=2, k=3, dtype=np.float64):
    X, label = samples(seed, n, d, dtype)
    Y = classical_mds(label_distances([0, 1, 3, 4]) ** 2, s, np.bincount(label)).points[label].astype(dtype)
    return X, Y, target_neighbors(X, label, k)


def cmds(seed=0, *, mu=0.01, alpha=0.0, free_scale=True, weighted=False, backend="numpy", **shape):
    X, Y, neighbors = cmds_parts(seed, **shape)
    weights = np.random.default_rng(seed).uniform(0.1, 2, size=len(X)).astype(X.dtype) if weighted else None
    X, Y, targets = put(X, backend), put(Y, backend), put(neighbors.squared_distances, backend)
    local = None
    if mu > 0:
        pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
        local = LocalDistanceTerm(pairs, targets, mu)
    weights = put(weights, backend) if weighted else None
    return CMDSObjective(X, Y, local, alpha=alpha, free_scale=free_scale, weights=weights)


def ldmlr(seed=0, *, mu=1.0, n=40, d=4, k=3, dtype=np.float64, backend="numpy"):
    X, label = samples(seed, n, d, dtype)
    neighbors = target_neighbors(X, label, k)
    X, targets = put(X, backend), put(neighbors.squared_distances, backend)
    pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
    scatter = ordinal_scatter(X, put(label, backend), label_distances([0, 1, 3, 4]))
    return LDMLRObjective(X, scatter, pairs, targets, mu=mu)


def random_point(objective, rng, d=5, s=2, *, backend="numpy", dtype=np.float64):
    """A point of the objective's domain, and one like it as a direction."""
    if isinstance(objective, LDMLRObjective):
        A, B = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
        return put((A @ A.T).astype(dtype), backend), put((B + B.T).astype(dtype), backend)
    make = lambda: objective.pack(rng.normal(size=(s, d)), float(rng.normal()))  # noqa: E731
    return make(), make()


OBJECTIVES = {
    "cmds": cmds,
    "cmds, fixed scale": partial(cmds, free_scale=False),
    "cmds, ridge": partial(cmds, alpha=0.7),
    "cmds, no local term": partial(cmds, mu=0.0),
    "cmds, fewer samples than features": partial(cmds, n=12, d=20, k=2),
    "cmds, weighted samples": partial(cmds, alpha=0.7, weighted=True),
    "ldmlr": ldmlr,
}
