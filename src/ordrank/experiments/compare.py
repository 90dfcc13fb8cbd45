"""Our model and what people would otherwise use, on the same splits in one run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ordrank.experiments.compare_report import compose
from ordrank.experiments.contender import Contender
from ordrank.experiments.contests import SEED, Contest, Match, load_contests, matches
from ordrank.experiments.journal import Run, identify
from ordrank.experiments.machine import describe_machine
from ordrank.experiments.ours import our_contenders
from ordrank.experiments.paper import Dataset
from ordrank.experiments.peer_environment import versions_elsewhere, versions_here
from ordrank.experiments.peers import PACKAGES, peers
from ordrank.experiments.scores import Score, play, read_scores
from ordrank.experiments.verdicts import make_rows, make_verdicts, summarise

Name = Literal["umist", "fgnet", "retinamnist", "tables", "all"]


@dataclass(frozen=True)
class Comparison:
    """Everything that was found; the files are written already."""

    document: dict[str, Any]
    files: list[Path]


def all_contenders(like: Dataset) -> list[Contender]:
    """Everyone who takes part; the paper's methods with their settings for the data set ``like``."""
    return [*our_contenders(like), *peers()]


def compare(dataset: Name, run: Run) -> Comparison:
    """Run every contender on every split of a data set and write the report.

    Parameters
    ----------
    dataset : {"umist", "fgnet", "retinamnist", "tables", "all"}
    run : Run
        Costly conditions have fewer repeats. Finished splits do not count if a peer was installed since.
    """
    begin = time.perf_counter()
    run.tell("reading and reducing the data")
    contests = {contest.name: contest for contest in load_contests(dataset, run.data)}
    machine, units = _describe(), matches(list(contests.values()), run.repeats)
    identity = identify(SEED, [array for contest in contests.values() for array in (contest.X, contest.y)])
    identity["versions"] = machine["versions"]
    scores, new = run.finish(units, partial(_play, contests=contests), identity, read_scores)
    contenders = all_contenders("fgnet")
    rows, verdicts = make_rows(scores, contenders), make_verdicts(scores, contenders)
    seconds = {"this_run": round(time.perf_counter() - begin, 1), "splits_run": new, "splits": len(units)}
    document = {
        "dataset": dataset,
        "seed": SEED,
        "repeats": run.repeats,
        "contests": [_describe_contest(contest) for contest in contests.values()],
        "rows": [asdict(row) for row in rows],
        "verdicts": [asdict(verdict) for verdict in verdicts],
        "summary": summarise(rows, verdicts),
        "choices": {contender.name: contender.choices for contender in contenders},
        "seconds": seconds | {"of_methods": _seconds(scores)},
        **machine,
    }
    run.tell("writing the report")
    return Comparison(document, run.write(document, compose(rows, verdicts, document)))


def _play(match: Match, *, contests: Mapping[str, Contest]) -> list[Score]:
    contest = contests[match.contest]
    return play(match, contest, all_contenders(contest.like))


def _describe() -> dict[str, Any]:
    """The machine, with the versions of the peers that are installed."""
    machine = describe_machine()
    return machine | {"versions": machine["versions"] | versions_here(PACKAGES) | versions_elsewhere()}


def _describe_contest(contest: Contest) -> dict[str, Any]:
    rules = [{"name": rule.name, "text": rule.text, "most": rule.most} for rule in contest.rules]
    samples = len(contest.y) // (contest.rules[0].most or 1) if contest.standardise else len(contest.y)
    return {"name": contest.name, "title": contest.title, "samples": samples, "rules": rules}


def _seconds(scores: Sequence[Score]) -> dict[str, float]:
    """Time that each method took in all, whoever's run it was in."""
    total: dict[str, float] = {}
    for score in scores:
        spent = (score.search_seconds or 0.0) + (score.fit_seconds or 0.0) + (score.predict_seconds or 0.0)
        total[score.method] = round(total.get(score.method, 0.0) + spent, 2)
    return total
