"""The commands ``reproduce`` and ``compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ordrank.cli.terminal import examples, plain_errors, progress

commands = typer.Typer()


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
    epilog=examples(
        "ordrank reproduce all", "ordrank reproduce umist --repeats 5", "ordrank reproduce fgnet --data ~/faces --json"
    )
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
    epilog=examples(
        "ordrank compare all",
        "ordrank compare tables --repeats 5 --out quick",
        "ordrank compare umist --data ~/faces --json",
    )
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
