"""The command line. Every heavy import waits inside its command."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="ordrank",
    help="Learn a distance from pictures with ordered labels; grade and rank new pictures with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Say in one sentence what was wrong with the input or the disk, and exit with 1."""
    from ordrank.errors import InputError

    try:
        yield
    except InputError as error:
        typer.echo(f"ordrank: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"ordrank: {error.strerror or error}: {error.filename or ''}".rstrip(": "), err=True)
        raise typer.Exit(1) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        from ordrank import __version__

        typer.echo(f"ordrank {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Learn a distance from pictures with ordered labels; grade and rank new pictures with it."""


@app.command(
    epilog="Examples: `ordrank demo` · `ordrank demo --pictures 200 --out /tmp/fruit` · `ordrank demo --json`"
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its figures; made if missing.")] = Path("demo"),
    pictures: Annotated[int, typer.Option(help="How many fruits to draw, at least 60.")] = 600,
    size: Annotated[int, typer.Option(help="Side of a picture in pixels.", min=16, max=512)] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the drawing and of the split.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Draw ripening fruit, learn a distance from one half, grade and rank the other.

    Prints a table of scores and writes a report to look at.
    """
    from rich.console import Console
    from rich.table import Table

    from ordrank.experiments.demo import run_demo, table_of
    from ordrank.experiments.report import write_files

    log = Console(stderr=True, quiet=not os.isatty(2) and as_json)
    with plain_errors():
        result = run_demo(pictures, size=size, seed=seed, tell=lambda text: log.print(f"[dim]{text} …[/dim]"))
        write_files(out, result.files)
    if as_json:
        typer.echo(json.dumps(result.as_document() | {"files": [str(out / name) for name in result.files]}, indent=2))
        return
    head, cells = table_of(result.rows)
    table = Table(title=f"{len(result.rows)} distances, {pictures} fruits: half teach, half are queries")
    for i, title in enumerate(head):
        table.add_column(title, justify="left" if i == 0 else "right")
    for row in cells:
        table.add_row(*row)
    Console().print(table)
    typer.echo(f"Open {out / 'report.html'}")
