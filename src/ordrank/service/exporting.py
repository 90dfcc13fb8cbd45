"""Carrying a collection on to other programs: one row per picture, as Parquet or CSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank.collection.records import Header, Row
from ordrank.collection.store import Store, read_store
from ordrank.collection.training import model_of
from ordrank.errors import InputError

_ROWS_PER_BLOCK = 4096
_COLUMNS = ("name", "path", "sha256", "width", "height", "grade", "estimate")

Block = tuple[list[Row], NDArray[np.float32]]


def export(collection: Path, out: Path) -> int:
    """Write all pictures with their grades, estimated grades and places in the learned space.

    Parameters
    ----------
    collection : Path
    out : Path
        Its folder is made if missing. ``.parquet``: the place is a column of lists, ``embedding``; ``.csv``: it is
        columns ``e0, e1, ...``. The first columns of the place are the order, the others the appearance.

    Returns
    -------
    int
        Number of rows.
    """
    writers: dict[str, Callable[[Path, Header, int, Iterator[Block]], None]] = {
        ".parquet": _write_parquet,
        ".csv": _write_csv,
    }
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file in it that ends in {' or '.join(writers)}")
    write = writers.get(out.suffix.lower())
    if write is None:
        raise InputError(f"{out}: the name must end in {' or '.join(writers)}")
    with read_store(collection) as store:
        model_of(store)  # a collection without a whole model has no places worth carrying on
        places = store.places()
        with _whole_or_not(out) as temporary:
            write(temporary, store.header, places.vectors.shape[1], _blocks(store, places.ids, places.vectors))
        return len(places.ids)


def _blocks(store: Store, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Iterator[Block]:
    for start in range(0, len(ids), _ROWS_PER_BLOCK):
        rows = slice(start, start + _ROWS_PER_BLOCK)
        yield store.rows(ids[rows].tolist()), vectors[rows]


@contextmanager
def _whole_or_not(out: Path) -> Iterator[Path]:
    """Yield a temporary name that becomes the wanted one only if everything could be written."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}")
    out.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield temporary
        temporary.replace(out)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(out)) from None  # nobody knows the temporary name
    finally:
        temporary.unlink(missing_ok=True)


def _write_csv(file: Path, header: Header, width: int, blocks: Iterator[Block]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*_COLUMNS, *(f"e{i}" for i in range(width))])
        for rows, vectors in blocks:
            for row, vector in zip(rows, vectors, strict=True):
                writer.writerow([*_cells(header, row), *(f"{value:.9g}" for value in vector)])


def _write_parquet(file: Path, header: Header, width: int, blocks: Iterator[Block]) -> None:
    pa, parquet = _pyarrow()
    of_grade = pa.float64() if header.order is None else pa.string()
    types = (pa.string(), pa.string(), pa.string(), pa.int32(), pa.int32(), of_grade, of_grade)
    schema = pa.schema([*zip(_COLUMNS, types, strict=True), ("embedding", pa.list_(pa.float32(), width))])
    with parquet.ParquetWriter(file, schema) as writer:
        for rows, vectors in blocks:
            columns = [list(column) for column in zip(*(_cells(header, row) for row in rows), strict=True)]
            embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), width)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_batch(pa.record_batch([*arrays, embedding], schema=schema))


def _cells(header: Header, row: Row) -> list[Any]:
    def cell(grade: float | None) -> float | str | None:
        return grade if grade is None or header.order is None else header.show(grade)

    return [row.name, row.path, row.sha256, row.width, row.height, cell(row.grade), cell(row.estimate)]


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow: pip install 'ordrank[parquet]', or export to a name that ends in .csv"
        ) from None
    return pyarrow, pyarrow.parquet
