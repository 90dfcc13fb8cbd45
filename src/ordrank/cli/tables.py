"""Results of the commands on collections as terminal tables, in 80 columns where names allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from rich.table import Table
from rich.text import Text

from ordrank._format import format_duration, format_number, format_percent, pluralize
from ordrank.cli.screen import NARROW, Screen
from ordrank.collection.check_report import CheckReport
from ordrank.collection.reports import (
    FEW_GRADED,
    DoctorReport,
    Evaluation,
    FeatureChoice,
    FinetuneReport,
    FitReport,
    GradeCount,
    ImportReport,
    Info,
    NearCopy,
    NovelPicture,
)
from ordrank.collection.types import COVERAGE, GradeProbability, RankedPicture, RankResult, format_interval

MAX_GRADES_WITH_BARS = 12
MAX_GRADES_SHOWN = 40
_FEATURES_SHOWN = 5
MAX_GRADES_FOR_CONFUSION = 20  # with more, exact hits say little: only the size of errors does


# fit and add -------------------------------------------------------------------------------------------------------


def show_fit(screen: Screen, collection: str, report: FitReport) -> None:
    """Print the outcome of a fit."""
    ungraded = report.pictures - report.graded
    screen.print(f"{collection} is trained", "bold")
    screen.facts(
        {
            "pictures": f"{report.pictures}: {report.graded} with a grade, {ungraded} without",
            **import_facts(report.imported),
            **feature_facts(report.features),
            **model_facts(report.model),
            "error": _fit_error(report),
            "verdict": report.verdict,
        }
    )
    show_advice(screen, report.advice)
    if report.features is not None and report.features.advice is not None:
        screen.print(f"Hint: {report.features.advice}")


def show_finetune(screen: Screen, collection: str, report: FinetuneReport) -> None:
    """Print the outcome of fine-tuning."""
    change = (report.error_after / report.error_before - 1) if report.error_before else 0.0
    if report.adopted:
        screen.print(f"{collection} has the features of a fine-tuned network", "bold")
    else:
        screen.print(f"{collection} keeps its features: the fine-tuned network is not better", "bold")
    screen.facts(
        {
            "error before": f"{report.error_before:.3g} mean absolute error with {report.features_before}",
            "error after": f"{report.error_after:.3g}, {100 * change:+.0f} %; of pictures held out of the training",
            "network": f"{report.network or 'deleted'}, trained on {pluralize(report.pictures, 'picture')}",
            "trained": f"{pluralize(report.networks, 'network')}, all but this one without a part of the pictures, to "
            f"measure the error; {report.steps} batches in {format_duration(report.seconds)}",
            **_selected(report.selection),
        }
    )
    if report.adopted:
        screen.print(f"`ordrank finetune {collection} --undo` returns to {report.undone_to}")


def _selected(selection: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the parameters that were chosen, and their error beside that of the default."""
    if not selection:
        return {}
    best = min(selection, key=itemgetter("error"))  # the first of equal ones
    chosen = ", ".join(f"{name} {value}" for name, value in best["parameters"].items())
    errors = f"{best['error']:.3g} on pictures held out for it, {selection[0]['error']:.3g} with the defaults"
    return {"chosen": f"{chosen} of {len(selection)} candidates: error {errors}"}


def feature_facts(choice: FeatureChoice | None) -> dict[str, str]:
    """Return the features that were chosen automatically, and the errors of those they were compared with."""
    if choice is None:
        return {}
    if not choice.errors:
        return {"features": f"{choice.features}, not compared with others"}
    others = sorted((error, name) for name, error in choice.errors.items() if name != choice.features)
    compared = ", ".join(f"{name} {error:.3g}" for error, name in others[:_FEATURES_SHOWN])
    error = f"error {choice.errors[choice.features]:.3g} on {choice.pictures} graded pictures"
    return {"features": f"{choice.features}, {error}", "compared": compared}


def _fit_error(report: FitReport) -> str:
    error = f"{report.error:.3g} mean absolute error, leave-one-out"
    if report.graded >= FEW_GRADED:
        return f"{error} over the graded pictures"
    return f"{error}; optimistic for so few grades, see `ordrank evaluate`"


def show_advice(screen: Screen, advice: str | None) -> None:
    """Print the one thing that would help most, if there is one."""
    if advice is not None:
        screen.print(f"What would help most: {advice}", "bold")


def show_import(screen: Screen, collection: str, report: ImportReport) -> None:
    """Print the outcome of an import."""
    screen.print(f"{pluralize(report.read, 'picture')} added to {collection}", "bold")
    screen.facts(import_facts(report))


def import_facts(report: ImportReport) -> dict[str, str]:
    """Return what became of files, grades, and pictures without a file."""
    facts = {"files": _files(report)}
    if report.not_found:
        of = ("whose picture is", "whose pictures are")[len(report.not_found) > 1]
        facts["table"] = f"{pluralize(len(report.not_found), 'line')} skipped, {of} missing"
    if report.regraded:
        facts["grades"] = f"{pluralize(report.regraded, 'grade')} changed"
    if report.missing:
        are, they, them = ("is", "it is", "it") if report.missing == 1 else ("are", "they are", "them")
        facts["missing"] = (
            f"{pluralize(report.missing, 'picture')} of the collection {are} not in this folder; "
            f"{they} kept (`ordrank remove` removes {them})"
        )
    return facts


def _files(report: ImportReport) -> str:
    """Return what became of the files."""
    copies = sum(bad.duplicate_of is not None for bad in report.bad)
    parts = [f"{report.read} read", f"{report.known} known and unchanged"]
    if report.reread:
        parts.append(f"{report.reread} read again for other features")
    if copies:
        parts.append(pluralize(copies, "copy of another", "copies of others"))
    if len(report.bad) > copies:
        parts.append(f"{len(report.bad) - copies} could not be used")
    if report.ignored:
        parts.append(f"{report.ignored} ignored (no suffix of a picture)")
    counts = (report.read, report.known, report.reread, report.bad, report.ignored)
    return ", ".join(parts) if any(counts) else "none read"


def model_facts(model: Mapping[str, Any]) -> dict[str, str]:
    """Return the selected hyperparameters in words."""
    order = f"Gaussian kernel of sharpness {model['sharpness']:.3g}" if model["kernel"] == "rbf" else "linear map"
    order += f", ridge {model['alpha']:.3g}"
    if model["nu"]:
        order += f", graph Laplacian over ungraded pictures ({model['nu']:.3g})"
    weight = "weighted by 1/distance" if model["weights"] == "distance" else "equal weights"
    return {
        "order": order,
        "appearance": f"{model['locality']:.3g} times the distance of the features",
        "votes": "of the nearest graded picture"
        if model["votes"] == 1
        else f"of the {model['votes']} nearest graded pictures, {weight}",
    }


# rank --------------------------------------------------------------------------------------------------------------


def show_results(screen: Screen, results: Sequence[RankResult]) -> None:
    """Print each query with its grade and votes, and the pictures ranked for it."""
    for result in results:
        _show_result(screen, result)
    shown = [picture for result in results for picture in result.hits]
    if shown:
        estimated = "≈ estimated, not given; " if any(picture.estimated for picture in shown) else ""
        screen.print(f"{estimated}distance² = order² + appearance²", "dim")


def _show_result(screen: Screen, result: RankResult) -> None:
    known = "" if result.known_grade is None else f", given: {result.known_grade}"
    screen.console.print(screen.text(result.query, "bold"))
    screen.print(f"estimated grade {result.shown_grade}{known}")
    screen.console.print(screen.text(result.explanation, "bold red" if result.is_novel else "dim"))
    shown = _main_grades(result)
    rows = [(each.grade, each.probability, _percent(each.probability)) for each in shown]
    screen.facts({"probability": screen.bars(rows, chosen=result.grade)})
    if len(shown) < len(result.probabilities):
        others = pluralize(len(result.probabilities) - len(shown), "other grade is", "other grades are")
        screen.print(f"{others} less probable", "dim")
    if not result.hits:
        screen.print("No picture matches.")
        return
    head = ("rank", "name", "grade", "distance", "order", "appearance")
    columns = len(head) if screen.console.width >= NARROW else head.index("order")
    cells = (_ranked(screen, rank, picture)[:columns] for rank, picture in enumerate(result.hits, start=1))
    screen.console.print(screen.table(head[:columns], cells, left=(1,)))


def _main_grades(result: RankResult) -> list[GradeProbability]:
    """Return all grades where they are few, else the estimated and the most probable ones, in their order."""
    grades = result.probabilities
    if len(grades) <= MAX_GRADES_WITH_BARS:
        return list(grades)
    ordered = sorted(grades, key=lambda each: (each.grade != result.grade, -each.probability))
    chosen = ordered[:MAX_GRADES_WITH_BARS]
    return [each for each in grades if each.grade == result.grade or (each in chosen and each.probability > 0)]


def _ranked(screen: Screen, rank: int, picture: RankedPicture) -> list[Text]:
    grade = f"≈ {picture.grade}" if picture.estimated else picture.grade
    distances = (picture.distance, picture.order_distance, picture.appearance_distance)
    return [screen.text(cell) for cell in (str(rank), picture.name, grade, *map(format_number, distances))]


def _percent(share: float) -> str:
    return format_percent(share, space=" ")  # a terminal does not show the other one


# evaluate ----------------------------------------------------------------------------------------------------------


def show_evaluation(screen: Screen, scores: Evaluation) -> None:
    """Print the scores, which grades are taken for which, and a verdict."""
    show_scores(screen, scores)
    show_confusion(screen, scores)
    screen.print(f"Verdict: {scores.verdict}")
    show_advice(screen, scores.advice)


def show_scores(screen: Screen, scores: Evaluation) -> None:
    """Print the scores and what to compare them with."""
    screen.print(_scored(scores), "bold")
    if scores.in_collection:
        known = pluralize(len(scores.in_collection), "picture is", "pictures are")
        screen.print(f"{known} in the collection too and not scored, first {scores.in_collection[0]}")
    middle = f"{scores.mae_median:.3f} for always the median grade"
    spread = "" if scores.mae_std is None else f" ± {scores.mae_std:.3f}"
    rows = [
        ("mean absolute error ↓", f"{scores.mae:.3f}{spread}", middle),
        *([] if _has_many_grades(scores) else [("exact grades ↑", _percent(scores.accuracy), "")]),
        ("quadratic-weighted kappa ↑", f"{scores.kappa:.3f}", "0 for chance, 1 at best"),
        ("Kendall's τ ↑", f"{scores.tau:.3f}", "0 for chance, 1 at best"),
        ("grade in its interval", _percent(scores.coverage), f"{_percent(COVERAGE)} intended"),
        ("ranked probability score ↓", f"{scores.rps:.3f}", "the error of the whole distribution"),
    ]
    cells = ([screen.text(name), screen.text(value, "bold"), screen.text(other, "dim")] for name, value, other in rows)
    screen.console.print(screen.table(("score", "value", "reference"), cells, left=(0, 2)))


def _scored(scores: Evaluation) -> str:
    counted = pluralize(scores.pictures, "graded picture")
    if not scores.folds:
        return f"{counted} from outside the collection"
    return f"{counted}, each graded by a fit without its fold ({scores.folds} folds)"


def _has_many_grades(scores: Evaluation) -> bool:
    return len(scores.grades) > MAX_GRADES_FOR_CONFUSION


def show_confusion(screen: Screen, scores: Evaluation) -> None:
    """Print which grades are taken for which, if the table fits the width of the screen."""
    if _has_many_grades(scores):
        screen.print(f"{len(scores.grades)} grades are too many for a table of errors; --json holds it", "dim")
        return
    matrix = _confusion(screen, scores)
    unlimited = screen.console.options.update(max_width=10**4)
    if screen.console.measure(matrix, options=unlimited).maximum <= screen.console.width:
        screen.print("Given grades (rows) and estimated ones (columns)")
        screen.console.print(matrix)
        return
    rows = [
        [screen.text(cell) for cell in (grade, str(sum(line)), _percent(line[i] / (sum(line) or 1)), _error(error))]
        for i, (grade, line, error) in enumerate(zip(scores.grades, scores.confusion, scores.mae_by_grade, strict=True))
    ]
    screen.console.print(screen.table(("grade", "pictures", "exact", "mean error"), rows))


def _confusion(screen: Screen, scores: Evaluation) -> Table:
    rows = []
    for i, (grade, line, error) in enumerate(zip(scores.grades, scores.confusion, scores.mae_by_grade, strict=True)):
        cells = [screen.text(str(count), "bold" if i == j else "" if count else "dim") for j, count in enumerate(line)]
        rows.append([screen.text(grade), *cells, screen.text(_error(error), "dim")])
    return screen.table(("", *scores.grades, "mean error"), rows)


def _error(error: float | None) -> str:
    return "" if error is None else f"{error:.3f}"


# doctor ------------------------------------------------------------------------------------------------------------


def show_doctor(screen: Screen, report: DoctorReport, limit: int) -> None:
    """Print what may be wrong with a collection, at most ``limit`` rows of each kind, and what would help."""
    examined = f"{pluralize(report.pictures, 'picture')} examined, {report.graded} with a grade"
    screen.print(f"{examined}; {report.verdict}", "bold")
    _show_list(
        screen,
        "Grades that may be wrong",
        "grades that may be wrong",
        ("name", "given", "estimate", "probability", "nearest pictures"),
        [
            (
                suspect.name,
                suspect.grade,
                format_interval(suspect.estimate, suspect.lowest, suspect.highest),
                _percent(suspect.probability),
                ", ".join(f"{picture.name}: {picture.grade}" for picture in suspect.neighbors),
            )
            for suspect in report.suspects
        ],
        limit,
    )
    _show_list(
        screen,
        "Near copies",
        "near copies",
        ("first", "second", "grades", "distance"),
        [
            (
                copy.first.name,
                copy.second.name,
                " and ".join(picture.grade or "none" for picture in (copy.first, copy.second)),
                f"{_times(copy)}{', different groups' if copy.leaks else ''}",
            )
            for copy in report.near_copies
        ],
        limit,
    )
    _show_list(
        screen,
        "Pictures unlike the others",
        "pictures unlike the others",
        ("name", "grade", "distance"),
        [(picture.name, picture.grade or "none", _times(picture)) for picture in report.novel],
        limit,
    )
    for i, advice in enumerate(report.advice, start=1):
        screen.print(f"{i}. {advice}", "bold" if i == 1 else "")


def _times(found: NearCopy | NovelPicture) -> str:
    return f"{found.relative_distance:.2g} × usual"


def _show_list(
    screen: Screen, title: str, what: str, head: Sequence[str], rows: Sequence[Sequence[str]], limit: int
) -> None:
    if not rows:
        screen.print(f"No {what}.")
        return
    screen.print(f"{title}: {len(rows)}")
    cells = ([screen.text(cell) for cell in row] for row in rows[:limit])
    screen.console.print(screen.table(head, cells, left=range(len(head))))
    if len(rows) > limit:
        screen.print(f"and {len(rows) - limit} more; --all or --json shows them", "dim")


# check -------------------------------------------------------------------------------------------------------------


def show_check(screen: Screen, report: CheckReport) -> None:
    """Print what is damaged and what restores it, and how many files are as they were read."""
    for damage in report.damage:
        screen.print(damage.what, "bold red")
        screen.print(f"  {damage.remedy}")
    if not report.damage:
        screen.print("Nothing is damaged", "bold")
    rows = pluralize(report.rows, "row")
    older = "" if report.has_checksums else ", without checksums: the collection has an older format"
    facts = {"database": f"{rows}{older}"}
    if report.files is not None:
        files = report.files
        facts["files"] = f"{files.unchanged} as they were read, {files.changed} changed, {files.missing} missing"
    screen.facts(facts)


# info --------------------------------------------------------------------------------------------------------------


def _training(card: dict[str, Any] | None) -> str:
    return "" if card is None else f"; {card['backbone']} fine-tuned on {pluralize(card['pictures'], 'picture')}"


def show_info(screen: Screen, info: Info) -> None:
    """Print a summary of a collection."""
    screen.print(info.directory, "bold")
    ungraded = info.pictures - info.graded
    facts: dict[str, str | Table] = {
        "pictures": f"{info.pictures}: {info.graded} with a grade, {ungraded} without",
        "grades": _grades(screen, info.grades),
        "features": f"{info.features}, {info.dimensions['features']} numbers a picture{_training(info.finetuned)}",
    }
    if info.model is None:
        facts["model"] = f"none yet; `ordrank fit --out {info.directory}` trains it"
    else:
        projection, order = info.dimensions["projection"], info.dimensions["order"]
        facts["components"] = f"{projection} principal components, {order} ordinal coordinates"
        facts |= model_facts(info.model)
        if info.groups:
            facts["groups"] = f"{info.groups}, held out together"
        if info.balanced:
            facts["balanced"] = "every grade counts the same, however few pictures it has"
        facts["trained"] = info.fitted or ""
        if info.added or info.removed or info.changed:
            facts["not trained"] = _not_trained(info)
    facts["on disk"] = f"{info.bytes / 1e6:.1f} MB, format {info.format}"
    screen.facts(facts)


def _not_trained(info: Info) -> str:
    """Return what waits for the next training, in words."""
    added = pluralize(info.added, "picture added", "pictures added")
    if info.not_embedded:
        added += f" ({info.not_embedded} not searchable yet)"
    changed = pluralize(info.changed, "grade changed", "grades changed")
    removed = pluralize(info.removed, "picture removed", "pictures removed")
    counts = ((added, info.added), (removed, info.removed), (changed, info.changed))
    parts = [text for text, count in counts if count]
    return f"{', '.join(parts)} since; `ordrank fit --out {info.directory}` learns from that"


def _grades(screen: Screen, grades: Sequence[GradeCount]) -> str | Table:
    if not grades:
        return "none"
    if len(grades) > MAX_GRADES_SHOWN:
        return f"{len(grades)} different grades, {grades[0].grade} to {grades[-1].grade}"
    most = max(count.pictures for count in grades) or 1
    return screen.bars([(count.grade, count.pictures / most, str(count.pictures)) for count in grades])
