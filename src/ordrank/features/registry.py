"""Extractors by name: our own, and those that other packages bring along."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordrank._types import Extractor
from ordrank.errors import InputError
from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pixels import Pixels

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "ordrank.features"


def find_extractor(spec: str) -> Extractor:
    """Build the extractor that a user names.

    Parameters
    ----------
    spec : str
        ``pixels``, ``pixels:48``, ``pixels:48,grey``, ``hog``, ``hog:96``, ``onnx:FILE``, or the name of an
        entry point of the group ``ordrank.features``, with or without options after a colon. The entry point
        is called with these options, a str, and returns an :class:`ordrank._types.Extractor`.
    """
    name, _, options = spec.partition(":")
    if name in _OWN:
        return _OWN[name](options)
    from importlib.metadata import entry_points  # loads a lot, which our own do without

    foreign = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in foreign:
        there = ", ".join([*_OWN, *sorted(set(foreign) - set(_OWN))])
        raise InputError(f"there are no features called {name!r}; there are {there}")
    return _build(foreign[name], options)


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
        raise InputError(f"{name}:{text} is not understood: the size is a whole number, such as {name}:64")
    return int(text[:9])  # more digits are out of range as well


_OWN: dict[str, Callable[[str], Extractor]] = {"pixels": _pixels, "hog": _hog, "onnx": _onnx}


def _build(point: EntryPoint, options: str) -> Extractor:
    """Let another package build its extractor, and look whether it is one."""
    try:
        extractor = point.load()(options)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"the features {point.name!r} ({point.value}) cannot be set up: {error}") from error
    for part, meant, fits in _PARTS:
        if not fits(getattr(extractor, part, None)):
            raise InputError(f"the features {point.name!r} ({point.value}) lack {part!r}, {meant}")
    return extractor  # type: ignore[no-any-return]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


_PARTS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("name", "a text", _is_text),
    ("dim", "a positive whole number", _is_count),
    ("fingerprint", "a text", _is_text),
    ("side", "a positive whole number", _is_count),
    ("extract", "a method", callable),
)
