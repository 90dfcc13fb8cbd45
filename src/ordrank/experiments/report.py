"""Reports: one content as a page that needs nothing beside it, and as Markdown."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ordrank.pages import html_figure, html_page, html_table


@dataclass(frozen=True)
class Section:
    """A heading, sentences, tables (head and cells) and names of figures."""

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[tuple[list[str], list[list[str]]]] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)


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
