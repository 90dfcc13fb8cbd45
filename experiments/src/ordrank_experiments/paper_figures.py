"""The figures of the paper, and the effect of its free scale."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ordrank._protocols import FloatArray, IntArray
from ordrank.estimators import CMDSMetric
from ordrank_experiments import figures
from ordrank_experiments.datasets import FGNET, UMIST
from ordrank_experiments.paper import Cell
from ordrank_experiments.paper_methods import LOCAL_WEIGHT, calibrated_cmds
from ordrank_experiments.protocol import balanced_split, errors_by_votes
from ordrank_experiments.scaling import UnitMeanSquare

ITERATIONS = (1, 3, 10, 30, 100, 300, 1000, 3000)

CAPTIONS = {
    "umist-faces": "Some examples from UMIST, by label: 2 man with glasses, 1 man without or woman with glasses, "
    "0 woman without.",
    "umist-euclidean-distances": "Euclidean distance of 30 training pictures from the first one (×). Bars are medians; "
    "a distance suited for ranking would be layered by label.",
    "umist-embedding": "The 30 training pictures under the learned map.",
    "umist-learned-distances": "The same distances under the learned map L.",
    "fgnet-faces": "Some faces from FG-NET, one row a label; landmarks if the pictures are not available.",
    "fgnet-embedding": "40 training faces, 8 of each age, under the learned map.",
    "degenerate-scale": "Test error as the paper's own objective is minimised further by its own solver from its own "
    "L⁰ = [I 0] (UMIST, n = 60, d = 150, one vote, ten splits, bands of one standard deviation). Raw pixels, published "
    "parameters: c stays at 1 and the error grows with the iterations. Features of unit mean square, γ = 1, μ = 0.002: "
    "with a free scale (L, c) shrinks towards zero and the order is lost; with c = 1 the same descent reaches the "
    "error of the Euclidean distance and then overfits.",
}


def draw_all(prepared: Mapping[str, Any]) -> dict[str, Any]:
    """Draw all figures of the prepared data sets, by name."""
    drawn: dict[str, Any] = {}
    if "umist" in prepared:
        drawn |= _umist(prepared["umist"].source, prepared["umist"].X["raw"])
    if "fgnet" in prepared:
        drawn |= _fgnet(prepared["fgnet"].source, prepared["fgnet"].X["aligned"])
    return drawn


def _umist(faces: UMIST, X: FloatArray) -> dict[str, Any]:
    people = np.unique(faces.subject)
    shown = [int(np.flatnonzero(faces.subject == person)[5 + 7 * i]) for person in people[:16] for i in range(2)]
    captions = [f"{faces.subject[i]}, label {faces.label[i]}" for i in shown]
    cell = Cell("umist", 30, 150, 5, 3)
    train, _ = balanced_split(faces.label, 30, (0, 0))
    train = train[np.argsort(faces.label[train], kind="stable")]
    samples, label = X[train][:, :150], faces.label[train]
    Z = calibrated_cmds(samples, label, cell).embed(samples)
    plain = np.linalg.norm(samples - samples[0], axis=1)
    learned = np.linalg.norm(Z - Z[0], axis=1)
    return {
        "umist-faces": figures.picture_grid([faces.images[i] for i in shown], captions, columns=8),
        "umist-euclidean-distances": figures.distances_from_one({"Euclidean": plain}, label, 0, "label"),
        "umist-embedding": figures.embedding_3d(Z, label, "UMIST under the learned map", "label"),
        "umist-learned-distances": figures.distances_from_one({"learned": learned}, label, 0, "label"),
        "degenerate-scale": _degenerate_scale(X[:, :150], faces.label),
    }


def _fgnet(faces: FGNET, X: FloatArray) -> dict[str, Any]:
    shown = [int(np.flatnonzero(faces.label == label)[3 * i]) for label in np.unique(faces.label) for i in range(5)]
    captions = [f"age {faces.age[i]}" for i in shown]
    train, _ = balanced_split(faces.label, 40, (0, 0))
    label = faces.label[train]
    Z = calibrated_cmds(X[train], label, Cell("fgnet", 40, 80, 5, 3)).embed(X[train])
    return {
        "fgnet-faces": _faces(faces, shown, captions),
        "fgnet-embedding": figures.embedding_3d(Z, label, "FG-NET under the learned map", "label"),
    }


def _faces(faces: FGNET, shown: list[int], captions: list[str]) -> Any:
    files = [Path(faces.image_file[i]) for i in shown]
    if not all(file.is_file() for file in files):
        return figures.landmark_grid([faces.points[i] for i in shown], captions, columns=5)
    from PIL import Image

    pictures = []
    for file in files:
        with Image.open(file) as picture:
            pictures.append(np.asarray(picture.convert("RGB")))
    return figures.picture_grid(pictures, captions, columns=5)


def _degenerate_scale(X: FloatArray, y: IntArray) -> Any:
    variants: dict[str, tuple[Any, CMDSMetric]] = {
        "raw pixels, published parameters": ("passthrough", CMDSMetric(3)),
        "unit features, scale free": (UnitMeanSquare(), CMDSMetric(3, gamma=1.0, mu=LOCAL_WEIGHT)),
        "unit features, scale fixed at 1": (UnitMeanSquare(), CMDSMetric(3, gamma=1.0, mu=LOCAL_WEIGHT, scale="fixed")),
    }
    found: dict[str, list[FloatArray]] = {name: [] for name in variants}
    plain = []
    for repeat in range(10):
        train, test = balanced_split(y, 60, (0, repeat))
        plain.append(errors_by_votes(X[train], y[train], X[test], y[test])[0])
        for name, (scaler, metric) in variants.items():
            Z = X if isinstance(scaler, str) else scaler.fit(X[train]).transform(X)
            found[name].append(_errors_by_iteration(metric, Z[train], y[train], Z[test], y[test]))
    lines = {name: (np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1)) for name, rows in found.items()}
    return figures.curves(
        ITERATIONS,
        lines,
        xlabel="iterations of the paper's steepest descent",
        ylabel="test MAE",
        levels={"Euclidean": float(np.mean(plain))},
    )


def _errors_by_iteration(metric: CMDSMetric, A: FloatArray, yA: IntArray, B: FloatArray, yB: IntArray) -> FloatArray:
    """Return the test error of 1-NN after each number of iterations."""
    errors = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # early stops are intended
        for n_iter in ITERATIONS:
            metric.set_params(max_iter=n_iter).fit(A, yA)
            errors.append(errors_by_votes(metric.transform(A), yA, metric.transform(B), yB)[0])
    return np.array(errors)
