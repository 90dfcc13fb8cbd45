"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def _checked_jobs(jobs: int) -> int:
    if jobs < -1 or jobs == 0:
        raise typer.BadParameter(f"{jobs} is neither a number of processes, 1 or more, nor -1 for all cores.")
    return jobs


CollectionArgument = Annotated[Path, typer.Argument(help="Directory of the collection.", show_default=False)]
FileColumnOption = Annotated[str, typer.Option(help="Column of the CSV file that names the pictures.")]
GradeColumnOption = Annotated[str, typer.Option(help="Column of the CSV file that holds the grades.")]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        help="Column of the CSV file that names what a picture shows, such as the patient: pictures of one group "
        "are held out together.",
        show_default=False,
    ),
]
StrictOption = Annotated[
    bool | None,
    typer.Option(
        "--strict/--skip-bad",
        help="Fail if a file cannot be used, or skip also lines of the CSV file whose pictures are missing. By default "
        "files that cannot be used are reported, and missing ones are an error.",
        show_default=False,
    ),
]
BalancedOption = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--plain",
        help="Give every grade the same weight, however few pictures it has, or every picture. By default as in the "
        "last fit; plain for a new collection.",
        show_default=False,
    ),
]
DeviceOption = Annotated[str, typer.Option(help="Where a network computes features: cpu or cuda.")]
JobsOption = Annotated[
    int, typer.Option(help="Processes that read pictures; -1 for all cores.", callback=_checked_jobs)
]


def check_cluster(scheduler: str | None, workers: int | None) -> None:
    """Exit with a usage error if a cluster is named and another one is to be started."""
    if scheduler is not None and workers is not None:
        raise typer.BadParameter("--scheduler names a cluster, --workers starts one; give one of them.")
