"""Reports as one self-contained HTML page and as Markdown."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Table = tuple[list[str], list[list[str]]]  # head and rows

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{{ title }}</title>
<style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0 2rem }
th, td { padding: .3rem .8rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #8888 }
th:first-child, td:first-child, .text { text-align: left; white-space: normal }
img { max-width: 100%; background: #fff; border-radius: 6px }
figure { margin: 2rem 0 }
figcaption { max-width: 50rem }
</style>
<h1>{{ title }}</h1>
{% for section in sections -%}
<h2>{{ section.title }}</h2>
{% for sentence in section.sentences -%}
<p>{{ sentence }}</p>
{% endfor -%}
{% for head, rows in section.tables -%}
<table><thead><tr>{% for cell in head %}<th scope="col">{{ cell }}</th>{% endfor %}</tr></thead><tbody>
{% for row in rows -%}
<tr>{% for cell in row %}<td{% if cell|length > 60 %} class="text"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor -%}
</tbody></table>
{% endfor -%}
{% for name in section.figures -%}
<figure><img src="data:image/png;base64,{{ images[name] }}" alt="{{ captions[name] }}">
<figcaption>{{ captions[name] }}</figcaption></figure>
{% endfor -%}
{% endfor -%}
</html>
"""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, tables and names of figures."""

    title: str
    sentences: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)


def as_documents(
    title: str, sections: Sequence[Section], files: Mapping[str, bytes], captions: Mapping[str, str]
) -> dict[str, bytes]:
    """Return ``report.html``, which embeds its figures, and ``report.md``, which links to them.

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
        "report.html": as_page(title, sections, files, captions),
        "report.md": _as_markdown(title, sections, captions),
    }


def as_page(title: str, sections: Sequence[Section], files: Mapping[str, bytes], captions: Mapping[str, str]) -> bytes:
    """Return the HTML page of :func:`as_documents`."""
    from jinja2 import Environment

    images = {name: b64encode(files[f"{name}.png"]).decode() for section in sections for name in section.figures}
    page = Environment(autoescape=True).from_string(_PAGE)
    return page.render(title=title, sections=sections, images=images, captions=captions).encode()


def origin(document: Mapping[str, Any], threads: str = "one BLAS thread a process") -> str:
    """Return versions and machine of a results document as sentences; ``threads`` says what it computed with."""
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    machine = document["machine"]
    return f"{versions}. {machine['system']}, {machine['processor']}, {machine['cores']} cores, {threads}."


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
