"""Number of BLAS threads during a fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock

from threadpoolctl import ThreadpoolController

# BLAS thread limits are global: two concurrent fits would undo each other's.
_ONE_FIT_AT_A_TIME = RLock()


@contextmanager
def blas_threads(limit: int | None) -> Iterator[None]:
    """Limit the BLAS threads; None leaves their number as it is. Waits for fits in other threads."""
    with _ONE_FIT_AT_A_TIME, _controller().limit(limits=limit):
        yield


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of BLAS threads; finding the loaded libraries takes as long as a small fit."""
    import scipy.linalg  # noqa: F401 - SciPy has a BLAS of its own, which is found only once it is loaded

    return ThreadpoolController().select(user_api="blas")
