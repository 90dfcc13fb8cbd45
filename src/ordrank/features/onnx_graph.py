"""Building graphs in the ONNX format, with the package ``onnx``, the format's own library."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ordrank._io import replace_when_complete
from ordrank.errors import InputError

_MAX_BYTES = 2**31 - 2**20  # of a protocol buffer, less some for the nodes

Shape = Sequence[int | str]  # words name sizes that are free
Constant = NDArray[Any] | np.generic | float | list[int]


def check_size(user: str, size: int) -> None:
    """Raise InputError if a number of bytes is too large for a file."""
    if size > _MAX_BYTES:
        raise InputError(f"{user} needs {size / 1e9:.1f} GB, more than the 2 GB of an ONNX file")


def write_graph(file: str | os.PathLike[str], serialize: Callable[[], bytes]) -> None:
    """Write the content that a function returns, as a whole or not at all; raise InputError if that is impossible."""
    path = Path(file)
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    content = serialize()
    try:
        with replace_when_complete(path) as temporary:
            temporary.write_bytes(content)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None


def import_onnx(user: str) -> Any:
    """Return the module onnx; raise InputError that says what needs it if it is missing."""
    try:
        return import_module("onnx")
    except ImportError:
        raise InputError(f"{user} needs the package onnx: pip install 'ordrank[photos]'") from None


class OnnxGraph:
    """Nodes and constants of a graph in the making.

    Parameters
    ----------
    user : str
        What needs ``onnx``, for the InputError if it is missing.
    prefix : str, default=""
        Of the names of nodes' outputs and constants, so that they are unique in a graph they are put into.
    """

    def __init__(self, user: str, prefix: str = "") -> None:
        self._onnx = import_onnx(user)
        self._user, self._prefix = user, prefix
        self.nodes: list[Any] = []
        self._constants: dict[str, NDArray[Any]] = {}

    @property
    def initializers(self) -> list[Any]:
        """Constants in the format of ONNX; raise InputError if they are too large for a file."""
        check_size(self._user, sum(values.nbytes for values in self._constants.values()))
        return [self._onnx.numpy_helper.from_array(values, name) for name, values in self._constants.items()]

    def add_constant(self, values: Constant, name: str | None = None) -> str:
        """Add a constant, of integers in int64; return its name."""
        name = name or f"{self._prefix}c{len(self._constants)}"
        self._constants[name] = np.array(values, order="C")
        return name

    def add_node(
        self,
        operator: str,
        inputs: Sequence[str | Constant],
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node, whose inputs are names or constants; return the name of its output."""
        output = output or self._new_name()
        self._append(operator, inputs, [output], attributes)
        return output

    def add_smallest(self, x: str, k: int) -> tuple[str, str]:
        """Add the k smallest values of each row, ascending, and their columns; equal ones are ordered by column."""
        name = self._new_name()
        outputs = [f"{name}.values", f"{name}.columns"]
        self._append("TopK", [x, np.array([k])], outputs, {"axis": 1, "largest": 0, "sorted": 1})
        return outputs[0], outputs[1]

    def add_cast(self, x: str, dtype: DTypeLike, output: str | None = None) -> str:
        """Add a conversion."""
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add_node("Cast", [x], output, to=kind)

    def describe(self, tensors: Mapping[str, Shape]) -> list[Any]:
        """Return inputs or outputs of a graph, float32, in the format of ONNX, from their shapes by name."""
        make, kind = self._onnx.helper.make_tensor_value_info, self._onnx.TensorProto.FLOAT
        return [make(name, kind, list(shape)) for name, shape in tensors.items()]

    def serialize(
        self, name: str, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape], metadata: Mapping[str, str]
    ) -> bytes:
        """Return the content of a file with this graph, after ``onnx`` has checked it."""
        helper = self._onnx.helper
        described = self.describe(inputs), self.describe(outputs)
        graph = helper.make_graph(self.nodes, name, *described, self.initializers)
        # Versions of 2022: every onnxruntime since then reads them.
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        helper.set_model_props(model, dict(metadata))
        self._onnx.checker.check_model(model)
        serialized: bytes = model.SerializeToString()
        return serialized

    def _new_name(self) -> str:
        return f"{self._prefix}x{len(self.nodes)}"

    def _append(
        self,
        operator: str,
        inputs: Sequence[str | Constant],
        outputs: list[str],
        attributes: Mapping[str, Any],
    ) -> None:
        names = [x if isinstance(x, str) else self.add_constant(x) for x in inputs]
        self.nodes.append(self._onnx.helper.make_node(operator, names, outputs, **attributes))
