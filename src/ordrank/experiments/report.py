"""Writing results: whole files or none, pages that need nothing beside them, and the same as Markdown."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Section:
    """A heading, sentences, tables (head and cells) and names of figures."""

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[tuple[list[str], list[list[str]]]] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a directory, each under a temporary name first, so that none is ever half-written."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = directory / f".{name}.{os.getpid()}"
        try:
            temporary.write_bytes(content)
            temporary.replace(directory / name)
        finally:
            temporary.unlink(missing_ok=True)


def html_page(title: str, body: Sequence[str]) -> bytes:
    """Join parts to a page with its own style sheet, light or dark as the reader's screen is."""
    style = (
        ":root{color-scheme:light dark}"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
        "table{border-collapse:collapse;margin:1rem 0 2rem}"
        "th,td{padding:.3rem .8rem;text-align:right;white-space:nowrap;border-bottom:1px solid #8888}"
        "th:first-child,td:first-child,.text{text-align:left;white-space:normal}img{max-width:100%;background:#fff;border-radius:6px}"
        "figure{margin:2rem 0}figcaption{max-width:50rem}"
    )
    content = "\n".join(body)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style>'
        f"<h1>{html.escape(title)}</h1>\n{content}\n</html>\n"
    ).encode()


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; every cell is escaped, and long ones read as text."""

    def data(cell: str) -> str:
        return f'<td class="text">{html.escape(cell)}</td>' if len(cell) > 60 else f"<td>{html.escape(cell)}</td>"

    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(map(data, row)) + "</tr>" for row in rows)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def html_figure(png: bytes, caption: str) -> str:
    """Return a picture inside the page, with its caption as alternative text too."""
    data = base64.b64encode(png).decode()
    text = html.escape(caption, quote=True)
    return f'<figure><img src="data:image/png;base64,{data}" alt="{text}"><figcaption>{text}</figcaption></figure>'


def as_documents(
    title: str, sections: Sequence[Section], files: Mapping[str, bytes], captions: Mapping[str, str]
) -> dict[str, bytes]:
    """One content as ``report.html``, which holds its figures, and as ``report.md``, which names them.

    Parameters
    ----------
    title : str
    sections : sequence of Section
    files : mapping
        Holds ``NAME.png`` of every figure.
    captions : mapping
        By name of figure.
    """
    return {
        "report.html": _as_page(title, sections, files, captions),
        "report.md": _as_markdown(title, sections, captions),
    }


def origin(document: Mapping[str, Any]) -> str:
    """Versions and machine that a document of results names, as a sentence."""
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    machine = document["machine"]
    return (
        f"{versions}. {machine['system']}, {machine['processor']}, {machine['cores']} cores, one BLAS thread a process."
    )


def _as_page(title: str, sections: Sequence[Section], files: Mapping[str, bytes], captions: Mapping[str, str]) -> bytes:
    body = []
    for section in sections:
        body.append(f"<h2>{html.escape(section.title)}</h2>")
        body += [f"<p>{html.escape(sentence)}</p>" for sentence in section.sentences]
        body += [html_table(*table) for table in section.tables]
        body += [html_figure(files[f"{name}.png"], captions[name]) for name in section.figures]
    return html_page(title, body)


def _as_markdown(title: str, sections: Sequence[Section], captions: Mapping[str, str]) -> bytes:
    lines = [f"# {title}"]
    for section in sections:
        lines += ["", f"## {section.title}"]
        for sentence in section.sentences:
            lines += ["", sentence]
        for head, cells in section.tables:
            lines += ["", _markdown_row(head), _markdown_row(["---"] * len(head)), *map(_markdown_row, cells)]
        for name in section.figures:
            lines += ["", f"![{captions[name]}]({name}.png)"]
    return ("\n".join(lines) + "\n").encode()


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
