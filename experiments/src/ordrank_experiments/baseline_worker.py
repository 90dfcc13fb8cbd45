"""Fit maps of metric-learn under the interpreter of another environment; run as a script, without ordrank.

Needs only NumPy, scikit-learn < 1.8 and metric-learn. Each line of standard input is a JSON list of two file names:
an ``.npz`` with samples ``X``, grades ``y`` and ``params`` (JSON: the ``method`` and its parameters), and the ``.npz``
to write, with the matrix ``components`` or the message ``error``. Replies "done" to each; ends with its input.
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
    """Process requests until standard input ends."""
    for line in sys.stdin:
        request, result = json.loads(line)
        with np.load(request) as given:
            X, y, params = given["X"], given["y"], json.loads(str(given["params"]))
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is for replies
                components = learn(X, y, **params)
            np.savez(result, components=components)
        except ImportError as error:
            np.savez(result, error=f"{error}: make baselines")
        except Exception as error:  # noqa: BLE001 - any failure of the package is the result of this request
            np.savez(result, error=f"{params['method']} failed with {type(error).__name__}: {error}")
        sys.stdout.write("done\n")
        sys.stdout.flush()


def learn(X: NDArray[np.float64], y: NDArray[np.float64], method: str, **params: Any) -> NDArray[np.float64]:
    """Fit the named method and return its map, of shape (n_components, n_features)."""
    methods: dict[str, Callable[..., Any]] = {"LMNN": learn_lmnn, "MLKR": learn_mlkr}
    return np.asarray(methods[method](X, y, **params), dtype=np.float64)


def learn_lmnn(
    X: NDArray[np.float64], y: NDArray[np.float64], n_neighbors: int, n_components: int, **params: Any
) -> Any:
    """Fit LMNN with at most as many target neighbours as every class has, without classes of a single sample."""
    import metric_learn

    _, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    X, codes, counts = X[counts[codes] > 1], codes[counts[codes] > 1], counts[counts > 1]
    if len(counts) < 2:
        raise ValueError("it needs at least two samples of two labels")
    model = metric_learn.LMNN(
        n_neighbors=min(n_neighbors, int(counts.min()) - 1),
        n_components=min(n_components, X.shape[1], len(X)),
        init="pca",
        # The default 1e-7 grows by 1 % an iteration and makes no progress; a rate that is too large is halved.
        learn_rate=1e-3,
        **params,
    )
    return model.fit(X, codes).components_


def learn_mlkr(X: NDArray[np.float64], y: NDArray[np.float64], n_components: int, **params: Any) -> Any:
    """Fit metric learning for kernel regression."""
    import metric_learn

    dimensions = min(n_components, X.shape[1], len(X))
    return metric_learn.MLKR(n_components=dimensions, init="pca", **params).fit(X, y).components_


if __name__ == "__main__":
    main()
