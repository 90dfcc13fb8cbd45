"""Extractors by name: built in, or entry points of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordrank._protocols import Extractor
from ordrank.errors import InputError
from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pixels import Pixels

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "ordrank.features"


def find_extractor(spec: str) -> Extractor:
    """Return the extractor of a specification.

    Parameters
    ----------
    spec : str
        ``pixels``, ``pixels:48``, ``pixels:48,grey``, ``hog``, ``hog:96``, ``onnx:FILE``, or the name of an entry
        point of the group ``ordrank.features``, which is called with the options after the colon, a str, and returns
        an :class:`ordrank._protocols.Extractor`.
    """
    name, _, options = spec.partition(":")
    if name in _BUILT_IN:
        return _BUILT_IN[name](options)
    from importlib.metadata import entry_points  # slow to import

    external = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in external:
        known = ", ".join([*_BUILT_IN, *sorted(set(external) - set(_BUILT_IN))])
        raise InputError(f"there are no features called {name!r}; there are {known}")
    return _build(external[name], options)


def _pixels(options: str) -> Extractor:
    size, comma, word = options.partition(",")
    if comma and word != "grey":
        raise InputError(f"pixels:{options} is not understood: write pixels:SIZE or pixels:SIZE,grey")
    return Pixels(_size("pixels", size) if size else Pixels.size, grey=bool(comma))


def _hog(options: str) -> Extractor:
    return Hog(_size("hog", options)) if options else Hog()


def _onnx(options: str) -> Extractor:
    if not options:
        raise InputError("onnx needs the file of a network: onnx:FILE")
    return OnnxNetwork(options)


def _size(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name}:{text} is not understood: the size must be an integer, such as {name}:64")
    return int(text[:9])  # longer numbers are out of range as well


_BUILT_IN: dict[str, Callable[[str], Extractor]] = {"pixels": _pixels, "hog": _hog, "onnx": _onnx}


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
