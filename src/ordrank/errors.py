"""Every exception and warning of ordrank.

All input errors are ``ValueError``s, as scikit-learn users expect; early stops of a solver are reported with
scikit-learn's own ``ConvergenceWarning``.
"""

import sys
import warnings
from typing import Any


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of ordrank that led here, however deep the warning is raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ordrank":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class InputError(ValueError):
    """The data or a parameter is wrong; the message says what and what to do."""


class CollectionError(InputError):
    """A collection cannot be opened, read or written; the message says why and what to do."""


class BadPicturesError(InputError):
    """Files that were to be read cannot be used.

    Attributes
    ----------
    bad : tuple of BadPicture
        Each with its reason.
    """

    def __init__(self, message: str, bad: tuple[Any, ...]) -> None:
        super().__init__(message)
        self.bad = bad


class CollectionBusyError(CollectionError):
    """Another process is writing in a collection."""


class ClusterError(InputError):
    """A cluster cannot be reached, or failed during a fit; the message says how and what to do."""


class UnreadablePictureError(InputError):
    """A picture cannot be decoded; the message says why."""


class UnknownError(InputError):
    """There is no such picture or query."""


class NotEuclideanError(InputError):
    """A matrix that should hold Euclidean distances does not."""


class MissingCapabilityError(TypeError):
    """A solver was given an objective that lacks an operation it needs."""


class PeerFailedError(RuntimeError):
    """A method of the comparison cannot run here or on these data; the message says why and what to do."""


class GradesError(InputError):
    """A file of grades cannot be used; the message shows the first problems, ``problems`` holds all of them."""

    def __init__(self, message: str, problems: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems


class NeighborsCappedWarning(UserWarning):
    """Some labels have too few samples for the requested number of target neighbours."""


class CollapsedScaleWarning(UserWarning):
    """The free scale of the paper's model shrank the whole embedding towards a point."""


class RepairedDistancesWarning(UserWarning):
    """Label distances that were not Euclidean were changed before use."""
