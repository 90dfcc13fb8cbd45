"""The experimental conditions and results that the paper reports, table by table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Dataset = Literal["umist", "fgnet"]


@dataclass(frozen=True, order=True)
class Cell:
    """One experimental condition: n training samples in d dimensions, K target neighbours, s components."""

    dataset: Dataset
    n: int
    d: int
    K: int
    s: int


@dataclass(frozen=True)
class Published:
    """Mean absolute error, its standard deviation over 50 repeats, and seconds of CPU time."""

    mae: float
    std: float
    seconds: float


@dataclass(frozen=True)
class Entry:
    """A cell of one of the paper's tables. LDMLR was not run for the table of s."""

    table: str
    cell: Cell
    cmds: Published
    ldmlr: Published | None


TITLES = {
    "2": "UMIST: the role of the embedding dimension s",
    "3": "UMIST: target neighbours K",
    "4": "UMIST: dimension d",
    "5": "UMIST: training samples n",
    "6": "FG-NET: target neighbours K",
    "7": "FG-NET: training samples n",
}
VARIED = {"2": "s", "3": "K", "4": "d", "5": "n", "6": "K", "7": "n"}

# table, varied value, cMDS-DML (MAE, STD, seconds), LDMLR (MAE, STD, seconds)
_NUMBERS: tuple[tuple[str, int, tuple[float, float, float], tuple[float, float, float] | None], ...] = (
    ("2", 2, (0.3539, 0.0812, 2.27), None),
    ("2", 3, (0.3463, 0.0671, 3.10), None),
    ("2", 5, (0.3498, 0.0640, 4.58), None),
    ("2", 8, (0.3684, 0.0762, 6.60), None),
    ("2", 10, (0.3798, 0.0830, 10.08), None),
    ("3", 4, (0.3488, 0.0684, 2.88), (0.4291, 0.0760, 10.26)),
    ("3", 5, (0.3463, 0.0671, 3.10), (0.4676, 0.0735, 10.39)),
    ("3", 6, (0.3521, 0.0689, 3.32), (0.4782, 0.0724, 11.92)),
    ("4", 150, (0.3463, 0.0671, 3.10), (0.4676, 0.0735, 10.39)),
    ("4", 200, (0.3518, 0.0668, 3.18), (0.4695, 0.0730, 17.21)),
    ("4", 250, (0.3545, 0.0674, 4.15), (0.4708, 0.0742, 23.90)),
    ("5", 30, (0.3463, 0.0671, 3.10), (0.4676, 0.0735, 10.39)),
    ("5", 60, (0.1958, 0.0478, 4.94), (0.3103, 0.0465, 39.13)),
    ("5", 90, (0.1373, 0.0329, 5.91), (0.2264, 0.0319, 79.92)),
    ("6", 4, (0.7295, 0.0694, 2.70), (1.4179, 0.1228, 21.59)),
    ("6", 5, (0.7109, 0.0657, 3.11), (1.3482, 0.0942, 18.37)),
    ("6", 6, (0.7095, 0.0682, 3.86), (1.3278, 0.1141, 25.43)),
    ("7", 40, (0.7613, 0.0845, 2.34), (1.3634, 0.1144, 11.13)),
    ("7", 50, (0.7377, 0.0657, 4.56), (1.3482, 0.0942, 18.37)),
    ("7", 75, (0.7243, 0.0809, 29.97), (1.2551, 0.1023, 40.04)),
)


def entries(dataset: Dataset | Literal["all"]) -> Iterator[Entry]:
    """Yield the table cells of a data set, in the order of the paper."""
    for table, value, cmds, ldmlr in _NUMBERS:
        of: Dataset = "umist" if table in "2345" else "fgnet"
        if dataset not in (of, "all"):
            continue
        usual = {"n": 30, "d": 150, "K": 5, "s": 3} if of == "umist" else {"n": 50, "d": 80, "K": 5, "s": 3}
        cell = Cell(of, **(usual | {VARIED[table]: value}))
        yield Entry(table, cell, Published(*cmds), Published(*ldmlr) if ldmlr else None)


def cells(dataset: Dataset | Literal["all"]) -> list[Cell]:
    """Return the distinct conditions of the table cells."""
    return sorted({entry.cell for entry in entries(dataset)})
