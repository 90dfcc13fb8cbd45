"""Tables drawn from a model: coarse integer features, grades in the order of a noisy linear score.

Coarse features have many copies of a sample, with different grades. Weights differ from table to table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ordrank._protocols import FloatArray

DRAWN_SIZES = (24, 50, 100)  # training samples
DRAWN_TRAINING = max(DRAWN_SIZES)
DRAWN_SAMPLES = DRAWN_TRAINING + 400  # of one table; the last 400 are for testing
DRAWN_REPEATS = 30


@dataclass(frozen=True)
class DrawnTable:
    """A kind of table.

    Attributes
    ----------
    name, text : str
    relevant, irrelevant : int
        Features that the grade does and does not depend on.
    values : int
        A feature is uniform on 0, 1, ..., values - 1.
    noise : float
        Standard deviation of the noise, in units of that of the linear score.
    shares : tuple of float
        Expected share of each grade.
    """

    name: str
    text: str
    relevant: int
    irrelevant: int
    values: int
    noise: float
    shares: tuple[float, ...]


DRAWN_TABLES = (
    DrawnTable("scale", "6 features of 5 values, 5 grades", 6, 0, 5, 0.3, (0.2,) * 5),
    DrawnTable("coarse", "4 features of 3 values, 4 grades, much noise", 4, 0, 3, 0.7, (0.25,) * 4),
    DrawnTable("irrelevant", "4 of 16 features of 4 values matter, 5 grades", 4, 12, 4, 0.3, (0.2,) * 5),
    DrawnTable(
        "skewed", "8 features of 2 values, 4 grades, half of the samples lowest", 8, 0, 2, 0.4, (0.5, 0.25, 0.15, 0.1)
    ),
)


def draw_tables(kind: DrawnTable, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return the samples and the grades 1, 2, ... of ``DRAWN_REPEATS`` tables, one after the other."""
    seeds = [(seed, repeat, *kind.name.encode()) for repeat in range(DRAWN_REPEATS)]  # kinds differ
    tables = [_draw(kind, np.random.default_rng(one)) for one in seeds]
    return np.concatenate([X for X, _ in tables]), np.concatenate([y for _, y in tables])


def _draw(kind: DrawnTable, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    X = rng.integers(kind.values, size=(DRAWN_SAMPLES, kind.relevant + kind.irrelevant)).astype(np.float64)
    weights = rng.choice([-1.0, 1.0], kind.relevant) * rng.uniform(0.5, 1.5, kind.relevant)
    score = X[:, : kind.relevant] @ weights
    score += kind.noise * score.std() * rng.normal(size=DRAWN_SAMPLES)
    borders = np.quantile(score, np.cumsum(kind.shares)[:-1])
    return X, np.searchsorted(borders, score).astype(np.float64) + 1
