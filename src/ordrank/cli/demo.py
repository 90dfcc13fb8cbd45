"""The command ``demo``: what a user would do with a folder of pictures, done with drawn fruit."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ordrank.cli.collection import screen, write_sheet
from ordrank.cli.terminal import RESUMABLE, JsonOption, examples, plain_errors, print_json, progress

if TYPE_CHECKING:
    from ordrank._types import Answer
    from ordrank.datasets import Fruit
    from ordrank.experiments.demo import Demo, DemoRow
    from ordrank.service import Evaluation

commands = typer.Typer()

K = 10


@commands.command(
    epilog=examples("ordrank demo", "ordrank demo --pictures 200 --out fruit", "ordrank demo --json > scores.json")
)
def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything that is made; made if missing.")] = Path("demo"),
    pictures: Annotated[int, typer.Option(help="How many fruits to draw, at least 60.")] = 600,
    size: Annotated[int, typer.Option(help="Side of a picture in pixels.", min=16, max=512)] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the drawing and of the split.", min=0)] = 0,
    as_json: JsonOption = False,
) -> None:
    """Draw a folder of ripening fruit and do with it what you would do with pictures of your own.

    Shows each command with the main part of what it finds, compares four distances, and writes two pages to look at.
    """
    with plain_errors(), progress(quiet=as_json) as (tell, _):
        from ordrank import __version__
        from ordrank.cli.demo_folder import check_folder, fill_folder
        from ordrank.experiments.demo import draw_fruit

        check_folder(out)
        drawn = {"pictures": pictures, "size": size, "seed": seed}
        fruit = draw_fruit(pictures, size=size, seed=seed, tell=tell)
    with plain_errors(RESUMABLE):
        fill_folder(out, fruit, drawn | {"version": __version__})
    tour = _Tour(out, fruit, quiet=as_json)
    tour.fit()
    found = tour.evaluate()
    answers = tour.rank()
    compared = _compare(out, fruit, drawn, quiet=as_json)
    if as_json:
        print_json(_document(out, compared, found, answers))
        return
    _show_compared(compared.rows, pictures)
    screen().say(f"Open {out / 'answers.html'} to see the three queries and their nearest pictures,")
    screen().say(f"and {out / 'report.html'} to see how four distances compare;")
    screen().say(f"`ordrank serve {out / 'collection'}` shows all of them in the browser.")


class _Tour:
    """The commands that a user would give, each shown before it is done.

    Parameters
    ----------
    out : Path
        Folder with the pictures and their grades.
    fruit : Fruit
        What they show.
    quiet : bool
        Print nothing.
    """

    def __init__(self, out: Path, fruit: Fruit, *, quiet: bool) -> None:
        self.out, self.fruit, self.quiet = out, fruit, quiet
        self.collection = out / "collection"

    def fit(self) -> None:
        from ordrank import service
        from ordrank.cli.tables import show_fitted

        pictures, table = self.out / "pictures", self.out / "grades.csv"
        self._echo("fit", pictures, "--labels", table, "--out", self.collection)
        fitted = self._do(
            lambda watch: service.fit(pictures, self.collection, grades=service.Grades(table), watch=watch)
        )
        if not self.quiet:
            show_fitted(screen(), str(self.collection), fitted)

    def evaluate(self) -> Evaluation:
        from ordrank import service
        from ordrank.cli.tables import show_scores

        self._echo("evaluate", self.collection)
        found: Evaluation = self._do(lambda watch: service.evaluate(self.collection, watch=watch))
        if not self.quiet:
            show_scores(screen(), found)
        return found

    def rank(self) -> list[tuple[Answer, str]]:
        """Return answers with the true grades of their queries."""
        from ordrank import service
        from ordrank.cli.demo_folder import picture_name, three_queries

        queries = three_queries(self.fruit)
        names, page = [picture_name(query) for query in queries], self.out / "answers.html"
        self._echo("rank", self.collection, *names, "--html", page)
        answers = self._do(lambda watch: service.ask(self.collection, names, k=K))
        with plain_errors(RESUMABLE):
            write_sheet(page, answers, self.collection)
        known = [(answer, f"{self.fruit.grade[query]:g}") for answer, query in zip(answers, queries, strict=True)]
        if not self.quiet:
            _show_answers(known)
        return known

    def _echo(self, *words: Path | str) -> None:
        if not self.quiet:
            print_on = screen()
            print_on.console.print()
            print_on.say(f"$ ordrank {shlex.join(map(str, words))}", "dim")

    def _do(self, what: Callable[[Any], Any]) -> Any:
        from ordrank.service import Watch

        with plain_errors(RESUMABLE), progress(quiet=self.quiet) as (tell, tick):
            return what(Watch(tell, tick))


def _show_answers(answers: Sequence[tuple[Answer, str]]) -> None:
    print_on = screen()
    rows = [
        [print_on.text(cell) for cell in (answer.query, true, answer.grade, _grades_of(answer))]
        for answer, true in answers
    ]
    head = ("query without a grade", "is", "estimated", f"its {K} nearest")
    print_on.console.print(print_on.table(head, rows, left=(0, 3)))


def _grades_of(answer: Answer) -> str:
    return "  ".join(f"{'≈' if picture.estimated else ''}{picture.grade}" for picture in answer.results)


def _compare(out: Path, fruit: Fruit, drawn: dict[str, int], *, quiet: bool) -> Demo:
    with plain_errors(RESUMABLE), progress(quiet=quiet) as (tell, _):
        from ordrank.experiments.demo import run_demo
        from ordrank.pages import write_files

        with warnings.catch_warnings():
            # The data are the demonstration's own: nobody can do anything about few pictures of a grade.
            warnings.simplefilter("ignore", UserWarning)
            compared = run_demo(drawn["pictures"], size=drawn["size"], seed=drawn["seed"], tell=tell, fruit=fruit)
        write_files(out, compared.files)
        return compared


def _show_compared(rows: Sequence[DemoRow], pictures: int) -> None:
    from rich.table import Table

    from ordrank.experiments.demo import table_of

    print_on = screen()
    head, cells = table_of(rows)
    table = Table(title=f"{len(rows)} distances, {pictures} fruits: half teach, half are queries")
    for i, title in enumerate(head):
        table.add_column(print_on.text(title), justify="left" if i == 0 else "right", min_width=13 if i == 0 else None)
    for row in cells:
        table.add_row(*row)
    print_on.console.print(table)


def _document(out: Path, compared: Demo, found: Evaluation, answers: Sequence[tuple[Answer, str]]) -> dict[str, Any]:
    files = [*compared.files, "answers.html", "grades.csv"]
    return {
        **compared.as_document(),
        "evaluation": asdict(found),
        "answers": [
            {"query": answer.query, "grade": answer.grade, "true_grade": true, "value": answer.value}
            for answer, true in answers
        ],
        "files": [str(out / name) for name in files],
    }
