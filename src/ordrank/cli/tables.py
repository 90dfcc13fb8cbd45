"""Results of the commands on collections as tables of a terminal, in 80 columns where names allow it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordrank._types import Answer, BadPicture, RankedPicture, Vote
from ordrank.cli.terminal import one_line, showable
from ordrank.service import Description, Evaluation, Fitted, Intake
from ordrank.sheet import counted, number, percent

MOST_VOTES_SHOWN = 12
MOST_GRADES_SHOWN = 40
MOST_GRADES_TO_HIT = 20  # with more, the right one is luck: only how far off an estimate is says something
BAR_WIDTH = 30
NARROW = 64  # columns; less leaves no room for names beside all numbers
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


class Screen:
    """A terminal that tables are printed on; names are shown as they are, whatever is in them.

    Parameters
    ----------
    console : Console
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def text(self, words: str, style: str = "") -> Text:
        """Return a text that is not read as markup and breaks no line."""
        return Text(showable(self.console, one_line(words)), style=style, overflow="fold")

    def say(self, words: str, style: str = "") -> None:
        """Print a sentence, unbroken, so that paths and commands in it can be copied."""
        self.console.print(self.text(words, style), soft_wrap=True)

    def facts(self, facts: Mapping[str, str | Table]) -> None:
        """Print names of facts beside the facts."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, fact in facts.items():
            grid.add_row(self.text(name), self.text(fact) if isinstance(fact, str) else fact)
        self.console.print(grid)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Text]], left: Sequence[int] = (0,)) -> Table:
        """Make a table whose columns are numbers, but for those in ``left``."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for position, title in enumerate(head):
            justify: Any = "left" if position in left else "right"
            # Names give way to numbers, but in a narrow terminal nothing is cut off.
            fixed = position not in left and self.console.width >= NARROW
            table.add_column(self.text(title), justify=justify, overflow="fold", no_wrap=fixed)
        for row in rows:
            table.add_row(*row)
        return table

    def bars(self, rows: Sequence[tuple[str, float, str]], *, chosen: str | None = None) -> Table:
        """Bars with their names and values; lengths are shares of one."""
        grid = Table.grid(padding=(0, 2))
        for justify in ("right", "left", "right"):
            grid.add_column(justify=justify, overflow="fold")
        width = max(1, min(BAR_WIDTH, self.console.width // 3))
        for name, share, value in rows:
            style = "bold" if name == chosen else ""
            grid.add_row(self.text(name, style), self.text(bar(share, width), style or "dim"), self.text(value, style))
        return grid


def bar(share: float, width: int) -> str:
    """Draw a share of one; what is there is never shown as nothing.

    Examples
    --------
    >>> bar(0.5, 4), bar(0.001, 4), bar(0.0, 4)
    ('██', '▏', '')
    """
    full, rest = divmod(max(round(8 * width * share), 1 if share > 0 else 0), 8)
    return "█" * full + _EIGHTHS[rest]


# fit and add -------------------------------------------------------------------------------------------------------


def show_fitted(screen: Screen, collection: str, fitted: Fitted) -> None:
    """Say what a fit found."""
    ungraded = fitted.pictures - fitted.graded
    screen.say(f"{collection} is trained", "bold")
    screen.facts(
        {
            "pictures": f"{fitted.pictures}: {fitted.graded} with a grade, {ungraded} without",
            **intake_in_words(fitted.intake),
            **model_in_words(fitted.chosen),
            "error": f"{fitted.error:.3g} on average, for graded pictures left out of the fit one by one",
        }
    )


def show_added(screen: Screen, collection: str, intake: Intake) -> None:
    """Say what was added."""
    screen.say(f"{counted(intake.read, 'picture')} added to {collection}", "bold")
    screen.facts(intake_in_words(intake))


def intake_in_words(intake: Intake) -> dict[str, str]:
    """Tell what became of files, grades, and pictures without a file."""
    facts = {"files": files_in_words(intake)}
    if intake.regraded:
        facts["grades"] = f"{counted(intake.regraded, 'grade')} changed"
    if intake.missing:
        are, they, them = ("is", "it is", "it") if intake.missing == 1 else ("are", "they are", "them")
        facts["missing"] = (
            f"{counted(intake.missing, 'picture')} of the collection {are} not in this folder; "
            f"{they} kept (`ordrank remove` forgets {them})"
        )
    return facts


def files_in_words(intake: Intake) -> str:
    """Tell what became of files."""
    copies = sum(map(_is_harmless_copy, intake.bad))
    parts = [f"{intake.read} read", f"{intake.known} known and unchanged"]
    if copies:
        parts.append(counted(copies, "copy of another", "copies of others"))
    if len(intake.bad) > copies:
        parts.append(f"{len(intake.bad) - copies} could not be used")
    if intake.ignored:
        parts.append(f"{intake.ignored} passed over (not named like pictures)")
    return ", ".join(parts) if any((intake.read, intake.known, intake.bad, intake.ignored)) else "none read"


def _is_harmless_copy(bad: BadPicture) -> bool:
    return bad.reason.startswith("has the same content as") and bad.reason.endswith("is kept once")


def model_in_words(chosen: Mapping[str, Any]) -> dict[str, str]:
    """Tell what a model chose by itself."""
    order = f"a curved map of sharpness {chosen['sharpness']:.3g}" if chosen["kernel"] == "rbf" else "a straight map"
    order += f", ridge {chosen['alpha']:.3g}"
    if chosen["nu"]:
        order += f", smoothed over ungraded pictures ({chosen['nu']:.3g})"
    weight = "nearer ones count more" if chosen["weights"] == "distance" else "all count the same"
    return {
        "order": order,
        "appearance": f"{chosen['locality']:.3g} of the plain distance is kept",
        "votes": "of the nearest graded picture"
        if chosen["votes"] == 1
        else f"of the {chosen['votes']} nearest graded pictures, {weight}",
    }


# rank --------------------------------------------------------------------------------------------------------------


def show_answers(screen: Screen, answers: Sequence[Answer]) -> None:
    """Print each query with its grade and votes, and the pictures ranked for it."""
    for answer in answers:
        _show_answer(screen, answer)
    shown = [picture for answer in answers for picture in answer.results]
    if shown:
        estimated = "≈ estimated, not given; " if any(picture.estimated for picture in shown) else ""
        screen.say(f"{estimated}distance² = order² + appearance²", "dim")


def _show_answer(screen: Screen, answer: Answer) -> None:
    known = "" if answer.known_grade is None else f" (given: {answer.known_grade})"
    screen.console.print(screen.text(answer.query, "bold"))
    screen.say(f"estimated grade {answer.grade}{known}")
    votes = _votes_worth_showing(answer)
    rows = [(vote.grade, vote.share, _percent(vote.share)) for vote in votes]
    screen.facts({"votes": screen.bars(rows, chosen=answer.grade)})
    if len(votes) < len(answer.votes):
        others = counted(len(answer.votes) - len(votes), "other grade has", "other grades have")
        screen.say(f"{others} fewer votes or none", "dim")
    if not answer.results:
        screen.say("No picture qualifies.")
        return
    head = ("rank", "name", "grade", "distance", "order", "appearance")
    columns = len(head) if screen.console.width >= NARROW else head.index("order")
    cells = (_ranked(screen, rank, picture)[:columns] for rank, picture in enumerate(answer.results, start=1))
    screen.console.print(screen.table(head[:columns], cells, left=(1,)))


def _votes_worth_showing(answer: Answer) -> list[Vote]:
    """Return all votes where grades are few, else the estimated grade's and the largest, in the order of the grades."""
    votes = answer.votes
    if len(votes) <= MOST_VOTES_SHOWN:
        return list(votes)
    largest = sorted(votes, key=lambda vote: (vote.grade != answer.grade, -vote.share))[:MOST_VOTES_SHOWN]
    return [vote for vote in votes if vote.grade == answer.grade or (vote in largest and vote.share > 0)]


def _ranked(screen: Screen, rank: int, picture: RankedPicture) -> list[Text]:
    grade = f"≈ {picture.grade}" if picture.estimated else picture.grade
    distances = (picture.distance, picture.order_distance, picture.appearance_distance)
    return [screen.text(cell) for cell in (str(rank), picture.name, grade, *map(number, distances))]


def _percent(share: float) -> str:
    return percent(share, space=" ")  # a terminal does not show the other one


# evaluate ----------------------------------------------------------------------------------------------------------


def show_scores(screen: Screen, found: Evaluation) -> None:
    """Print the scores and what to compare them with."""
    screen.say(f"{found.pictures} graded pictures, each graded by a fit without it ({found.folds} folds)", "bold")
    middle = f"{found.mae_middle:.3f} for always the middle grade"
    rows = [
        ("mean absolute error ↓", f"{found.mae:.3f} ± {found.mae_std:.3f}", middle),
        *([] if _has_many_grades(found) else [("right grades ↑", _percent(found.accuracy), "")]),
        ("quadratic-weighted kappa ↑", f"{found.kappa:.3f}", "0 for chance, 1 at best"),
        ("Kendall's τ ↑", f"{found.tau:.3f}", "0 for chance, 1 at best"),
    ]
    cells = ([screen.text(name), screen.text(value, "bold"), screen.text(other, "dim")] for name, value, other in rows)
    screen.console.print(screen.table(("score", "found", "to compare"), cells, left=(0, 2)))


def _has_many_grades(found: Evaluation) -> bool:
    return len(found.grades) > MOST_GRADES_TO_HIT


def show_confusion(screen: Screen, found: Evaluation) -> None:
    """Print which grades are taken for which, as far as there is room."""
    if _has_many_grades(found):
        screen.say(f"{len(found.grades)} grades are too many for a table of errors; --json holds it", "dim")
        return
    matrix = _confusion(screen, found)
    unlimited = screen.console.options.update(max_width=10**4)
    if screen.console.measure(matrix, options=unlimited).maximum <= screen.console.width:
        screen.say("Given grades (rows) and estimated ones (columns)")
        screen.console.print(matrix)
        return
    rows = [
        [screen.text(cell) for cell in (grade, str(sum(line)), _percent(line[i] / sum(line)), f"{error:.3f}")]
        for i, (grade, line, error) in enumerate(zip(found.grades, found.confusion, found.mae_by_grade, strict=True))
    ]
    screen.console.print(screen.table(("grade", "pictures", "right", "mean error"), rows))


def _confusion(screen: Screen, found: Evaluation) -> Table:
    rows = []
    for i, (grade, line, error) in enumerate(zip(found.grades, found.confusion, found.mae_by_grade, strict=True)):
        cells = [screen.text(str(count), "bold" if i == j else "" if count else "dim") for j, count in enumerate(line)]
        rows.append([screen.text(grade), *cells, screen.text(f"{error:.3f}", "dim")])
    return screen.table(("", *found.grades, "mean error"), rows)


# info --------------------------------------------------------------------------------------------------------------


def show_description(screen: Screen, found: Description) -> None:
    """Print what a collection is."""
    screen.say(found.directory, "bold")
    ungraded = found.pictures - found.graded
    facts: dict[str, str | Table] = {
        "pictures": f"{found.pictures}: {found.graded} with a grade, {ungraded} without",
        "grades": _grades(screen, found.grades),
        "features": f"{found.features}, {found.dimensions['features']} numbers a picture",
    }
    if found.model is None:
        facts["model"] = f"none yet; `ordrank fit --out {found.directory}` trains it"
    else:
        facts["components"] = f"{found.dimensions['projection']} principal ones, {found.dimensions['order']} of order"
        facts |= model_in_words(found.model)
        if found.balanced:
            facts["balanced"] = "every grade counts the same, however few pictures it has"
        facts["trained"] = found.fitted or ""
    if found.waiting:
        facts["waiting"] = f"{counted(found.waiting, 'picture')} read since; `ordrank fit --out {found.directory}`"
    facts["on disk"] = f"{found.bytes / 1e6:.1f} MB, format {found.format}"
    screen.facts(facts)


def _grades(screen: Screen, grades: Mapping[str, int]) -> str | Table:
    if not grades:
        return "none"
    if len(grades) > MOST_GRADES_SHOWN:
        names = list(grades)
        return f"{len(grades)} different ones, {names[0]} to {names[-1]}"
    most = max(grades.values())
    return screen.bars([(grade, count / most, str(count)) for grade, count in grades.items()])
