"""Features from any network that is stored as an ONNX file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features.preparation import Preparation, read_preparation

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = 1  # goes up whenever the same picture would give other values


class OnnxNetwork:
    """What a network says about a picture, flattened.

    Parameters
    ----------
    file : path
        The network, with one input of pictures. Beside it lies a JSON file of the same name that says how it
        wants them, see :class:`ordrank.features.preparation.Preparation`.

    Attributes
    ----------
    name, dim, fingerprint, side
        See :class:`ordrank._types.Extractor`.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        # Absolute, so that the name means the same network wherever it is used.
        self.file = Path(os.path.abspath(file))
        if not self.file.is_file():
            raise InputError(f"{self.file} is not there: onnx:FILE names a network in the ONNX format")
        settings = self.file.with_suffix(".json")
        self._preparation = read_preparation(settings)
        self._digest = _digest(self.file)
        self.name = f"onnx:{self.file}"
        self.side = self._preparation.size
        self.dim = self._trial()
        library = ".".join(_onnxruntime().__version__.split(".")[:2])
        self.fingerprint = f"onnx;version={_VERSION};network={self._digest};settings={_digest(settings)}"
        self.fingerprint += f";onnxruntime={library}"

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Values (n, dim) of upright RGB pictures."""
        values = np.empty((len(pictures), self.dim), dtype=np.float32)
        # One by one: it suits networks of a fixed batch, and no picture's values depend on its neighbours'.
        for row, picture in zip(values, pictures, strict=True):
            row[:] = self._run(picture)
        return values

    def _run(self, picture: Image) -> NDArray[np.float32]:
        # A session cannot be sent to another process. Each process opens its own, once for all pictures.
        session = _session(self.file, self._digest, self._preparation)
        output = self._preparation.output or session.get_outputs()[0].name
        (result,) = session.run([output], {session.get_inputs()[0].name: self._preparation.prepare(picture)})
        return np.asarray(result, dtype=np.float32).reshape(-1)

    def _trial(self) -> int:
        from PIL import Image

        try:
            dim = len(self._run(Image.new("RGB", (self.side, self.side))))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.file} does not run on a picture prepared as its JSON file says: {error}"
            ) from error
        if dim == 0:
            raise InputError(f"{self.file} gives no values for a picture")
        return dim


@lru_cache(maxsize=2)
def _session(file: Path, digest: str, preparation: Preparation) -> Any:
    runtime = _onnxruntime()
    if _digest(file) != digest:
        raise InputError(f"{file} has changed while it was in use")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # there are as many processes as cores
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"{file} cannot be loaded as a network: {error}") from error
    _check_ends(file, session, preparation)
    return session


def _check_ends(file: Path, session: Any, preparation: Preparation) -> None:
    """Say what is wrong with the inputs and outputs of a network."""
    inputs, outputs = session.get_inputs(), [end.name for end in session.get_outputs()]
    if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
        found = ", ".join(f"{end.name}: {end.type} {end.shape}" for end in inputs)
        raise InputError(f"{file} should have one input, a batch of pictures in single precision; it has {found}")
    batch = inputs[0].shape[0]
    if isinstance(batch, int) and batch != 1:
        raise InputError(f"{file} takes {batch} pictures at a time: export it with a free batch size or with 1")
    if preparation.output is not None and preparation.output not in outputs:
        raise InputError(f"{file} has no output {preparation.output!r}; there are {', '.join(outputs)}")


def _digest(file: Path) -> str:
    """SHA-256 of a file, and of the weights beside it where a network keeps them apart."""
    apart = file.with_name(f"{file.name}.data")
    digests = []
    for part in [file, apart] if apart.is_file() else [file]:
        try:
            with part.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise InputError(f"{part} cannot be read: {error.strerror}") from None
    return "+".join(digests)


def _onnxruntime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise InputError("onnx:FILE needs the package onnxruntime: pip install 'ordrank[onnx]'") from None
