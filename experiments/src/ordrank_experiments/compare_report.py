"""The report of the comparison: outcomes by condition, all scores of all methods, and what was not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordrank_experiments import figures
from ordrank_experiments.own_methods import DEFAULT, TRANSDUCTIVE
from ordrank_experiments.report import Section, Table, as_documents, origin
from ordrank_experiments.significance import LEVEL, MIN_SPLITS, OUTCOMES, PERMUTATIONS, Condition, PairedTest, Row

TITLE = "Comparison of the default model with other methods"
CAPTION = (
    "Mean absolute error on the test samples, mean and one standard deviation over splits, methods sorted by it. Blue: "
    f"{DEFAULT}; hollow blue: {TRANSDUCTIVE}, fitted with the unlabelled test pictures; orange: methods of the paper; "
    "grey: other packages."
)
SCORES = {
    "accuracy": "accuracy",
    "kappa": "κ",
    "tau": "τ",
    "rps": "RPS",
    "calibration": "calibration error",
    "order_preservation": "order preservation",
    "ndcg": "NDCG@10",
    "same_subject_in_grade": "same person@3 in grade",
    "same_subject": "same person@3",
    "search_seconds": "search s",
    "fit_seconds": "fit s",
    "predict_seconds": "predict s",
}
TEST_HEAD = (f"splits won by {DEFAULT}", "uncorrected p", "p", f"outcome for {DEFAULT}")
NOTE = f"† {TRANSDUCTIVE} is fitted with the unlabelled test pictures; it is not tested."

Tests = Mapping[tuple[Condition, str], PairedTest]  # by condition and method


def compose(rows: Sequence[Row], tests: Sequence[PairedTest], document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return ``report.html``, ``report.md`` and one figure a data set as PNG."""
    benchmarks = document["benchmarks"]
    files = {f"mae-{one['name']}.png": figures.as_bytes(draw(rows, one["name"])) for one in benchmarks}
    captions = {f"mae-{one['name']}": f"{one['title']}. {CAPTION}" for one in benchmarks}
    by_pair = {(test.condition, test.method): test for test in tests}
    sections = [
        _findings(document),
        _losses(tests),
        *(_benchmark(benchmark, rows, by_pair) for benchmark in benchmarks),
        _missing(rows),
        _choices(document),
        _origin(document),
    ]
    return files | as_documents(TITLE, sections, files, captions)


def draw(rows: Sequence[Row], benchmark: str) -> Any:
    """Draw a dot plot of a data set, one panel a condition."""
    panels = {}
    for condition in dict.fromkeys(row.condition for row in rows if row.benchmark == benchmark):
        here = sorted((row for row in rows if row.condition == condition), key=_by_error)
        panels[_title(condition)] = [
            figures.Dot(row.method, row.mae_mean, row.mae_std or 0.0, row.kind, _why_missing(row)) for row in here
        ]
    return figures.dot_plot(panels, "mean absolute error")


def _by_error(row: Row) -> tuple[bool, float]:
    return row.mae_mean is None, row.mae_mean or 0.0


def _title(condition: Condition) -> str:
    return f"{condition[1]}, n = {condition[2]}"


def _findings(document: Mapping[str, Any]) -> Section:
    summary = document["summary"]
    sentences = [
        "All methods use the same splits and select hyperparameters inside the training part. "
        f"{DEFAULT} is `OrdinalRanker()` with default parameters.",
        summary_sentence(summary),
        f"Outcomes are of two-sided paired tests of the MAE at the level of {100 * LEVEL:g} %. Over random splits "
        "it is the corrected resampled t-test of Nadeau and Bengio (variance factor 1/J + n_test/n_train, since the "
        "splits overlap). With many more test than training samples it is very strict and a tie is weak evidence; the "
        "uncorrected test is too lenient, so both are reported. Drawn tables are independent: there the paired "
        "t-test needs no correction. With fewer than "
        f"{MIN_SPLITS} splits nothing is decided. On a single official split it is a permutation test with "
        f"{PERMUTATIONS} random signs over the test samples. There is no correction for the number of methods; “best "
        "or tied” means that no method with the same information is significantly better.",
        "The defaults of OrdinalMetric and the grids of the baselines were tuned on splits of UMIST and FG-NET of "
        "other seeds, on some of the hold-outs of the tables and on the one split of RetinaMNIST: results on the last "
        "two are not free of selection bias.",
        "RPS is the ranked probability score, calibration error that of the cumulative probabilities; for methods with "
        "probabilities of the grades on every split.",
        "Conditions with a limited number of hold-outs, and costly ones (subject-disjoint, all ages), have fewer "
        "splits; the tables say how many.",
    ]
    head = ["data", "split", "n", f"MAE {DEFAULT}", "best other method", "its MAE", "margin"]
    head += ["best or tied", "loses to", "loses to, uncorrected"]
    cells = [
        [
            condition["benchmark"],
            condition["rule"],
            str(condition["n"]),
            _number(condition["mae"], 4),
            condition["best_other"] or "–",
            _number(condition["best_other_mae"], 4),
            _signed(condition["margin"]),
            ("yes" if condition["best_or_tied"] else "no") if condition["tested"] else "undecided",
            ", ".join(condition["lost_to"]) or "–",
            ", ".join(condition["lost_to_uncorrected"]) or "–",
        ]
        for condition in summary["conditions"]
    ]
    counts = [[name, *(str(found[key]) for key in OUTCOMES)] for name, found in summary["by_method"].items()]
    return Section("Results", sentences, [(head, cells), ([f"{DEFAULT} against", *OUTCOMES], counts)])


def summary_sentence(summary: Mapping[str, Any]) -> str:
    """Return the counts of outcomes as text."""

    def counts(found: Mapping[str, int]) -> str:
        words = {"win": "won", "tie": "tied", "loss": "lost"}
        return ", ".join(f"{found[outcome]} {words.get(outcome, outcome)}" for outcome in OUTCOMES)

    return (
        f"{DEFAULT} is best or tied for best in {summary['best_or_tied']} of {len(summary['conditions'])} conditions "
        f"and has the lowest mean MAE in {summary['lowest']}. Against other packages: "
        f"{counts(summary['against_baselines'])}. Against the methods of the paper: "
        f"{counts(summary['against_paper'])}. By the uncorrected paired t-test, which assumes independent splits, it "
        f"is best or tied in {summary['best_or_tied_uncorrected']}; against other packages: "
        f"{counts(summary['against_baselines_uncorrected'])}."
    )


def _losses(tests: Sequence[PairedTest]) -> Section:
    lost = [test for test in tests if "loss" in (test.outcome, test.uncorrected_outcome)]
    if not lost:
        return Section("Losses", ["None, by either test."])
    cells = [[t.benchmark, t.rule, str(t.n), t.method, _signed(t.difference), *_test_cells(t)] for t in lost]
    head = ["data", "split", "n", "to", f"its MAE minus that of {DEFAULT}", *TEST_HEAD]
    note = "The list is complete. It includes losses by the uncorrected test alone; their last column says tie."
    return Section("Losses", [note], [(head, cells)])


def _benchmark(benchmark: Mapping[str, Any], rows: Sequence[Row], tests: Tests) -> Section:
    """Compare the errors of all conditions, then list all scores of each."""
    here = [row for row in rows if row.benchmark == benchmark["name"]]
    conditions = list(dict.fromkeys(row.condition for row in here))
    rules = "; ".join(f"{rule['name']}: {rule['text']}" for rule in benchmark["rules"])
    sentences = [
        f"{benchmark['samples']} samples. {rules}.",
        f"MAE, mean ± standard deviation over splits; ▲ significantly above {DEFAULT}, ▼ significantly below it, = "
        "neither; then all scores of each condition, sorted by MAE.",
        NOTE,
    ]
    tables = [_errors(here, conditions, tests)]
    tables += [_scores([row for row in here if row.condition == condition], tests) for condition in conditions]
    return Section(benchmark["title"], sentences, tables, [f"mae-{benchmark['name']}"])


def _errors(rows: Sequence[Row], conditions: Sequence[Condition], tests: Tests) -> Table:
    found = {(row.condition, row.method): row for row in rows}
    splits = {row.condition: row.splits for row in rows}
    cells = [
        [title, *(_error(found.get((condition, name)), tests.get((condition, name))) for condition in conditions)]
        for name, title in {row.method: _name(row) for row in rows}.items()
    ]
    return ["MAE", *(f"{_title(condition)} ({splits[condition]} splits)" for condition in conditions)], cells


def _name(row: Row) -> str:
    return f"{row.method} †" if row.kind == "transductive" else row.method


def _error(row: Row | None, test: PairedTest | None) -> str:
    if row is None:
        return "not run"
    if row.mae_mean is None:
        return _why_missing(row)
    text = f"{row.mae_mean:.4f}" + (f" ± {row.mae_std:.4f}" if row.mae_std is not None else "")
    text += f" ({row.repeats} splits)" if row.repeats < row.splits else ""
    return text + (f" {_sign(test)}" if test else "")


def _why_missing(row: Row) -> str:
    return "failed" if row.failure and row.failure.startswith("failed") else "not run"


def _sign(test: PairedTest) -> str:
    return {"win": "▲", "loss": "▼", "tie": "="}.get(test.outcome, "")


def _scores(rows: Sequence[Row], tests: Tests) -> Table:
    """List the scores of one condition that at least one method has."""
    shown = [name for name in SCORES if any(getattr(row, name) is not None for row in rows)]
    cells = []
    for row in sorted(rows, key=_by_error):
        numbers = [_number(getattr(row, name), 3) for name in shown]
        cells.append([_name(row), _error(row, None), *numbers, *_test_cells(tests.get((row.condition, row.method)))])
    return [_title(rows[0].condition), "MAE", *(SCORES[name] for name in shown), *TEST_HEAD], cells


def _test_cells(test: PairedTest | None) -> list[str]:
    if test is None:
        return ["–"] * 4
    won = f"{test.splits_won} of {test.splits}"
    return [won, _number(test.uncorrected_p, 4), _number(test.p, 4), test.outcome]


def _missing(rows: Sequence[Row]) -> Section:
    """List missing results by method and reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.failure:
            part = "" if not row.repeats else f" ({row.splits - row.repeats} of {row.splits} splits)"
            reasons.setdefault((row.method, row.failure), []).append(f"{row.benchmark} {_title(row.condition)}{part}")
    if not reasons:
        return Section("Not run, or failed", ["Every method ran on every split."])
    cells = [[method, failure, "; ".join(conditions)] for (method, failure), conditions in reasons.items()]
    return Section("Not run, or failed", ["All missing results."], [(["method", "reason", "conditions"], cells)])


def _choices(document: Mapping[str, Any]) -> Section:
    return Section(
        "Model selection",
        [
            "Baselines: features are centred and divided by one number; the candidate with the lowest MAE in five-fold "
            "cross-validation on the training samples is refitted, ties to the first. Folds are stratified if there "
            "are at most 10 labels, and of whole people if training and test people differ. relative_gamma is in units "
            "of one over the mean squared distance of the training samples, spread is the mean squared distance that "
            "maps start from. k-NN methods also select k, of the numbers that OrdinalRanker selects from (1, 3, 7, 15, "
            "31, 51 and a third of the training samples, at most 101), the mean or the median, and equal weights or "
            "weights of one over the distance.",
            "Principal components are computed from all pictures, test pictures included, as in the paper.",
        ],
        [(["method", "choices"], [[name, text] for name, text in document["choices"].items()])],
    )


def _origin(document: Mapping[str, Any]) -> Section:
    seconds = document["seconds"]
    spent = [[name, f"{value:.0f}"] for name, value in seconds["of_methods"].items()]
    return Section(
        "Versions, seeds and time",
        [
            f"{origin(document)} Seed {document['seed']}; split r is drawn with the pair (seed, r). This "
            f"run: {seconds['this_run']:.0f} s for {seconds['splits_run']} of {seconds['splits']} splits."
        ],
        [(["method", "total seconds"], spent)],
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4f}"
