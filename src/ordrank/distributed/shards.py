"""Shards: samples in files that all workers can read, or blocks of a Dask array.

A shard is a description. Workers read it a block of rows at a time, and never send it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray, IntArray
from ordrank.distributed._sizeof import ArraySizeof
from ordrank.errors import InputError
from ordrank.kernel_ridge import row_blocks

# Samples (b, d), labels (b,) and weights (b,).
Block: TypeAlias = tuple[NDArray[np.floating], FloatArray, FloatArray]
# Labels (n,), weights (n,) or None for equal ones, and samples (n, d) in blocks of rows.
Data: TypeAlias = tuple[NDArray[Any], NDArray[Any] | None, Iterator[NDArray[Any]]]


def read_arrays(X: NDArray[Any], y: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> Data:
    """Read arrays in the memory of a worker."""
    return y, sample_weight, (X[rows] for rows in row_blocks(*X.shape))


def read_npy(X: Path, y: Path, sample_weight: Path | None = None) -> Data:
    """Read NumPy files."""
    return np.load(y), None if sample_weight is None else np.load(sample_weight), _npy_blocks(X)


def _npy_blocks(path: Path) -> Iterator[NDArray[Any]]:
    header = np.load(path, mmap_mode="r")
    if header.ndim != 2:
        raise InputError(f"{path} holds an array of shape {header.shape}; samples are the rows of a matrix")
    for rows in row_blocks(*header.shape):
        if header.flags.f_contiguous and not header.flags.c_contiguous:
            yield np.ascontiguousarray(header[rows])
            continue
        # Read instead of mapped: mapped pages would count as memory of the worker.
        count, start = (rows.stop - rows.start) * header.shape[1], rows.start * header.shape[1]
        offset = header.offset + start * header.itemsize
        yield np.fromfile(path, header.dtype, count, offset=offset).reshape(-1, header.shape[1])


def read_parquet(path: Path, label: str, weight: str | None, features: Sequence[str], like: str | None = None) -> Data:
    """Read a Parquet file; samples are a column of lists of one length, or several columns of numbers.

    With the name of another file that ``features`` are all columns of, this file must have no more.
    """
    file = import_parquet().ParquetFile(path)
    schema, columns = file.schema_arrow, [label] if weight is None else [label, weight]
    for column in columns:
        _check_column(path, schema, column)
    for column in features:
        _check_column(path, schema, column, lists=len(features) == 1)
    for column in schema.names if like is not None else ():
        if column not in (*columns, *features):
            raise InputError(
                f"{path.name} has a column {column!r} that {like} has not; name the columns to use with features=[...]"
            )
    table = file.read(columns=columns)
    weights = None if weight is None else table.column(weight).to_numpy()
    return table.column(label).to_numpy(), weights, _parquet_blocks(file, path.name, list(features))


def parquet_features(path: Path, label: str, weight: str | None) -> list[str]:
    """Return the columns of a Parquet file without a role."""
    names = [name for name in import_parquet().read_schema(path).names if name not in (label, weight)]
    if not names:
        raise InputError(f"{path.name} has no columns besides {label!r}{f' and {weight!r}' if weight else ''}")
    return names


def import_parquet() -> Any:
    """Return the module ``pyarrow.parquet``; raise InputError with the command that installs it."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise InputError("Parquet shards need pyarrow; install it with pip install 'ordrank[parquet]'") from error
    return pyarrow.parquet


def _check_column(path: Path, schema: Any, column: str, *, lists: bool = False) -> None:
    """Raise InputError if a file lacks a column, or if that holds neither numbers nor, where allowed, lists of them."""
    from pyarrow import types

    if column not in schema.names:
        raise InputError(f"{path.name} has no column {column!r}; it has {', '.join(schema.names)}")
    kind = held = schema.field(column).type
    if lists and _is_list(kind):
        held = kind.value_type
    if not any(test(held) for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)):
        raise InputError(
            f"column {column!r} of {path.name} holds {kind} values, not numbers; name the columns to use with "
            "features=[...], label= and weight="
        )


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return any(test(kind) for test in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def _parquet_blocks(file: Any, file_name: str, columns: list[str]) -> Iterator[NDArray[Any]]:
    lists, lengths = _is_list(file.schema_arrow.field(columns[0]).type), set()
    for batch in file.iter_batches(batch_size=8192, columns=columns):
        values = [batch.column(name).to_numpy(zero_copy_only=False) for name in columns]
        if lists:
            lengths |= {-1 if each is None else len(each) for each in values[0]}
            if len(lengths) > 1:
                raise InputError(f"{file_name} has lists of different lengths, or missing ones; all need one length")
            yield np.stack(values[0])
        elif batch.num_rows:
            yield np.column_stack(values)


def read_zarr(path: Path, rows: range, X: str, y: str, weight: str | None) -> Data:
    """Read a range of rows of the arrays of a Zarr group, one chunk of samples at a time."""
    group, taken = open_zarr(path), slice(rows.start, rows.stop)
    step = group[X].chunks[0]
    samples = (np.asarray(group[X][start : min(start + step, rows.stop)]) for start in rows[::step])
    return np.asarray(group[y][taken]), None if weight is None else np.asarray(group[weight][taken]), samples


def open_zarr(path: Path) -> Any:
    """Open a Zarr group for reading."""
    try:
        import zarr
    except ImportError as error:
        raise InputError("Zarr shards need zarr; install it with pip install zarr") from error
    return zarr.open_group(str(path), mode="r")


@dataclass(frozen=True)
class Shard(ArraySizeof):
    """Labelled samples that a worker reads when it needs them, as floating-point numbers.

    Attributes
    ----------
    name : str
        For error messages.
    read : callable
        One of the readers of this module.
    arguments : tuple
        Of the reader.
    transforms : tuple of callables
        Functions of rows (b, d) applied when samples are read, for example ``pca.transform``.
    """

    name: str
    read: Callable[..., Data]
    arguments: tuple[Any, ...]
    transforms: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = ()

    def blocks(self) -> Iterator[Block]:
        """Yield samples, labels and weights in order, without samples of weight 0."""
        y, sample_weight, samples = self.read(*self.arguments)
        labels, weights, start = *self._validated(y, sample_weight), 0
        for X in samples:
            rows = slice(start, start + len(X))
            start = rows.stop
            if len(labels[rows]) < len(X):
                break
            block = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
            for transform in self.transforms:
                block = transform(block) if len(block) else block
            positive = weights[rows] > 0
            if positive.all():
                yield block, labels[rows], weights[rows]
            elif positive.any():
                yield block[positive], labels[rows][positive], weights[rows][positive]
        if start != len(labels):
            raise InputError(f"{self.name} has {len(labels)} labels, but a different number of samples")

    def load(self) -> Block:
        """Return all samples, labels and weights of positive weight."""
        columns = tuple(zip(*self.blocks(), strict=True))
        if not columns:
            return np.empty((0, 0)), np.empty(0), np.empty(0)
        X, y, weights = (np.concatenate(column) for column in columns)
        return X, y, weights

    def take(self, rows: IntArray) -> Block:
        """Return some of the rows of :meth:`load`, ascending."""
        start, taken = 0, []
        for block in self.blocks():
            chosen = rows[(rows >= start) & (rows < start + len(block[1]))] - start
            start += len(block[1])
            if len(chosen):
                taken.append(tuple(column[chosen] for column in block))
        X, y, weights = (np.concatenate(column) for column in zip(*taken, strict=True))
        return X, y, weights

    def _validated(self, y: Any, sample_weight: Any) -> tuple[FloatArray, FloatArray]:
        """Return labels and weights (n,) as float64."""
        labels = np.asarray(y)
        if labels.ndim != 1 or labels.dtype.kind not in "biuf":
            raise InputError(f"the labels of {self.name} must be one number for each sample, got {labels.dtype} values")
        if not np.isfinite(labels).all():
            raise InputError(f"{self.name} has labels that are missing or infinite; remove these samples")
        weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weights.ndim != 1:
            raise InputError(
                f"the weights of {self.name} must be one number for each sample, got the shape {weights.shape}"
            )
        if not np.isfinite(weights).all() or weights.min(initial=0) < 0:
            raise InputError(f"{self.name} has weights that are negative, missing or infinite")
        if len(weights) != len(labels):
            raise InputError(f"{self.name} has {len(labels)} labels, but {len(weights)} weights")
        return labels.astype(np.float64), weights


@dataclass(frozen=True)
class Shards:
    """Labelled samples in files that every worker can read; each shard fits into a part of a worker's memory.

    Attributes
    ----------
    shards : tuple of Shard
        Samples are numbered in this order.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ordrank.distributed import Shards
    >>> directory = Path(tempfile.mkdtemp())
    >>> np.save(directory / "a.npy", np.zeros((3, 2)))
    >>> np.save(directory / "a.labels.npy", np.array([1, 2, 3]))
    >>> len(Shards.from_npy(directory))
    1
    """

    shards: tuple[Shard, ...]

    def __len__(self) -> int:
        return len(self.shards)

    @classmethod
    def from_npy(cls, directory: Path | str) -> Self:
        """Read NAME.npy (n, d), each with NAME.labels.npy (n,) and optionally NAME.weights.npy (n,)."""
        shards = []
        for path in _files(directory, ".npy", without=(".labels.npy", ".weights.npy")):
            labels, weights = (path.with_name(f"{path.stem}.{kind}.npy") for kind in ("labels", "weights"))
            if not labels.exists():
                raise InputError(f"there are no labels for {path}; they should be in {labels.name} in the same folder")
            shards.append(Shard(path.name, read_npy, (path, labels, weights if weights.exists() else None)))
        return cls(tuple(shards))

    @classmethod
    def from_parquet(
        cls,
        directory: Path | str,
        label: str = "label",
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
    ) -> Self:
        """Read NAME.parquet; samples are a column of lists, or columns of numbers.

        The columns are ``features``, in this order; by default those of the first file without labels and weights, and
        all files must have the same, in any order.
        """
        files, like = _files(directory, ".parquet"), None
        if features is None:
            features, like = parquet_features(files[0], label, weight), files[0].name
        columns = (features,) if isinstance(features, str) else tuple(features)
        return cls(tuple(Shard(file.name, read_parquet, (file, label, weight, columns, like)) for file in files))

    @classmethod
    def from_zarr(cls, path: Path | str, rows: int, *, X: str = "X", y: str = "y", weight: str | None = None) -> Self:
        """Read arrays X (n, d) and y (n,) of a Zarr group, ``rows`` samples per shard."""
        folder = Path(path).absolute()
        numbers = range(open_zarr(folder)[X].shape[0])
        shards = []
        for part in (numbers[start : start + rows] for start in numbers[::rows]):
            name = f"rows {part.start} to {part.stop} of {folder.name}"
            shards.append(Shard(name, read_zarr, (folder, part, X, y, weight)))
        return cls(tuple(shards))

    def map(self, transform: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """Return shards whose samples pass through a function of rows, such as ``pca.transform``, when read."""
        return type(self)(tuple(replace(shard, transforms=(*shard.transforms, transform)) for shard in self.shards))


def _files(directory: Path | str, suffix: str, without: tuple[str, ...] = ()) -> list[Path]:
    """Return the files of a directory with a suffix, sorted; raise InputError if there are none."""
    folder = Path(directory).absolute()
    files = sorted(path for path in folder.glob(f"*{suffix}") if not path.name.endswith(without))
    if not files:
        raise InputError(f"there are no files *{suffix} in {folder}")
    return files
