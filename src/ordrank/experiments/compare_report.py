"""The report of the comparison: who wins where, every score of every method, and what was not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ordrank.experiments import figures as drawing
from ordrank.experiments.ours import OURS, TRANSDUCTIVE
from ordrank.experiments.report import Section, as_documents, origin
from ordrank.experiments.verdicts import FEWEST_SPLITS, LEVEL, OUTCOMES, PERMUTATIONS, Row, Verdict, by_plain_test

TITLE = "Comparison: the default model and what people would otherwise use"
CAPTION = (
    "Mean absolute error on the test samples, mean and one standard deviation over splits, methods sorted by it. Blue: "
    f"{OURS}; hollow blue: {TRANSDUCTIVE}, which sees the test pictures without their grades; orange: methods of the "
    "paper; grey: peers."
)
SCORES = {
    "accuracy": "accuracy",
    "kappa": "κ",
    "tau": "τ",
    "order_kept": "order kept",
    "ndcg": "NDCG@10",
    "same_subject_in_grade": "same person@3 in grade",
    "same_subject": "same person@3",
    "search_seconds": "search s",
    "fit_seconds": "fit s",
    "predict_seconds": "predict s",
}
MARKS = {"transductive": " †", "paper": "", "peer": "", "ours": ""}
TEST_HEAD = ("splits won by ours", "plain p", "p", "ours against it")
NOTE = f"† {TRANSDUCTIVE} sees the test pictures without their grades; it is in no verdict."


def compose(rows: Sequence[Row], verdicts: Sequence[Verdict], document: Mapping[str, Any]) -> dict[str, bytes]:
    """Files of the report: ``report.html``, ``report.md`` and one figure a data set as PNG."""
    contests = document["contests"]
    figures = {f"mae-{contest['name']}": draw(rows, contest["name"]) for contest in contests}
    captions = {f"mae-{contest['name']}": f"{contest['title']}. {CAPTION}" for contest in contests}
    by_pair = {(v.contest, v.rule, v.n, v.method): v for v in verdicts}
    sections = [
        _findings(document),
        _losses(verdicts),
        *(_contest(contest, rows, by_pair) for contest in contests),
        _missing(rows),
        _choices(document),
        _origin(document),
    ]
    files = {f"{name}.png": drawing.as_bytes(figure) for name, figure in figures.items()}
    return files | as_documents(TITLE, sections, files, captions)


def draw(rows: Sequence[Row], contest: str) -> Any:
    """Dot plot of a data set, one panel a condition."""
    panels = {}
    for place in dict.fromkeys(row.place for row in rows if row.contest == contest):
        here = sorted((row for row in rows if row.place == place), key=_by_error)
        panels[_where(place[1], place[2])] = [
            drawing.Dot(row.method, row.mae_mean, row.mae_std or 0.0, row.kind, _why_not(row)) for row in here
        ]
    return drawing.dot_plot(panels, "mean absolute error")


def _by_error(row: Row) -> tuple[bool, float]:
    """Those without a number last."""
    return row.mae_mean is None, row.mae_mean or 0.0


def _where(rule: str, n: int) -> str:
    return f"{rule}, n = {n}"


def _findings(document: Mapping[str, Any]) -> Section:
    summary = document["summary"]
    places = summary["places"]
    sentences = [
        "Every method is given the same splits and chooses its parameters inside the training part. "
        f"{OURS} is `OrdinalRanker()` as it comes.",
        summary_sentence(summary),
        f"A verdict is a two-sided paired test of the MAE at the level of {100 * LEVEL:g} %. Over random splits it is "
        "the corrected resampled t-test of Nadeau and Bengio (variance factor 1/J + n_test/n_train, since the splits "
        "overlap). Where there are many more test than training samples it is very strict, and a tie says little: the "
        "plain test, too lenient, stands beside it, and the truth lies between. With fewer than "
        f"{FEWEST_SPLITS} splits nothing is decided. On a single official split it is a permutation test with "
        f"{PERMUTATIONS} random signs over the test samples. Nothing is corrected for the number of methods, and “best "
        "or tied” means that no method with the same information is significantly better.",
        "The defaults of OrdinalMetric and the grids of the peers were tried out on splits of UMIST and FG-NET of "
        "another seed, on some of the hold-outs of the tables and on the one split of RetinaMNIST: what is found on "
        "the last two is not free of that.",
        "Fewer splits than asked for are run where there are no more (hold-outs) or where they are costly "
        "(people apart, all ages): the tables say how many.",
    ]
    head = ["data", "split", "n", f"MAE {OURS}", "best of the others", "its MAE", "margin"]
    head += ["best or tied", "loses to", "loses to, plain test"]
    cells = [
        [
            place["contest"],
            place["rule"],
            str(place["n"]),
            _number(place["ours"], 4),
            place["best_rival"] or "–",
            _number(place["best_rival_mae"], 4),
            _signed(place["margin"]),
            ("yes" if place["best_or_tied"] else "no") if place["tested"] else "undecided",
            ", ".join(place["lost_to"]) or "–",
            ", ".join(place["lost_to_plain_test"]) or "–",
        ]
        for place in places
    ]
    return Section("What was found", sentences, [(head, cells), _by_method(summary)])


def summary_sentence(summary: Mapping[str, Any]) -> str:
    """The counts in words."""

    def counts(found: Mapping[str, int]) -> str:
        words = {"win": "won", "tie": "tied", "loss": "lost"}
        return ", ".join(f"{found[outcome]} {words.get(outcome, outcome)}" for outcome in OUTCOMES)

    return (
        f"{OURS} is best or tied for best in {summary['best_or_tied']} of {len(summary['places'])} conditions and has "
        f"the lowest mean MAE in {summary['lowest']}. Against peers: {counts(summary['against_peers'])}. Against the "
        f"methods of the paper: {counts(summary['against_paper'])}. By the plain paired t-test, which takes "
        f"overlapping splits for independent, it is best or tied in {summary['best_or_tied_plain_test']}; "
        f"against peers: {counts(summary['against_peers_plain_test'])}."
    )


def _by_method(summary: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    cells = [[name, *(str(found[key]) for key in OUTCOMES)] for name, found in summary["by_method"].items()]
    return [f"{OURS} against", *OUTCOMES], cells


def _losses(verdicts: Sequence[Verdict]) -> Section:
    lost = [verdict for verdict in verdicts if "loss" in (verdict.verdict, by_plain_test(verdict))]
    if not lost:
        return Section("Where it loses", ["Nowhere, by either test."])
    cells = [[v.contest, v.rule, str(v.n), v.method, _signed(v.difference), *_test(v)] for v in lost]
    head = ["data", "split", "n", "to", "MAE of the other minus ours", *TEST_HEAD]
    note = "Nothing is left out. Losses by the plain test alone are listed too; their last column says tie."
    return Section("Where it loses", [note], [(head, cells)])


def _contest(
    contest: Mapping[str, Any], rows: Sequence[Row], verdicts: Mapping[tuple[str, str, int, str], Verdict]
) -> Section:
    """Errors of a data set side by side, then every score, condition by condition."""
    mine = [row for row in rows if row.contest == contest["name"]]
    places = list(dict.fromkeys(row.place for row in mine))
    rules = "; ".join(f"{rule['name']}: {rule['text']}" for rule in contest["rules"])
    sentences = [
        f"{contest['samples']} samples. {rules}.",
        "MAE, mean ± standard deviation over splits; ▲ significantly above ours, ▼ significantly below it, = neither; "
        "then every score of every condition, sorted by MAE.",
        NOTE,
    ]
    tables = [_errors(mine, places, verdicts)]
    tables += [_scores([row for row in mine if row.place == place], verdicts) for place in places]
    return Section(contest["title"], sentences, tables, [f"mae-{contest['name']}"])


def _errors(
    rows: Sequence[Row], places: Sequence[tuple[str, str, int]], verdicts: Mapping[tuple[str, str, int, str], Verdict]
) -> tuple[list[str], list[list[str]]]:
    found = {(row.place, row.method): row for row in rows}
    names = {row.method: f"{row.method}{MARKS[row.kind]}" for row in rows}
    cells = [
        [title, *(_error(found.get((place, name)), verdicts.get((*place, name))) for place in places)]
        for name, title in names.items()
    ]
    splits = {row.place: row.splits for row in rows}
    return ["MAE", *(f"{_where(rule, n)} ({splits[c, rule, n]} splits)" for c, rule, n in places)], cells


def _error(row: Row | None, verdict: Verdict | None) -> str:
    if row is None:
        return "not run"
    if row.mae_mean is None:
        return _why_not(row)
    text = f"{row.mae_mean:.4f}" + (f" ± {row.mae_std:.4f}" if row.mae_std is not None else "")
    text += f" ({row.repeats} splits)" if row.repeats < row.splits else ""
    return text + (f" {_sign(verdict)}" if verdict else "")


def _why_not(row: Row) -> str:
    """In two words; the table of reasons has the rest."""
    return "failed" if row.failure and row.failure.startswith("failed") else "not run"


def _sign(verdict: Verdict) -> str:
    return {"win": "▲", "loss": "▼", "tie": "="}.get(verdict.verdict, "")


def _scores(
    rows: Sequence[Row], verdicts: Mapping[tuple[str, str, int, str], Verdict]
) -> tuple[list[str], list[list[str]]]:
    """Every score of one condition that at least one method has."""
    shown = [name for name in SCORES if any(getattr(row, name) is not None for row in rows)]
    cells = []
    for row in sorted(rows, key=_by_error):
        verdict = verdicts.get((*row.place, row.method))
        numbers = [_number(getattr(row, name), 3) for name in shown]
        cells.append([f"{row.method}{MARKS[row.kind]}", _error(row, None), *numbers, *_test(verdict)])
    head = [_where(rows[0].rule, rows[0].n), "MAE", *(SCORES[name] for name in shown)]
    return [*head, *TEST_HEAD], cells


def _test(verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return ["–"] * 4
    won = f"{verdict.splits_won} of {verdict.splits}"
    return [won, _number(verdict.plain_p, 4), _number(verdict.p, 4), verdict.verdict]


def _missing(rows: Sequence[Row]) -> Section:
    """Methods without a number somewhere, with the reason, one line a reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.failure:
            missing = f"{row.contest} {_where(row.rule, row.n)}"
            part = "" if not row.repeats else f" ({row.splits - row.repeats} of {row.splits} splits)"
            reasons.setdefault((row.method, row.failure), []).append(missing + part)
    if not reasons:
        return Section("Not run, or failed", ["Every method ran on every split."])
    cells = [[method, failure, "; ".join(places)] for (method, failure), places in reasons.items()]
    return Section("Not run, or failed", ["No method is left out silently."], [(["method", "why", "where"], cells)])


def _choices(document: Mapping[str, Any]) -> Section:
    return Section(
        "How every method chooses",
        [
            "Peers: features are centred and divided by one number; every point of the grid is tried in five folds of "
            "the training samples (stratified where there are at most 10 labels, without regard to people) and the one "
            "of least MAE is fitted, ties to the first. relative_gamma is in units of one over the mean squared "
            "distance of the training samples, spread is the mean squared distance that maps start from. Methods with "
            "neighbours also choose their number, of 1, 3, 5, 7, 9, 15, and whether their mean or their median "
            "weighted by one over the distance is the grade.",
            "Principal components are of all pictures, test pictures included, as in the paper.",
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
        [(["method", "seconds in all"], spent)],
    )


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.4f}"
