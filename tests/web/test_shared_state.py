"""The state that a supervisor holds for its workers, without the workers."""

import errno
import multiprocessing
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from ordrank.errors import CollectionError
from ordrank.web import shared_state
from ordrank.web.shared_state import StateServer
from ordrank.web.supervisor import can_fork
from ordrank.web.training_job import TrainingStatus
from tests.web.conftest import wait_until

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


class TestEndOfTheTrainingProcess:
    @pytest.fixture
    def trainer(self, trained, monkeypatch):
        """Start a training process that does what a function does; return the state and the process."""

        def start(train):
            monkeypatch.setattr(shared_state, "run_training", lambda directory, report: train(report))
            state = StateServer(trained, [])
            state.start_training()
            (process,) = (child for child in multiprocessing.active_children() if child.name not in before)
            return state, process

        before = {child.name for child in multiprocessing.active_children()}
        return start

    @pytest.mark.parametrize("is_received", [False, True])
    @pytest.mark.parametrize("outcome", ["done", "failed"])
    def test_one_that_has_reported_its_end_is_not_killed(self, trainer, outcome, is_received):
        def save_late(report):  # as coverage does after the training
            report(TrainingStatus(outcome))
            time.sleep(0.5)

        state, process = trainer(save_late)
        assert state.connections[0].poll(30)
        if is_received:
            state.handle(state.connections[0])
        state.close()
        assert process.exitcode == 0

    def test_one_that_trains_is_killed(self, trainer):
        state, process = trainer(lambda report: time.sleep(60))
        state.close()
        assert process.exitcode == -signal.SIGKILL

    def test_one_that_does_not_end_is_killed(self, trainer, monkeypatch):
        def hang(report):
            report(TrainingStatus("done"))
            time.sleep(60)

        monkeypatch.setattr(shared_state, "_TRAINER_TIMEOUT", 0.2)
        state, process = trainer(hang)
        assert state.connections[0].poll(30)
        state.close()
        assert process.exitcode == -signal.SIGKILL

    def test_one_whose_supervisor_was_killed_ends_without_a_traceback(self, trainer, capfd):
        def report_forever(report):
            while True:
                report(TrainingStatus("running"))

        state, process = trainer(report_forever)
        with closing(state):
            state.connections[0].close()
            wait_until(lambda: process.exitcode is not None)
            assert process.exitcode == 0
            state.handle(state.connections[0])
        assert capfd.readouterr().err == ""


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


def test_threads_of_several_workers_take_both_locks_without_a_false_deadlock(state):
    context = multiprocessing.get_context("fork")

    def take_in_turn(client, names):
        for _ in range(100):
            for name in names:
                with getattr(client, name)():
                    time.sleep(0.002)

    def work(client):
        orders = (("write_lock", "large_picture_lock"), ("large_picture_lock", "write_lock"))
        with ThreadPoolExecutor(2) as threads:
            for done in [threads.submit(take_in_turn, client, names) for names in orders]:
                done.result(60)

    clients = [state.connect(None) for _ in range(2)]
    workers = [context.Process(target=work, args=(client,)) for client in clients]
    for worker in workers:
        worker.start()
    for worker, client in zip(workers, clients, strict=True):
        worker.join(60)
        client.close()
    assert [worker.exitcode for worker in workers] == [0, 0]
