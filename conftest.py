"""Deterministic property tests, and data that several suites share."""

import os
import re
import signal
from collections import Counter
from pathlib import Path

# scikit-learn's check of array-API input is skipped without it; it must be set before SciPy is imported.
os.environ["SCIPY_ARRAY_API"] = "1"
# Tests run in a process for each core; more threads would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ordrank",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ordrank")

# A shell ignores SIGINT in the jobs it starts in the background, and processes inherit that: commands under test would
# ignore the Ctrl-C that a test sends them.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Killed processes, clusters, a real browser, long experiments.
SLOW = (
    "tests/collection/test_databases.py",
    "tests/collection/test_dask.py",
    "tests/collection/test_full_disk.py",
    "tests/collection/test_killed.py",
    "tests/distributed/",
    "tests/web/page/",
    "tests/web/test_concurrent_changes.py",
    "tests/web/test_slow_and_large_requests.py",
    "tests/web/test_schema.py",
    "tests/web/test_supervisor.py",
    "experiments/tests/test_baselines.py",
    "experiments/tests/test_compare.py",
    "experiments/tests/test_demo.py",
    "experiments/tests/test_figures.py",
    "experiments/tests/test_paper.py",
    "experiments/tests/test_reproduce.py",
)
# What a machine may lack, and patterns of the reasons with which tests are skipped then.
CAPABILITIES = {
    "data": "real data",
    "chromium": "Chromium",
    "torch": "'torch'",
    "timm": "timm cannot be imported",
    "packages": r"is not installed(?!: make)|no PostgreSQL|could not import '(?!torch|triton)",  # of the extra test
}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.nodeid.startswith(SLOW):
            item.add_marker(pytest.mark.slow)


def skip_reasons(terminal):
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in terminal.stats.get("skipped", []))


def pytest_terminal_summary(terminalreporter):
    reasons = skip_reasons(terminalreporter)
    if reasons:
        terminalreporter.section(f"{reasons.total()} tests skipped")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:5d}  {reason}{' (an error here)' if is_required(reason) else ''}")


def is_required(reason):
    """Return whether a test was skipped for want of what ORDRANK_REQUIRED says this machine has."""
    required = os.environ.get("ORDRANK_REQUIRED", "").split()
    return any(re.search(CAPABILITIES[name], reason) for name in required)


def pytest_sessionfinish(session):
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and any(is_required(reason) for reason in skip_reasons(terminal)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Keep the cache of this user out of the tests; processes that they start inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORDRANK_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def graded():
    """90 samples of three gapped labels in 6 features, the first of which follows the label."""
    rng = np.random.default_rng(7)
    y = np.repeat([1.0, 2.0, 5.0], 30)
    X = rng.normal(size=(90, 6))
    X[:, 0] += y
    order = rng.permutation(90)
    return X[order], y[order]


@pytest.fixture(scope="session")
def data_dir():
    """The directory of real data, or a skip that says how to name it."""
    directory = os.environ.get("ORDRANK_DATA")
    if not directory or not Path(directory).is_dir():
        pytest.skip("real data not present: set ORDRANK_DATA to its directory")
    return Path(directory)
