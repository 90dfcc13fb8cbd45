"""Fine-tuned networks in the directory of a collection."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ordrank._io import write_files
from ordrank._protocols import Extractor
from ordrank.collection import network_samples
from ordrank.collection.store import Store
from ordrank.collection.stored_json import parse_stored
from ordrank.errors import CollectionError
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.onnx_check import find_unsafe
from ordrank.features.registry import find_extractor

if TYPE_CHECKING:
    from PIL.Image import Image

APPEARANCE = "ordrank.appearance"  # key of the metadata with the features beside the outputs, and their weight
_NAME = re.compile(r"network-[0-9a-f]{16}\.onnx")
_NETWORKS = "networks"  # key of the names of all networks whose files may be in the directory


class FinetunedNetwork:
    """Outputs of a network in the directory of a collection, beside the features that the collection had before.

    An :class:`ordrank._protocols.Extractor`. Its name is that of the file, with the beginning of the SHA-256 of the
    content, wherever the collection is. Which features, and their weight, are in the metadata of the network.

    Attributes
    ----------
    pretrained : Extractor
        Of the features before.
    weight : float
        Their factor.
    n_outputs : int
        Leading components of the features that are outputs of the network.
    """

    def __init__(self, directory: Path, name: str, device: str = "cpu") -> None:
        sha256 = check_network(directory, name)
        if (unsafe := find_unsafe((directory / name).read_bytes())) is not None:
            raise CollectionError(
                f"{directory / name} has {unsafe}, and is not run: it may come from anyone; go back to the features "
                f"before with `ordrank finetune {directory} --undo`"
            )
        self._network = OnnxNetwork(directory / name, device, is_limited=True)
        if APPEARANCE not in self._network.metadata:
            raise CollectionError(
                f"{directory / name} was made by an older version of ordrank; go back to the features before with "
                f"`ordrank finetune {directory} --undo`, and fine-tune again"
            )
        try:
            appearance = json.loads(self._network.metadata[APPEARANCE])
            features, self.weight = str(appearance["features"]), float(appearance["weight"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(directory, name, "its metadata do not name the features beside its outputs") from error
        self.pretrained = _find_named(directory, features, device)
        self.name, self.n_outputs = name, self._network.dim
        self.dim = self.n_outputs + self.pretrained.dim
        self.side = max(self._network.side, self.pretrained.side)
        # Not the version of onnxruntime: it changes the last digits only.
        self.fingerprint = f"finetuned;network={sha256};features={self.pretrained.fingerprint}"

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        return self.combine(self._network.extract(pictures), self.pretrained.extract(pictures))

    def combine(self, outputs: NDArray[np.float32], features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features (n, dim) from outputs of the network and the features before."""
        return np.hstack([outputs, np.float32(self.weight) * features])

    def features_before(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the features before from features (n, dim)."""
        return features[:, self.n_outputs :] / np.float32(self.weight)


def check_network(directory: Path, name: str) -> str:
    """Return the SHA-256 of the file of a network. Raise CollectionError if it is damaged."""
    sha256 = _digest(directory / name)
    if name != _name_of(sha256):
        raise _damaged(directory, name, "its content does not match its checksum")
    return sha256


def find_collection_extractor(directory: Path, name: str, device: str = "cpu") -> Extractor:
    """Return the extractor of a collection by its name: its own network, or one that the name specifies."""
    if is_network_name(name):
        return FinetunedNetwork(directory, name, device)
    return _find_named(directory, name, device)


def _find_named(directory: Path, name: str, device: str) -> Extractor:
    """Return the extractor that a collection names. Raise CollectionError for a network that may have come with it."""
    for part in name.split("+"):
        if part.startswith("onnx:") and not os.path.isabs(part.removeprefix("onnx:")):
            raise CollectionError(f"{directory} names {part} without its folder; that was not written by ordrank")
    return find_extractor(name, device=device)


def is_network_name(name: str) -> bool:
    """Return whether a name is that of a fine-tuned network."""
    return _NAME.fullmatch(name) is not None


def write_network(store: Store, content: bytes) -> FinetunedNetwork:
    """Write the file of a network and return its extractor.

    It is recorded before it exists, so that what a killed process leaves is known.
    """
    name = _name_of(hashlib.sha256(content).hexdigest())
    _record(store, {*_recorded(store), name})
    write_files(store.directory, {name: content})
    return FinetunedNetwork(store.directory, name)


def remove_networks(store: Store, keep: set[str]) -> None:
    """Delete the files of all recorded networks but some, and what an interrupted write has left of them."""
    for name in _recorded(store) - keep:
        (store.directory / name).unlink(missing_ok=True)
        for unfinished in store.directory.glob(f".{name}.*"):
            unfinished.unlink(missing_ok=True)
    with store.transaction(counted=False) as cursor:
        network_samples.forget(cursor, _recorded(store) - keep)
    _record(store, _recorded(store) & keep)


def _recorded(store: Store) -> set[str]:
    text = store.note(_NETWORKS)
    names = [] if text is None else parse_stored(text)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise sqlite3.DatabaseError("the list of networks is not a list of names")
    return {name for name in names if is_network_name(name)}


def _record(store: Store, names: set[str]) -> None:
    store.set_notes({_NETWORKS: json.dumps(sorted(names))})


def _damaged(directory: Path, name: str, reason: str) -> CollectionError:
    return CollectionError(
        f"{directory / name} is damaged: {reason}; restore it from a copy, or go back to the features before with "
        f"`ordrank finetune {directory} --undo`"
    )


def _name_of(sha256: str) -> str:
    return f"network-{sha256[:16]}.onnx"


def _digest(file: Path) -> str:
    if not file.is_file():  # a pipe would block
        raise CollectionError(
            f"{file} is missing; restore it from a copy, or go back to the features before with `ordrank finetune "
            f"{file.parent} --undo`"
        )
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
