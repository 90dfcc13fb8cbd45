"""The paper's Table 1 as measured exponents of n, d, K and s in the time of each step."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ordrank.backend import backend_of
from ordrank.geometry import classical_mds, label_distances, label_embedding, project_psd
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective, LDMLRObjective
from ordrank.objectives.ldmlr import ordinal_scatter
from ordrank.objectives.local import LocalDistanceTerm
from ordrank_experiments.reference_formulas import ReferenceObjective, reference_ldmlr_gradient

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Exponent:
    """Growth of one step's time with one size; ``stated`` is the highest power in the paper's cost."""

    step: str
    formula: str
    variable: str
    stated: float
    measured: float
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A step of an algorithm to time at several sizes."""

    name: str
    formula: str
    prepare: Callable[[Sizes], Callable[[], object]]
    stated: dict[str, float]
    base: dict[str, int]


def measure_exponents() -> list[dict[str, Any]]:
    """Return log-log slopes of the time of every step over doubling sizes, with one BLAS thread."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return [asdict(_exponent(step, variable)) for step in _steps() for variable in step.stated]


def _exponent(step: Step, variable: str) -> Exponent:
    sizes = tuple(step.base[variable] * 2**i for i in range(4))
    seconds = [_fastest(step.prepare(step.base | {variable: size})) for size in sizes]
    slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return Exponent(step.name, step.formula, variable, step.stated[variable], round(slope, 2), sizes)


def _fastest(run: Callable[[], object]) -> float:
    """Return the shortest of at least three runs, up to a total of 0.1 s."""
    times: list[float] = []
    while len(times) < 3 or (sum(times) < 0.1 and len(times) < 50):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def _data(sizes: Sizes) -> dict[str, Any]:
    n, d, K, s = (sizes[name] for name in ("n", "d", "K", "s"))
    rng = np.random.default_rng(0)
    label = np.arange(n) % 5
    X = rng.normal(size=(n, d))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        neighbors = target_neighbors(X, label, K)
    return {
        "X": X,
        "label": label,
        "neighbors": neighbors,
        "Y": rng.normal(size=(n, s)),
        "L": rng.normal(size=(s, d)),
    }


def _reference(sizes: Sizes) -> tuple[ReferenceObjective, Any]:
    data = _data(sizes)
    objective = ReferenceObjective(data["X"], data["Y"], data["neighbors"], mu=1.0, free_scale=False)
    return objective, data["L"].reshape(-1)


def _own(sizes: Sizes) -> tuple[CMDSObjective, Any]:
    data = _data(sizes)
    neighbors, X = data["neighbors"], data["X"]
    pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
    locality = LocalDistanceTerm(pairs, neighbors.squared_distances, 1.0)
    return CMDSObjective(X, data["Y"], locality, alpha=0.0, free_scale=False), data["L"].reshape(-1)


def _label_matrix(sizes: Sizes) -> Callable[[], object]:
    r = np.arange(sizes["n"]) % 5
    return lambda: np.where(r[:, None] == r, 0, np.abs(r[:, None] - r) + 1.0) ** 2


def _update(sizes: Sizes) -> Callable[[], object]:
    L, direction = np.ones((sizes["s"], sizes["d"])), np.ones((sizes["s"], sizes["d"]))
    return lambda: L + 0.5 * direction


def _sample_route(sizes: Sizes) -> Callable[[], object]:
    label = np.arange(sizes["n"]) % 5
    D = (label_distances(range(5)) ** 2)[np.ix_(label, label)]
    return lambda: classical_mds(D, 3)


def _label_route(sizes: Sizes) -> Callable[[], object]:
    label, D = np.arange(sizes["n"]) % 5, label_distances(range(5)) ** 2
    return lambda: label_embedding(D, label, 3)


def _neighbours(sizes: Sizes) -> Callable[[], object]:
    data = _data(sizes)
    one_label = np.zeros(sizes["n"], dtype=np.int64)
    return lambda: target_neighbors(data["X"], one_label, sizes["K"])


def _gradient(build: Callable[[Sizes], tuple[Any, Any]]) -> Callable[[Sizes], Callable[[], object]]:
    def prepare(sizes: Sizes) -> Callable[[], object]:
        objective, x = build(sizes)
        return lambda: objective.value_and_gradient(x, objective.image(x))

    return prepare


def _trial(build: Callable[[Sizes], tuple[Any, Any]]) -> Callable[[Sizes], Callable[[], object]]:
    def prepare(sizes: Sizes) -> Callable[[], object]:
        objective, x = build(sizes)
        z = objective.image(x)
        return lambda: objective.value(x, z)

    return prepare


def _ldmlr_reference(sizes: Sizes) -> Callable[[], object]:
    data = _data(sizes)
    omega = label_distances(range(5))[np.ix_(data["label"], data["label"])]
    A = np.eye(sizes["d"])
    return lambda: reference_ldmlr_gradient(A, data["X"], omega, data["neighbors"], mu=1.0)


def _ldmlr_own(sizes: Sizes) -> Callable[[], object]:
    data = _data(sizes)
    neighbors, X = data["neighbors"], data["X"]
    pairs = backend_of(X).pairs(neighbors.first, neighbors.second, len(X), X)
    scatter = ordinal_scatter(X, data["label"], label_distances(range(5)))
    objective = LDMLRObjective(X, scatter, pairs, neighbors.squared_distances, mu=1.0)
    A = np.eye(sizes["d"])
    return lambda: objective.value_and_gradient(A, objective.image(A))


def _projection(sizes: Sizes) -> Callable[[], object]:
    A = np.random.default_rng(0).normal(size=(sizes["d"], sizes["d"]))
    return lambda: project_psd(A)


def _steps() -> list[Step]:
    usual = {"n": 1000, "d": 100, "K": 5, "s": 4}
    small = {"n": 25, "d": 40, "K": 4, "s": 1}
    return [
        Step("S0, L⁰", "sd", lambda z: lambda: np.eye(z["s"], z["d"]), {"d": 1}, usual | {"s": 10, "d": 50_000}),
        Step("S1, D", "n²", _label_matrix, {"n": 2}, usual | {"n": 300}),
        Step("S2, cMDS of n × n", "n³", _sample_route, {"n": 3}, usual | {"n": 200}),
        Step("S2, Algorithm 1", "m³", _label_route, {"n": 0}, usual | {"n": 200}),
        Step("S3, target neighbours", "dn² + Kn²", _neighbours, {"n": 2, "d": 1, "K": 1}, usual),
        Step("S4, gradient, paper's formulas", "nsd + nK(d + sd + s²)", _gradient(_reference),
             {"n": 1, "d": 1, "K": 1, "s": 1}, usual),
        Step("S4, gradient, ours", "nds + nKs", _gradient(_own), {"n": 1, "d": 1, "K": 1, "s": 1}, usual),
        Step("S5, one trial, paper's formulas", "nKsd + nKd²", _trial(_reference), {"n": 1, "d": 2, "K": 1}, usual),
        Step("S5, one trial, ours", "ns + nKs", _trial(_own), {"n": 1, "d": 0, "K": 1}, usual),
        Step("S6, update", "sd", _update, {"d": 1}, usual | {"s": 10, "d": 50_000}),
        Step("LDMLR gradient, all pairs", "n²d² + nKd³", _ldmlr_reference, {"n": 2, "d": 3}, small),
        Step("LDMLR gradient, ours", "nd² + nKd", _ldmlr_own, {"n": 1, "d": 2}, usual | {"d": 50}),
        Step("LDMLR projection", "d³", _projection, {"d": 3}, usual),
    ]  # fmt: skip
