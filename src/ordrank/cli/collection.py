"""The commands on collections, from ``fit`` to ``export``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank._format import pluralize
from ordrank.cli.terminal import (
    RESUMABLE,
    JsonOption,
    console,
    examples,
    plain_errors,
    print_bad,
    print_json,
    progress_bar,
)

if TYPE_CHECKING:
    from ordrank.cli.tables import Screen
    from ordrank.collection.types import RankResult

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
    typer.Option("--strict/--skip-bad", help="Fail if a file cannot be used, or go on and report it."),
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
    out: Annotated[Path, typer.Option(help="Directory of the collection; created if missing.", show_default=False)],
    labels: Annotated[
        Path | None, typer.Option(help="CSV file with the grades; a new collection needs it.", show_default=False)
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Features of a new collection: pixels, pixels:48, pixels:48,grey, hog, onnx:FILE; pixels by default.",
            show_default=False,
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help="Grades that are words, lowest first: mild,moderate,severe.", show_default=False),
    ] = None,
    file_column: FileColumnOption = "file",
    grade_column: GradeColumnOption = "grade",
    groups: Annotated[
        str | None,
        typer.Option(
            help="Column of the CSV file that names what a picture shows, such as the patient: pictures of one group "
            "are held out together.",
            show_default=False,
        ),
    ] = None,
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
        typer.Option(
            help="Read the pictures with a local Dask cluster of this many workers.", min=1, show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a collection from a folder of pictures with grades, or train one again.

    Pictures that have not changed are not read again, and an interrupted run continues where it stopped.
    """
    _check_cluster(scheduler, workers)
    with plain_errors(RESUMABLE, all_bad=as_json):
        from ordrank.collection.collection import Collection
        from ordrank.errors import InputError

        opened = Collection.open(out) if Collection.exists(out) else None
        options: dict[str, Any] = {
            "features": features,
            "order": order,
            "file_column": file_column,
            "grade_column": grade_column,
            "group_column": groups,
            "balanced": balanced,
            "strict": strict,
            "n_jobs": jobs,
            "scheduler": scheduler,
            "workers": workers,
        }
        with progress_bar(quiet=as_json) as progress:
            if opened is not None:
                opened.fit(images, labels, **options, progress=progress)
            elif images is None:
                raise InputError(f"{out} is not a collection yet; name the folder of pictures to create one from")
            else:
                opened = Collection.create(out, images, labels, **options, progress=progress)
        report = opened.fit_report
        assert report is not None
        if as_json:
            print_json({"collection": str(out), **asdict(report)})
            return
        from ordrank.cli.tables import show_fit

        print_bad(report.imported.bad)
        show_fit(screen(), str(out), report)


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
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened, progress_bar(quiet=as_json) as progress:
            report = opened.add(
                images,
                labels,
                file_column=file_column,
                grade_column=grade_column,
                strict=strict,
                n_jobs=jobs,
                progress=progress,
            )
        if as_json:
            print_json({"collection": str(collection), **asdict(report)})
            return
        from ordrank.cli.tables import show_import

        print_bad(report.bad)
        show_import(screen(), str(collection), report)


@commands.command(
    epilog=examples("ordrank remove collection fruit-0001.jpg", "ordrank remove collection a.jpg b.jpg --json")
)
def remove(
    collection: CollectionArgument,
    names: Annotated[list[str], typer.Argument(help="Names of pictures in it.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Remove pictures from a collection, all that are named or none; the files stay where they are."""
    with plain_errors():
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened:
            left = opened.remove(names)
        removed = len(set(names))
        if as_json:
            print_json({"collection": str(collection), "removed": removed, "left": left})
            return
        screen().print(
            f"{removed} removed from {collection}, {left} left; `ordrank fit --out {collection}` learns without them"
        )


@commands.command(
    epilog=examples(
        "ordrank rank collection new.jpg",
        "ordrank rank collection a.jpg b.jpg -k 20 --html report.html",
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
        Path | None, typer.Option(help="Write the results with their pictures as an HTML page.", show_default=False)
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
        typer.Option(help="Search with a local Dask cluster of this many workers.", min=1, show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate the grade of pictures and find those most like them, nearest first."""
    _check_cluster(scheduler, workers)
    with plain_errors():
        from ordrank.collection.collection import Collection
        from ordrank.collection.types import RankRequest

        if html is not None:
            Collection.check_report_file(html)
        request = RankRequest(k, within_grade=within_grade, lowest=lowest, highest=highest)
        with Collection.open(collection) as opened:
            results = opened.rank_all(queries, request, scheduler=scheduler, workers=workers)
            if html is not None:
                opened.write_report(results, html)
        if as_json:
            page = {} if html is None else {"html": str(html)}
            print_json({"collection": str(collection), "results": [document(result) for result in results], **page})
            return
        from ordrank.cli.tables import show_results

        show_results(screen(), results)
        if html is not None:
            screen().print(f"Open {html}")


@commands.command(
    epilog=examples("ordrank evaluate collection", "ordrank evaluate collection --folds 10 --json > scores.json")
)
def evaluate(
    collection: CollectionArgument,
    folds: Annotated[int, typer.Option(help="Number of folds, each of which is held out once.", min=2)] = 5,
    balanced: BalancedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cross-validate: how well a collection grades pictures that were held out of the fit.

    The collection is not changed.
    """
    with plain_errors("the collection is unchanged"):
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened, progress_bar(quiet=as_json) as progress:
            scores = opened.evaluate(folds, balanced=balanced, progress=progress)
        if as_json:
            print_json({"collection": str(collection), **asdict(scores)})
            return
        from ordrank.cli.tables import show_advice, show_confusion, show_scores

        show_scores(screen(), scores)
        show_confusion(screen(), scores)
        screen().print(f"Verdict: {scores.verdict}")
        show_advice(screen(), scores.advice)


@commands.command(epilog=examples("ordrank doctor collection", "ordrank doctor collection --json > doctor.json"))
def doctor(
    collection: CollectionArgument,
    show_all: Annotated[bool, typer.Option("--all", help="Print every row, not only the first ten.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Find grades that are probably wrong, near copies and odd pictures, and say what would help most.

    The collection is not changed.
    """
    with plain_errors("the collection is unchanged"):
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened, progress_bar(quiet=as_json) as progress:
            report = opened.doctor(progress=progress)
        if as_json:
            print_json({"collection": str(collection), **asdict(report)})
            return
        from ordrank.cli.tables import show_doctor

        show_doctor(screen(), report, limit=10**6 if show_all else 10)


@commands.command(epilog=examples("ordrank info collection", "ordrank info collection --json"))
def info(collection: CollectionArgument, as_json: JsonOption = False) -> None:
    """Describe a collection: pictures, grades, features, the selected model."""
    with plain_errors():
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened:
            found = opened.info()
        if as_json:
            print_json(asdict(found))
            return
        from ordrank.cli.tables import show_info

        show_info(screen(), found)


@commands.command(
    epilog=examples("ordrank export collection --out pictures.parquet", "ordrank export collection --out pictures.csv")
)
def export(
    collection: CollectionArgument,
    out: Annotated[Path, typer.Option(help="File to write, named .parquet or .csv.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Write all pictures with grades, estimates and embeddings to a table, for pandas and others."""
    with plain_errors():
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened:
            rows = opened.export(out)
        if as_json:
            print_json({"collection": str(collection), "file": str(out), "rows": rows})
            return
        screen().print(f"{pluralize(rows, 'row')} in {out}")


def screen() -> Screen:
    """Return the screen that tables are printed on."""
    from ordrank.cli.tables import Screen

    return Screen(console())


def document(result: RankResult) -> dict[str, Any]:
    """Return a result for JSON, without thumbnail and display position."""
    fields = asdict(result)
    del fields["thumbnail"], fields["position"]
    return fields | {"is_novel": result.is_novel, "explanation": result.explanation}


def _check_cluster(scheduler: str | None, workers: int | None) -> None:
    if scheduler is not None and workers is not None:
        raise typer.BadParameter("--scheduler names a cluster, --workers starts one; give one of them.")
