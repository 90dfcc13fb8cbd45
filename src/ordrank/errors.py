"""Every exception and warning of ordrank.

All input errors are ``ValueError``s, as scikit-learn users expect; early stops of a solver are reported with
scikit-learn's own ``ConvergenceWarning``.
"""


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
