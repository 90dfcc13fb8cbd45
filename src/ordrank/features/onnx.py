"""Features from a network in an ONNX file."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features._runtimes import import_onnxruntime, open_session, run_session, run_session_on_pixels
from ordrank.features.preprocessing import METADATA_KEY, Preprocessing, parse_preprocessing, read_preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

# In the protocol buffer, the location of external weights is a key and a value of up to 127 bytes, after its length.
_EXTERNAL_WEIGHTS = re.compile(rb"\x0a\x08location\x12([\x01-\x7f])(.{1,127})", re.DOTALL)
_PIXELS_SIDE = 1024  # to which a picture may be downsampled for a network that does not say what it needs
_VERSION = 1  # increase whenever the same picture would give other values


class OnnxNetwork:
    """Flattened output of a network; attributes are documented by :class:`ordrank._protocols.Extractor`.

    Parameters
    ----------
    file : path
        The network, with one input of pictures. Its :class:`~ordrank.features.preprocessing.Preprocessing` is the JSON
        object in a file of the same name with the suffix ``.json``, or else in its metadata under
        ``ordrank.preprocessing``. A network whose input is one picture, uint8 (height, width, 3), needs none.
    device : str, default="cpu"
        Or ``cuda``. Features are the same up to rounding.
    is_limited : bool, default=False
        Whether a process has 4 GB of memory for such networks, which may come from anyone.
    """

    def __init__(self, file: str | os.PathLike[str], device: str = "cpu", *, is_limited: bool = False) -> None:
        self.file = Path(os.path.abspath(file))  # the name must work from any directory
        if not self.file.is_file():
            raise InputError(f"{self.file} does not exist: onnx:FILE names a network in the ONNX format")
        self.device, self._is_limited = device, is_limited
        self._digest = _digest(self.file)
        settings = self.file.with_suffix(".json")
        # The file wins, so that settings can be changed without exporting the network again.
        self._preprocessing = read_preprocessing(settings) if settings.exists() else self._find_preprocessing(settings)
        self.name = f"onnx:{self.file}"
        self.side = _PIXELS_SIDE if self._preprocessing is None else self._preprocessing.side
        self.dim = self._output_size()
        library = ".".join(_onnxruntime().__version__.split(".")[:2])
        given = _digest(settings) if settings.exists() else "metadata"
        self.fingerprint = f"onnx;version={_VERSION};network={self._digest};settings={given};onnxruntime={library}"

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        if not pictures:
            return np.empty((0, self.dim), dtype=np.float32)
        session = self._session()
        if self._preprocessing is None or _takes_pixels(session):
            return run_session_on_pixels(session, pictures, _features_output(session, self._preprocessing))
        return run_session(session, pictures, self._preprocessing)

    @property
    def metadata(self) -> dict[str, str]:
        """Texts that were stored with the network, by name."""
        found: dict[str, str] = self._session().get_modelmeta().custom_metadata_map
        return found

    def _session(self) -> Any:
        return _open(self.file, self._digest, self.device, self._is_limited)

    def _find_preprocessing(self, settings: Path) -> Preprocessing | None:
        """Return the preprocessing in the metadata of the network; None if it takes pictures as they are."""
        metadata = self.metadata
        if METADATA_KEY not in metadata:
            if _takes_pixels(self._session()):
                return None
            raise InputError(
                f"{settings} is missing, and {self.file.name} has no metadata {METADATA_KEY}: either specifies the "
                'preprocessing of the network, such as {"size": 224, "mean": [0.485, 0.456, 0.406], '
                '"std": [0.229, 0.224, 0.225], "scale": 255, "layout": "NCHW", "resize": "crop"}'
            )
        return parse_preprocessing(metadata[METADATA_KEY], f"{self.file}, {METADATA_KEY}")

    def _output_size(self) -> int:
        from PIL import Image

        session = self._session()
        _check_signature(self.file, session, self._preprocessing)
        widths, how = [self.side], "preprocessed as its JSON file or metadata specify"
        if _takes_pixels(session):
            widths, how = [self.side, 2 * self.side], "of any size"
        try:
            dim = len(self.extract([Image.new("RGB", (width, self.side)) for width in widths])[0])
        except Exception as error:
            raise InputError(f"{self.file} does not run on a picture {how}: {error}") from error
        if dim == 0:
            raise InputError(f"{self.file} returns no values for a picture")
        return dim


@lru_cache(maxsize=2)
def _open(file: Path, digest: str, device: str, is_limited: bool) -> Any:
    """Open a network; a session cannot be pickled, so that each process opens its own."""
    runtime = _onnxruntime()
    if _digest(file) != digest:
        raise InputError(f"{file} has changed while it was in use")
    try:
        return open_session(runtime, str(file), device, is_limited=is_limited)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{file} cannot be loaded as a network: {error}") from error


def _takes_pixels(session: Any) -> bool:
    """Return whether the input of a network is one picture of any size, before any preprocessing."""
    inputs = session.get_inputs()
    if len(inputs) != 1 or inputs[0].type != "tensor(uint8)" or len(inputs[0].shape) != 3:
        return False
    height, width, channels = inputs[0].shape
    return channels == 3 and not isinstance(height, int) and not isinstance(width, int)


def _features_output(session: Any, preprocessing: Preprocessing | None) -> str:
    """Return the output that is named, or ``features``, or else the first."""
    if preprocessing is not None and preprocessing.output is not None:
        return preprocessing.output
    names: list[str] = [output.name for output in session.get_outputs()]
    return "features" if "features" in names else names[0]


def _check_signature(file: Path, session: Any, preprocessing: Preprocessing | None) -> None:
    """Raise InputError if inputs or outputs of the network do not fit."""
    inputs, outputs = session.get_inputs(), [output.name for output in session.get_outputs()]
    if not _takes_pixels(session):
        if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
            found = ", ".join(f"{node.name}: {node.type} {node.shape}" for node in inputs)
            raise InputError(
                f"{file} must have one input, a float32 batch of pictures or a uint8 picture of any size and shape "
                f"(height, width, 3); it has {found}"
            )
        batch = inputs[0].shape[0]
        if isinstance(batch, int) and batch != 1:
            raise InputError(f"{file} takes {batch} pictures at a time: export it with a dynamic batch size or with 1")
    if preprocessing is not None and preprocessing.output is not None and preprocessing.output not in outputs:
        raise InputError(f"{file} has no output {preprocessing.output!r}; there are {', '.join(outputs)}")


def _digest(file: Path) -> str:
    """Return the SHA-256 of a file, and those of the files that hold its external weights."""
    try:
        content = file.read_bytes()
        names = {found[2][: found[1][0]].decode(errors="replace") for found in _EXTERNAL_WEIGHTS.finditer(content)}
        digests = [hashlib.sha256(content).hexdigest()]
        for name in sorted(names):
            if not (file.parent / name).is_file():  # a device may be endless
                raise FileNotFoundError(f"{name} is not a file")
            with (file.parent / name).open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    except (OSError, ValueError) as error:  # ValueError: a NUL character in a name
        raise InputError(f"{file} cannot be read with its weights: {error}") from None
    return "+".join(digests)


def _onnxruntime() -> Any:
    return import_onnxruntime("onnx:FILE", "onnx")
