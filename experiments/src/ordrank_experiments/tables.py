"""Rows of the paper's tables from outcomes of single splits, and their summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ordrank.errors import InputError
from ordrank_experiments.paper import Cell, Dataset, Published, entries
from ordrank_experiments.protocol import MAX_VOTES, Outcome

CMDS_LITERAL, CMDS_CALIBRATED = "cMDS-DML literal", "cMDS-DML calibrated"
LDMLR_LITERAL, LDMLR_CALIBRATED = "LDMLR literal", "LDMLR calibrated"
CMDS_ZERO_START = "cMDS-DML literal, L⁰ = 0"
CMDS_TRAINING_PCA = "cMDS-DML literal, PCA of training pictures"
CMDS_EVEN_DRAWS = "cMDS-DML literal, L⁰ = 0, even draws, all pictures"
CMDS_SCALED = "cMDS-DML literal, scaled landmarks"
CMDS_LEAVE_ONE_OUT = "cMDS-DML calibrated, leave-one-out"
CMDS_RAW, LDMLR_RAW = "cMDS-DML calibrated, raw landmarks", "LDMLR calibrated, raw landmarks"
EUCLIDEAN = "Euclidean"
ORDINAL, ORDINAL_UNLABELED = "OrdinalMetric", "OrdinalMetric, other pictures unlabelled"
ONLY = {  # methods of one data set
    CMDS_ZERO_START: "umist",
    CMDS_TRAINING_PCA: "umist",
    CMDS_EVEN_DRAWS: "umist",
    CMDS_SCALED: "fgnet",
    CMDS_RAW: "fgnet",
    LDMLR_RAW: "fgnet",
}
METHOD_NAMES = (
    CMDS_LITERAL,
    CMDS_ZERO_START,
    CMDS_TRAINING_PCA,
    CMDS_EVEN_DRAWS,
    CMDS_SCALED,
    CMDS_CALIBRATED,
    CMDS_LEAVE_ONE_OUT,
    CMDS_RAW,
    LDMLR_LITERAL,
    LDMLR_CALIBRATED,
    LDMLR_RAW,
    EUCLIDEAN,
    ORDINAL,
    ORDINAL_UNLABELED,
)


@dataclass(frozen=True)
class Row:
    """One method in one cell of one table.

    ``mae_by_split`` is the error of each split, in the order of the repeats and rounded to six digits;
    ``mae_by_votes[k-1]`` is the mean error with k neighbours; ``chosen`` counts hyperparameter values.
    """

    table: str
    dataset: str
    method: str
    n: int
    d: int
    K: int
    s: int
    mae_mean: float
    mae_std: float
    mae_by_split: tuple[float, ...]
    repeats: int
    fit_seconds: float
    choice_seconds: float
    votes: float
    mae_by_votes: tuple[float, ...]
    chosen: dict[str, int]
    published_mae: float | None
    published_std: float | None
    published_seconds: float | None

    @property
    def difference(self) -> float | None:
        """Difference of the MAE from the published one."""
        return None if self.published_mae is None else self.mae_mean - self.published_mae


def make_rows(dataset: Dataset | str, outcomes: Iterable[Outcome]) -> list[Row]:
    """Return the rows of all tables of a data set or of "all", in the order of the paper."""
    found: dict[tuple[Cell, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.cell, outcome.method].append(outcome)
    rows = []
    for entry in entries(dataset):  # type: ignore[arg-type]
        for method in METHOD_NAMES:
            if ("LDMLR" in method and entry.ldmlr is None) or ONLY.get(
                method, entry.cell.dataset
            ) != entry.cell.dataset:
                continue
            if (entry.cell, method) not in found:
                raise InputError(f"no outcome of {method} in {entry.cell}: the table is incomplete")
            published = entry.cmds if "cMDS" in method else entry.ldmlr if "LDMLR" in method else None
            rows.append(_row(entry.table, entry.cell, method, found[entry.cell, method], published))
    return rows


def _row(table: str, cell: Cell, method: str, outcomes: Sequence[Outcome], published: Published | None) -> Row:
    own = np.array([outcome.mae for outcome in sorted(outcomes, key=lambda outcome: outcome.repeat)])
    return Row(
        table=table,
        **asdict(cell),
        method=method,
        mae_mean=float(own.mean()),
        mae_std=float(own.std(ddof=1)),
        mae_by_split=tuple(own.round(6).tolist()),
        repeats=len(own),
        fit_seconds=float(np.mean([outcome.fit_seconds for outcome in outcomes])),
        choice_seconds=float(np.mean([outcome.choice_seconds for outcome in outcomes])),
        votes=float(np.mean([outcome.votes for outcome in outcomes])),
        mae_by_votes=tuple(np.mean([outcome.mae_by_votes for outcome in outcomes], axis=0).tolist()),
        chosen=dict(Counter(f"{name} {value:g}" for o in outcomes for name, value in o.chosen.items())),
        published_mae=published.mae if published else None,
        published_std=published.std if published else None,
        published_seconds=published.seconds if published else None,
    )


def summarise(rows: Sequence[Row], outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Compare the re-run with the paper: errors, fit times, and cMDS-DML with LDMLR."""
    by_cell = {(row.table, row.n, row.d, row.K, row.s, row.method): row for row in rows}

    def partner(row: Row, method: str) -> Row:
        return by_cell[row.table, row.n, row.d, row.K, row.s, method]

    shared = [row for row in rows if row.method == LDMLR_CALIBRATED]
    cmds = [row for row in rows if row.method == CMDS_CALIBRATED]
    times = [_times(row, partner) for row in shared]
    return {
        "shared_cells": len(shared),
        "cmds_beats_ldmlr_own_votes": sum(partner(row, CMDS_CALIBRATED).mae_mean < row.mae_mean for row in shared),
        "cmds_beats_ldmlr_common_votes": {
            str(votes): sum(
                partner(row, CMDS_CALIBRATED).mae_by_votes[votes - 1] < row.mae_by_votes[votes - 1] for row in shared
            )
            for votes in range(1, MAX_VOTES + 1, 2)
        },
        "cmds_leave_one_out_beats_ldmlr": sum(
            partner(row, CMDS_LEAVE_ONE_OUT).mae_mean < row.mae_mean for row in shared
        ),
        "paired": paired_differences(outcomes),
        "cmds_cells": len(cmds),
        "cmds_at_or_below_published": sum(_reached(row) for row in cmds),
        "cmds_leave_one_out_at_or_below_published": sum(
            _reached(row) for row in rows if row.method == CMDS_LEAVE_ONE_OUT
        ),
        "ldmlr_at_or_below_published": sum(_reached(row) for row in shared),
        "cells_above_published": [_missed(row, rows) for row in [*cmds, *shared] if not _reached(row)],
        "fit_time_ratios": times,
        "fit_time_ratio_at_least_published": all(time["ratio"] >= time["published_ratio"] for time in times),
    }


def paired_differences(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return mean differences of MAE, calibrated LDMLR minus calibrated cMDS-DML, of each distinct cell."""
    found: dict[Cell, dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for outcome in outcomes:
        found[outcome.cell][outcome.method][outcome.repeat] = outcome.mae
    differences = []
    for cell, methods in sorted(found.items()):
        if cell.s != 3:
            continue  # LDMLR does not depend on s
        cmds, ldmlr = methods[CMDS_CALIBRATED], methods[LDMLR_CALIBRATED]
        gain = np.array([ldmlr[repeat] - cmds[repeat] for repeat in sorted(cmds)])
        error = float(gain.std(ddof=1) / np.sqrt(len(gain)))
        won = int((gain > 0).sum())
        differences.append(
            asdict(cell) | {"difference": float(gain.mean()), "standard_error": error, "splits_won": won}
        )
    return differences


def _times(ldmlr: Row, partner: Callable[[Row, str], Row]) -> dict[str, Any]:
    """Return ratios of fit times in a cell: literal LDMLR over calibrated cMDS-DML, and like over like."""
    cmds, literal_cmds, literal = (partner(ldmlr, name) for name in (CMDS_CALIBRATED, CMDS_LITERAL, LDMLR_LITERAL))
    assert ldmlr.published_seconds is not None
    assert cmds.published_seconds is not None
    with_choice = (ldmlr.fit_seconds + ldmlr.choice_seconds) / (cmds.fit_seconds + cmds.choice_seconds)
    return {
        "table": ldmlr.table, "n": ldmlr.n, "d": ldmlr.d, "K": ldmlr.K,
        "published_ratio": ldmlr.published_seconds / cmds.published_seconds,
        "ratio": literal.fit_seconds / cmds.fit_seconds,
        "literal_over_literal": literal.fit_seconds / literal_cmds.fit_seconds,
        "calibrated_over_calibrated": ldmlr.fit_seconds / cmds.fit_seconds,
        "calibrated_over_calibrated_with_choice": with_choice,
    }  # fmt: skip


def _missed(row: Row, rows: Sequence[Row]) -> dict[str, Any]:
    """Describe a cell above its published value, with the best variant of the method on the same test samples."""
    where = ("table", "n", "d", "K", "s")
    family = row.method.split()[0]
    variants = [
        other
        for other in rows
        if other.method.startswith(family)
        and other.method != CMDS_EVEN_DRAWS
        and all(getattr(other, key) == getattr(row, key) for key in where)
    ]
    best = min(variants, key=lambda variant: variant.mae_mean)
    return {k: getattr(row, k) for k in (*where, "method", "mae_mean", "published_mae")} | {
        "best_found": best.mae_mean,
        "best_method": best.method,
    }


def _reached(row: Row) -> bool:
    return row.published_mae is not None and row.mae_mean <= row.published_mae
