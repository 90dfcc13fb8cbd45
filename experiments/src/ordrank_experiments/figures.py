"""Figures: distances from one sample, embeddings, ranked pictures, errors.

Colours are from viridis, whose luminance is monotonic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure without a window."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), dpi=130, layout="constrained")


def grade_colours(n_grades: int) -> NDArray[np.float64]:
    """Return one colour per grade, dark to light, (n_grades, 4)."""
    from matplotlib import colormaps

    return np.asarray(colormaps["viridis"](np.linspace(0.0, 0.95, n_grades)))


def as_bytes(figure: Figure, form: str = "png") -> bytes:
    """Render a figure as a PNG or PDF file."""
    buffer = BytesIO()
    # Without dates, equal figures are equal files.
    figure.savefig(buffer, format=form, metadata={"CreationDate": None} if form == "pdf" else None)
    return buffer.getvalue()


def distances_from_one(
    panels: Mapping[str, FloatArray], labels: Sequence[Any] | NDArray[Any], anchor: int, grade_name: str = "grade"
) -> Figure:
    """Plot the distance of every sample from one, grouped by label, one panel a metric, as in the paper.

    Parameters
    ----------
    panels : mapping of title to ndarray of shape (n,)
        Distances from the anchor.
    labels : sequence of length n
    anchor : int
        Index of the sample that distances are from.
    grade_name : str
        Word for a label.
    """
    labels = np.asarray(labels)
    figure = new_figure(5.2 * len(panels), 3.6)
    distinct = np.unique(labels)
    colours = grade_colours(len(distinct))
    order = np.argsort(labels, kind="stable")
    position = np.empty(len(labels), dtype=int)
    position[order] = np.arange(len(labels))
    for axes, (title, distances) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels.items(), strict=True):
        for label, colour in zip(distinct, colours, strict=True):
            members = np.flatnonzero(labels == label)
            level = np.median(distances[members])
            axes.scatter(position[members], distances[members], s=14, color=colour, edgecolor="0.3", linewidth=0.3)
            axes.hlines(level, position[members].min(), position[members].max(), color="0.15", linewidth=1.6)
        axes.plot(position[anchor], distances[anchor], "x", color="tab:red", markersize=9, markeredgewidth=2)
        centres = [position[labels == label].mean() for label in distinct]
        axes.set_xticks(centres, [f"{grade_name} {label:g}" for label in distinct])
        axes.tick_params(axis="x", length=0)
        axes.set(title=title, ylabel="distance from the sample marked ×", ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def embedding_3d(
    points: FloatArray, labels: Sequence[Any] | NDArray[Any], title: str, grade_name: str = "grade"
) -> Figure:
    """Plot the first three dimensions of embedded samples (n, s), coloured by label."""
    labels = np.asarray(labels)
    padded = np.pad(points[:, :3], ((0, 0), (0, max(0, 3 - points.shape[1]))))
    figure = new_figure(6.4, 5.2)
    axes = figure.add_subplot(projection="3d")
    distinct = np.unique(labels)
    for label, colour in zip(distinct, grade_colours(len(distinct)), strict=True):
        members = padded[labels == label]
        axes.scatter(*members.T, s=18, color=colour, edgecolor="0.3", linewidth=0.3, label=f"{grade_name} {label:g}")
    # Equal axes: a dimension of small variance looks flat.
    middle, half = (padded.max(axis=0) + padded.min(axis=0)) / 2, np.ptp(padded, axis=0).max() / 2 or 1.0
    limits = {f"{axis}lim": (m - half, m + half) for axis, m in zip("xyz", middle, strict=True)}
    axes.set(title=title, xlabel="$z_1$", ylabel="$z_2$", zlabel="$z_3$", **limits)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 0.9), frameon=False)
    return figure


@dataclass(frozen=True)
class StripRow:
    """One query and its nearest pictures under a metric.

    Attributes
    ----------
    metric : str
        Name of the metric.
    query : ndarray
        Picture.
    query_caption : str
    results : sequence of ndarray
        Pictures, nearest first.
    captions : sequence of str
        Of the results.
    right : sequence of bool
        Whether each result has the query's grade; the others are framed.
    """

    metric: str
    query: NDArray[np.uint8]
    query_caption: str
    results: Sequence[NDArray[np.uint8]]
    captions: Sequence[str]
    right: Sequence[bool]


def ranking_strips(rows: Sequence[StripRow]) -> Figure:
    """Draw each query and its nearest pictures in a row; a dashed frame marks another grade."""
    columns = 1 + max(len(row.results) for row in rows)
    figure = new_figure(1.05 * columns + 0.6, 1.38 * len(rows))
    grid = figure.subplots(len(rows), columns, squeeze=False, width_ratios=[1.25] + [1] * (columns - 1))
    for axes_row, row in zip(grid, rows, strict=True):
        for axes in axes_row:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
        axes_row[0].imshow(row.query)
        axes_row[0].set_ylabel(row.metric, fontsize=9)
        axes_row[0].set_xlabel(row.query_caption, fontsize=8, fontweight="bold")
        for axes, picture, caption, right in zip(axes_row[1:], row.results, row.captions, row.right, strict=False):
            axes.imshow(picture)
            axes.set_xlabel(caption, fontsize=8)
            if not right:
                axes.spines[:].set(visible=True, color="tab:red", linewidth=2, linestyle="--")
    return figure


def picture_grid(pictures: Sequence[NDArray[Any]], captions: Sequence[str], columns: int) -> Figure:
    """Draw pictures in rows, each with a caption."""
    figure, cells = _grid(captions, columns, width=1.05, height=1.5)
    for axes, picture in zip(cells, pictures, strict=True):
        axes.imshow(picture, cmap="gray")
    return figure


def landmark_grid(faces: Sequence[FloatArray], captions: Sequence[str], columns: int) -> Figure:
    """Draw faces given by landmarks (68, 2), y downwards."""
    figure, cells = _grid(captions, columns, width=1.6, height=1.9)
    for axes, face in zip(cells, faces, strict=True):
        axes.scatter(*face.T, s=5, color="0.2")
        axes.set_aspect("equal")
        axes.invert_yaxis()
    return figure


def _grid(captions: Sequence[str], columns: int, *, width: float, height: float) -> tuple[Figure, list[Any]]:
    """Return a figure and one cell without axes for each caption."""
    rows = -(-len(captions) // columns)
    figure = new_figure(width * columns, height * rows)
    cells = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in cells:
        axes.set_axis_off()
    for axes, caption in zip(cells, captions, strict=False):
        axes.set_title(caption, fontsize=7)
    return figure, cells[: len(captions)]


def curves(
    x: Sequence[float],
    lines: Mapping[str, tuple[FloatArray, FloatArray]],
    *,
    xlabel: str,
    ylabel: str,
    levels: Mapping[str, float],
) -> Figure:
    """Plot means with bands of one standard deviation over a logarithmic axis, and horizontal reference levels."""
    figure = new_figure(7.2, 4.2)
    axes = figure.subplots()
    styles = (("#0072B2", "-o"), ("#D55E00", "--s"), ("#009E73", ":^"), ("#CC79A7", "-.v"))
    for (name, (mean, std)), (colour, style) in zip(lines.items(), styles, strict=False):
        axes.plot(x, mean, style, color=colour, label=name, markersize=5)
        axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
    for name, level in levels.items():
        axes.axhline(level, color="0.4", linewidth=1)
        axes.annotate(name, (x[0], level), textcoords="offset points", xytext=(0, 3), fontsize=8, color="0.3")
    axes.set_xscale("log")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


@dataclass(frozen=True)
class Dot:
    """One method in a panel of :func:`dot_plot`; without a mean it is listed with ``missing`` as the reason."""

    name: str
    mean: float | None
    spread: float
    kind: str
    missing: str = "not run"


_KINDS = {"default": ("#0072B2", "#0072B2"), "transductive": ("#0072B2", "white"), "paper": ("#D55E00", "#D55E00")}


def dot_plot(panels: Mapping[str, Sequence[Dot]], xlabel: str) -> Figure:
    """Plot mean and standard deviation of each method, the first at the top, one panel a condition."""
    columns = min(3, len(panels))
    rows, tallest = -(-len(panels) // columns), max(len(dots) for dots in panels.values())
    figure = new_figure(5.0 * columns, (0.24 * tallest + 1.0) * rows)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes, (title, dots) in zip(grid, panels.items(), strict=False):
        for height, dot in enumerate(dots):
            edge, face = _KINDS.get(dot.kind, ("0.35", "0.35"))
            if dot.mean is None:
                axes.text(0.02, height, dot.missing, transform=axes.get_yaxis_transform(), va="center", fontsize=7)
                continue
            axes.errorbar(dot.mean, height, xerr=dot.spread, color=edge, linewidth=1.2, zorder=1)
            axes.scatter(dot.mean, height, s=34, color=face, edgecolor=edge, zorder=2)
        axes.set_yticks(range(len(dots)), [dot.name for dot in dots], fontsize=8)
        for tick, dot in zip(axes.get_yticklabels(), dots, strict=True):
            tick.set(color=_KINDS.get(dot.kind, ("0.1",))[0], fontweight="bold" if dot.kind == "default" else "normal")
        axes.set(title=title, xlabel=xlabel, ylim=(len(dots) - 0.5, -0.5))
        axes.grid(axis="x", color="0.9")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    return figure
