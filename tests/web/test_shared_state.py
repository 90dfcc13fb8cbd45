"""The state that a supervisor holds for its workers, without the workers."""

import errno
import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ordrank.errors import CollectionError
from ordrank.web import shared_state
from ordrank.web.shared_state import StateServer
from ordrank.web.supervisor import can_fork
from ordrank.web.training_job import TrainingStatus

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system has one process only")


@pytest.fixture
def state(trained):
    with closing(StateServer(trained, [])) as state:
        yield state


def call(state, client, name):
    """Let a client call a method of the state."""
    with ThreadPoolExecutor(1) as thread:
        result = thread.submit(getattr(client, name))
        state.handle(state.connections[0])
        return result.result(10)


def test_worker_stays_connected_when_no_training_process_can_be_forked(state, monkeypatch):
    def fork():
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with closing(state.connect(None)) as client:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fork", fork)
            with pytest.raises(CollectionError, match="does not start: Resource temporarily unavailable; try again"):
                call(state, client, "start_training")
        assert call(state, client, "training").state == "idle"
        assert call(state, client, "start_training").state == "running"


def test_end_of_the_last_training_process_does_not_end_the_next_training(state, monkeypatch):
    monkeypatch.setattr(shared_state, "run_training", lambda directory, report: report(TrainingStatus("done")))
    state.start_training()
    (first,) = state.connections
    assert first.poll(30)
    state.handle(first)
    monkeypatch.setattr(shared_state, "run_training", lambda directory, report: time.sleep(5))
    state.start_training()
    state.handle(first)  # the supervisor may have seen its end together with the request for the next training
    assert state.training().state == "running"


@pytest.mark.parametrize("name", ["write_lock", "large_picture_lock"])
def test_lock_is_held_by_one_worker_at_a_time_and_does_not_hold_the_other_lock(state, name):
    other = {"write_lock": "large_picture_lock", "large_picture_lock": "write_lock"}[name]
    context, locked = multiprocessing.get_context("fork"), multiprocessing.get_context("fork").Event()
    with closing(state.connect(None)) as first, closing(state.connect(None)) as second:

        def hold():
            with getattr(second, name)():
                locked.set()

        with getattr(first, name)():
            worker = context.Process(target=hold)
            worker.start()
            free = context.Process(target=lambda: getattr(second, other)().__enter__())
            free.start()
            free.join(20)
            assert free.exitcode == 0
            assert not locked.wait(0.2)
        assert locked.wait(20)
        worker.join(20)
