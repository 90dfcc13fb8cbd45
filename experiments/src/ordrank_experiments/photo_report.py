"""The report of the comparison of features of photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordrank_experiments import figures
from ordrank_experiments.photo_methods import FROZEN, outputs_of
from ordrank_experiments.photo_rows import PhotoRow, PhotoTest, Spread
from ordrank_experiments.report import Section, Table, as_documents, origin
from ordrank_experiments.significance import LEVEL, MIN_SPLITS, PERMUTATIONS

TITLE = "Frozen and fine-tuned features of photographs"
SCORES = {
    "mae": ("MAE", 3),
    "accuracy": ("accuracy", 3),
    "kappa": ("κ", 3),
    "tau": ("τ", 3),
    "same_subject": ("same person", 3),
    "same_subject_in_grade": ("in grade", 4),
    "possible_in_grade": ("possible", 4),
    "coverage": ("coverage", 3),
    "width": ("width", 2),
    "fit_seconds": ("fit s", 1),
}
TEST_HEAD = ["method", "against", "difference of MAE", "splits won", "uncorrected p", "p", "outcome"]
FIGURE = "mae-photos"


def compose(rows: Sequence[PhotoRow], tests: Sequence[PhotoTest], document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return ``report.html``, ``report.md`` and a figure as PNG."""
    first = document["options"]["losses"][0]
    files = {f"{FIGURE}.png": figures.as_bytes(draw(rows, first))}
    caption = (
        f"Mean absolute error on the test pictures, mean and one standard deviation over splits. Orange: {FROZEN} "
        f"features; blue: features tuned with the loss {first}, hollow: outputs of that network; grey: other losses."
    )
    sections = [
        Section("Results", _findings(document), figures=[FIGURE]),
        *(_condition(one, rows, tests) for one in document["benchmarks"]),
        *_failures(rows),
        _origin(document),
    ]
    return files | as_documents(TITLE, sections, files, {FIGURE: caption})


def draw(rows: Sequence[PhotoRow], first: str) -> Any:
    """Draw a dot plot, one panel a condition."""
    kinds = {FROZEN: "paper", first: "default", outputs_of(first): "transductive"}  # by their colours
    panels = {}
    for condition in dict.fromkeys(row.condition for row in rows):
        here = sorted((row for row in rows if row.condition == condition), key=_by_error)
        panels[", ".join(condition)] = [
            figures.Dot(row.method, row.mae, _std(row.scores["mae"]), kinds.get(row.method, "other"), "failed")
            for row in here
        ]
    return figures.dot_plot(panels, "mean absolute error")


def _by_error(row: PhotoRow) -> tuple[bool, float]:
    return row.mae is None, row.mae or 0.0


def summary_sentence(summary: Mapping[str, Mapping[str, int]]) -> str:
    """Return the counts of the summary as text."""
    frozen, outputs = summary["tuned_below_frozen"], summary["ranker_below_outputs"]
    return (
        f"The ranker has a lower mean MAE on tuned than on frozen features in {frozen['count']} of {frozen['cases']} "
        f"conditions and losses, and a lower one than the outputs of the network in {outputs['count']} of "
        f"{outputs['cases']}."
    )


def score_table(rows: Sequence[PhotoRow]) -> Table:
    """List the scores of one condition that at least one method has: means, and the standard deviation of the MAE."""
    shown = [name for name in SCORES if any(row.scores[name] is not None for row in rows)]
    cells = [[row.method, *(_score(name, row.scores[name]) for name in shown)] for row in rows]
    return ["method", *(SCORES[name][0] for name in shown)], cells


def _score(name: str, spread: Spread | None) -> str:
    if spread is None:
        return "–"
    digits = SCORES[name][1]
    text = f"{spread.mean:.{digits}f}"
    return f"{text} ± {spread.std:.{digits}f}" if name == "mae" and spread.std is not None else text


def _std(spread: Spread | None) -> float:
    return 0.0 if spread is None else spread.std or 0.0


def _findings(document: Mapping[str, Any]) -> list[str]:
    options = document["options"]
    size = f"pictures of {options['image_size']} px, " if options["image_size"] else ""
    steps = f"{options['steps']} batches" if options["steps"] else "the default number of batches"
    return [
        f"Network {options['backbone']}, {size}{steps}, the same for all losses. {FROZEN}: `OrdinalRanker` on the "
        "pretrained features. A loss: `OrdinalNetwork.predict`, the ranker on features tuned with it; with “outputs”: "
        "`OrdinalNetwork.predict_from_outputs`, its own head.",
        summary_sentence(document["summary"]),
        "Same person: share of the three nearest training pictures that show the query's person; in grade: of the "
        "three nearest of the query's group of five years; possible: the highest value of that. Coverage and width are "
        "of 90 % intervals. The time of a fit is from picture files to a fitted ranker, also for outputs, with "
        f"{options['jobs']} at a time.",
        f"Outcomes are of two-sided paired tests of the MAE at the level of {100 * LEVEL:g} %: over splits the "
        f"corrected resampled t-test, undecided with fewer than {MIN_SPLITS}; where all repeats have the same test "
        f"pictures a permutation test with {PERMUTATIONS} random signs over these, of errors averaged over repeats. "
        "There is no correction for the number of tests.",
    ]


def _condition(benchmark: Mapping[str, Any], rows: Sequence[PhotoRow], tests: Sequence[PhotoTest]) -> Section:
    condition = benchmark["data"], benchmark["rule"]
    here = [row for row in rows if row.condition == condition]
    sentence = (
        f"{benchmark['pictures']} pictures of {benchmark['grades']} grades; {benchmark['text']}. {here[0].splits} "
        f"splits of {here[0].n_train:.0f} training and {here[0].n_test:.0f} test pictures on average."
    )
    cells = [_test_cells(test) for test in tests if (test.data, test.rule) == condition]
    return Section(", ".join(condition), [sentence], [score_table(here), (TEST_HEAD, cells)])


def _test_cells(test: PhotoTest) -> list[str]:
    p, uncorrected = ("–" if value is None else f"{value:.4f}" for value in (test.p, test.uncorrected_p))
    difference = "–" if test.difference is None else f"{test.difference:+.4f}"
    won = f"{test.splits_won} of {test.splits}"
    return [test.method, test.other, difference, won, uncorrected, p, test.outcome]


def _failures(rows: Sequence[PhotoRow]) -> list[Section]:
    cells = [
        [*row.condition, row.method, f"{row.splits - row.repeats} of {row.splits}", row.failure]
        for row in rows
        if row.failure
    ]
    return [Section("Failed", [], [(["data", "split", "method", "splits", "reason"], cells)])] if cells else []


def _origin(document: Mapping[str, Any]) -> Section:
    machine, seconds = document["machine"], document["seconds"]
    threads = f"{machine['threads']} threads" + (f", {machine['gpu']}" if machine["gpu"] else "")
    sentence = (
        f"{origin(document, threads)} Seed {document['seed']}; a network of repeat r has the seed plus r. This run: "
        f"{seconds['this_run']:.0f} s for {seconds['fits_run']} of {seconds['fits']} fits."
    )
    return Section("Versions, seeds and time", [sentence])
