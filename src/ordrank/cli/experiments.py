"""The commands ``demo``, ``reproduce`` and ``compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ordrank.cli.terminal import plain_errors, progress

commands = typer.Typer()


@commands.command(epilog="Examples: `ordrank demo` · `ordrank demo --pictures 200 --out fruit` · `ordrank demo --json`")
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
    from ordrank.pages import write_files

    with plain_errors(), progress(quiet=as_json) as (tell, _):
        result = run_demo(pictures, size=size, seed=seed, tell=tell)
        write_files(out, result.files)
    if as_json:
        typer.echo(json.dumps(result.as_document() | {"files": [str(out / name) for name in result.files]}, indent=2))
        return
    head, cells = table_of(result.rows)
    table = Table(title=f"{len(result.rows)} distances, {pictures} fruits: half teach, half are queries")
    for i, title in enumerate(head):
        table.add_column(title, justify="left" if i == 0 else "right", min_width=13 if i == 0 else None)
    for row in cells:
        table.add_row(*row)
    Console().print(table)
    typer.echo(f"Open {out / 'report.html'}")


DataOption = Annotated[
    Path | None, typer.Option(help="Where the data are; what ORDRANK_DATA names by default.", show_default=False)
]
RepeatsOption = Annotated[int, typer.Option(help="Random splits of each cell; 5 for a quick look.")]
ReportOption = Annotated[Path, typer.Option(help="Folder for the report; made if missing.")]
JobsOption = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]


def run_experiment(experiment: Callable[..., Any], dataset: str, *, quiet: bool, **options: Any) -> Any:
    """Run a long experiment with its progress on standard error; ``options`` are those of ``Run``."""
    from ordrank.experiments.journal import Run

    resumable = "what was finished is kept, and the same command goes on from there"
    with plain_errors(resumable), progress(quiet=quiet) as (tell, tick):
        return experiment(dataset, Run(**options, tell=tell, tick=tick))


class PaperData(StrEnum):
    """What can be re-run."""

    umist = "umist"
    fgnet = "fgnet"
    all = "all"


@commands.command(
    epilog="Examples: `ordrank reproduce all` · `ordrank reproduce umist --repeats 5` · "
    "`ordrank reproduce fgnet --data ~/faces --json`"
)
def reproduce(
    dataset: Annotated[PaperData, typer.Argument(help="The data set whose tables and figures to re-run.")],
    data: DataOption = None,
    repeats: RepeatsOption = 50,
    out: ReportOption = Path("reproduction"),
    jobs: JobsOption = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as one JSON document.")] = False,
) -> None:
    """Re-run the paper's tables and figures: published, literal, calibrated and baseline, side by side.

    An interrupted run goes on where it was when the same command is given again.
    """
    from ordrank.experiments.reproduce import reproduce as run

    result = run_experiment(run, dataset.value, quiet=as_json, data=data, repeats=repeats, out=out, n_jobs=jobs)
    if as_json:
        typer.echo(json.dumps(result.document["rows"], indent=1))
        return
    summary = result.document["summary"]
    typer.echo(
        f"cMDS-DML calibrated at or below its published MAE in {summary['cmds_at_or_below_published']} of "
        f"{summary['cmds_cells']} cells, LDMLR in {summary['ldmlr_at_or_below_published']} of "
        f"{summary['shared_cells']}; cMDS-DML beats LDMLR in {summary['cmds_beats_ldmlr_own_votes']} of "
        f"{summary['shared_cells']}."
    )
    typer.echo(f"Open {out / 'report.html'}")


class ContestData(StrEnum):
    """What can be compared on."""

    umist = "umist"
    fgnet = "fgnet"
    retinamnist = "retinamnist"
    tables = "tables"
    all = "all"


@commands.command(
    epilog="Examples: `ordrank compare all` · `ordrank compare tables --repeats 5 --out quick` · "
    "`ordrank compare umist --data ~/faces --json`"
)
def compare(
    dataset: Annotated[ContestData, typer.Argument(help="The data set to compare on.")],
    data: DataOption = None,
    repeats: RepeatsOption = 50,
    out: ReportOption = Path("comparison"),
    jobs: JobsOption = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document.")] = False,
) -> None:
    """Compare the default model with the paper's methods and with other packages, all on the same splits.

    An interrupted run goes on where it was when the same command is given again. Methods whose package is not
    installed are shown as such.
    """
    from ordrank.experiments.compare import compare as run
    from ordrank.experiments.compare_report import summary_sentence

    result = run_experiment(run, dataset.value, quiet=as_json, data=data, repeats=repeats, out=out, n_jobs=jobs)
    if as_json:
        typer.echo(json.dumps(result.document, indent=1))
        return
    typer.echo(summary_sentence(result.document["summary"]))
    typer.echo(f"Open {out / 'report.html'}")
