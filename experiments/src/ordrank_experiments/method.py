"""A method of the comparison: fit on the training samples of a split, estimate the grades of its test samples."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ordrank._protocols import FloatArray

Params: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["default", "transductive", "paper", "baseline"]


class BaselineFailedError(RuntimeError):
    """A method cannot run on this machine or on these data; the message says why and what to do."""


@dataclass(frozen=True)
class MethodResult:
    """Result of a method on one split.

    Attributes
    ----------
    grades : ndarray of shape (n_test,)
        Estimated grades, on the label scale.
    embedded_train, embedded_test : ndarray or None
        Samples in the space in which the learned distance is Euclidean; None for a predictor.
    chosen : dict
        Selected hyperparameters, serialisable as JSON.
    search_seconds, fit_seconds, predict_seconds : float
        Time of model selection, of one fit with the selected hyperparameters, and of prediction.
    proba : ndarray of shape (n_test, m), or None
        Probabilities of the distinct labels of the training samples, in ascending order.
    """

    grades: FloatArray
    embedded_train: FloatArray | None
    embedded_test: FloatArray | None
    chosen: Params
    search_seconds: float
    fit_seconds: float
    predict_seconds: float
    proba: FloatArray | None = None


class FitMethod(Protocol):
    """Fit on training samples and predict the grades of test samples."""

    def __call__(
        self, X_train: FloatArray, y_train: FloatArray, X_test: FloatArray, groups: NDArray[Any] | None = None
    ) -> MethodResult:
        """Return the result; ``groups`` (n_train,) are the subjects if no test sample shows one of them."""
        ...


@dataclass(frozen=True)
class Method:
    """A row of the comparison.

    Attributes
    ----------
    name : str
    kind : {"default", "transductive", "paper", "baseline"}
        The default model; the same fitted with the unlabelled test samples; a method of the paper; another package.
    fit : callable
        See :class:`FitMethod`; raises :class:`BaselineFailedError` if it cannot run.
    choices : str
        Description of its model selection, for the report.
    max_samples, max_labels : int or None
        Largest training set and number of distinct labels for which its run time is acceptable.
    """

    name: str
    kind: Kind
    fit: FitMethod
    choices: str
    max_samples: int | None = None
    max_labels: int | None = None

    def reason_not_run(self, y_train: FloatArray) -> str | None:
        """Return why the method is skipped for this training set, or None."""
        if self.max_samples is not None and len(y_train) > self.max_samples:
            return f"not run: it takes too long with more than {self.max_samples} training samples"
        if self.max_labels is not None and len(np.unique(y_train)) > self.max_labels:
            return f"not run: it takes too long with more than {self.max_labels} different labels"
        return None


class Stopwatch:
    """Lap times in seconds."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def lap(self) -> float:
        """Return the seconds since the last call, or since the construction."""
        before, self._last = self._last, time.perf_counter()
        return self._last - before
