import os
import signal
import subprocess
import sys
import time

import pytest

from ordrank.collection.ingest.processes import call_in_processes


def power(base, exponent):
    print("printed by the function, not part of the result")  # noqa: T201
    if base < 0:
        raise ValueError(f"{base} is negative")
    return base**exponent


def sleep_and_return_pid(seconds):
    time.sleep(seconds)
    return os.getpid()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ends(pid, within=10.0):
    deadline = time.monotonic() + within
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(pid)


@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_results_are_in_the_order_of_the_parts(n_processes):
    assert list(call_in_processes(power, range(7), 2, n_processes=n_processes)) == [0, 1, 4, 9, 16, 25, 36]


def test_results_may_be_larger_than_the_pipe():
    sizes = [3 * 2**20, 0, 2**21]
    assert [len(result) for result in call_in_processes(bytes, sizes, n_processes=2)] == sizes


def test_exceptions_are_raised_in_the_caller():
    results = call_in_processes(power, [1, 2, -3], 2, n_processes=2)
    assert [next(results), next(results)] == [1, 4]
    with pytest.raises(ValueError, match=r"^-3 is negative$"):
        next(results)


def test_function_that_cannot_be_imported_raises_input_error():
    script = (
        "from ordrank.collection.ingest.processes import call_in_processes\n"
        "def mine(part): return part\n"
        "list(call_in_processes(mine, [1, 2], n_processes=2))\n"
    )
    stderr = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert "InputError: the processes that read pictures cannot import the feature extractor; define it" in stderr
    assert "'mine'" in stderr


def test_closing_the_generator_ends_the_processes():
    results = call_in_processes(sleep_and_return_pid, [0.0, 0.0, 60.0, 60.0], n_processes=2)
    pids = [next(results), next(results)]
    results.close()
    assert not any(map(is_alive, pids))


def test_processes_end_silently_when_the_caller_is_killed():
    script = (
        "from ordrank.collection.ingest.processes import call_in_processes\n"
        "from tests.collection.ingest.test_processes import sleep_and_return_pid\n"
        "for pid in call_in_processes(sleep_and_return_pid, [0.0, 0.0, 0.5, 0.5, 0.5, 0.5], n_processes=2):\n"
        "    print(pid, flush=True)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as caller:
        pids = [int(caller.stdout.readline()) for _ in range(2)]
        caller.send_signal(signal.SIGKILL)
        assert all(map(ends, pids))
        assert caller.stderr.read() == ""
