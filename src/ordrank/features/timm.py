"""Features of the networks that timm knows, computed with PyTorch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features._runtimes import check_torch_device, run_module
from ordrank.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

_VERSION = 1  # increase whenever the same picture would give other values
_RESIZE = {"center": "crop", "squash": "stretch"}  # timm's crop modes
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")  # formats that cannot execute code
_INTERPOLATIONS = ("bilinear", "bicubic")


class TimmNetwork:
    """Features before the classifier; attributes are documented by :class:`ordrank._protocols.Extractor`.

    Parameters
    ----------
    model : str
        Name of the network in timm.
    file : path, optional
        Checkpoint in timm's layout, safetensors or ``.pth``; by default the one that timm downloads.
    device : str, default="cpu"
        Or ``cuda``. Features are the same up to rounding.
    """

    def __init__(self, model: str, file: str | os.PathLike[str] | None = None, device: str = "cpu") -> None:
        self.model, self.device = model, device
        self.file = None if file is None else os.path.abspath(file)  # the name must work from any directory
        self.name = f"timm:{model}" if self.file is None else f"timm:{model}@{self.file}"
        network, self.preprocessing, self._digest = _open(model, self.file, device)
        self.dim, self.side = network.num_features, self.preprocessing.side
        library = ".".join(_import_timm().__version__.split(".")[:2])
        self.fingerprint = f"timm;version={_VERSION};model={model};weights={self._digest};timm={library}"

    def extract(self, pictures: Sequence[Image]) -> NDArray[np.float32]:
        """Return features (n, dim) of upright RGB pictures."""
        network, _, digest = _open(self.model, self.file, self.device)
        if digest != self._digest:
            raise InputError(f"the weights of {self.name} have changed while they were in use")
        if not pictures:
            return np.empty((0, self.dim), dtype=np.float32)
        return run_module(network, pictures, self.preprocessing)


def load_network(model: str, file: str | None) -> tuple[Any, Preprocessing]:
    """Return a network of timm without its classifier, and its preprocessing."""
    timm = _import_timm()
    if not timm.is_model(model):
        raise InputError(f"timm has no network called {model!r}; timm.list_models() lists them")
    network = _download(timm, model) if file is None else _load(timm, model, file)
    return network, _preprocessing(f"timm:{model}", timm.data.resolve_model_data_config(network))


@lru_cache(maxsize=1)
def _open(model: str, file: str | None, device: str) -> tuple[Any, Preprocessing, str]:
    """Return a network, its preprocessing and the SHA-256 of its weights; each process opens its own."""
    _import_timm()
    check_torch_device(device)
    network, preprocessing = load_network(model, file)
    return network.requires_grad_(False).eval().to(device), preprocessing, _digest(network)


def _download(timm: Any, model: str) -> Any:
    try:
        return timm.create_model(model, pretrained=True, num_classes=0)
    except Exception as error:  # of the network, of the hub or of the file there
        raise InputError(
            f"the weights of {model} could not be downloaded ({_first_line(error)}); fetch the checkpoint and name "
            f"its file: timm:{model}@FILE"
        ) from error


def _load(timm: Any, model: str, file: str) -> Any:
    if not os.path.isfile(file) or not file.endswith(_SUFFIXES):
        wrong = "is not one" if os.path.isfile(file) else "does not exist"
        raise InputError(f"timm:NAME@FILE names a checkpoint, {', '.join(_SUFFIXES)}; {file} {wrong}")
    network = timm.create_model(model, num_classes=0)
    try:
        keys = timm.models.load_checkpoint(network, file, strict=False, weights_only=True)
    except Exception as error:
        raise InputError(f"{file} cannot be loaded as a checkpoint of {model}: {_first_line(error)}") from error
    classifiers = network.pretrained_cfg.get("classifier") or ()
    classifiers = (classifiers,) if isinstance(classifiers, str) else tuple(classifiers)
    unknown = [key for key in keys.unexpected_keys if not key.startswith(tuple(f"{name}." for name in classifiers))]
    if keys.missing_keys or unknown:
        wrong = f"lacks {keys.missing_keys[0]}" if keys.missing_keys else f"holds {unknown[0]}"
        raise InputError(f"{file} is not a checkpoint of {model} in timm's layout: it {wrong}")
    return network


def _preprocessing(name: str, config: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing of timm's data configuration."""
    height, width = config["input_size"][1:]
    resize = _RESIZE.get(config["crop_mode"])
    if height != width or resize is None or config["interpolation"] not in _INTERPOLATIONS:
        found = f"{height} × {width} pixels, crop mode {config['crop_mode']}, {config['interpolation']} interpolation"
        raise InputError(f"{name} needs a preprocessing that ordrank does not have: {found}")
    return Preprocessing(
        size=height,
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        resize=resize,
        interpolation=config["interpolation"],
        crop_fraction=config["crop_pct"],
    )


def _digest(network: Any) -> str:
    """Return the SHA-256 of all weights, the same for a download and for a checkpoint file."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _import_timm() -> Any:
    try:
        return import_module("timm")
    except ImportError:
        raise InputError("timm:NAME needs timm and PyTorch: pip install 'ordrank[deep]'") from None
    except Exception as error:  # a torchvision for another PyTorch
        raise InputError(
            f"timm cannot be imported ({_first_line(error)}): install a torchvision for this torch"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
