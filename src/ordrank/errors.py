"""Exceptions and warnings.

All input errors are ``ValueError``s, as scikit-learn users expect; early stops of a solver are reported with
scikit-learn's own ``ConvergenceWarning``.
"""

import sys
import warnings
from typing import Any


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn with the stack level of the first caller outside ordrank."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ordrank":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class InputError(ValueError):
    """Invalid data or parameter; the message says what is wrong and what to do."""


class CollectionError(InputError):
    """A collection cannot be opened, read or written."""


class BadPicturesError(InputError):
    """Some picture files cannot be used; ``bad`` holds a BadPicture for each."""

    def __init__(self, message: str, bad: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.bad = bad


class CollectionBusyError(CollectionError):
    """Another process is writing to the collection."""


class DiskFullError(CollectionError):
    """There is no space left for the files of a collection."""


class AccessDeniedError(CollectionError):
    """The files of a collection cannot be opened or changed with the permissions that they have."""


class ClusterError(InputError):
    """A cluster cannot be reached or failed during a fit."""


class UnreadablePictureError(InputError):
    """A picture cannot be decoded."""


class PictureTooLargeError(UnreadablePictureError):
    """A picture has more pixels than its reader accepts."""


class ConflictError(InputError):
    """Something has changed since, so that a request no longer applies."""


class UnknownError(InputError):
    """The picture or query does not exist."""


class NewGradeError(InputError):
    """A grade is not on the scale of a collection, and may be a mistake."""


class InsufficientMemoryError(InputError):
    """The memory did not suffice; the same may succeed when other programs need less."""


class NotEuclideanError(InputError):
    """A distance matrix is not Euclidean."""


class MissingCapabilityError(TypeError):
    """An objective lacks a method that the solver needs."""


class GradesError(InputError):
    """A file of grades cannot be used; ``problems`` lists all problems, the message the first."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class NeighborsCappedWarning(UserWarning):
    """Some labels have too few samples for the requested number of target neighbours."""


class CollapsedScaleWarning(UserWarning):
    """The free scale of the paper's model shrank the whole embedding towards a point."""


class RepairedDistancesWarning(UserWarning):
    """Non-Euclidean label distances were repaired before use."""
