"""Grades of photographs by a ranker on frozen or on fine-tuned features, and by the outputs of fine-tuned networks."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank import OrdinalRanker, metrics
from ordrank._protocols import FloatArray, Progress, Ranking, no_progress
from ordrank.errors import InsufficientMemoryError
from ordrank_experiments.datasets import PhotoFiles
from ordrank_experiments.photo_splits import SEED, PhotoSplit, limit_training, split_photos
from ordrank_experiments.scores import grade_scores

FROZEN = "frozen"
COVERAGE = 0.9
NEAREST = 3  # of which the share of the query's person is counted
AGE_GROUP = 5  # years that count as one grade there: few people have two pictures of the same age
FIXED_TEST_RULES = ("own parts",)  # whose repeats have the same test pictures

Transform: TypeAlias = Callable[[Sequence[Path]], NDArray[np.float32]]


@dataclass(frozen=True)
class Training:
    """What all fits have in common; None leaves a choice to OrdinalNetwork.

    Attributes
    ----------
    device : {"cpu", "cuda"}
    backbone : str
    image_size, steps : int, optional
        Parameters of OrdinalNetwork.
    max_train : int, optional
        Largest number of training pictures; by default all of the split.
    """

    device: str = "cpu"
    backbone: str = "efficientnet-lite0"
    image_size: int | None = None
    steps: int | None = None
    max_train: int | None = None


@dataclass(frozen=True, order=True)
class PhotoFit:
    """One fit on one split, the unit of work; ``features`` are frozen, or tuned by the loss of that name."""

    data: str
    rule: str
    repeat: int
    features: str

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that predict from this fit."""
        return (FROZEN,) if self.features == FROZEN else (self.features, outputs_of(self.features))


@dataclass(frozen=True)
class PhotoScore:
    """Scores of one method on one split; None where not applicable.

    Attributes
    ----------
    data, rule, repeat, method
        The split and the method.
    n_train, n_test : int
    failure : str or None
        Why there are no scores.
    mae, accuracy, kappa, tau : float or None
        Of the estimates; for accuracy and quadratically weighted κ they are rounded to the nearest grade.
    same_subject, same_subject_in_grade : float or None
        Share of the three nearest training pictures, of all or of the query's group of five years, that show the
        query's person.
    possible_in_grade : float or None
        The highest possible ``same_subject_in_grade``.
    coverage, width : float or None
        Share of the test pictures inside their 90 % intervals, and mean width of these; None for outputs.
    fit_seconds : float or None
        Of the whole fit, from picture files.
    errors : tuple of float, or None
        Absolute error of each test picture, if these are the same in all repeats.
    """

    data: str
    rule: str
    repeat: int
    method: str
    n_train: int
    n_test: int
    failure: str | None = None
    mae: float | None = None
    accuracy: float | None = None
    kappa: float | None = None
    tau: float | None = None
    same_subject: float | None = None
    same_subject_in_grade: float | None = None
    possible_in_grade: float | None = None
    coverage: float | None = None
    width: float | None = None
    fit_seconds: float | None = None
    errors: tuple[float, ...] | None = None


def outputs_of(loss: str) -> str:
    """Return the name of the method that predicts from the outputs of a network trained with this loss."""
    return f"{loss} outputs"


def read_photo_scores(record: Mapping[str, Any]) -> tuple[PhotoFit, list[PhotoScore]]:
    """Convert a record of the checkpoint file to a fit and its scores."""
    return PhotoFit(**record["unit"]), [_read_score(fields) for fields in record["outcomes"]]


def _read_score(fields: Mapping[str, Any]) -> PhotoScore:
    errors = fields["errors"]
    return PhotoScore(**{**fields, "errors": None if errors is None else tuple(errors)})


def run_fit(
    fit: PhotoFit, photos: PhotoFiles, training: Training, seed: int = SEED, progress: Progress = no_progress
) -> list[PhotoScore]:
    """Fit on the training pictures of a split and score every method on its test pictures.

    Data that a method cannot be fitted to, or estimates that are not finite, become the ``failure`` of its scores.
    Raise InsufficientMemoryError if the memory does not suffice: another program may need less of it later.
    """
    from ordrank.deep.training import memory_errors

    split = limit_training(split_photos(photos, fit.rule, fit.repeat, seed), training.max_train, fit.repeat, seed)
    fields: dict[str, Any] = {"data": fit.data, "rule": fit.rule, "repeat": fit.repeat}
    fields |= {"n_train": len(split.train), "n_test": len(split.test)}
    try:
        with memory_errors(training.device), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # grades of few samples
            found = _score(fit, photos, split, training, seed + fit.repeat, progress)
    except InsufficientMemoryError:
        raise
    except ValueError as error:
        failure = f"failed with {type(error).__name__}: {error}"
        return [PhotoScore(**fields, method=method, failure=failure) for method in fit.methods]
    return [PhotoScore(**fields, method=method, **scores) for method, scores in found.items()]


def _score(
    fit: PhotoFit, photos: PhotoFiles, split: PhotoSplit, training: Training, random_state: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return the scores by method."""
    y, y_test = photos.grade[split.train], photos.grade[split.test]
    files, test_files = ([photos.files[i] for i in rows] for rows in (split.train, split.test))
    begin = time.perf_counter()
    if fit.features == FROZEN:
        transform, ranker = _fit_frozen(files, y, split, training)
        fit_seconds, outputs = time.perf_counter() - begin, {}
    else:
        network = _fit_network(fit.features, files, y, split, training, random_state, progress)
        fit_seconds, transform, ranker = time.perf_counter() - begin, network.transform, network.ranker_
        outputs = {outputs_of(fit.features): network.predict_from_outputs(test_files)}
    X_test = transform(test_files)
    scores = {}
    for method, estimates in {fit.features: ranker.predict(X_test), **outputs}.items():
        scores[method] = grade_scores(np.asarray(estimates, dtype=np.float64), y, y_test) | {"fit_seconds": fit_seconds}
        if fit.rule not in FIXED_TEST_RULES:
            scores[method]["errors"] = None
    scores[fit.features] |= _interval_scores(ranker.predict_interval(X_test, COVERAGE), y_test)
    scores[fit.features] |= _subject_scores(ranker, X_test, photos, split)
    return scores


def _fit_frozen(
    files: Sequence[Path], y: FloatArray, split: PhotoSplit, training: Training
) -> tuple[Transform, OrdinalRanker]:
    """Return the pretrained network, and a ranker on its features."""
    import torch

    from ordrank.deep import backbones
    from ordrank.deep.embedding import extract

    backbone = backbones.load_backbone(training.backbone, training.image_size)
    backbone.module.eval().to(training.device, memory_format=torch.channels_last)

    def transform(files: Sequence[Path]) -> NDArray[np.float32]:
        return extract([(backbone.module, backbone.dim)], files, backbone.preprocessing)[0]

    return transform, OrdinalRanker().fit(transform(files), y, groups=split.groups)


def _fit_network(
    loss: str,
    files: Sequence[Path],
    y: FloatArray,
    split: PhotoSplit,
    training: Training,
    random_state: int,
    progress: Progress,
) -> Any:
    from ordrank.deep import OrdinalNetwork

    network = OrdinalNetwork(
        training.backbone,
        loss=loss,
        steps=training.steps,
        image_size=training.image_size,
        device=training.device,
        random_state=random_state,
        progress=progress,
    )
    return network.fit(files, y, split.groups)


def _interval_scores(intervals: Any, y_test: FloatArray) -> dict[str, float]:
    lowest, highest = np.asarray(intervals, dtype=np.float64).T
    inside = (lowest <= y_test) & (y_test <= highest)
    return {"coverage": float(inside.mean()), "width": float((highest - lowest).mean())}


def _subject_scores(
    ranker: OrdinalRanker, X_test: NDArray[np.float32], photos: PhotoFiles, split: PhotoSplit
) -> dict[str, float | None]:
    """Return the shares of pictures of the query's person, none if no person is in both parts."""
    people, queries = photos.group[split.train], photos.group[split.test]
    if not np.isin(queries[queries != ""], people).any():
        return {}
    y, y_test = photos.grade[split.train] // AGE_GROUP, photos.grade[split.test] // AGE_GROUP
    everything = ranker.rank(X_test, k=len(people))
    grouped = Ranking(everything.indices, everything.distances, y[everything.indices])
    inside = metrics.inside_grade(grouped, y_test, NEAREST)
    same_grade = y_test[:, None] == y
    shown = np.minimum(same_grade.sum(axis=1), NEAREST)
    possible = np.minimum((same_grade & (queries[:, None] == people)).sum(axis=1), NEAREST)
    return {
        "same_subject": metrics.same_subject_precision(ranker.rank(X_test, k=NEAREST), people, queries),
        "same_subject_in_grade": metrics.same_subject_precision(inside, people, queries) if shown.any() else None,
        "possible_in_grade": float(possible.sum() / shown.sum()) if shown.any() else None,
    }
