"""Read the tensors of a PyTorch checkpoint without PyTorch, and without the risk of unpickling.

Unpickling calls whatever functions a file names. The unpickler here knows the names of four objects of this module,
which describe tensors, have no other effect and cannot be changed; any other name ends the reading. The descriptions
become arrays once they are checked against the data that are there.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError

# The format that torch.save wrote until 2020: pickles of a magic number, a version, the sizes of C types, the tensors
# without their data, and the keys of the data; then for each key the number of elements and the elements.
_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001
_ZIP = b"PK\x03\x04"
_LENGTH_BYTES = 8


def read_checkpoint(content: bytes, source: str) -> dict[str, NDArray[Any]]:
    """Return the tensors of a checkpoint by name.

    Raise InputError that begins with ``source``, the name of the file, if it is damaged or holds anything else.
    """
    if content.startswith(_ZIP):
        raise InputError(f"{source} is a zip archive: only checkpoints in the format before PyTorch 1.6 are read")
    try:
        return _read(content)
    except Exception as error:  # damaged pickles raise anything
        reason = str(error) or type(error).__name__
        raise InputError(f"{source} is damaged, or not a checkpoint of plain tensors: {reason}") from error


def _read(content: bytes) -> dict[str, NDArray[Any]]:
    stream = io.BytesIO(content)
    if [_TensorUnpickler(stream).load() for _ in range(2)] != [_MAGIC, _VERSION]:
        raise ValueError("it does not begin as torch.save does")
    if _TensorUnpickler(stream).load()["little_endian"] is not True:
        raise ValueError("its numbers are big-endian")
    tensors = _TensorUnpickler(stream).load()
    keys = _TensorUnpickler(stream).load()
    if not isinstance(tensors, dict) or not all(
        isinstance(name, str) and isinstance(tensor, _Tensor) for name, tensor in tensors.items()
    ):
        raise ValueError("it is not a mapping from names to tensors")
    storages = {tensor.storage.key: tensor.storage for tensor in tensors.values()}
    data = _read_storages(content, stream.tell(), keys, storages)
    return {name: _as_array(name, tensor, data[tensor.storage.key]) for name, tensor in tensors.items()}


class _Storage(NamedTuple):
    """The data of one or more tensors: ``length`` elements of a NumPy type."""

    dtype: str
    key: str
    length: int


class _Tensor(NamedTuple):
    """A strided view of a storage; offset and strides count elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Mapping(dict[str, Any]):
    """A dictionary without attributes; those in a file, the versions of its modules, are dropped."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        pass


class _TensorBuilder:
    """Checks the description of a tensor. Called by the pickle, with arguments of its choice."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, shape: Any, strides: Any, *training: Any) -> _Tensor:
        if not isinstance(storage, _Storage) or not isinstance(shape, tuple) or not isinstance(strides, tuple):
            raise ValueError("a tensor has no storage, shape or strides")
        numbers = (offset, *shape, *strides)
        if len(shape) != len(strides) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError(f"a tensor has offset {offset!r}, shape {shape!r} and strides {strides!r}")
        return _Tensor(storage, offset, shape, strides)


_DTYPES = {"FloatStorage": "<f4", "LongStorage": "<i8"}
_KNOWN_NAMES: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Mapping,
    ("torch._utils", "_rebuild_tensor_v2"): _TensorBuilder(),
    **{("torch", name): dtype for name, dtype in _DTYPES.items()},
}


class _TensorUnpickler(pickle.Unpickler):
    """Builds numbers, texts, tuples, lists, dictionaries and descriptions of tensors, and nothing else.

    Every name that a pickle refers to passes through ``find_class``, whatever the opcode.
    """

    def find_class(self, module: str, name: str, /) -> Any:
        """Return one of the known objects."""
        if (module, name) not in _KNOWN_NAMES:
            raise ValueError(f"it names {module}.{name}, which is no part of a tensor")
        return _KNOWN_NAMES[module, name]

    def persistent_load(self, pid: Any, /) -> _Storage:
        """Return a reference to data."""
        kind, dtype, key, _, length, *view = pid
        if kind != "storage" or dtype not in _DTYPES.values() or type(key) is not str or type(length) is not int:
            raise ValueError("it refers to something other than tensor data")
        if length < 0 or view not in ([], [None]):
            raise ValueError(f"storage {key} has {length} elements or is a part of another")
        return _Storage(dtype, key, length)


def _read_storages(content: bytes, position: int, keys: Any, storages: dict[str, _Storage]) -> dict[str, NDArray[Any]]:
    """Return the data (length,) by key, from a position in the file."""
    if not isinstance(keys, list) or sorted(map(str, keys)) != sorted(storages):
        raise ValueError("its list of data does not fit its tensors")
    data = {}
    for key in keys:
        dtype, length = np.dtype(storages[key].dtype), storages[key].length
        if content[position : position + _LENGTH_BYTES] != length.to_bytes(_LENGTH_BYTES, "little", signed=True):
            raise ValueError(f"storage {key} does not have {length} elements")
        position += _LENGTH_BYTES
        data[key] = np.frombuffer(content, dtype, length, position)  # raises ValueError if there are fewer
        position += data[key].nbytes
    return data


def _as_array(name: str, tensor: _Tensor, data: NDArray[Any]) -> NDArray[Any]:
    """Return a tensor as an array of its own. Raise ValueError if it reaches beyond its data or repeats them."""
    size = math.prod(tensor.shape)
    steps = zip(tensor.strides, tensor.shape, strict=True)
    last = tensor.offset + sum(stride * (length - 1) for stride, length in steps)
    if data.dtype != tensor.storage.dtype or size > len(data) or (size and last >= len(data)):
        raise ValueError(f"tensor {name} reaches beyond its data")
    strides = [stride * data.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(data[tensor.offset :], tensor.shape, strides, writeable=False).copy()
