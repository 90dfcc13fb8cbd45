"""Features from a network in an ONNX file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features.preprocessing import Preprocessing, read_preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

# In the protocol buffer, the location of external weights is a key and a value of up to 127 bytes, after its length.
_EXTERNAL_WEIGHTS = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])(.{1,127})", re.DOTALL)
_VERSION = 1  # increase whenever the same picture would give other values


class OnnxNetwork:
    """Flattened output of a network; attributes are documented by :class:`ordrank._protocols.Extractor`.

    Parameters
    ----------
    file : path
        The network, with one input of pictures, and next to it a JSON file of the same name with its
        :class:`~ordrank.features.preprocessing.Preprocessing`.
    """

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = Path(os.path.abspath(file))  # the name must work from any directory
        if not self.file.is_file():
            raise InputError(f"{self.file} does not exist: onnx:FILE names a network in the ONNX format")
        settings = self.file.with_suffix(".json")
        self._preprocessing = read_preprocessing(settings)
        self._digest = _digest(self.file)
        self.name = f"onnx:{self.file}"
        self.side = self._preprocessing.size
        self.dim = self._output_size()
        library = ".".join(_onnxruntime().__version__.split(".")[:2])
        self.fingerprint = f"onnx;version={_VERSION};network={self._digest};settings={_digest(settings)}"
        self.fingerprint += f";onnxruntime={library}"

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        values = np.empty((len(pictures), self.dim), dtype=np.float32)
        # One at a time: networks may have a fixed batch size, and results must not depend on the batch.
        for row, picture in zip(values, pictures, strict=True):
            row[:] = self._run(picture)
        return values

    def _run(self, picture: Image) -> NDArray[np.float32]:
        # A session cannot be pickled; each process opens its own, once.
        session = _session(self.file, self._digest, self._preprocessing)
        output = self._preprocessing.output or session.get_outputs()[0].name
        (result,) = session.run([output], {session.get_inputs()[0].name: self._preprocessing.apply(picture)})
        return np.asarray(result, dtype=np.float32).reshape(-1)

    def _output_size(self) -> int:
        from PIL import Image

        try:
            dim = len(self._run(Image.new("RGB", (self.side, self.side))))
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.file} does not run on a picture preprocessed as its JSON file specifies: {error}"
            ) from error
        if dim == 0:
            raise InputError(f"{self.file} returns no values for a picture")
        return dim


@lru_cache(maxsize=2)
def _session(file: Path, digest: str, preprocessing: Preprocessing) -> Any:
    runtime = _onnxruntime()
    if _digest(file) != digest:
        raise InputError(f"{file} has changed while it was in use")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # one process per core
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise InputError(f"{file} cannot be loaded as a network: {error}") from error
    _check_signature(file, session, preprocessing)
    return session


def _check_signature(file: Path, session: Any, preprocessing: Preprocessing) -> None:
    """Raise InputError if inputs or outputs of the network do not fit."""
    inputs, outputs = session.get_inputs(), [output.name for output in session.get_outputs()]
    if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
        found = ", ".join(f"{node.name}: {node.type} {node.shape}" for node in inputs)
        raise InputError(f"{file} must have one input, a float32 batch of pictures; it has {found}")
    batch = inputs[0].shape[0]
    if isinstance(batch, int) and batch != 1:
        raise InputError(f"{file} takes {batch} pictures at a time: export it with a dynamic batch size or with 1")
    if preprocessing.output is not None and preprocessing.output not in outputs:
        raise InputError(f"{file} has no output {preprocessing.output!r}; there are {', '.join(outputs)}")


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file, and those of the files that hold its external weights."""
    try:
        content = file.read_bytes()
        names = {found[2][: found[1][0]].decode(errors="replace") for found in _EXTERNAL_WEIGHTS.finditer(content)}
        digests = [hashlib.sha256(content).hexdigest()]
        for name in sorted(names):
            with (file.parent / name).open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except (OSError, ValueError) as error:  # ValueError: a NUL character in a name
        raise InputError(f"{file} cannot be read with its weights: {error}") from None
    return "+".join(digests)


def _onnxruntime() -> Any:
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise InputError("onnx:FILE needs onnxruntime: pip install 'ordrank[onnx]'") from None
