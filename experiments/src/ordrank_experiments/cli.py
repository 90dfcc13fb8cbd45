"""The commands ``reproduce`` and ``compare``."""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ordrank.cli.terminal import examples, plain_errors, progress_bar

commands = typer.Typer()

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the data sets; ORDRANK_DATA by default.", show_default=False)
]
RepeatsOption = Annotated[int, typer.Option(help="Random splits of each condition; 5 for a quick run.")]
ReportOption = Annotated[Path, typer.Option(help="Folder for the report; created if missing.")]
JobsOption = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]


def run_experiment(experiment: Callable[..., Any], dataset: str, *, quiet: bool, **options: Any) -> Any:
    """Run an experiment with its progress on standard error; ``options`` are those of ``Run``."""
    from ordrank_experiments.checkpoint import Run

    resumable = "finished splits are kept, and the same command resumes"
    with plain_errors(resumable), progress_bar(quiet=quiet) as progress:
        return experiment(dataset, Run(**options, progress=progress))


class PaperData(StrEnum):
    """Data sets of the paper."""

    umist = "umist"
    fgnet = "fgnet"
    all = "all"


@commands.command(
    epilog=examples(
        "ordrank reproduce all", "ordrank reproduce umist --repeats 5", "ordrank reproduce fgnet --data ~/faces --json"
    )
)
def reproduce(
    dataset: Annotated[PaperData, typer.Argument(help="Data set whose tables and figures to re-run.")],
    data: DataOption = None,
    repeats: RepeatsOption = 50,
    out: ReportOption = Path("reproduction"),
    jobs: JobsOption = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as one JSON document.")] = False,
) -> None:
    """Re-run the paper's tables and figures: published, literal, calibrated and baseline, side by side.

    The same command resumes an interrupted run.
    """
    from ordrank_experiments.reproduce import reproduce as run

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


class BenchmarkData(StrEnum):
    """Data sets of the comparison."""

    umist = "umist"
    fgnet = "fgnet"
    retinamnist = "retinamnist"
    tables = "tables"
    small_tables = "small-tables"
    drawn = "drawn"
    all = "all"


@commands.command(
    epilog=examples(
        "ordrank compare all",
        "ordrank compare tables --repeats 5 --out quick",
        "ordrank compare umist --data ~/faces --json",
    )
)
def compare(
    dataset: Annotated[BenchmarkData, typer.Argument(help="Data set to compare on.")],
    data: DataOption = None,
    repeats: RepeatsOption = 50,
    out: ReportOption = Path("comparison"),
    jobs: JobsOption = -1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document.")] = False,
) -> None:
    """Compare the default model with the paper's methods and with other packages, all on the same splits.

    The same command resumes an interrupted run. Methods whose package is not installed are listed as failed.
    """
    from ordrank_experiments.compare import compare as run
    from ordrank_experiments.compare_report import summary_sentence

    result = run_experiment(run, dataset.value, quiet=as_json, data=data, repeats=repeats, out=out, n_jobs=jobs)
    if as_json:
        typer.echo(json.dumps(result.document, indent=1))
        return
    typer.echo(summary_sentence(result.document["summary"]))
    typer.echo(f"Open {out / 'report.html'}")
