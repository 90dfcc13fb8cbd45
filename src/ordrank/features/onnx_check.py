"""What a network of a stranger must not have, found without the package ``onnx`` and without running anything.

A file in the ONNX format is a protocol buffer: fields with a number and a type, some of which hold fields themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

_Message: TypeAlias = "dict[int, _Message | str]"

# From onnx.proto: the fields that are looked into, and in words those that are not accepted. Loops may have no end,
# functions that call functions have exponentially many nodes, and sparse tensors are stored as a few of their values.
_LOOP, _SPARSE = "a loop or a branch", "a sparse tensor"
_TENSOR: _Message = {13: "data in another file"}
_ATTRIBUTE: _Message = {5: _TENSOR, 6: _LOOP, 10: _TENSOR, 11: _LOOP, 22: _SPARSE, 23: _SPARSE}
_OPERATOR = 4
_NODE: _Message = {5: _ATTRIBUTE}
_GRAPH: _Message = {1: _NODE, 5: _TENSOR, 15: _SPARSE}
_MODEL: _Message = {7: _GRAPH, 25: "functions"}
_TEXT_OPERATORS = b"String"  # begins their names: the limit of memory does not hold for texts


def find_unsafe(network: bytes) -> str | None:
    """Return, in words, what a network has that is not run if it may come from a stranger; None if there is nothing."""
    try:
        return _find(memoryview(network), _MODEL)
    except (ValueError, IndexError):
        return "an invalid structure"


def _find(message: memoryview, known: _Message) -> str | None:
    for number, content in _fields(message):
        field = known.get(number)
        if known is _NODE and number == _OPERATOR and bytes(content).startswith(_TEXT_OPERATORS):
            return "operations on texts"
        found = _find(content, field) if isinstance(field, dict) else field
        if found is not None:
            return found
    return None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield number and content of the fields that have a length: texts, arrays and messages."""
    position = 0
    while position < len(message):
        tag, position = _integer(message, position)
        if tag >= 2**32:  # some readers would drop the higher bits
            raise ValueError("there is no such field")
        match tag & 7:
            case 0:
                _, position = _integer(message, position)
            case 1:
                position += 8
            case 5:
                position += 4
            case 2:
                length, position = _integer(message, position)
                if length > len(message) - position:
                    raise ValueError("a field is longer than its message")
                yield tag >> 3, message[position : position + length]
                position += length
            case _:
                raise ValueError("there is no such type")


def _integer(message: memoryview, position: int) -> tuple[int, int]:
    """Return an integer, of which each byte has 7 bits, the lowest first, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError("an integer has no end")
