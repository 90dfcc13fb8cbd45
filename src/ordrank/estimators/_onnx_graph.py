"""A fitted ranker as nodes of an ONNX graph: embedding, nearest neighbours, distribution and grade.

Sums and products are computed in float64, the rest in the precision of the ranker's own embedding, as its ``transform``
does: a query equal to a training sample then has the same embedding, and all weight is on such copies. Operators are
used in forms that mean the same from opset 17 on, so that the nodes can follow a network of a newer version.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray
from ordrank.backend import backend_of
from ordrank.errors import InputError
from ordrank.estimators._distribution import GradeDistribution
from ordrank.estimators._linear import LinearMetric
from ordrank.estimators._ordinal.embedding import OrdinalEmbedding
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.features.onnx_graph import OnnxGraph, Shape, write_graph
from ordrank.kernel_ridge import DiscriminantRescaling
from ordrank.neighbors.voting import COPY_DISTANCE

if TYPE_CHECKING:
    from ordrank.estimators.ranker import OrdinalRanker

# Candidates beyond k, which a product proposes and differences decide.
_SPARE = 3
# As in the distribution: a cumulative probability of one half may be missed by rounding; equal scores likewise.
_ROUNDING = 1e-9


def write_ranker(ranker: OrdinalRanker, file: str | os.PathLike[str], coverage: float) -> None:
    """Write a fitted ranker; see :meth:`OrdinalRanker.to_onnx`."""

    def serialize() -> bytes:
        graph = OnnxGraph("to_onnx")
        outputs = append_ranker(graph, ranker, "features", coverage)
        inputs = {"features": ("n", ranker.n_features_in_)}
        return graph.serialize("OrdinalRanker", inputs, outputs, ranker_metadata(ranker, coverage))

    write_graph(file, serialize)


def ranker_metadata(ranker: OrdinalRanker, coverage: float) -> dict[str, str]:
    """Return the metadata of a file: labels as given to ``fit``, the numbers of the outputs for them, and coverage."""
    return {
        "ordrank.labels": json.dumps(ranker.classes_.tolist(), ensure_ascii=False, default=str),
        "ordrank.label_values": json.dumps(ranker.grade_distribution_.labels.tolist()),
        "ordrank.coverage": json.dumps(float(coverage)),
    }


def append_ranker(graph: OnnxGraph, ranker: OrdinalRanker, features: str, coverage: float) -> dict[str, Shape]:
    """Append a fitted ranker to a graph.

    Parameters
    ----------
    graph : OnnxGraph
    ranker : OrdinalRanker
    features : str
        Name of an input or a node's output, float32 (n, d).
    coverage : float
        Of the intervals.

    Returns
    -------
    dict from str to tuple
        Shapes of the outputs by name, all float32: ``embedding``, ``probabilities``, ``grade`` and ``interval``.
    """
    if not 0 < coverage < 1:
        raise InputError(f"coverage must be a number above 0 and below 1, got {coverage!r}")
    distribution, points = ranker.grade_distribution_, _on_host(ranker.embedding_)
    embedded = _append_embedding(graph, ranker.metric_, features, points.dtype)
    proba = _append_proba(graph, distribution, embedded, points, ranker._labels.index)
    graph.add_cast(embedded, np.float32, output="embedding")
    graph.add_cast(proba, np.float32, output="probabilities")
    _append_grades(graph, distribution, proba, coverage)
    m = len(distribution.labels)
    return {"embedding": ("n", points.shape[1]), "probabilities": ("n", m), "grade": ("n",), "interval": ("n", 2)}


def _append_embedding(graph: OnnxGraph, metric: Any, features: str, dtype: np.dtype[Any]) -> str:
    """Append ``transform`` of a fitted metric, in the precision of its training samples; return the output's name."""
    x = graph.add_cast(features, dtype)
    if isinstance(metric, OrdinalMetric):
        return _append_ordinal_embedding(graph, metric.ordinal_embedding_.to_device_of(None), x, dtype)
    if isinstance(metric, LinearMetric):
        centred = graph.add_node("Sub", [x, _on_host(metric.mean_).astype(dtype)])
        product = _append_product(graph, _append_double(graph, centred), _on_host(metric.components_))
        return graph.add_cast(product, dtype)
    if isinstance(metric, str):  # "passthrough"
        return x
    raise InputError(
        f"to_onnx needs the metric OrdinalMetric, CMDSMetric, LDMLR or 'passthrough', not {type(metric).__name__}; fit "
        "one of these to features that have passed all other steps"
    )


def _append_ordinal_embedding(graph: OnnxGraph, embedding: OrdinalEmbedding, x: str, dtype: np.dtype[Any]) -> str:
    centred = graph.add_node("Sub", [x, embedding.mean.astype(dtype)])
    unit = graph.add_node("Div", [centred, dtype.type(embedding.scale)])
    u = _append_double(graph, unit)
    mapped = _append_product(graph, u, embedding.linear * embedding.scale)
    mapped = graph.add_node("Sub", [mapped, embedding.offset.astype(np.float64)])
    if embedding.sharpnesses:
        rescaled = _append_rescaling(graph, embedding.rescaling, u)
        mapped = graph.add_node("Add", [mapped, _append_gaussians(graph, embedding, rescaled)])
    ordinal = graph.add_cast(mapped, dtype)
    if embedding.locality == 0:
        return ordinal
    appearance = graph.add_node("Mul", [unit, dtype.type(embedding.locality)])
    return graph.add_node("Concat", [ordinal, appearance], axis=1)


def _append_rescaling(graph: OnnxGraph, rescaling: DiscriminantRescaling, u: str) -> str:
    if rescaling.is_identity:
        return u
    directions = _append_double(graph, graph.add_constant(rescaling.directions))
    coordinates = graph.add_node("Gemm", [u, directions], transB=1)
    changes = graph.add_node("Mul", [coordinates, rescaling.factors.astype(np.float64) - 1])
    changed = graph.add_node("Add", [u, graph.add_node("MatMul", [changes, directions])])
    return graph.add_node("Div", [changed, np.float64(rescaling.scale)])


def _append_gaussians(graph: OnnxGraph, embedding: OrdinalEmbedding, x: str) -> str:
    """Append the sum over ω of exp(-ω/2 ‖x - l‖²) C, with x normalised and rescaled."""
    landmarks = _append_double(graph, graph.add_constant(embedding.landmarks))
    # -‖x - l‖² / 2 = xᵀl - ‖l‖² / 2 - ‖x‖² / 2
    of_landmarks = -0.5 * np.sum(np.square(embedding.landmarks, dtype=np.float64), axis=1)
    inner = graph.add_node("Gemm", [x, landmarks, of_landmarks], transB=1)
    of_queries = _append_squared_norm(graph, x, keepdims=1)
    exponents = graph.add_node("Sub", [inner, graph.add_node("Mul", [of_queries, np.float64(0.5)])])
    parts = []
    for sharpness, coefficients in zip(embedding.sharpnesses, embedding.coefficients, strict=True):
        values = graph.add_node("Exp", [graph.add_node("Mul", [exponents, np.float64(sharpness)])])
        parts.append(graph.add_node("MatMul", [values, coefficients.astype(np.float64)]))
    return graph.add_node("Sum", parts)


def _append_proba(
    graph: OnnxGraph, distribution: GradeDistribution, embedded: str, points: NDArray[np.floating], index: NDArray[Any]
) -> str:
    """Append the probabilities (n, m) of the grades, in float64; return their name."""
    s, w, frequencies = distribution.frequency_weight, distribution.threshold_weight, distribution.frequencies
    n_queries = graph.add_node("Shape", [embedded], start=0, end=1)
    shape = graph.add_node("Concat", [n_queries, [len(frequencies)]], axis=0)
    proba = graph.add_node("Expand", [s * frequencies, shape])
    if s < 1:
        shares = _append_vote_shares(graph, distribution, embedded, points, index, shape)
        proba = graph.add_node("Add", [proba, graph.add_node("Mul", [shares, np.float64(1 - s)])])
    if w > 0:
        by_threshold = _append_threshold_model(graph, distribution, embedded)
        by_threshold = graph.add_node("Mul", [by_threshold, np.float64(w)])
        proba = graph.add_node("Add", [graph.add_node("Mul", [proba, np.float64(1 - w)]), by_threshold])
    if distribution.class_prior is None:
        return proba
    return _append_shares(graph, graph.add_node("Mul", [proba, distribution.class_prior / frequencies]))


def _append_vote_shares(
    graph: OnnxGraph,
    distribution: GradeDistribution,
    embedded: str,
    points: NDArray[np.floating],
    index: NDArray[Any],
    shape: str,
) -> str:
    """Append the share (n, m) of each label in the votes, like :func:`ordrank.neighbors.voting.vote_shares`."""
    neighbors, distances = _append_neighbors(graph, embedded, points, min(distribution.n_neighbors, len(points)))
    if distribution.weights == "uniform":
        counts = graph.add_node("Expand", [np.float64(1), graph.add_node("Shape", [distances])])
    else:
        nearest = graph.add_node("Slice", [distances, [0], [1], [1]])  # 0/0 is unused, in a row with copies
        farthest = graph.add_node("Slice", [distances, [-1], [np.iinfo(np.int64).max], [1]])
        limit = graph.add_node("Mul", [farthest, np.float64(COPY_DISTANCE)])
        copies = graph.add_cast(graph.add_node("LessOrEqual", [distances, limit]), np.float64)
        inverse = graph.add_node("Div", [nearest, distances])
        counts = graph.add_node("Where", [graph.add_node("LessOrEqual", [nearest, limit]), copies, inverse])
    votes = graph.add_node("Gather", [np.asarray(index, dtype=np.int64), neighbors])
    zeros = graph.add_node("Expand", [np.float64(0), shape])
    sums = graph.add_node("ScatterElements", [zeros, votes, counts], axis=1, reduction="add")
    return _append_shares(graph, sums)


def _append_neighbors(graph: OnnxGraph, embedded: str, points: NDArray[np.floating], k: int) -> tuple[str, str]:
    """Append the numbers and distances (n, k) of the nearest points, nearest first, ties by number.

    Like :func:`ordrank.neighbors.k_nearest`, a product proposes a few more, measured by differences.
    """
    centre = points.mean(axis=0, dtype=np.float64)
    x = graph.add_node("Sub", [_append_double(graph, embedded), centre])
    p = graph.add_node("Sub", [_append_double(graph, graph.add_constant(points)), centre])
    squared = graph.add_node("Gemm", [x, p, np.sum((points - centre) ** 2, axis=1)], alpha=-2.0, transB=1)
    n_candidates = min(k + _SPARE, len(points))
    _, candidates = graph.add_smallest(squared, n_candidates)
    candidates, _ = graph.add_smallest(candidates, n_candidates)  # by number, as ties are
    queries = graph.add_node("Unsqueeze", [x, [1]])
    differences = graph.add_node("Sub", [graph.add_node("Gather", [p, candidates]), queries])
    measured = graph.add_node("Sqrt", [_append_squared_norm(graph, differences, keepdims=0)])
    distances, columns = graph.add_smallest(measured, k)
    return graph.add_node("GatherElements", [candidates, columns], axis=1), distances


def _append_threshold_model(graph: OnnxGraph, distribution: GradeDistribution, embedded: str) -> str:
    """Append the probabilities (n, m) of the threshold model, differences of cumulative ones."""
    model, start = distribution.threshold, distribution.n_order
    stop = start + len(model.coefficients)
    appearance = _append_double(graph, graph.add_node("Slice", [embedded, [start], [stop], [1]]))
    predictor = graph.add_node("MatMul", [appearance, model.coefficients[:, None]])
    cumulative = graph.add_node("Sigmoid", [graph.add_node("Sub", [model.thresholds, predictor])])
    upper = graph.add_node("Pad", [cumulative, [0, 0, 0, 1], np.float64(1)])
    lower = graph.add_node("Pad", [cumulative, [0, 1, 0, 0], np.float64(0)])
    return graph.add_node("Sub", [upper, lower])


def _append_grades(graph: OnnxGraph, distribution: GradeDistribution, proba: str, coverage: float) -> None:
    """Append the outputs ``grade``, the lower median, and ``interval`` of probabilities (n, m)."""
    labels, m = graph.add_constant(distribution.labels.astype(np.float32)), len(distribution.labels)
    cumulative = graph.add_node("CumSum", [proba, 1])
    total = graph.add_node("Slice", [cumulative, [m - 1], [m], [1]])
    half = graph.add_node("Mul", [total, np.float64(0.5 - _ROUNDING)])
    median = _append_first(graph, graph.add_node("GreaterOrEqual", [cumulative, half]))
    graph.add_node("Squeeze", [graph.add_node("Gather", [labels, median]), [1]], output="grade")
    below = graph.add_node("Sub", [cumulative, proba])
    above = graph.add_node("Sub", [np.float64(1), cumulative])
    limits = distribution._largest_scores(coverage) + _ROUNDING
    accepted = graph.add_node("LessOrEqual", [graph.add_node("Max", [below, above]), limits])
    inside = graph.add_node("Or", [accepted, graph.add_node("Equal", [np.arange(m), median])])
    ends = [graph.add_node("Gather", [labels, _append_first(graph, inside, last=last)]) for last in (0, 1)]
    graph.add_node("Concat", ends, output="interval", axis=1)


def _append_first(graph: OnnxGraph, mask: str, last: int = 0) -> str:
    """Append the column (n, 1) of the first or last true value of each row."""
    return graph.add_node("ArgMax", [graph.add_cast(mask, np.int32)], axis=1, select_last_index=last)


def _append_shares(graph: OnnxGraph, x: str) -> str:
    return graph.add_node("Div", [x, graph.add_node("ReduceSum", [x, [1]])])


def _append_product(graph: OnnxGraph, x: str, matrix: NDArray[np.floating]) -> str:
    """Append the product of rows (n, d) with the transposed matrix (s, d)."""
    return graph.add_node("Gemm", [x, matrix.astype(np.float64)], transB=1)


def _append_squared_norm(graph: OnnxGraph, x: str, *, keepdims: int) -> str:
    return graph.add_node("ReduceSum", [graph.add_node("Mul", [x, x]), [-1]], keepdims=keepdims)


def _append_double(graph: OnnxGraph, x: str) -> str:
    return graph.add_cast(x, np.float64)


def _on_host(array: Any) -> FloatArray:
    return np.asarray(backend_of(array).to_numpy(array))
