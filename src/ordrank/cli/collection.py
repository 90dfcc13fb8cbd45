"""The commands on collections: ``fit``, ``add``, ``remove``, ``rank``, ``evaluate``, ``info`` and ``export``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank.cli.terminal import (
    RESUMABLE,
    JsonOption,
    console,
    examples,
    plain_errors,
    print_bad,
    print_json,
    progress,
)

if TYPE_CHECKING:
    from ordrank._types import Answer
    from ordrank.cli.tables import Screen
    from ordrank.service import Grades

commands = typer.Typer()


def _checked_jobs(jobs: int) -> int:
    if jobs < -1 or jobs == 0:
        raise typer.BadParameter(f"{jobs} is neither a number of processes, 1 or more, nor -1 for all cores.")
    return jobs


CollectionArgument = Annotated[Path, typer.Argument(help="Directory of the collection.", show_default=False)]
FileColumnOption = Annotated[str, typer.Option(help="Column of the CSV file that names the pictures.")]
GradeColumnOption = Annotated[str, typer.Option(help="Column of the CSV file that holds the grades.")]
StrictOption = Annotated[
    bool,
    typer.Option(
        "--strict/--skip-bad", help="Fail if a file cannot be used, or go on without it and say which and why."
    ),
]
BalancedOption = Annotated[
    bool | None,
    typer.Option(
        "--balanced/--plain",
        help="Let every grade count the same, however few pictures it has, or every picture. As it was trained last; "
        "new collections plain.",
        show_default=False,
    ),
]
JobsOption = Annotated[
    int, typer.Option(help="Processes that read pictures; -1 for all cores.", callback=_checked_jobs)
]


@commands.command(
    epilog=examples(
        "ordrank fit pictures --labels grades.csv --out collection",
        "ordrank fit scans --labels scans.csv --order mild,moderate,severe --out knees",
        "ordrank fit --out collection",
    )
)
def fit(
    images: Annotated[
        Path | None, typer.Argument(help="Folder of pictures; without it the collection is trained again.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Directory of the collection; made if missing.", show_default=False)],
    labels: Annotated[
        Path | None, typer.Option(help="CSV file with the grades; a new collection needs it.", show_default=False)
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="What a new collection compares pictures by: pixels, pixels:48, pixels:48,grey, hog, onnx:FILE. "
            "Usually pixels.",
            show_default=False,
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Grades that are words, lowest first: mild,moderate,severe.", show_default=False),
    ] = None,
    file_column: FileColumnOption = "file",
    grade_column: GradeColumnOption = "grade",
    balanced: BalancedOption = None,
    strict: StrictOption = False,
    jobs: JobsOption = -1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask cluster whose workers read the pictures, tcp://HOST:PORT; they must see the folder "
            "under the same path.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Read the pictures with a Dask cluster of so many workers here.", min=1, show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a collection of a folder of pictures with grades, or train one again.

    Pictures that have not changed are not read again, and an interrupted run goes on where it was.
    """
    _check_cluster(scheduler, workers)
    with plain_errors(RESUMABLE, all_bad=as_json):
        from ordrank import service

        with progress(quiet=as_json) as (tell, tick):
            fitted = service.fit(
                images,
                out,
                grades=_grades(labels, file_column, grade_column, order),
                features=features,
                strict=strict,
                balanced=balanced,
                n_jobs=jobs,
                scheduler=scheduler,
                workers=workers,
                watch=service.Watch(tell, tick),
            )
        if as_json:
            print_json({"collection": str(out), **asdict(fitted)})
            return
        from ordrank.cli.tables import show_fitted

        print_bad(fitted.intake.bad)
        show_fitted(screen(), str(out), fitted)


@commands.command(
    epilog=examples(
        "ordrank add collection more", "ordrank add collection more --labels more.csv", "ordrank add collection one.jpg"
    )
)
def add(
    collection: CollectionArgument,
    images: Annotated[Path, typer.Argument(help="Folder of pictures, or one picture.", show_default=False)],
    labels: Annotated[
        Path | None, typer.Option(help="CSV file with grades; pictures need none.", show_default=False)
    ] = None,
    file_column: FileColumnOption = "file",
    grade_column: GradeColumnOption = "grade",
    strict: StrictOption = False,
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Add pictures to a trained collection; they can be ranked and vote at once.

    The model stays as it is until the next `ordrank fit`.
    """
    with plain_errors(RESUMABLE, all_bad=as_json):
        from ordrank import service

        with progress(quiet=as_json) as (tell, tick):
            grades = _grades(labels, file_column, grade_column, None)
            watch = service.Watch(tell, tick)
            intake = service.add(collection, images, grades=grades, strict=strict, n_jobs=jobs, watch=watch)
        if as_json:
            print_json({"collection": str(collection), **asdict(intake)})
            return
        from ordrank.cli.tables import show_added

        print_bad(intake.bad)
        show_added(screen(), str(collection), intake)


@commands.command(
    epilog=examples("ordrank remove collection fruit-0001.jpg", "ordrank remove collection a.jpg b.jpg --json")
)
def remove(
    collection: CollectionArgument,
    names: Annotated[list[str], typer.Argument(help="Names of pictures in it.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Forget pictures of a collection, all that are named or none; the files stay where they are."""
    with plain_errors():
        from ordrank import service

        left = service.remove(collection, names)
        removed = len(set(names))
        if as_json:
            print_json({"collection": str(collection), "removed": removed, "left": left})
            return
        screen().say(
            f"{removed} removed from {collection}, {left} left; `ordrank fit --out {collection}` learns without them"
        )


@commands.command(
    epilog=examples(
        "ordrank rank collection new.jpg",
        "ordrank rank collection a.jpg b.jpg -k 20 --html answers.html",
        "ordrank rank collection new.jpg --from moderate --to severe",
    )
)
def rank(
    collection: CollectionArgument,
    queries: Annotated[
        list[str], typer.Argument(help="Picture files, or names of pictures in the collection.", show_default=False)
    ],
    k: Annotated[int, typer.Option("-k", help="How many pictures to rank.", min=1)] = 10,
    within_grade: Annotated[bool, typer.Option("--within-grade", help="Only pictures of the estimated grade.")] = False,
    lowest: Annotated[
        str | None, typer.Option("--from", help="Only pictures of this grade or higher.", show_default=False)
    ] = None,
    highest: Annotated[
        str | None, typer.Option("--to", help="Only pictures of this grade or lower.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the answers with their pictures as a page.", show_default=False)
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask cluster whose workers search the collection, tcp://HOST:PORT; they must see it "
            "under the same path.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(help="Search with a Dask cluster of so many workers here.", min=1, show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the grade of pictures and find those most like them, nearest first."""
    _check_cluster(scheduler, workers)
    with plain_errors():
        from ordrank import service
        from ordrank.errors import InputError

        if html is not None and html.is_dir():
            raise InputError(f"{html} is a folder; name a file in it with --html")
        answers = service.ask(
            collection,
            queries,
            k=k,
            within_grade=within_grade,
            lowest=lowest,
            highest=highest,
            scheduler=scheduler,
            workers=workers,
        )
        if html is not None:
            write_sheet(html, answers, collection)
        if as_json:
            page = {} if html is None else {"html": str(html)}
            print_json({"collection": str(collection), "answers": [answer_document(a) for a in answers], **page})
            return
        from ordrank.cli.tables import show_answers

        show_answers(screen(), answers)
        if html is not None:
            screen().say(f"Open {html}")


@commands.command(
    epilog=examples("ordrank evaluate collection", "ordrank evaluate collection --folds 10 --json > scores.json")
)
def evaluate(
    collection: CollectionArgument,
    folds: Annotated[int, typer.Option(help="Parts, each of which is held out once.", min=2)] = 5,
    balanced: BalancedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how well a collection grades: fit without a part of its graded pictures, grade that part, and so on.

    The collection stays as it is.
    """
    with plain_errors("the collection is as it was"):
        from ordrank import service

        with progress(quiet=as_json) as (tell, tick):
            found = service.evaluate(collection, folds=folds, balanced=balanced, watch=service.Watch(tell, tick))
        if as_json:
            print_json({"collection": str(collection), **asdict(found)})
            return
        from ordrank.cli.tables import show_confusion, show_scores

        show_scores(screen(), found)
        show_confusion(screen(), found)


@commands.command(epilog=examples("ordrank info collection", "ordrank info collection --json"))
def info(collection: CollectionArgument, as_json: JsonOption = False) -> None:
    """Say what a collection holds: pictures, grades, features, what the model chose."""
    with plain_errors():
        from ordrank import service

        found = service.describe(collection)
        if as_json:
            print_json(asdict(found))
            return
        from ordrank.cli.tables import show_description

        show_description(screen(), found)


@commands.command(
    epilog=examples("ordrank export collection --out pictures.parquet", "ordrank export collection --out pictures.csv")
)
def export(
    collection: CollectionArgument,
    out: Annotated[Path, typer.Option(help="File to write, named .parquet or .csv.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Write all pictures with grades, estimates and places in the learned space, for pandas and others."""
    with plain_errors():
        from ordrank import service

        rows = service.export(collection, out)
        if as_json:
            print_json({"collection": str(collection), "file": str(out), "rows": rows})
            return
        from ordrank.sheet import counted

        screen().say(f"{counted(rows, 'row')} in {out}")


def screen() -> Screen:
    """Return what tables are printed on."""
    from ordrank.cli.tables import Screen

    return Screen(console())


def write_sheet(file: Path, answers: Sequence[Answer], collection: Path) -> None:
    """Write answers as a page to look at."""
    from ordrank.pages import write_files
    from ordrank.sheet import answer_sheet

    write_files(file.parent, {file.name: answer_sheet(answers, collection=str(collection))})


def answer_document(answer: Answer) -> dict[str, Any]:
    """Return an answer without its pictures."""
    document = asdict(answer)
    del document["thumbnail"]
    for picture in document["results"]:
        del picture["thumbnail"]
    return document


def _check_cluster(scheduler: str | None, workers: int | None) -> None:
    if scheduler is not None and workers is not None:
        raise typer.BadParameter("--scheduler names a cluster, --workers starts one; give one of them.")


def _grades(file: Path | None, file_column: str, grade_column: str, order: str | None) -> Grades | None:
    from ordrank.datasets.grades_csv import parse_order
    from ordrank.errors import InputError
    from ordrank.service import Grades

    names = None if order is None else parse_order(order)
    if file is not None:
        return Grades(file, file_column, grade_column, names)
    if names is not None:
        raise InputError("--order names the grades of a CSV file: name the file with --labels")
    return None
