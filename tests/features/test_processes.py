import os
import signal
import subprocess
import sys
import time

import pytest

from ordrank.features.processes import call_in_processes


def power(base, exponent):
    print("a word that nobody asked for")  # noqa: T201
    if base < 0:
        raise ValueError(f"{base} is negative")
    return base**exponent


def wait(seconds):
    time.sleep(seconds)
    return os.getpid()


def is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def ends(process, within=10.0):
    deadline = time.monotonic() + within
    while is_alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_alive(process)


@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_results_come_in_the_order_of_the_parts(n_processes):
    assert list(call_in_processes(power, range(7), 2, n_processes=n_processes)) == [0, 1, 4, 9, 16, 25, 36]


def test_results_may_be_larger_than_a_pipe():
    assert [len(found) for found in call_in_processes(bytes, [3 * 2**20, 0, 2**21], n_processes=2)] == [
        3 * 2**20,
        0,
        2**21,
    ]


def test_what_is_raised_there_is_raised_here():
    results = call_in_processes(power, [1, 2, -3], 2, n_processes=2)
    assert [next(results), next(results)] == [1, 4]
    with pytest.raises(ValueError, match=r"^-3 is negative$"):
        next(results)


def test_what_only_a_script_knows_is_asked_for_in_a_module():
    script = (
        "from ordrank.features.processes import call_in_processes\n"
        "def mine(part): return part\n"
        "list(call_in_processes(mine, [1, 2], n_processes=2))\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False).stderr
    assert "InputError: the processes that read pictures do not find what makes features of them; put it into" in said
    assert "'mine'" in said


def test_who_has_seen_enough_leaves_no_process_behind():
    results = call_in_processes(wait, [0.0, 0.0, 60.0, 60.0], n_processes=2)
    processes = [next(results), next(results)]
    results.close()
    assert not any(map(is_alive, processes))


def test_nor_does_one_who_is_killed():
    script = (
        "from ordrank.features.processes import call_in_processes\n"
        "from tests.features.test_processes import wait\n"
        "for process in call_in_processes(wait, [0.0, 0.0, 0.5, 0.5, 0.5, 0.5], n_processes=2):\n"
        "    print(process, flush=True)\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asking:
        processes = [int(asking.stdout.readline()) for _ in range(2)]
        asking.send_signal(signal.SIGKILL)
        assert all(map(ends, processes))
        assert asking.stderr.read() == ""
