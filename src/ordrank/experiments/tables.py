"""From outcomes of single splits to the rows of the paper's tables, and what they say together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ordrank.experiments.paper import Cell, Dataset, Published, entries
from ordrank.experiments.protocol import MOST_VOTES, Outcome

CMDS_LITERAL, CMDS_CALIBRATED = "cMDS-DML literal", "cMDS-DML calibrated"
LDMLR_LITERAL, LDMLR_CALIBRATED = "LDMLR literal", "LDMLR calibrated"
CMDS_ZERO_START = "cMDS-DML literal, L⁰ = 0"
CMDS_LEAVE_ONE_OUT = "cMDS-DML calibrated, leave-one-out"
CMDS_RAW, LDMLR_RAW = "cMDS-DML calibrated, raw landmarks", "LDMLR calibrated, raw landmarks"
EUCLIDEAN = "Euclidean"
METHOD_NAMES = (
    CMDS_LITERAL,
    CMDS_ZERO_START,
    CMDS_CALIBRATED,
    CMDS_LEAVE_ONE_OUT,
    CMDS_RAW,
    LDMLR_LITERAL,
    LDMLR_CALIBRATED,
    LDMLR_RAW,
    EUCLIDEAN,
)


@dataclass(frozen=True)
class Row:
    """One method in one cell of one table; ``mae_by_votes[k-1]`` is the mean error with k voting neighbours."""

    table: str
    dataset: str
    method: str
    n: int
    d: int
    K: int
    s: int
    mae_mean: float
    mae_std: float
    repeats: int
    fit_seconds: float
    choice_seconds: float
    votes: float
    mae_by_votes: tuple[float, ...]
    published_mae: float | None
    published_std: float | None
    published_seconds: float | None

    @property
    def difference(self) -> float | None:
        """Ours minus published."""
        return None if self.published_mae is None else self.mae_mean - self.published_mae


def make_rows(dataset: Dataset | str, outcomes: Iterable[Outcome]) -> list[Row]:
    """Rows of every table of a data set (or "all"), in the order of the paper; LDMLR does not depend on s."""
    found: dict[tuple[Cell, str], list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        found[outcome.cell, outcome.method].append(outcome)
    rows = []
    for entry in entries(dataset):  # type: ignore[arg-type]
        for method in METHOD_NAMES:
            if ("LDMLR" in method and entry.ldmlr is None) or (entry.cell, method) not in found:
                continue
            published = entry.cmds if "cMDS" in method else entry.ldmlr if "LDMLR" in method else None
            rows.append(_row(entry.table, entry.cell, method, found[entry.cell, method], published))
    return rows


def _row(table: str, cell: Cell, method: str, outcomes: Sequence[Outcome], published: Published | None) -> Row:
    own = np.array([outcome.mae() for outcome in outcomes])
    return Row(
        table=table,
        **asdict(cell),
        method=method,
        mae_mean=float(own.mean()),
        mae_std=float(own.std(ddof=1)),
        repeats=len(own),
        fit_seconds=float(np.mean([outcome.fit_seconds for outcome in outcomes])),
        choice_seconds=float(np.mean([outcome.choice_seconds for outcome in outcomes])),
        votes=float(np.mean([outcome.votes for outcome in outcomes])),
        mae_by_votes=tuple(np.mean([outcome.mae_by_votes for outcome in outcomes], axis=0).tolist()),
        published_mae=published.mae if published else None,
        published_std=published.std if published else None,
        published_seconds=published.seconds if published else None,
    )


def summarise(rows: Sequence[Row]) -> dict[str, Any]:
    """What the tables claim and what was found: who wins, by how much faster, and where the numbers are reached."""
    by_cell = {(row.table, row.n, row.d, row.K, row.s, row.method): row for row in rows}

    def partner(row: Row, method: str) -> Row:
        return by_cell[row.table, row.n, row.d, row.K, row.s, method]

    shared = [row for row in rows if row.method == LDMLR_CALIBRATED]
    cmds = [row for row in rows if row.method == CMDS_CALIBRATED]
    times: list[dict[str, Any]] = [
        {
            "table": row.table, "n": row.n, "d": row.d, "K": row.K,
            "ratio": partner(row, LDMLR_LITERAL).fit_seconds / partner(row, CMDS_CALIBRATED).fit_seconds,
            "published_ratio": _ratio(row, partner(row, CMDS_CALIBRATED)),
        }
        for row in shared
    ]  # fmt: skip
    return {
        "shared_cells": len(shared),
        "cmds_beats_ldmlr_own_votes": sum(partner(row, CMDS_CALIBRATED).mae_mean < row.mae_mean for row in shared),
        "cmds_beats_ldmlr_common_votes": {
            votes: sum(
                partner(row, CMDS_CALIBRATED).mae_by_votes[votes - 1] < row.mae_by_votes[votes - 1] for row in shared
            )
            for votes in range(1, MOST_VOTES + 1, 2)
        },
        "cmds_cells": len(cmds),
        "cmds_at_or_below_published": sum(_reached(row) for row in cmds),
        "cmds_leave_one_out_at_or_below_published": sum(
            _reached(row) for row in rows if row.method == CMDS_LEAVE_ONE_OUT
        ),
        "cmds_leave_one_out_beats_ldmlr": sum(
            partner(row, CMDS_LEAVE_ONE_OUT).mae_mean < row.mae_mean for row in shared
        ),
        "ldmlr_at_or_below_published": sum(_reached(row) for row in shared),
        "cells_above_published": [
            {"table": row.table, "method": row.method, "n": row.n, "d": row.d, "K": row.K, "s": row.s,
             "mae_mean": row.mae_mean, "published_mae": row.published_mae}
            for row in [*cmds, *shared] if not _reached(row)
        ],
        "fit_time_ratios": times,
        "fit_time_ratio_at_least_published": all(time["ratio"] >= time["published_ratio"] for time in times),
    }  # fmt: skip


def _ratio(ldmlr: Row, cmds: Row) -> float:
    assert ldmlr.published_seconds is not None
    assert cmds.published_seconds is not None
    return ldmlr.published_seconds / cmds.published_seconds


def _reached(row: Row) -> bool:
    return row.published_mae is not None and row.mae_mean <= row.published_mae
