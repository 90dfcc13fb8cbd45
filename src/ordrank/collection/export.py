"""Export of a collection: one row per picture, as Parquet or CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ordrank._io import replace_when_complete
from ordrank.collection.access import read_store
from ordrank.collection.csv_cells import escape_formulas
from ordrank.collection.database import content_sha256
from ordrank.collection.model_file import current_model
from ordrank.collection.store import Store
from ordrank.collection.types import Header, ImageRow
from ordrank.errors import InputError

_ROWS_PER_BLOCK = 4096
COLUMNS = ("name", "path", "sha256", "width", "height", "grade", "estimate", "lowest", "highest", "group")

Block = tuple[list[ImageRow], NDArray[np.float32]]


def export_collection(directory: Path, out: Path) -> int:
    """Write all embedded pictures to a file and return their number; see :meth:`Collection.export`."""
    writers: dict[str, Callable[[Path, Header, int, Iterator[Block]], None]] = {
        ".parquet": _write_parquet,
        ".csv": _write_csv,
    }
    if out.is_dir():
        raise InputError(f"{out} is a folder; name a file in it that ends in {' or '.join(writers)}")
    write = writers.get(out.suffix.lower())
    if write is None:
        raise InputError(f"{out}: the name must end in {' or '.join(writers)}")
    if out.exists() and not _is_export(out):
        raise InputError(f"{out} exists and is not an export of a collection; name another file")
    with read_store(directory) as store:
        current_model(directory, store.header)  # embeddings without their model are of no use
        embeddings = store.embeddings()
        with replace_when_complete(out) as temporary:
            blocks = _blocks(store, embeddings.ids, embeddings.vectors)
            write(temporary, store.header, embeddings.vectors.shape[1], blocks)
        return len(embeddings.ids)


def cells(header: Header, row: ImageRow) -> list[Any]:
    """Return the values of :data:`COLUMNS`; named grades as names."""

    def cell(grade: float | None) -> float | str | None:
        return grade if grade is None or header.order is None else header.format_grade(grade)

    grades = map(cell, (row.grade, row.estimate, row.lowest, row.highest))
    return [row.name, row.path, content_sha256(row.sha256), row.width, row.height, *grades, row.group]


def _is_export(file: Path) -> bool:
    """Return whether a file has the columns of an export, and may be replaced by a newer one."""
    if file.suffix.lower() == ".csv":
        with file.open("rb") as stream:
            return stream.readline(1000).startswith(",".join(COLUMNS).encode())
    pa, parquet = _pyarrow()
    try:
        return tuple(parquet.read_schema(file).names[: len(COLUMNS)]) == COLUMNS
    except (pa.ArrowException, OSError):
        return False


def _blocks(store: Store, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Iterator[Block]:
    for start in range(0, len(ids), _ROWS_PER_BLOCK):
        rows = slice(start, start + _ROWS_PER_BLOCK)
        yield store.rows(ids[rows].tolist()), vectors[rows]


def _write_csv(file: Path, header: Header, width: int, blocks: Iterator[Block]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow([*COLUMNS, *(f"e{i}" for i in range(width))])
        for rows, vectors in blocks:
            for row, vector in zip(rows, vectors, strict=True):
                writer.writerow([*escape_formulas(cells(header, row)), *(f"{value:.9g}" for value in vector)])


def _write_parquet(file: Path, header: Header, width: int, blocks: Iterator[Block]) -> None:
    pa, parquet = _pyarrow()
    grade = pa.float64() if header.order is None else pa.string()
    types = (pa.string(), pa.string(), pa.string(), pa.int32(), pa.int32(), grade, grade, grade, grade, pa.string())
    schema = pa.schema([*zip(COLUMNS, types, strict=True), ("embedding", pa.list_(pa.float32(), width))])
    with parquet.ParquetWriter(file, schema) as writer:
        for rows, vectors in blocks:
            columns = [list(column) for column in zip(*(cells(header, row) for row in rows), strict=True)]
            embedding = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), width)
            arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
            writer.write_batch(pa.record_batch([*arrays, embedding], schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InputError(
            "Parquet needs pyarrow: pip install 'ordrank[parquet]', or export to a name that ends in .csv"
        ) from None
    return pyarrow, pyarrow.parquet
