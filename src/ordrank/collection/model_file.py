"""The model of a collection on disk: arrays as safetensors, the rest as JSON, with a checksum over both.

Reading a model does not import scikit-learn.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from ordrank.collection.model_checks import check_arrays, check_values
from ordrank.collection.projection import Projection
from ordrank.collection.types import Header
from ordrank.errors import CollectionError
from ordrank.estimators import OrdinalEmbedding
from ordrank.estimators._distribution import GradeDistribution

if TYPE_CHECKING:
    from ordrank.estimators import OrdinalRanker

MODEL_FORMAT = 5
_NAME = re.compile("model-[0-9a-f]{16}")
_SUFFIXES = (".safetensors", ".json")
_MAX_BYTES = 2**30  # of a file; those of models have some megabytes


@dataclass(frozen=True)
class Model:
    """Map from features to embeddings, and how neighbours vote on grades.

    Attributes
    ----------
    fingerprint : str
        Of the extractor whose features it takes.
    projection : Projection
    embedding : OrdinalEmbedding
        Of projected features.
    hyperparameters : dict
        Selected kernel, sharpness, alpha and nu.
    distribution : GradeDistribution
        From neighbours to probabilities of grades.
    """

    fingerprint: str
    projection: Projection
    embedding: OrdinalEmbedding
    hyperparameters: dict[str, Any]
    distribution: GradeDistribution

    @classmethod
    def from_ranker(cls, fingerprint: str, projection: Projection, ranker: OrdinalRanker) -> Model:
        """Return the model of a fitted ranker with the default metric."""
        metric = ranker.metric_
        selected = {
            "kernel": metric.kernel_,
            "sharpness": metric.sharpness_,
            "alpha": float(metric.alpha_),
            "nu": float(metric.nu_),
        }
        return cls(fingerprint, projection, metric.ordinal_embedding_, selected, ranker.grade_distribution_)

    @property
    def n_order(self) -> int:
        """Number of leading columns of an embedding that hold the order; the others hold the appearance."""
        return self.embedding.n_components

    @property
    def n_held_out(self) -> int:
        """Numbers that tell what a picture is without its own grade, see :class:`EmbeddedBatch`."""
        distribution = self.distribution
        return self.n_order + (len(distribution.labels) if distribution.threshold_weight > 0 else 0)

    def check_embeddings(self, vectors: NDArray[np.float32]) -> None:
        """Raise CollectionError if vectors (n, s + d) cannot be embeddings of this model."""
        if vectors.shape[1] != self.embedding.n_features_out:
            raise CollectionError("the embeddings are not those of the model; train it again with `ordrank fit`")

    def choices(self) -> dict[str, Any]:
        """Return what was selected in training."""
        distribution = self.distribution
        votes = {
            "votes": distribution.n_neighbors,
            "weights": distribution.weights,
            "frequency_weight": distribution.frequency_weight,
            "threshold_weight": distribution.threshold_weight,
        }
        return {**self.hyperparameters, "locality": self.embedding.locality, **votes}

    def embed(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return embeddings (n, s + d) of features (n, dim)."""
        return self.embed_projected(self.projection(features))

    def embed_projected(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return embeddings (n, s + d) of projected features (n, p)."""
        return np.asarray(self.embedding.transform(X), dtype=np.float32)


def serialize_model(model: Model) -> tuple[str, dict[str, bytes]]:
    """Return the name of a model, which is its checksum, and the contents of its files by file name."""
    arrays, numbers = model.embedding.to_arrays()
    arrays |= {"projection.mean": model.projection.mean, "projection.components": model.projection.components}
    of_distribution, values = model.distribution.to_arrays()
    data = save(arrays | {f"distribution.{name}": array for name, array in of_distribution.items()})
    text = {
        "format": MODEL_FORMAT,
        "fingerprint": model.fingerprint,
        "embedding": numbers,
        "hyperparameters": model.hyperparameters,
        "distribution": values,
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    described = json.dumps(text, indent=1, sort_keys=True).encode()
    name = f"model-{hashlib.sha256(described).hexdigest()[:16]}"
    return name, {f"{name}.safetensors": data, f"{name}.json": described}


def read_model(directory: Path, name: str, fingerprint: str, dim: int) -> Model:
    """Read a model; raise CollectionError if it is damaged or for other features.

    Parameters
    ----------
    directory : Path
    name : str
        From :func:`serialize_model`.
    fingerprint, dim : str and int
        Of the features to embed.
    """
    if not is_model_name(name):
        raise CollectionError(f"{directory} names no model; train it again with `ordrank fit --out {directory}`")
    described, arrays = _read(directory / f"{name}.json"), _read(directory / f"{name}.safetensors")
    text = _parse(directory / f"{name}.json", described, name)
    if text.get("format") != MODEL_FORMAT:
        raise CollectionError(
            f"{directory / name}.json has the format {text.get('format')!s:.9}, this version of ordrank reads "
            f"{MODEL_FORMAT}; use the version that made it, or train the model again with "
            f"`ordrank fit --out {directory}`"
        )
    if hashlib.sha256(arrays).hexdigest() != text.get("sha256"):
        raise _damaged(directory / f"{name}.safetensors")
    if text.get("fingerprint") != fingerprint:
        raise CollectionError(
            f"the model of {directory} was trained on features of {text.get('fingerprint')!s:.200}, not of "
            f"{fingerprint}; train it again with `ordrank fit`"
        )
    try:
        return _build(text, load(arrays), dim)
    except (KeyError, ValueError, SafetensorError) as error:
        raise _damaged(directory / f"{name}.safetensors", str(error)) from error


def current_model(directory: Path, header: Header) -> Model:
    """Read the current model of a collection. Raise CollectionError before the first fit."""
    if header.model is None:
        raise untrained(directory)
    return read_model(directory, header.model, header.fingerprint, header.dim)


def untrained(directory: Path) -> CollectionError:
    """Build the error for a collection before its first fit."""
    return CollectionError(f"{directory} has no model yet; train it with `ordrank fit --out {directory}`")


def has_files(directory: Path, name: str) -> bool:
    """Return whether a model has files, or an interrupted write has left some."""
    return is_model_name(name) and any(any(directory.glob(f"{dot}{name}.*")) for dot in ("", "."))


def remove_model(directory: Path, name: str) -> None:
    """Delete the files of one model, and what an interrupted write has left of them; nothing else."""
    if is_model_name(name):
        remove_unfinished(directory, name)
        for suffix in _SUFFIXES:
            (directory / f"{name}{suffix}").unlink(missing_ok=True)


def remove_unfinished(directory: Path, name: str) -> None:
    """Delete the temporary files that an interrupted write of a model has left."""
    if is_model_name(name):
        for suffix in _SUFFIXES:
            for file in directory.glob(f".{name}{suffix}.*"):
                file.unlink(missing_ok=True)


def is_model_name(name: str) -> bool:
    """Return whether a name is that of a model; the records of a damaged collection could name any file."""
    return _NAME.fullmatch(name) is not None


def _build(text: dict[str, Any], arrays: dict[str, NDArray[Any]], dim: int) -> Model:
    check_values(text)
    check_arrays(arrays, text, dim)
    projection = Projection(arrays["projection.mean"], arrays["projection.components"])
    embedding = OrdinalEmbedding.from_arrays(arrays, text["embedding"])
    prefix = "distribution."
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    distribution = GradeDistribution.from_arrays(parts, text["distribution"])
    return Model(text["fingerprint"], projection, embedding, text["hyperparameters"], distribution)


def _read(file: Path) -> bytes:
    if not file.is_file():  # a pipe would block, a device never end
        raise CollectionError(f"{file} is missing; train the model again with `ordrank fit --out {file.parent}`")
    if file.stat().st_size > _MAX_BYTES:
        raise _damaged(file, "it is too large")
    return file.read_bytes()


def _parse(file: Path, described: bytes, name: str) -> dict[str, Any]:
    if f"model-{hashlib.sha256(described).hexdigest()[:16]}" != name:
        raise _damaged(file)
    try:
        text = json.loads(described)
    except (ValueError, RecursionError) as error:
        raise _damaged(file, str(error)) from None
    if not isinstance(text, dict):
        raise _damaged(file, "it holds no JSON object")
    return text


def _damaged(file: Path, reason: str = "its content does not match its checksum") -> CollectionError:
    return CollectionError(f"{file} is damaged: {reason}; train the model again with `ordrank fit --out {file.parent}`")
