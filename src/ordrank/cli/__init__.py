"""The command line. Every heavy import waits inside its command."""

from __future__ import annotations

import atexit
import gc
from importlib.metadata import entry_points
from typing import Annotated

import typer

from ordrank.cli import collection, reading, serve
from ordrank.cli.terminal import escape_unencodable_output

app = typer.Typer(
    name="ordrank",
    help="Learn a distance from pictures with ordered labels; grade and rank new pictures with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
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
    escape_unencodable_output()
    atexit.register(gc.freeze)  # or Python takes a quarter of a second to look at all it has loaded once more


app.add_typer(collection.commands)
app.add_typer(reading.commands)
app.add_typer(serve.commands)
for entry in entry_points(group="ordrank.commands"):  # of other distributions
    try:
        app.add_typer(entry.load())
    except Exception as error:  # noqa: BLE001 - a broken plug-in must not break the other commands
        named = entry.value if entry.dist is None else entry.dist.name
        typer.echo(f"ordrank: the commands of {named} cannot be loaded: {error}", err=True)
