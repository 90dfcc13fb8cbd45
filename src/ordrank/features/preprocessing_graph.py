"""Preprocessing of one picture of any size as nodes of an ONNX graph.

Pictures are resampled by two products with matrices of filter weights, which are computed for the size of the picture,
as Pillow computes them. ONNX has an operator for it, Resize, but none of its forms takes a box with fractions of pixels
and the filter that belongs to it.
"""

from __future__ import annotations

import numpy as np

from ordrank.features.onnx_graph import OnnxGraph
from ordrank.features.preprocessing import Preprocessing

_RADIUS = {"bilinear": 1.0, "bicubic": 2.0}  # of the filters, in pixels
_CUBIC = -0.5  # Pillow's; Keys, "Cubic convolution interpolation for digital image processing", 1981


def append_preprocessing(graph: OnnxGraph, preprocessing: Preprocessing, picture: str, output: str) -> None:
    """Append :meth:`Preprocessing.apply` to a graph, for the layout NCHW.

    Parameters
    ----------
    graph : OnnxGraph
    preprocessing : Preprocessing
    picture : str
        Name of the upright RGB picture, uint8 (height, width, 3).
    output : str
        Name of the normalised picture, float32 (1, 3, size, size).
    """
    size, interpolation = preprocessing.size, preprocessing.interpolation
    # (height, width), and so are all lengths and positions below.
    lengths = graph.add_cast(graph.add_node("Shape", [picture], start=0, end=2), np.float64)
    first, last = _append_box(graph, preprocessing, lengths)
    step = graph.add_node("Div", [graph.add_cast(graph.add_node("Sub", [last, first]), np.float64), np.float64(size)])
    first, last = (graph.add_cast(end, np.float64) for end in (first, last))
    width = graph.add_node("Max", [step, np.float64(1)])  # of the filter: no narrower than a pixel of the picture
    reach = graph.add_node("Mul", [width, np.float64(_RADIUS[interpolation])])
    start = graph.add_node("Max", [graph.add_node("Floor", [graph.add_node("Sub", [first, reach])]), np.float64(0)])
    stop = graph.add_node("Min", [graph.add_node("Ceil", [graph.add_node("Add", [last, reach])]), lengths])
    start, stop = (graph.add_cast(end, np.int64) for end in (start, stop))

    def weights(axis: int) -> str:
        """Append the weights (size, length) of the pixels from start to stop."""
        one_start, one_stop, one_first, one_step, one_width = (
            graph.add_node("Gather", [x, np.int64(axis)]) for x in (start, stop, first, step, width)
        )
        centres = graph.add_node("Mul", [one_step, np.arange(size)[:, None] + 0.5])
        centres = graph.add_node("Add", [one_first, centres])
        pixels = graph.add_cast(graph.add_node("Range", [one_start, one_stop, np.int64(1)]), np.float64)
        pixels = graph.add_node("Add", [pixels, np.float64(0.5)])
        distances = graph.add_node("Abs", [graph.add_node("Sub", [pixels, centres])])
        values = _append_filter(graph, interpolation, graph.add_node("Div", [distances, one_width]))
        values = graph.add_node("Div", [values, graph.add_node("ReduceSum", [values, [1]])])
        return graph.add_cast(values, np.float32)

    kept = graph.add_node("Slice", [picture, start, stop, [0, 1]])
    channels = graph.add_cast(graph.add_node("Transpose", [kept], perm=[2, 0, 1]), np.float32)
    columns = graph.add_node("Transpose", [weights(axis=1)], perm=[1, 0])
    channels = _append_rounding(graph, graph.add_node("MatMul", [channels, columns]))
    channels = _append_rounding(graph, graph.add_node("MatMul", [weights(axis=0), channels]))
    mean, std = np.array([preprocessing.mean, preprocessing.std], dtype=np.float32)[:, :, None, None]
    values = graph.add_node("Div", [channels, np.float32(preprocessing.scale)])
    values = graph.add_node("Div", [graph.add_node("Sub", [values, mean]), std])
    graph.add_node("Unsqueeze", [values, [0]], output=output)


def _append_box(graph: OnnxGraph, preprocessing: Preprocessing, lengths: str) -> tuple[str, str]:
    """Append the ends of what is kept, in float32 as in Pillow."""
    inner = graph.add_node("Mul", [lengths, np.float64(preprocessing.crop_fraction)])
    if preprocessing.resize == "crop":
        inner = graph.add_node("ReduceMin", [inner])
    first = graph.add_node("Mul", [graph.add_node("Sub", [lengths, inner]), np.float64(0.5)])
    last = graph.add_node("Add", [first, inner])
    return graph.add_cast(first, np.float32), graph.add_cast(last, np.float32)


def _append_filter(graph: OnnxGraph, interpolation: str, x: str) -> str:
    """Append the values of a filter at distances from its centre, 0 beyond its radius."""
    inside = graph.add_node("Min", [x, np.float64(_RADIUS[interpolation])])
    if interpolation == "bilinear":
        return graph.add_node("Sub", [np.float64(1), inside])
    near = _append_polynomial(graph, inside, [_CUBIC + 2, -(_CUBIC + 3), 0, 1])
    far = _append_polynomial(graph, inside, [_CUBIC, -5 * _CUBIC, 8 * _CUBIC, -4 * _CUBIC])
    return graph.add_node("Where", [graph.add_node("Less", [x, np.float64(1)]), near, far])


def _append_polynomial(graph: OnnxGraph, x: str, coefficients: list[float]) -> str:
    """Append a polynomial by Horner's rule, the highest power first."""
    value = graph.add_node("Mul", [x, np.float64(coefficients[0])])
    for coefficient in coefficients[1:-1]:
        value = graph.add_node("Mul", [graph.add_node("Add", [value, np.float64(coefficient)]), x])
    return graph.add_node("Add", [value, np.float64(coefficients[-1])])


def _append_rounding(graph: OnnxGraph, x: str) -> str:
    """Append the nearest values of pixels, 0 to 255: Pillow rounds after each of its two passes."""
    rounded = graph.add_node("Floor", [graph.add_node("Add", [x, np.float32(0.5)])])
    return graph.add_node("Clip", [rounded, np.float32(0), np.float32(255)])
