"""The model of a collection on disk: arrays as safetensors, everything else as JSON, with a checksum over both."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ordrank.collection.projection import Projection
from ordrank.errors import CollectionError
from ordrank.estimators import OrdinalMetric
from ordrank.pages import write_files

FORMAT = 3
_SUFFIXES = (".safetensors", ".json")
_NAME = re.compile("model-[0-9a-f]{16}")
_ARRAYS = ("mean_", "labels_", "label_positions_", "order_components_", "offset_")
_ARRAYS_OF_KERNEL = ("lens_directions_", "lens_stretches_", "landmarks_", "coefficients_")
_NUMBERS = (
    "size_",
    "sharpness_",
    "sharpnesses_",
    "lens_size_",
    "alpha_",
    "nu_",
    "locality_",
    "kernel_",
    "n_components_",
    "n_features_in_",
)


@dataclass(frozen=True)
class Model:
    """From features to places and grades.

    Attributes
    ----------
    fingerprint : str
        Of the extractor whose features it takes.
    projection : Projection
    metric : OrdinalMetric
        Fitted on projected features.
    n_votes : int
        Graded neighbours that vote for a grade.
    weights : {"distance", "uniform"}
        How their votes count.
    """

    fingerprint: str
    projection: Projection
    metric: OrdinalMetric
    n_votes: int
    weights: str

    @property
    def n_order(self) -> int:
        """Leading coordinates of a place that hold the order; the others hold the appearance."""
        return int(self.metric.n_components_)

    def choices(self) -> dict[str, Any]:
        """What was chosen when it was trained."""
        chosen = {name: getattr(self.metric, f"{name}_") for name in ("kernel", "sharpness", "alpha", "nu", "locality")}
        return chosen | {"votes": self.n_votes, "weights": self.weights}

    def place(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features (n, dim) to places (n, s + d)."""
        return self.place_projected(self.projection(features))

    def place_projected(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Projected features (n, p) to places (n, s + d)."""
        return np.asarray(self.metric.transform(X), dtype=np.float32)


def serialize_model(model: Model) -> tuple[str, dict[str, bytes]]:
    """Return the name of a model, which is its checksum, and its files."""
    arrays = save(_arrays(model))
    numbers = {name: getattr(model.metric, name) for name in _NUMBERS}
    text = {
        "format": FORMAT,
        "fingerprint": model.fingerprint,
        "metric": {name: value.item() if isinstance(value, np.generic) else value for name, value in numbers.items()},
        "votes": {"number": int(model.n_votes), "weights": model.weights},
        "sha256": hashlib.sha256(arrays).hexdigest(),
    }
    described = json.dumps(text, indent=1, sort_keys=True).encode()
    name = f"model-{hashlib.sha256(described).hexdigest()[:16]}"
    return name, {f"{name}.safetensors": arrays, f"{name}.json": described}


def write_model(directory: Path, model: Model) -> str:
    """Write a model beside those that are there and return its name."""
    name, files = serialize_model(model)
    write_files(directory, files)
    return name


def read_model(directory: Path, name: str, fingerprint: str) -> Model:
    """Read a model; a damaged one, or one for other features, is refused.

    Parameters
    ----------
    directory : Path
    name : str
        What :func:`write_model` returned.
    fingerprint : str
        Of the features that it shall take.
    """
    described, arrays = _read(directory / f"{name}.json"), _read(directory / f"{name}.safetensors")
    text = _parse(directory / f"{name}.json", described, name)
    if text["format"] != FORMAT:
        raise CollectionError(
            f"{directory / name}.json has the format {text['format']}, this version of ordrank reads {FORMAT}; "
            f"use the version that made it, or train the model again with `ordrank fit --out {directory}`"
        )
    if hashlib.sha256(arrays).hexdigest() != text["sha256"]:
        raise _damaged(directory / f"{name}.safetensors")
    if text["fingerprint"] != fingerprint:
        raise CollectionError(
            f"the model of {directory} was trained on features of {text['fingerprint']}, not of {fingerprint}; "
            "train it again with `ordrank fit`"
        )
    try:
        return _build(text, load(arrays))
    except (KeyError, SafetensorError) as error:
        raise _damaged(directory / f"{name}.safetensors") from error


def has_files(directory: Path, name: str) -> bool:
    """Return whether a model has files, or an interrupted write has left some."""
    return _is_model_name(name) and any(any(directory.glob(f"{dot}{name}.*")) for dot in ("", "."))


def remove_model(directory: Path, name: str) -> None:
    """Delete the files of one model, and what an interrupted write has left of them; nothing else."""
    if _is_model_name(name):
        remove_unfinished(directory, name)
        for suffix in _SUFFIXES:
            (directory / f"{name}{suffix}").unlink(missing_ok=True)


def remove_unfinished(directory: Path, name: str) -> None:
    """Delete the temporary files that an interrupted write of a model has left."""
    if _is_model_name(name):
        for suffix in _SUFFIXES:
            for file in directory.glob(f".{name}{suffix}.*"):
                file.unlink(missing_ok=True)


def _is_model_name(name: str) -> bool:
    """Return whether a name is that of a model; the records of a damaged collection could name any file."""
    return _NAME.fullmatch(name) is not None


def _arrays(model: Model) -> dict[str, NDArray[Any]]:
    names = (*_ARRAYS, *_arrays_of_kind(model.metric))
    found = {name: np.ascontiguousarray(getattr(model.metric, name)) for name in names}
    return found | {"projection.mean": model.projection.mean, "projection.components": model.projection.components}


def _arrays_of_kind(metric: OrdinalMetric) -> tuple[str, ...]:
    return _ARRAYS_OF_KERNEL if metric.kernel_ == "rbf" else ()


def _build(text: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Model:
    projection = Projection(arrays["projection.mean"], arrays["projection.components"])
    metric = OrdinalMetric()
    for name in _NUMBERS:
        setattr(metric, name, text["metric"][name])
    for name in (*_ARRAYS, *_arrays_of_kind(metric)):
        setattr(metric, name, arrays[name])
    return Model(text["fingerprint"], projection, metric, text["votes"]["number"], text["votes"]["weights"])


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        raise CollectionError(
            f"{file} is missing; train the model again with `ordrank fit --out {file.parent}`"
        ) from None


def _parse(file: Path, described: bytes, name: str) -> dict[str, Any]:
    if f"model-{hashlib.sha256(described).hexdigest()[:16]}" != name:
        raise _damaged(file)
    text: dict[str, Any] = json.loads(described)
    return text


def _damaged(file: Path) -> CollectionError:
    return CollectionError(
        f"{file} is damaged: its content does not match its checksum; train the model again with "
        f"`ordrank fit --out {file.parent}`"
    )
