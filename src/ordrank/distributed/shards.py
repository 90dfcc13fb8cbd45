"""Samples in pieces that one worker can read: files that all workers see, or the blocks of a Dask array.

A shard is a description: it is read where it is needed, a block of rows at a time, and never sent anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray, IntArray
from ordrank.distributed.sizes import Weighed
from ordrank.errors import InputError
from ordrank.smoothing import row_blocks

# Samples (b, d), labels (b,) and weights (b,).
Block: TypeAlias = tuple[NDArray[np.floating], FloatArray, FloatArray]


class Source(Protocol):
    """Where the rows of a shard come from."""

    def samples(self) -> Iterator[NDArray[Any]]:
        """All samples (n, d) in their order, some rows at a time."""
        ...

    def labels(self) -> NDArray[Any]:
        """Their labels, (n,)."""
        ...

    def weights(self) -> NDArray[Any] | None:
        """Their weights, (n,), if they have any."""
        ...


@dataclass(frozen=True)
class ArraySource:
    """Arrays in the memory of a worker."""

    X: NDArray[Any]
    y: NDArray[Any]
    sample_weight: NDArray[Any] | None = None

    def samples(self) -> Iterator[NDArray[Any]]:
        """Views of the rows."""
        for rows in row_blocks(*self.X.shape):
            yield self.X[rows]

    def labels(self) -> NDArray[Any]:
        """Of the rows."""
        return self.y

    def weights(self) -> NDArray[Any] | None:
        """Of the rows."""
        return self.sample_weight


@dataclass(frozen=True)
class NpySource:
    """Arrays in files of NumPy. Rows are read, not mapped: mapped pages would count as memory of the worker."""

    X: Path
    y: Path
    sample_weight: Path | None = None

    def samples(self) -> Iterator[NDArray[Any]]:
        """Some rows at a time."""
        header = np.load(self.X, mmap_mode="r")
        if header.ndim != 2:
            raise InputError(f"{self.X} holds an array of shape {header.shape}; samples are the rows of a matrix")
        for rows in row_blocks(*header.shape):
            if header.flags.f_contiguous and not header.flags.c_contiguous:
                yield np.ascontiguousarray(header[rows])
                continue
            count, start = (rows.stop - rows.start) * header.shape[1], rows.start * header.shape[1]
            offset = header.offset + start * header.itemsize
            yield np.fromfile(self.X, header.dtype, count, offset=offset).reshape(-1, header.shape[1])

    def labels(self) -> NDArray[Any]:
        """The whole file."""
        labels: NDArray[Any] = np.load(self.y)
        return labels

    def weights(self) -> NDArray[Any] | None:
        """The whole file."""
        return None if self.sample_weight is None else np.load(self.sample_weight)


@dataclass(frozen=True)
class ParquetSource:
    """A Parquet file with a column of labels. Samples are a column of lists of one length, or all other columns."""

    path: Path
    label: str
    weight: str | None = None
    features: tuple[str, ...] | None = None

    def samples(self) -> Iterator[NDArray[Any]]:
        """One record batch at a time."""
        file = self._open()
        names = [name for name in file.schema_arrow.names if name not in (self.label, self.weight)]
        names = names if self.features is None else list(self.features)
        lists = len(names) == 1 and hasattr(file.schema_arrow.field(names[0]).type, "value_type")
        for batch in file.iter_batches(batch_size=8192, columns=names):
            if lists:
                yield np.stack(batch.column(0).to_numpy(zero_copy_only=False))
            elif batch.num_rows:
                yield np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in names])

    def labels(self) -> NDArray[Any]:
        """Column of labels."""
        return self._column(self.label)

    def weights(self) -> NDArray[Any] | None:
        """Column of weights."""
        return None if self.weight is None else self._column(self.weight)

    def _column(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = self._open().read(columns=[name]).column(name).to_numpy()
        return column

    def _open(self) -> Any:
        try:
            from pyarrow.parquet import ParquetFile
        except ImportError as error:
            raise InputError("Parquet shards need pyarrow; install it with pip install 'ordrank[parquet]'") from error
        return ParquetFile(self.path)


@dataclass(frozen=True)
class ZarrSource:
    """Rows of arrays of a Zarr group."""

    path: Path
    start: int
    stop: int
    X: str = "X"
    y: str = "y"
    weight: str | None = None

    def samples(self) -> Iterator[NDArray[Any]]:
        """One chunk of rows at a time."""
        array = open_zarr(self.path)[self.X]
        for start in range(self.start, self.stop, array.chunks[0]):
            yield np.asarray(array[start : min(start + array.chunks[0], self.stop)])

    def labels(self) -> NDArray[Any]:
        """Of the rows."""
        return np.asarray(open_zarr(self.path)[self.y][self.start : self.stop])

    def weights(self) -> NDArray[Any] | None:
        """Of the rows."""
        return None if self.weight is None else np.asarray(open_zarr(self.path)[self.weight][self.start : self.stop])


def open_zarr(path: Path) -> Any:
    """A group, to be read."""
    try:
        import zarr
    except ImportError as error:
        raise InputError("Zarr shards need zarr; install it with pip install zarr") from error
    return zarr.open_group(str(path), mode="r")


@dataclass(frozen=True)
class Shard(Weighed):
    """Labelled samples that count, as floating-point numbers.

    Attributes
    ----------
    source : Source
    name : str
        For messages.
    steps : tuple of callables
        What samples go through when they are read, for example a principal component analysis.
    """

    source: Source
    name: str
    steps: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = ()

    def blocks(self) -> Iterator[Block]:
        """Samples, labels and weights in their order, without those of weight 0."""
        labels, weights, start = self._labels(), self._weights(), 0
        if len(weights) != len(labels):
            raise InputError(f"{self.name} has {len(labels)} labels, but {len(weights)} weights")
        for X in self.source.samples():
            rows = slice(start, start + len(X))
            start = rows.stop
            if len(labels[rows]) < len(X):
                break
            block = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
            for step in self.steps:
                block = step(block) if len(block) else block
            counted = weights[rows] > 0
            if counted.all():
                yield block, labels[rows], weights[rows]
            elif counted.any():
                yield block[counted], labels[rows][counted], weights[rows][counted]
        if start != len(labels):
            raise InputError(f"{self.name} has {len(labels)} labels, but another number of samples")

    def whole(self) -> Block:
        """All of it in memory."""
        columns = tuple(zip(*self.blocks(), strict=True))
        if not columns:
            return np.empty((0, 0)), np.empty(0), np.empty(0)
        X, y, weights = (np.concatenate(column) for column in columns)
        return X, y, weights

    def take(self, rows: IntArray) -> Block:
        """Some rows, rising, of those that count."""
        start, taken = 0, []
        for block in self.blocks():
            here = rows[(rows >= start) & (rows < start + len(block[1]))] - start
            start += len(block[1])
            if len(here):
                taken.append(tuple(column[here] for column in block))
        X, y, weights = (np.concatenate(column) for column in zip(*taken, strict=True))
        return X, y, weights

    def _labels(self) -> FloatArray:
        labels = np.asarray(self.source.labels())
        if labels.ndim != 1 or labels.dtype.kind not in "biuf":
            raise InputError(f"the labels of {self.name} must be one number for each sample, got {labels.dtype} values")
        if not np.isfinite(labels).all():
            raise InputError(f"{self.name} has labels that are missing or infinite; leave those samples out")
        return labels.astype(np.float64)

    def _weights(self) -> FloatArray:
        given = self.source.weights()
        weights = np.ones(len(self.source.labels())) if given is None else np.asarray(given, dtype=np.float64)
        if not np.isfinite(weights).all() or weights.min(initial=0) < 0:
            raise InputError(f"{self.name} has weights that are negative, missing or infinite")
        return weights


@dataclass(frozen=True)
class Shards:
    """Labelled samples in files that every worker can read, each of which fits into a part of its memory.

    Attributes
    ----------
    shards : tuple of Shard
        The order of the samples is that of the shards.

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
        """Files NAME.npy (n, d), each with NAME.labels.npy (n,) and perhaps NAME.weights.npy (n,) beside it."""
        folder = Path(directory).absolute()
        samples = sorted(path for path in folder.glob("*.npy") if not path.stem.endswith((".labels", ".weights")))
        sources = []
        for path in _some(samples, folder, "*.npy"):
            labels, weights = (path.with_name(f"{path.stem}.{kind}.npy") for kind in ("labels", "weights"))
            if not labels.exists():
                raise InputError(f"there are no labels for {path}; they should be in {labels.name} beside it")
            sources.append(NpySource(path, labels, weights if weights.exists() else None))
        return cls(tuple(Shard(source, source.X.name) for source in sources))

    @classmethod
    def from_parquet(
        cls,
        directory: Path | str,
        label: str = "label",
        *,
        weight: str | None = None,
        features: Sequence[str] | None = None,
    ) -> Self:
        """Files NAME.parquet; samples are a column of lists, or all columns but the labels and weights."""
        folder, chosen = Path(directory).absolute(), None if features is None else tuple(features)
        files = _some(sorted(folder.glob("*.parquet")), folder, "*.parquet")
        return cls(tuple(Shard(ParquetSource(file, label, weight, chosen), file.name) for file in files))

    @classmethod
    def from_zarr(cls, path: Path | str, rows: int, *, X: str = "X", y: str = "y", weight: str | None = None) -> Self:
        """Arrays X (n, d) and y (n,) of a Zarr group, so many rows in a shard."""
        folder = Path(path).absolute()
        n = open_zarr(folder)[X].shape[0]
        bounds = [(start, min(start + rows, n)) for start in range(0, n, rows)]
        sources = [ZarrSource(folder, start, stop, X, y, weight) for start, stop in bounds]
        return cls(tuple(Shard(part, f"rows {part.start} to {part.stop} of {folder.name}") for part in sources))

    def mapped(self, step: Callable[[NDArray[Any]], NDArray[Any]]) -> Self:
        """The same with samples that go through a function of rows when they are read, such as ``pca.transform``."""
        return replace(self, shards=tuple(replace(shard, steps=(*shard.steps, step)) for shard in self.shards))


def _some(paths: list[Path], folder: Path, pattern: str) -> list[Path]:
    if not paths:
        raise InputError(f"there are no files {pattern} in {folder}")
    return paths
