"""Automatic choice of features: those that are installed are compared on a sample of the graded pictures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import Extractor, FloatArray, IntArray, Progress, no_progress
from ordrank.collection.ingest.importing import Reader
from ordrank.collection.ingest.reading import ReadPicture
from ordrank.collection.projection import fit_projection
from ordrank.collection.reports import FeatureChoice
from ordrank.collection.search import Groups
from ordrank.collection.types import BadPicture
from ordrank.features.concatenated import Concatenated, unit_length
from ordrank.features.pretrained import PRETRAINED
from ordrank.features.registry import find_extractor, installed_features

AUTO = "auto"
# Graded pictures that are compared: enough to tell features apart that differ by a tenth, in some seconds.
MAX_SAMPLE, _MIN_SAMPLE = 400, 30


@dataclass(frozen=True)
class SelectedFeatures:
    """The extractor, why it was chosen, and the pictures that were read with it on the way, by name."""

    extractor: Extractor | None = None  # None for that of the collection
    choice: FeatureChoice | None = None  # None if it was named
    read: Mapping[str, ReadPicture] = field(default_factory=dict)


def select_features(
    files: Sequence[tuple[str, Path]],
    grades: Mapping[str, float],
    groups: Mapping[str, str],
    read: Reader,
    *,
    device: str,
    progress: Progress,
) -> SelectedFeatures:
    """Compare all installed features, alone and side by side, and return the best.

    The best alone is extended by the one that lowers the leave-one-out error most, as long as it lowers it by more than
    a standard error: more features take longer for every picture.

    Parameters
    ----------
    files : sequence of (name, path)
    grades, groups : mapping
        By name.
    read : Reader
    device : {"cpu", "cuda"}
        Where networks compute.
    progress : Progress
    """
    names = installed_features()
    extractors = {name: find_extractor(name, device=device if name in PRETRAINED else "cpu") for name in names}
    graded = [(name, path) for name, path in files if name in grades]
    sample = [graded[i] for i in np.random.default_rng(0).permutation(len(graded))[:MAX_SAMPLE]]
    not_compared = SelectedFeatures(extractors[names[-1]], FeatureChoice(names[-1], {}, 0, _advice(names)))
    if len(names) == 1 or len(sample) < _MIN_SAMPLE:
        return not_compared
    pictures = _read_sample(sample, list(extractors.values()), read, progress)
    y = np.array([grades[picture.name] for picture in pictures])
    blocks = _blocks(pictures, extractors) if len(pictures) >= _MIN_SAMPLE else {}
    if not blocks or len(np.unique(y)) < 2:
        return not_compared
    together = Groups.from_names(np.arange(len(y)), [groups.get(picture.name) for picture in pictures]).codes
    chosen, errors = compare_features(blocks, y, together, progress)
    parts = [extractors[name] for name in chosen]
    extractor = parts[0] if len(parts) == 1 else Concatenated(parts)
    vectors = side_by_side([blocks[name] for name in chosen])
    known = {p.name: replace(p, features=row) for p, row in zip(pictures, vectors, strict=True)}
    return SelectedFeatures(extractor, FeatureChoice("+".join(chosen), errors, len(y), _advice(names)), known)


def reuse(read: Reader, known: Mapping[str, ReadPicture]) -> Reader:
    """Return a reader that does not read again what is known, by name."""

    def read_others(files: Sequence[tuple[str, Path]], extractor: Extractor) -> Iterator[ReadPicture | BadPicture]:
        others = read([file for file in files if file[0] not in known], extractor)
        for name, _ in files:
            yield known[name] if name in known else next(others)

    return read_others


def _read_sample(
    sample: Sequence[tuple[str, Path]], extractors: Sequence[Extractor], read: Reader, progress: Progress
) -> list[ReadPicture]:
    """Return the pictures of a sample that can be read, with the features of all extractors in a row."""
    stage, pictures = f"reading {len(sample)} graded pictures to compare features", list[ReadPicture]()
    progress(stage, 0, 0)
    for number, outcome in enumerate(read(sample, Concatenated(extractors, scaled=False))):
        if isinstance(outcome, ReadPicture):  # others are reported when all pictures are read
            pictures.append(outcome)
        progress(stage, number + 1, len(sample))
    return pictures


def _blocks(pictures: Sequence[ReadPicture], extractors: Mapping[str, Extractor]) -> dict[str, NDArray[np.float32]]:
    """Return the features (n, dim) by name, without those that are the same for all pictures."""
    features = np.stack([picture.features for picture in pictures])
    ends = np.cumsum([0, *(extractor.dim for extractor in extractors.values())])
    blocks = {name: features[:, start:end] for name, (start, end) in zip(extractors, pairwise(ends), strict=True)}
    return {name: block for name, block in blocks.items() if np.ptp(block, axis=0).any()}


def compare_features(
    blocks: Mapping[str, NDArray[np.float32]],
    y: FloatArray,
    groups: IntArray | None,
    progress: Progress = no_progress,
) -> tuple[tuple[str, ...], dict[str, float]]:
    """Return the best features by greedy forward selection, and the errors of all that were compared."""
    errors: dict[tuple[str, ...], FloatArray] = {}

    def error(names: tuple[str, ...]) -> float:
        progress(f"comparing features: {'+'.join(names)}", 0, 0)
        errors[names] = _loo_errors(side_by_side([blocks[name] for name in names]), y, groups)
        return float(errors[names].mean())

    alone: list[tuple[str, ...]] = [(name,) for name in blocks]
    best = min(alone, key=error)
    while len(best) < len(blocks):
        wider = [tuple(name for name in blocks if name in (*best, other)) for other in blocks if other not in best]
        candidate = min(wider, key=error)
        gain = errors[best] - errors[candidate]
        if gain.mean() <= gain.std() / np.sqrt(len(gain)):
            break
        best = candidate
    return best, {"+".join(names): float(each.mean()) for names, each in errors.items()}


def side_by_side(blocks: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the features (n, dim) that :class:`Concatenated` extracts; one block stays as it is."""
    return blocks[0] if len(blocks) == 1 else np.hstack([unit_length(block) for block in blocks])


def _loo_errors(features: NDArray[np.float32], y: FloatArray, groups: IntArray | None) -> FloatArray:
    """Return the leave-one-out absolute errors (n,) of the default model."""
    from ordrank.collection.train import fit_ranker, held_out_errors  # late: imports scikit-learn

    X = fit_projection([features])(features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about this sample, not about the collection
        return held_out_errors(fit_ranker(X, y, groups, balanced=False), y)


def _advice(names: Sequence[str]) -> str | None:
    if any(name in PRETRAINED for name in names):
        return None
    return "a pretrained network grades photographs much better than pixels: pip install 'ordrank[photos]'"
