"""The command line. Every heavy import waits inside its command."""

from __future__ import annotations

import atexit
import gc
from typing import Annotated

import typer

from ordrank.cli import collection, demo, experiments, serve
from ordrank.cli.terminal import never_fail_to_print

app = typer.Typer(
    name="ordrank",
    help="Learn a distance from pictures with ordered labels; grade and rank new pictures with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


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
    never_fail_to_print()
    atexit.register(gc.freeze)  # or Python takes a quarter of a second to look at all it has loaded once more


# Without a name their commands stand beside each other at the top.
for part in (collection, serve, demo, experiments):
    app.add_typer(part.commands)
