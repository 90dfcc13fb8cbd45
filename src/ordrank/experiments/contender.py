"""What every method of the comparison has in common: one call for one split, and what comes back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._types import FloatArray

Params: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["ours", "transductive", "paper", "peer"]


@dataclass(frozen=True)
class Fitted:
    """What a method made of one split.

    Attributes
    ----------
    grades : ndarray of shape (n_test,)
        Estimated grades, on the label scale.
    embedded_train, embedded_test : ndarray or None
        Samples in the space in which the learned distance is Euclidean; None for a predictor.
    chosen : dict
        The parameters it chose; can be written as JSON.
    search_seconds, fit_seconds, predict_seconds : float
        Time of the search, of one fit with the chosen parameters, and of grading the test samples.
    """

    grades: FloatArray
    embedded_train: FloatArray | None
    embedded_test: FloatArray | None
    chosen: Params
    search_seconds: float
    fit_seconds: float
    predict_seconds: float


class Fit(Protocol):
    """Learns from training samples and grades test samples."""

    def __call__(
        self, X_train: FloatArray, y_train: FloatArray, X_test: FloatArray, groups: NDArray[Any] | None = None
    ) -> Fitted:
        """Groups (n,) are the people of the training samples, where those of the test samples are others."""
        ...


@dataclass(frozen=True)
class Contender:
    """A row of the comparison.

    Attributes
    ----------
    name : str
    kind : {"ours", "transductive", "paper", "peer"}
        The default model; the same with the test pictures, ungraded, in its fit; a method of the paper; what
        people would otherwise use.
    fit : callable
        ``X_train, y_train, X_test`` and ``groups`` to :class:`Fitted`; raises ``PeerFailedError`` where it cannot run.
    choices : str
        How its parameters are chosen, for the report.
    largest : int or None
        Most training samples it is run with in reasonable time; None for any number.
    most_labels : int or None
        Most different labels it is run with in reasonable time; None for any number.
    """

    name: str
    kind: Kind
    fit: Fit
    choices: str
    largest: int | None = None
    most_labels: int | None = None

    def obstacle(self, y_train: FloatArray) -> str | None:
        """Why it is not run with such a training set; None if it is."""
        n_labels = len(np.unique(y_train))
        if self.largest is not None and len(y_train) > self.largest:
            return f"not run: it takes too long with more than {self.largest} training samples"
        if self.most_labels is not None and n_labels > self.most_labels:
            return f"not run: it takes too long with more than {self.most_labels} different labels"
        return None


class Clock:
    """Seconds since it was last asked."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Seconds since the last call, or since it was made."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before
