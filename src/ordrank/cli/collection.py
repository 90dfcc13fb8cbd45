"""The commands that change a collection: ``fit``, ``finetune``, ``add`` and ``remove``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ordrank.cli.options import (
    BalancedOption,
    CollectionArgument,
    DeviceOption,
    FileColumnOption,
    GradeColumnOption,
    GroupsOption,
    JobsOption,
    StrictOption,
    check_cluster,
)
from ordrank.cli.terminal import (
    RESUMABLE,
    JsonOption,
    examples,
    plain_errors,
    print_import,
    print_json,
    progress_bar,
    screen,
)

commands = typer.Typer()


@commands.command(
    epilog=examples(
        "ordrank fit pictures --labels grades.csv --out collection",
        "ordrank fit scans --labels scans.csv --order mild,moderate,severe --out knees",
        "ordrank fit folders --out collection",
        "ordrank fit --out collection",
        "ordrank fit pictures --out collection --ungraded",
    )
)
def fit(
    images: Annotated[
        Path | None, typer.Argument(help="Folder of pictures; without it the collection is trained again.")
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Directory of the collection; created if missing.", show_default=False)],
    labels: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with the grades. Without it the folders of a new collection's pictures are the grades, but "
            "for one named ungraded; an existing collection keeps its grades.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            help="Features: auto, pixels, pixels:48, pixels:48,grey, hog, efficientnet-lite0, efficientnet-lite2, "
            "onnx:FILE, timm:NAME, timm:NAME@FILE, or several joined by +. A new collection compares those that are "
            "installed (auto); an existing one keeps its own, or reads all pictures again for those named.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = "cpu",
    order: Annotated[
        str | None,
        typer.Option(help="Grades that are words, lowest first: mild,moderate,severe.", show_default=False),
    ] = None,
    file_column: FileColumnOption = "file",
    grade_column: GradeColumnOption = "grade",
    groups: GroupsOption = None,
    balanced: BalancedOption = None,
    strict: StrictOption = None,
    jobs: JobsOption = -1,
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Address of a Dask cluster whose workers read the pictures and train, tcp://HOST:PORT; they must see "
            "the folder and the collection under the same paths.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Read the pictures and train with a local Dask cluster of this many workers.",
            min=1,
            show_default=False,
        ),
    ] = None,
    ungraded: Annotated[
        bool, typer.Option("--ungraded", help="Create a collection without grades, to give them on the page.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Create a collection from a folder of pictures with grades, or train one again.

    Grades come from a CSV file or from folders that are named after them, or are given later on the page (--ungraded).
    Pictures that have not changed are not read again, and an interrupted run continues where it stopped.
    """
    check_cluster(scheduler, workers)
    if ungraded:
        own: dict[str, Any] = {"features": features, "device": device, "order": order, "strict": strict}
        without_effect = {
            "--labels": labels is not None,
            "--file-column": file_column != "file",
            "--grade-column": grade_column != "grade",
            "--groups": groups is not None,
            "--balanced": balanced is not None,
            "--scheduler": scheduler is not None,
            "--workers": workers is not None,
        }
        unused = [name for name, is_given in without_effect.items() if is_given]
        _create_ungraded(images, out, unused, as_json=as_json, **own, n_jobs=jobs)
        return
    with plain_errors(RESUMABLE, all_bad=as_json):
        from ordrank.collection.collection import Collection
        from ordrank.errors import InputError

        opened = Collection.open(out) if Collection.exists(out) else None
        options: dict[str, Any] = {
            "features": features,
            "device": device,
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

        print_import(report.imported)
        show_fit(screen(), str(out), report)


def _create_ungraded(images: Path | None, out: Path, unused: list[str], *, as_json: bool, **options: Any) -> None:
    """Create a collection without grades, for which some options that were given have no use."""
    with plain_errors(RESUMABLE, all_bad=as_json):
        from ordrank.collection.collection import Collection
        from ordrank.errors import InputError

        if images is None:
            raise InputError("--ungraded needs a folder of pictures")
        if unused:
            raise InputError(f"{unused[0]} has no effect with --ungraded; leave one of them out")
        with progress_bar(quiet=as_json) as progress:
            created = Collection.create_ungraded(out, images, **options, progress=progress)
        info, report = created.info(), created.import_report
        assert report is not None
        if as_json:
            found = {"pictures": info.pictures, "features": info.features, "imported": asdict(report)}
            print_json({"collection": str(out), **found})
            return
        from ordrank.cli.tables import show_import

        print_import(report)
        show_import(screen(), str(out), report)
        screen().print(
            f"{out} holds {info.pictures} pictures without grades; grade some on the page: ordrank serve {out} --open",
        )


@commands.command(
    epilog=examples(
        "ordrank finetune collection",
        "ordrank finetune collection --device cuda --backbone efficientnet-lite2",
        "ordrank finetune collection --minutes 10 --image-size 160",
        "ordrank finetune collection --select",
        "ordrank finetune collection --undo",
    )
)
def finetune(
    collection: CollectionArgument,
    backbone: Annotated[
        str,
        typer.Option(help="Pretrained network: efficientnet-lite0, efficientnet-lite2, timm:NAME or timm:NAME@FILE."),
    ] = "efficientnet-lite0",
    device: Annotated[str, typer.Option(help="Where the network is trained: cpu or cuda.")] = "cpu",
    minutes: Annotated[
        float | None, typer.Option(help="Train for about this long at most.", min=0.0, show_default=False)
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option(help="Side of the pictures for the network; smaller ones take less time.", show_default=False),
    ] = None,
    flip: Annotated[
        bool, typer.Option("--flip/--no-flip", help="Whether a mirrored picture has the same grade.")
    ] = True,
    select: Annotated[
        bool,
        typer.Option("--select", help="Choose loss, augmentation and length by the error on held-out pictures first."),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Return to the features before, and train the model on them.")
    ] = False,
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Train a pretrained network on the grades of a collection, and use its features if they are better.

    Needs the extras deep and photos. Errors before and after are those of pictures that were held out. The collection
    can be used meanwhile, keeps its model unless the new one is better, and an interrupted run continues where it
    stopped.
    """
    with plain_errors(RESUMABLE):
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened, progress_bar(quiet=as_json) as progress:
            if undo:
                fitted = opened.undo_finetuning(n_jobs=jobs, progress=progress)
            else:
                tuned = opened.finetune(
                    backbone=backbone,
                    device=device,
                    minutes=minutes,
                    image_size=image_size,
                    flip=flip,
                    select=select,
                    n_jobs=jobs,
                    progress=progress,
                )
        if as_json:
            print_json({"collection": str(collection), **asdict(fitted if undo else tuned)})
            return
        from ordrank.cli.tables import show_finetune, show_fit

        if undo:
            show_fit(screen(), str(collection), fitted)
        else:
            show_finetune(screen(), str(collection), tuned)


@commands.command(
    epilog=examples(
        "ordrank add collection more",
        "ordrank add collection more --labels more.csv --groups patient",
        "ordrank add collection one.jpg",
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
    groups: GroupsOption = None,
    device: DeviceOption = "cpu",
    strict: StrictOption = None,
    jobs: JobsOption = -1,
    as_json: JsonOption = False,
) -> None:
    """Add pictures to a collection; in a trained one they can be ranked and vote at once.

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
                group_column=groups,
                device=device,
                strict=strict,
                n_jobs=jobs,
                progress=progress,
            )
        if as_json:
            print_json({"collection": str(collection), **asdict(report)})
            return
        from ordrank.cli.tables import show_import

        print_import(report)
        show_import(screen(), str(collection), report)


@commands.command(
    epilog=examples("ordrank remove collection fruit-0001.jpg", "ordrank remove collection 'blurred/*.jpg' --json")
)
def remove(
    collection: CollectionArgument,
    names: Annotated[
        list[str],
        typer.Argument(help="Names of pictures in it, or quoted patterns such as 'x/*.jpg'.", show_default=False),
    ],
    as_json: JsonOption = False,
) -> None:
    """Remove pictures from a collection, all that are named or none.

    The files stay where they are, but for those of pictures that were added on the page: these are deleted.
    """
    with plain_errors():
        from ordrank.collection.collection import Collection

        with Collection.open(collection) as opened:
            report = opened.remove(names)
        if as_json:
            print_json({"collection": str(collection), **asdict(report)})
            return
        screen().print(
            f"{report.removed} removed from {collection}, {report.left} left; `ordrank fit --out {collection}` learns "
            "without them"
        )
