"""The commands ``reproduce`` and ``compare``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank.cli.terminal import examples, plain_errors, progress_bar, screen

if TYPE_CHECKING:
    from ordrank_experiments.photo_rows import PhotoRow

commands = typer.Typer()

DataOption = Annotated[
    Path | None, typer.Option(help="Folder of the data sets; ORDRANK_DATA by default.", show_default=False)
]
RepeatsOption = Annotated[int, typer.Option(help="Random splits of each condition; 5 for a quick run.")]
ReportOption = Annotated[Path, typer.Option(help="Folder for the report; created if missing.")]
JobsOption = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]


def run_experiment(experiment: Callable[..., Any], subject: Any, *, quiet: bool, **options: Any) -> Any:
    """Run an experiment on a data set or other subject, with its progress on standard error.

    ``options`` are those of ``Run``.
    """
    from ordrank_experiments.checkpoint import Run

    resumable = "finished splits are kept, and the same command resumes"
    with plain_errors(resumable), progress_bar(quiet=quiet) as progress:
        return experiment(subject, Run(**options, progress=progress))


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
    photos = "photos"
    all = "all"


class Device(StrEnum):
    """Where networks are trained."""

    cpu = "cpu"
    cuda = "cuda"


TABLE_WIDTH = 140
PHOTOS_PANEL = "Only for photos"
PHOTO_OPTIONS = ("device", "backbone", "image_size", "steps", "train", "losses", "seed")


@commands.command(
    epilog=examples(
        "ordrank compare all",
        "ordrank compare tables --repeats 5 --out quick",
        "ordrank compare umist --data ~/faces --json",
        "ordrank compare photos --device cuda --jobs 4",
        "ordrank compare photos --repeats 2 --train 200 --steps 30",
    )
)
def compare(
    context: typer.Context,
    dataset: Annotated[BenchmarkData, typer.Argument(help="Data set to compare on; photos is not part of all.")],
    data: DataOption = None,
    repeats: Annotated[
        int | None,
        typer.Option(help="Splits of each condition; 5 for a quick run.", show_default="50; for photos 10"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the report; created if missing.", show_default="comparison; for photos photo-comparison"
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; -1 for all cores.", show_default="-1; for photos 1")
    ] = None,
    device: Annotated[
        Device, typer.Option(help="Where networks are trained.", rich_help_panel=PHOTOS_PANEL)
    ] = Device.cpu,
    backbone: Annotated[
        str, typer.Option(help="Pretrained network, as OrdinalNetwork names it.", rich_help_panel=PHOTOS_PANEL)
    ] = "efficientnet-lite0",
    image_size: Annotated[
        int | None,
        typer.Option(
            min=32, help="Side of the pictures.", show_default="of its pretraining", rich_help_panel=PHOTOS_PANEL
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Batches of each network.", show_default="20 passes", rich_help_panel=PHOTOS_PANEL),
    ] = None,
    train: Annotated[
        int | None,
        typer.Option(
            min=10, help="At most so many training pictures.", show_default="all", rich_help_panel=PHOTOS_PANEL
        ),
    ] = None,
    losses: Annotated[
        str | None,
        typer.Option(help="Names of losses, with commas.", show_default="all", rich_help_panel=PHOTOS_PANEL),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of splits and networks.", show_default="2031", rich_help_panel=PHOTOS_PANEL),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as one JSON document.")] = False,
) -> None:
    """Compare the default model with the paper's methods and with other packages, all on the same splits.

    For photos: frozen and fine-tuned features of photographs, by loss of the network.

    The same command resumes an interrupted run. Methods whose package is not installed are listed as failed.
    """
    own = dataset is BenchmarkData.photos
    if not own:
        _reject_options(context, PHOTO_OPTIONS, f"of compare {dataset.value}")
    out = out or Path("photo-comparison" if own else "comparison")
    repeats = repeats if repeats is not None else 10 if own else 50
    jobs = jobs if jobs is not None else 1 if own else -1
    shared: dict[str, Any] = {"quiet": as_json, "data": data, "repeats": repeats, "out": out, "n_jobs": jobs}
    if own:
        from ordrank_experiments.compare_photos import compare_photos
        from ordrank_experiments.photo_methods import Training
        from ordrank_experiments.photo_report import summary_sentence as photo_sentence

        names = None if losses is None else tuple(name.strip() for name in losses.split(",") if name.strip())
        run_photos = partial(compare_photos, losses=names, seed=seed)
        result = run_experiment(run_photos, Training(device.value, backbone, image_size, steps, train), **shared)
        sentence = photo_sentence(result.document["summary"])
    else:
        from ordrank_experiments.compare import compare as run
        from ordrank_experiments.compare_report import summary_sentence

        result = run_experiment(run, dataset.value, **shared)
        sentence = summary_sentence(result.document["summary"])
    if as_json:
        typer.echo(json.dumps(result.document, indent=1))
        return
    if own:
        _print_photo_scores(result.rows)
    typer.echo(sentence)
    typer.echo(f"Open {out / 'report.html'}")


def _reject_options(context: typer.Context, names: Sequence[str], subject: str) -> None:
    """Raise BadParameter if one of these options was given."""
    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(f"--{name.replace('_', '-')} is no option {subject}.")


def _print_photo_scores(rows: Sequence[PhotoRow]) -> None:
    """Print the table of each condition."""
    from ordrank_experiments.photo_report import score_table

    show = screen()
    show.console.width = max(show.console.width, TABLE_WIDTH)  # a narrow terminal breaks lines; no number is cut off
    for condition in dict.fromkeys(row.condition for row in rows):
        here = [row for row in rows if row.condition == condition]
        head, cells = score_table(here)
        show.print(f"{', '.join(condition)}, {here[0].splits} splits")
        show.console.print(show.table(head, [[show.text(cell) for cell in row] for row in cells]))
