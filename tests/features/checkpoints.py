"""Write PyTorch checkpoints opcode by opcode, valid and hostile ones, without PyTorch."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterable, Mapping

import numpy as np

STORAGES = {"float32": "FloatStorage", "int64": "LongStorage", "float64": "DoubleStorage", "float16": "HalfStorage"}


def checkpoint(tensors: Mapping[str, np.ndarray]) -> bytes:
    """Return a checkpoint of arrays; those in Fortran order are stored as strided views."""
    described, data = [], []
    for number, (name, array) in enumerate(tensors.items()):
        strides = tuple(stride // array.itemsize for stride in array.strides)
        described.append((name, tensor(storage(str(number), array.size, array.dtype.name), 0, array.shape, strides)))
        data.append((str(number), array.size, array.tobytes("F" if array.flags.f_contiguous else "C")))
    return assemble(mapping(described), data)


def assemble(described: bytes, data: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Return a checkpoint of the opcodes that describe its tensors, and of data: key, length and content."""
    data = list(data)
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True, "protocol_version": 1001, "type_sizes": {}}]
    parts = [pickle.dumps(part, 2) for part in head]
    parts += [b"\x80\x02" + described + b".", pickle.dumps([key for key, _, _ in data], 2)]
    parts += [struct.pack("<q", length) + content for _, length, content in data]
    return b"".join(parts)


def mapping(items: Iterable[tuple[str, bytes]]) -> bytes:
    pairs = b"".join(constant(name) + value for name, value in items)
    metadata = b"}" + constant("_metadata") + b"}s"  # as torch.save does
    return call(name("collections", "OrderedDict")) + b"(" + pairs + b"u" + metadata + b"b"


def tensor(stored: bytes, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    training = [constant(False), call(name("collections", "OrderedDict"))]
    return call(name("torch._utils", "_rebuild_tensor_v2"), stored, *map(constant, (offset, shape, strides)), *training)


def storage(key: str, length: int, dtype: str = "float32") -> bytes:
    parts = [constant("storage"), name("torch", STORAGES[dtype]), *map(constant, (key, "cpu", length, None))]
    return b"(" + b"".join(parts) + b"tQ"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + b"(" + b"".join(arguments) + b"tR"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def constant(value: object) -> bytes:
    """Return the opcodes of a plain value: without the header, the stop and the memo."""
    return pickle.dumps(value, 2).removeprefix(b"\x80\x02").removesuffix(b".")
