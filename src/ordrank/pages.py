"""Whole files or none, and pages that need nothing beside them."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0 2rem}"
    "th,td{padding:.3rem .8rem;text-align:right;white-space:nowrap;border-bottom:1px solid #8888}"
    "th:first-child,td:first-child,.text{text-align:left;white-space:normal}img{max-width:100%;background:#fff;border-radius:6px}"
    "figure{margin:2rem 0}figcaption{max-width:50rem}"
)


def write_files(directory: Path, files: Mapping[str, bytes]) -> None:
    """Write files into a directory, each under a temporary name first, so that none is ever half-written."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        temporary = directory / f".{name}.{os.getpid()}"
        try:
            with temporary.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(directory / name)
        finally:
            temporary.unlink(missing_ok=True)


def html_page(title: str, body: Sequence[str], *, style: str = STYLE, policy: str | None = None) -> bytes:
    """Join parts to a page with its own style sheet, light or dark as the reader's screen is.

    Parameters
    ----------
    title : str
        Also the first heading.
    body : sequence of str
        HTML.
    style : str
        Style sheet.
    policy : str or None
        Content security policy that the page puts on itself.
    """
    content = "\n".join(body)
    guard = f'<meta http-equiv="Content-Security-Policy" content="{html.escape(policy)}">' if policy else ""
    page = (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8">{guard}<title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{style}</style>'
        f"<h1>{html.escape(title)}</h1>\n{content}\n</html>\n"
    )
    # Names of files need not be valid text; what cannot be written becomes a question mark.
    return page.encode(errors="replace")


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
