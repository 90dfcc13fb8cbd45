"""Rank results as one HTML file: for each query its estimated grade, the probabilities and the ranked pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ordrank._format import format_number, format_percent, pluralize
from ordrank._io import write_files
from ordrank.collection.access import read_store
from ordrank.collection.types import RankResult
from ordrank.errors import CollectionError, InputError

GENERATOR = '<meta name="generator" content="ordrank">'  # within the first 1000 bytes: such a file may be overwritten
MAX_ROWS = 12  # probabilities of more grades are drawn as columns


def check_report_file(file: Path) -> None:
    """Raise InputError if a report cannot be written there, or would replace anything but a report."""
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a file in it with --html")
    if file.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{file}: the name of a page must end in .html")
    if file.exists():
        with file.open("rb") as stream:
            if GENERATOR.encode() not in stream.read(1000):
                raise InputError(f"{file} exists and was not written by ordrank; name another file with --html")


def write_report(directory: Path, results: Sequence[RankResult], out: Path) -> None:
    """Write results of a collection as an HTML page."""
    check_report_file(out)
    shown = {hit.id for result in results for hit in result.hits} | {result.id for result in results}
    ids = sorted(picture for picture in shown if picture is not None)
    with read_store(directory) as store:
        if store.count(ids) < len(ids):  # since the ranking
            raise CollectionError(f"{directory} changed while it was being read; try again")
        thumbnails = dict(zip(ids, store.thumbnails(ids), strict=True))
    names = _without_folders([result.query for result in results])
    complete = [
        replace(r, query=name, thumbnail=r.thumbnail if r.id is None else thumbnails[r.id])
        for r, name in zip(results, names, strict=True)
    ]
    write_files(out.parent, {out.name: render_report(complete, thumbnails, collection=directory.absolute().name)})


def _without_folders(queries: Sequence[str]) -> list[str]:
    """Return queries without the folder that absolute paths have in common: a page is passed on to others."""
    absolute = [query for query in queries if os.path.isabs(query)]
    common = os.path.commonpath([os.path.dirname(query) for query in absolute]) if absolute else ""
    return [os.path.relpath(query, common) if os.path.isabs(query) else query for query in queries]


def render_report(results: Sequence[RankResult], thumbnails: Mapping[int, bytes], *, collection: str) -> bytes:
    """Return a self-contained HTML page: images embedded, no script, no external resource.

    Parameters
    ----------
    results : sequence of RankResult
        One section each, in this order.
    thumbnails : mapping of int to bytes
        JPEG of every hit, by picture id.
    collection : str
        Name of the collection, for the title.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ordrank.collection"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "base64": lambda data: base64.b64encode(data).decode(),
        "number": format_number,
        "percent": format_percent,
        "pluralize": pluralize,
    }
    page = environment.get_template("report.html").render(
        collection=collection,
        results=results,
        hits=[hit for result in results for hit in result.hits],
        thumbnails=thumbnails,
        max_rows=MAX_ROWS,
    )
    return page.encode(errors="replace")  # file names need not be valid Unicode
