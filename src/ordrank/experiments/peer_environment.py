"""metric-learn, in an environment of its own: it does not run with today's scikit-learn.

Its maps are fitted by ``peer_worker.py`` under the interpreter of a second environment, which sends back the matrix.
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

from ordrank._types import FloatArray
from ordrank.errors import PeerFailedError
from ordrank.experiments.contender import Params

INTERPRETER = "ORDRANK_PEERS_PYTHON"  # names the second environment's interpreter
DEFAULT_INTERPRETER = Path(".venv-peers/bin/python")
PACKAGES_ELSEWHERE = ("metric-learn", "scikit-learn")
WORKER = Path(__file__).with_name("peer_worker.py")

# The cores are busy with splits: no process may use more than one.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def learn_elsewhere(X: FloatArray, y: FloatArray, order: Params) -> FloatArray:
    """Have the worker fit a map.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    order : dict
        The ``method`` and its parameters.

    Returns
    -------
    ndarray of shape (dimensions, d)
    """
    with tempfile.TemporaryDirectory(prefix="ordrank-peer-") as folder:
        request, answer = Path(folder) / "request.npz", Path(folder) / "answer.npz"
        np.savez(request, X=X, y=y, order=json.dumps(order))
        try:
            _worker().ask(request, answer)
        except PeerFailedError:
            _worker.cache_clear()  # one that has ended answers no more; the next request starts another
            raise
        with np.load(answer) as found:
            if "error" in found:
                raise PeerFailedError(str(found["error"]))
            return np.asarray(found["components"], dtype=np.float64)


def versions_elsewhere() -> dict[str, str]:
    """Versions of the second environment's packages; empty where there is none."""
    interpreter = _interpreter()
    if not interpreter.exists():
        return {}
    code = "import importlib.metadata as m, sys; print(*(m.version(name) for name in sys.argv[1:]))"
    found = subprocess.run(
        [str(interpreter), "-I", "-c", code, *PACKAGES_ELSEWHERE], capture_output=True, text=True, check=False
    )
    names = [f"{name} beside metric-learn" if name != "metric-learn" else name for name in PACKAGES_ELSEWHERE]
    return dict(zip(names, found.stdout.split(), strict=True)) if found.returncode == 0 else {}


def versions_here(packages: tuple[str, ...]) -> dict[str, str]:
    """Versions of those packages that are installed beside ordrank."""
    return {name: metadata.version(name) for name in packages if _installed(name)}


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


class _Worker:
    """The other environment's interpreter, started once: importing its packages takes longer than a small fit."""

    def __init__(self, interpreter: Path) -> None:
        if not interpreter.exists():
            raise PeerFailedError(
                f"metric-learn needs an environment of its own, and there is no interpreter at {interpreter}: make "
                f"peers, or let {INTERPRETER} name the python of one with metric-learn 0.7 and scikit-learn < 1.8"
            )
        # -I: neither PYTHONPATH nor the modules beside the worker may come between it and its own packages.
        # Its input closes when this process ends, whichever way, and with it the worker ends; it has a session of
        # its own so that Ctrl-C is this process's affair.
        self._process = subprocess.Popen(
            [str(interpreter), "-I", "-W", "ignore", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | _ONE_THREAD,
            start_new_session=True,
        )

    def ask(self, request: Path, answer: Path) -> None:
        """Return when the answer is written."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            stdin.write(json.dumps([str(request), str(answer)]) + "\n")
            stdin.flush()
            answered = stdout.readline()
        except BrokenPipeError:
            answered = ""
        if answered != "done\n":
            if answered:
                self._process.kill()  # it is waiting for the next request, and would do so for ever
            raise PeerFailedError(f"the worker for metric-learn ended with status {self._process.wait()}")


def _interpreter() -> Path:
    return Path(os.environ.get(INTERPRETER, DEFAULT_INTERPRETER))


@cache
def _worker() -> _Worker:
    return _Worker(_interpreter())
