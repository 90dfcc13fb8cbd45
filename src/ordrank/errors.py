"""Every exception and warning of ordrank.

All input errors are ``ValueError``s, as scikit-learn users expect; early stops of a solver are reported with
scikit-learn's own ``ConvergenceWarning``.
"""

import sys
import warnings


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of ordrank that led here, however deep the warning is raised."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "ordrank":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class InputError(ValueError):
    """The data or a parameter is wrong; the message says what and what to do."""


class NotEuclideanError(InputError):
    """A matrix that should hold Euclidean distances does not."""


class MissingCapabilityError(TypeError):
    """A solver was given an objective that lacks an operation it needs."""


class PeerFailedError(RuntimeError):
    """A method of the comparison cannot run here or on these data; the message says why and what to do."""


class NeighborsCappedWarning(UserWarning):
    """Some labels have too few samples for the requested number of target neighbours."""


class CollapsedScaleWarning(UserWarning):
    """The free scale of the paper's model shrank the whole embedding towards a point."""


class RepairedDistancesWarning(UserWarning):
    """Label distances that were not Euclidean were changed before use."""
