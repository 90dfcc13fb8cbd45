"""Fits maps of metric-learn under another environment's interpreter; run by file path, without ordrank.

Needs numpy, scikit-learn < 1.8 and metric-learn only. Every line of the standard input is a JSON list of two file
names. The first is an ``.npz`` with samples ``X``, grades ``y`` and an ``order``: JSON with the ``method`` and its
parameters. The second is written: an ``.npz`` with the matrix ``components`` of the learned map, or with an
``error`` in words. Then "done" is answered. The end of the input is the end of the work.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def main() -> None:
    """Answer requests until there are no more."""
    for line in sys.stdin:
        request, answer = json.loads(line)
        with np.load(request) as asked:
            X, y, order = asked["X"], asked["y"], json.loads(str(asked["order"]))
        try:
            with contextlib.redirect_stdout(sys.stderr):  # the standard output is for answers
                components = learn(X, y, **order)
            np.savez(answer, components=components)
        except ImportError as error:
            np.savez(answer, error=f"{error}: make peers")
        # Whatever goes wrong inside a foreign package is this method's result, and the next request is not concerned.
        except Exception as error:  # noqa: BLE001
            np.savez(answer, error=f"{order['method']} failed with {type(error).__name__}: {error}")
        sys.stdout.write("done\n")
        sys.stdout.flush()


def learn(X: NDArray[np.float64], y: NDArray[np.float64], method: str, **params: Any) -> NDArray[np.float64]:
    """Fit a map by the name of its method; shape (dimensions, features)."""
    methods: dict[str, Callable[..., Any]] = {"LMNN": learn_lmnn, "MLKR": learn_mlkr}
    return np.asarray(methods[method](X, y, **params), dtype=np.float64)


def learn_lmnn(
    X: NDArray[np.float64], y: NDArray[np.float64], n_neighbors: int, n_components: int, **params: Any
) -> Any:
    """Large-margin nearest neighbours; no more target neighbours than the smallest label offers."""
    import metric_learn

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    if counts.min() < 2:
        raise ValueError("it needs at least two samples of every label")
    model = metric_learn.LMNN(
        n_neighbors=min(n_neighbors, int(counts.min()) - 1),
        n_components=min(n_components, X.shape[1], len(X)),
        init="pca",
        # The default 1e-7 grows by 1 % an iteration and hardly leaves the start; too large a rate halves itself.
        learn_rate=1e-3,
        **params,
    )
    return model.fit(X, codes).components_


def learn_mlkr(X: NDArray[np.float64], y: NDArray[np.float64], n_components: int, **params: Any) -> Any:
    """Metric learning for kernel regression."""
    import metric_learn

    dimensions = min(n_components, X.shape[1], len(X))
    return metric_learn.MLKR(n_components=dimensions, init="pca", **params).fit(X, y).components_


if __name__ == "__main__":
    main()
