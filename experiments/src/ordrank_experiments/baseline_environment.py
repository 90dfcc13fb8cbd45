"""Run metric-learn, which needs scikit-learn < 1.8, in a second environment.

``baseline_worker.py`` fits the map under the interpreter of that environment and returns the matrix.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path

import numpy as np

from ordrank._protocols import FloatArray
from ordrank_experiments.method import BaselineFailedError, Params

INTERPRETER = "ORDRANK_BASELINES_PYTHON"  # path of the second environment's interpreter
DEFAULT_INTERPRETER = Path(".venv-baselines/bin/python")
ENVIRONMENT_PACKAGES = ("metric-learn", "scikit-learn")
WORKER = Path(__file__).with_name("baseline_worker.py")

# All cores are busy with splits: one thread a process.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def fit_in_environment(X: FloatArray, y: FloatArray, params: Params) -> FloatArray:
    """Fit a linear map in the worker process.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    params : dict
        The ``method`` and its parameters.

    Returns
    -------
    ndarray of shape (n_components, d)
    """
    with tempfile.TemporaryDirectory(prefix="ordrank-baseline-") as folder:
        request, result = Path(folder) / "request.npz", Path(folder) / "result.npz"
        np.savez(request, X=X, y=y, params=json.dumps(params))
        try:
            _worker().run(request, result)
        except BaselineFailedError:
            _worker.cache_clear()  # the next request starts a new process
            raise
        with np.load(result) as found:
            if "error" in found:
                raise BaselineFailedError(str(found["error"]))
            return np.asarray(found["components"], dtype=np.float64)


def environment_versions() -> dict[str, str]:
    """Return the versions of the second environment's packages; empty if there is no environment."""
    interpreter = _interpreter()
    if not interpreter.exists():
        return {}
    code = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    found = subprocess.run(
        [str(interpreter), "-I", "-c", code, *ENVIRONMENT_PACKAGES], capture_output=True, text=True, check=False
    )
    names = [f"{name} with metric-learn" if name != "metric-learn" else name for name in ENVIRONMENT_PACKAGES]
    return dict(zip(names, found.stdout.split(), strict=True)) if found.returncode == 0 else {}


def installed_versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the packages that are installed in this environment."""
    return {name: metadata.version(name) for name in packages if _installed(name)}


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


class _Worker:
    """Interpreter of the second environment, started once: its imports take longer than a small fit."""

    def __init__(self, interpreter: Path) -> None:
        if not interpreter.exists():
            raise BaselineFailedError(
                f"metric-learn needs its own environment, but there is no interpreter at {interpreter}: make "
                f"baselines, or set {INTERPRETER} to the python of one with metric-learn 0.7 and scikit-learn < 1.8"
            )
        # -I: neither PYTHONPATH nor the modules next to the worker may shadow its packages. The worker ends when its
        # standard input closes, so also if this process is killed; its own session keeps Ctrl-C away from it.
        self._process = subprocess.Popen(
            [str(interpreter), "-I", "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD,
            start_new_session=True,
        )

    def run(self, request: Path, result: Path) -> None:
        """Send a request and wait until the result is written."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([str(request), str(result)]) + "\n")
            stdin.flush()
            reply = stdout.readline()
        except BrokenPipeError:
            reply = ""
        if reply != "done\n":
            if reply:
                self._process.kill()  # it still waits for the next request
            raise BaselineFailedError(f"the worker for metric-learn ended with status {self._process.wait()}")


def _interpreter() -> Path:
    return Path(os.environ.get(INTERPRETER, DEFAULT_INTERPRETER))


@cache
def _worker() -> _Worker:
    return _Worker(_interpreter())
