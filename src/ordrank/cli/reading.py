"""The commands that read a collection: ``rank``, ``evaluate``, ``doctor``, ``check``, ``info`` and ``export``."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank._format import pluralize
from ordrank.cli.options import (
    BalancedOption,
    CollectionArgument,
    FileColumnOption,
    GradeColumnOption,
    JobsOption,
    StrictOption,
    check_cluster,
)
from ordrank.cli.terminal import JsonOption, examples, plain_errors, print_import, print_json, progress_bar, screen

if TYPE_CHECKING:
    from ordrank.collection.types import RankResult

commands = typer.Typer()


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
    check_cluster(scheduler, workers)
    with plain_errors():
        from ordrank._protocols import no_progress
        from ordrank.collection.collection import Collection
        from ordrank.collection.types import RankRequest

        if html is not None:
            Collection.check_report_file(html)
        request = RankRequest(k, within_grade=within_grade, lowest=lowest, highest=highest)
        with Collection.open(collection) as opened:
            # The bar takes longer to set up than one picture to rank.
            with nullcontext(no_progress) if len(queries) == 1 else progress_bar(quiet=as_json) as progress:
                results = opened.rank_all(queries, request, scheduler=scheduler, workers=workers, progress=progress)
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
    epilog=examples(
        "ordrank evaluate collection",
        "ordrank evaluate collection --folds 10 --json > scores.json",
        "ordrank evaluate collection --pictures new --labels new.csv",
    )
)
def evaluate(
    collection: CollectionArgument,
    folds: Annotated[
        int | None,
        typer.Option(help="Number of folds, each of which is held out once; 5 by default.", min=2, show_default=False),
    ] = None,
    balanced: BalancedOption = None,
    pictures: Annotated[
        Path | None,
        typer.Option(
            help="Folder of graded pictures from outside the collection, which its model is scored on instead.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with the grades of --pictures; without it their folders are the grades.", show_default=False
        ),
    ] = None,
    file_column: FileColumnOption = "file",
    grade_column: GradeColumnOption = "grade",
    strict: StrictOption = None,
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Score how well a collection grades pictures it has not learned from.

    By default its graded pictures are cross-validated; with `--pictures` its model grades pictures from outside,
    without those that are in the collection too. The collection is not changed.
    """
    if pictures is None and (labels is not None or strict is not None):
        raise typer.BadParameter("--labels, --strict and --skip-bad are about the pictures that --pictures names.")
    if pictures is not None and (folds is not None or balanced is not None):
        raise typer.BadParameter("--folds, --balanced and --plain are about cross-validation; --pictures has none.")
    with plain_errors("the collection is unchanged", all_bad=as_json):
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened, progress_bar(quiet=as_json) as progress:
            if pictures is None:
                scores = opened.evaluate(5 if folds is None else folds, balanced=balanced, progress=progress)
            else:
                scores = opened.evaluate_on(
                    pictures,
                    labels,
                    file_column=file_column,
                    grade_column=grade_column,
                    strict=strict,
                    n_jobs=jobs,
                    progress=progress,
                )
        if as_json:
            print_json({"collection": str(collection), **asdict(scores)})
            return
        from ordrank.cli.tables import show_evaluation

        if scores.read is not None:
            print_import(scores.read)
        show_evaluation(screen(), scores)


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


@commands.command(epilog=examples("ordrank check collection", "ordrank check collection --json"))
def check(
    collection: CollectionArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="First rebuild the indexes of the database from its rows.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Look for damage in the files of a collection, and say what restores it.

    The exit code is 1 if something is damaged. The collection is not changed without --repair.
    """
    with plain_errors("the collection is unchanged"):
        from ordrank.collection.collection import Collection

        with progress_bar(quiet=as_json) as progress:
            report = Collection(collection).check(repair=repair, progress=progress)
        if as_json:
            print_json({"collection": str(collection), **asdict(report)})
        else:
            from ordrank.cli.tables import show_check

            show_check(screen(), report)
        if report.damage:
            raise typer.Exit(1)


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


def document(result: RankResult) -> dict[str, Any]:
    """Return a result for JSON, without thumbnail and display position."""
    fields = asdict(result)
    del fields["thumbnail"], fields["position"]
    return fields | {"is_novel": result.is_novel, "explanation": result.explanation}
