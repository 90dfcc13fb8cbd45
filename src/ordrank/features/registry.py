"""Extractors by name: built in, or entry points of other packages."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ordrank._protocols import Extractor
from ordrank.errors import InputError
from ordrank.features.concatenated import Concatenated
from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pixels import Pixels
from ordrank.features.pretrained import PRETRAINED, PretrainedNetwork
from ordrank.features.timm import TimmNetwork

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "ordrank.features"
DEVICES = ("cpu", "cuda")


def find_extractor(spec: str, *, device: str = "cpu") -> Extractor:
    """Return the extractor of a specification.

    Parameters
    ----------
    spec : str
        ``pixels``, ``pixels:48``, ``pixels:48,grey``, ``hog``, ``hog:96``, ``efficientnet-lite0``,
        ``efficientnet-lite2``, ``onnx:FILE``, ``timm:NAME``, ``timm:NAME@FILE``, several of these joined by ``+``, or
        the name of an entry point of the group ``ordrank.features``, which is called with the options after the colon,
        a str, and returns an :class:`ordrank._protocols.Extractor`.
    device : {"cpu", "cuda"}, default="cpu"
        Where a network computes; other extractors compute on the CPU.
    """
    if device not in DEVICES:
        raise InputError(f"there is no device {device!r}; there are {' and '.join(DEVICES)}")
    parts = spec.split("+")
    if len(parts) > 1 and all(_name(part) in {*_BUILT_IN, *_NETWORKS} for part in parts):  # else part of a file name
        devices = [device if _name(part) in _NETWORKS else "cpu" for part in parts]
        return Concatenated([find_extractor(part, device=on) for part, on in zip(parts, devices, strict=True)])
    name, _, options = spec.partition(":")
    if name in _NETWORKS:
        return _NETWORKS[name](options, device)
    if device != "cpu":
        raise InputError(f"{name} is computed on the CPU; the device {device} is for {', '.join(_NETWORKS)}")
    if name in _BUILT_IN:
        return _BUILT_IN[name](options)
    from importlib.metadata import entry_points  # slow to import

    external = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in external:
        built_in = [*_BUILT_IN, *_NETWORKS]
        known = ", ".join([*built_in, *sorted(set(external) - set(built_in))])
        raise InputError(f"there are no features called {name!r}; there are {known}")
    return _build(external[name], options)


def installed_features() -> list[str]:
    """Return the built-in features, without those whose packages are not installed."""
    names = ["pixels"]
    if find_spec("skimage"):
        names.append("hog")
    if find_spec("onnxruntime"):
        names += [name for name, published in PRETRAINED.items() if find_spec(published.package)]
    return names


def _name(spec: str) -> str:
    return spec.partition(":")[0]


def _pixels(options: str) -> Extractor:
    size, comma, word = options.partition(",")
    if comma and word != "grey":
        raise InputError(f"pixels:{options} is not understood: write pixels:SIZE or pixels:SIZE,grey")
    return Pixels(_size("pixels", size) if size else Pixels.size, grey=bool(comma))


def _hog(options: str) -> Extractor:
    return Hog(_size("hog", options)) if options else Hog()


def _pretrained(name: str, options: str, device: str) -> Extractor:
    if options:
        raise InputError(f"{name}:{options} is not understood: {name} has no options")
    return PretrainedNetwork(name, device)


def _onnx(options: str, device: str) -> Extractor:
    if not options:
        raise InputError("onnx needs the file of a network: onnx:FILE")
    return OnnxNetwork(options, device)


def _timm(options: str, device: str) -> Extractor:
    model, at, file = options.partition("@")
    if not model or (at and not file):
        raise InputError(f"timm:{options} is not understood: write timm:NAME or timm:NAME@FILE")
    return TimmNetwork(model, file or None, device)


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name}:{text} is not understood: the size must be an integer, such as {name}:64")
    return int(text[:9])  # longer numbers are out of range as well


_BUILT_IN: dict[str, Callable[[str], Extractor]] = {"pixels": _pixels, "hog": _hog}
_NETWORKS: dict[str, Callable[[str, str], Extractor]] = {
    **{name: partial(_pretrained, name) for name in PRETRAINED},
    "onnx": _onnx,
    "timm": _timm,
}


def _build(point: EntryPoint, options: str) -> Extractor:
    """Build the extractor of another package and check it."""
    try:
        extractor = point.load()(options)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the features {point.name!r} ({point.value}) cannot be set up: {error}") from error
    kinds: dict[str, Any] = {"name": str, "dim": int, "fingerprint": str, "side": int}
    values = {attribute: getattr(extractor, attribute, None) for attribute in kinds}
    wrong = [a for a, kind in kinds.items() if not isinstance(values[a], kind) or values[a] <= kind()]  # "" or 0
    if wrong or not callable(getattr(extractor, "extract", None)):
        missing = ", ".join(wrong) or "extract"
        raise InputError(f"the features {point.name!r} ({point.value}) lack a valid {missing}")
    return extractor  # type: ignore[no-any-return]
