"""The command ``demo``: fit, evaluate and rank a folder of drawn fruit, and compare four distances on it."""

from __future__ import annotations

import io
import json
import shlex
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank.cli.terminal import (
    RESUMABLE,
    JsonOption,
    console,
    examples,
    plain_errors,
    print_json,
    progress_bar,
    showable,
)

if TYPE_CHECKING:
    from ordrank_experiments.demo import DemoRow

commands = typer.Typer()


@commands.command(
    epilog=examples("ordrank demo", "ordrank demo --pictures 200 --out fruit", "ordrank demo --json > scores.json")
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for all files; created if missing.")] = Path("demo"),
    pictures: Annotated[int, typer.Option(help="Number of fruits to draw, at least 60.")] = 600,
    size: Annotated[int, typer.Option(help="Side of a picture in pixels.", min=16, max=512)] = 64,
    seed: Annotated[int, typer.Option(help="Random seed of the pictures and of the split.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw a folder of ripening fruit, and run ordrank on it as on pictures of your own.

    Shows each command and its output, compares four distances, and writes two pages.
    """
    with plain_errors(), progress_bar(quiet=as_json) as progress:
        from ordrank_experiments.demo import draw_fruit, run_demo
        from ordrank_experiments.demo_folder import check_folder, fill_folder, picture_name, three_queries

        check_folder(out, pictures)
        fruit = draw_fruit(pictures, size=size, seed=seed, progress=progress)
    with plain_errors(RESUMABLE):
        fill_folder(out, fruit, {"pictures": pictures, "size": size, "seed": seed})
    collection, queries = out / "collection", three_queries(fruit)
    _ordrank("fit", out / "pictures", "--labels", out / "grades.csv", "--out", collection, as_json=as_json)
    evaluation = _ordrank("evaluate", collection, as_json=as_json)
    ranked = _ordrank("rank", collection, *map(picture_name, queries), "--html", out / "results.html", as_json=as_json)
    with plain_errors(RESUMABLE), progress_bar(quiet=as_json) as progress, warnings.catch_warnings():
        from ordrank._io import write_files

        warnings.simplefilter("ignore", UserWarning)  # about grades with few pictures
        compared = run_demo(pictures, size=size, seed=seed, progress=progress, fruit=fruit)
        write_files(out, compared.files)
    if not as_json:
        _print_rows(compared.rows, pictures)
        typer.echo(f"Open {out / 'results.html'} for the three queries and their nearest pictures,")
        typer.echo(f"and {out / 'report.html'} for the comparison of four distances;")
        typer.echo(f"`ordrank serve {collection}` shows all pictures in the browser.")
        return
    results = [
        {"query": result["query"], "grade": result["grade"], "true_grade": f"{grade:g}", "value": result["value"]}
        for result, grade in zip(ranked["results"], fruit.grade[queries], strict=True)
    ]
    files = [str(out / name) for name in (*compared.files, "results.html", "grades.csv")]
    print_json({**compared.as_document(), "evaluation": evaluation, "results": results, "files": files})


def _ordrank(*words: Path | str, as_json: bool) -> Any:
    """Print and run a command of ordrank; with ``as_json``, print nothing and return its JSON document."""
    from ordrank.cli import app

    command, arguments, captured = typer.main.get_command(app), list(map(str, words)), io.StringIO()
    if as_json:
        with redirect_stdout(captured):
            code = command.main([*arguments, "--json"], "ordrank", standalone_mode=False)
    else:
        typer.echo(f"\n$ ordrank {shlex.join(arguments)}")
        code = command.main(arguments, "ordrank", standalone_mode=False)
    if code:
        raise typer.Exit(code)
    return json.loads(captured.getvalue()) if as_json else None


def _print_rows(rows: Sequence[DemoRow], pictures: int) -> None:
    from rich.table import Table

    from ordrank_experiments.demo import table_of

    screen = console()
    head, cells = table_of(rows)
    table = Table(title=f"{len(rows)} distances, {pictures} fruits, half for training")
    for i, title in enumerate(head):
        table.add_column(showable(screen, title), justify="left" if i == 0 else "right", min_width=0 if i else 13)
    for row in cells:
        table.add_row(*row)
    screen.print(table)
