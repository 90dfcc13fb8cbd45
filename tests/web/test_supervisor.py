"""A server of several processes behaves like one: they share all state, and those that end are replaced."""

import multiprocessing
import os
import random
import shutil
import signal
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from ordrank.web import shared_state
from ordrank.web.app import create_app
from ordrank.web.supervisor import Supervisor, can_fork, run_workers
from ordrank.web.training_job import run_training
from tests.collection.commands import rank, remove
from tests.collection.pictures import draw, rows
from tests.web.conftest import API, FROM_PAGE, Server, serving, wait_until
from tests.web.requests import png, send, set_grade, train_again

pytestmark = pytest.mark.skipif(not can_fork(), reason="this system has one process only")


def children_of(number):
    return [int(child) for child in Path(f"/proc/{number}/task/{number}/children").read_text().split()]


def workers_of(server):
    return children_of(server.process.pid)


def two_workers(server):
    """Return the workers once there are two, and no training process that has not ended yet."""
    wait_until(lambda: len(workers_of(server)) == 2)
    return workers_of(server)


def exists(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def connections_of(number, port):
    """Inodes of the connections of a process to a port that it listens at."""
    held = set()
    with suppress(FileNotFoundError):  # the process or one of its files was closed
        for link in Path(f"/proc/{number}/fd").iterdir():
            held.add(os.readlink(link))
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    mine = {f"socket:[{line[9]}]" for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "01"}
    return held & mine


@contextmanager
def several(server):
    """Clients that are connected with both processes, some with each."""
    with ExitStack() as stack:
        clients = []

        def connect():
            client = stack.enter_context(server.client())
            assert client.get(f"{API}/training").status_code == 200
            clients.append(client)
            return len(clients) >= 4 and all(connections_of(number, server.port) for number in two_workers(server))

        wait_until(connect)
        yield clients


@pytest.fixture(scope="module")
def collection(_trained_once, tmp_path_factory):
    return shutil.copytree(_trained_once, tmp_path_factory.mktemp("shared") / "collection")


@pytest.fixture(scope="module")
def two(collection):
    """A server that every test leaves whole."""
    with serving(collection, "--workers", "2") as server:
        yield server


class TestSharedState:
    def test_state_is_shared_by_all_workers(self, two, collection):
        rng = random.Random(0)
        with several(two) as clients:
            for number in range(1, 31):  # corrections
                grade = str(rng.randrange(9))
                assert set_grade(rng.choice(clients), number, grade).json()["grade"] == grade
                found = [client.get(f"{API}/pictures/{number}").json()["grade"] for client in clients]
                assert set(found) == {grade}
            # pictures that were sent
            token = send(clients[0], png(draw(99))).json()["id"]
            responses = [client.get(f"{API}/rank", params={"query": token}).json() for client in clients]
            assert all(response == responses[0] for response in responses)
            assert {client.get(f"{API}/queries/{token}/thumbnail").status_code for client in clients} == {200}
            assert {client.get(f"{API}/queries/x{token}/thumbnail").status_code for client in clients} == {404}
            # training
            assert {client.get(f"{API}/collection").json()["changed"] > 0 for client in clients} == {True}
            assert clients[0].post(f"{API}/training").status_code == 202
            assert {client.get(f"{API}/training").json()["state"] for client in clients} <= {"running", "done"}
            wait_until(lambda: clients[1].get(f"{API}/training").json()["state"] != "running")
            assert {client.get(f"{API}/training").json()["state"] for client in clients} == {"done"}
            states = [client.get(f"{API}/collection").json() for client in clients]
            assert all(state == states[0] for state in states)
            assert states[0]["changed"] == 0
            (expected,) = rank(collection, ["010.png"], k=5)
            found = {client.get(f"{API}/rank?picture=11").json()["query"]["value"] for client in clients}
            assert found == {expected.value}
            # what commands change
            remove(collection, ["039.png"])
            assert {client.get(f"{API}/pictures/40").status_code for client in clients} == {404}

    def test_concurrent_writes_all_succeed(self, two, collection):
        problems = []

        def correct(client, begin):
            for number in range(begin, begin + 4):
                response = set_grade(client, number, "7")
                if response.status_code != 200:
                    problems.append(response.text)

        with several(two) as clients:
            threads = [threading.Thread(target=correct, args=(clients[i % len(clients)], 1 + 4 * i)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert problems == []
        assert rows(collection, "SELECT DISTINCT grade FROM pictures WHERE id <= 32") == [(7.0,)]

    def test_second_training_is_rejected_by_every_worker(self, two):
        with several(two) as clients:
            found = sorted(client.post(f"{API}/training").status_code for client in clients)
            assert found[0] == 202
            assert 409 in found
            wait_until(lambda: clients[0].get(f"{API}/training").json()["state"] == "done")


class TestEnding:
    def test_killed_worker_is_replaced_and_uploads_are_kept(self, two):
        with two.client() as client:
            token = send(client, png(draw(99))).json()["id"]
        for _ in range(2):
            killed, other = two_workers(two)
            os.kill(killed, signal.SIGKILL)
            with two.client() as client:  # whoever comes now is served by the other, or by the next one
                assert client.get(f"{API}/rank", params={"query": token}).status_code == 200
            wait_until(lambda: len(workers_of(two)) == 2 and killed not in workers_of(two))  # noqa: B023
            assert other in workers_of(two)
        with several(two) as clients:
            assert {client.get(f"{API}/queries/{token}/thumbnail").status_code for client in clients} == {200}

    def test_many_quick_kills_do_not_end_the_server(self, trained):
        with serving(trained, "--workers", "2") as server, server.client() as client:
            for _ in range(9):
                killed = two_workers(server)[0]
                os.kill(killed, signal.SIGKILL)
                wait_until(lambda: killed not in workers_of(server))  # noqa: B023
            two_workers(server)
            assert client.get(f"{API}/collection").status_code == 200

    def test_a_worker_is_replaced_when_the_collection_that_was_away_is_back(self, trained):
        with serving(trained, "--workers", "2") as server:
            database = trained / "collection.sqlite"
            killed, other = two_workers(server)
            database.rename(trained / "away")
            os.kill(killed, signal.SIGKILL)
            time.sleep(1.5)
            assert workers_of(server) == [other]
            (trained / "away").rename(database)
            two_workers(server)
            with server.client() as client:
                assert client.get(f"{API}/rank?picture=1").status_code == 200
            _, _, errors = server.end()
        assert errors.count("no worker can be started") == 1
        assert "Traceback" not in errors

    def test_client_of_a_killed_worker_loses_at_most_one_request(self, two):
        with several(two) as clients:
            os.kill(two_workers(two)[0], signal.SIGKILL)
            failed = 0
            for client in clients:
                for _ in range(3):
                    try:
                        assert client.get(f"{API}/rank?picture=1").status_code == 200
                    except httpx.TransportError:
                        failed += 1
        assert failed <= len(clients)

    def test_workers_leave_ctrl_c_to_the_supervisor(self, two):
        workers = two_workers(two)
        for number in workers:
            os.kill(number, signal.SIGINT)
        time.sleep(0.5)  # uvicorn looks every 0.1 s whether it shall end
        assert workers_of(two) == workers

    @pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_all_processes_end_together_without_a_traceback(self, trained, how, code):
        with serving(trained, "--workers", "2") as server, server.client() as client:
            killed = workers_of(server)[0]
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: len(workers_of(server)) == 2 and killed not in workers_of(server))
            client.get("/nothing")
            workers = workers_of(server)
            found, _, errors = server.end(how)
        assert found == code
        assert ("every confirmed grade is stored" in errors) == (how == signal.SIGINT)
        assert errors.count("has ended and is replaced") == 1
        assert "Traceback" not in errors
        assert not any(map(exists, workers))
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)

    @pytest.mark.parametrize("at_once", [False, True])
    def test_workers_end_when_the_supervisor_is_killed(self, trained, at_once):
        with serving(trained, "--workers", "2") as server:
            if at_once:
                killed = workers_of(server)[0]
                os.kill(killed, signal.SIGKILL)
                wait_until(lambda: killed not in workers_of(server))
            workers = workers_of(server)  # one of them may have just begun
            os.kill(server.process.pid, signal.SIGKILL)
            wait_until(lambda: not any(map(exists, workers)))

    def test_no_request_ends_in_an_internal_error_when_the_supervisor_is_killed(self, trained):
        codes = set()

        def repeat(request, client):
            with suppress(httpx.TransportError):
                while True:
                    codes.add(request(client).status_code)

        with serving(trained, "--workers", "2") as server:
            with several(server) as clients:
                token = send(clients[0], png(draw(99))).json()["id"]
                requests = [
                    lambda client: client.get(f"{API}/training"),
                    lambda client: client.get(f"{API}/rank", params={"query": token}),
                    lambda client: client.get(f"{API}/collection"),
                    lambda client: send(client, png(draw(99))),
                    lambda client: set_grade(client, 1, "1"),
                ]
                pairs = zip(cycle(requests), clients * 3, strict=False)
                threads = [threading.Thread(target=repeat, args=pair) for pair in pairs]
                for thread in threads:
                    thread.start()
                wait_until(lambda: codes)
                os.kill(server.process.pid, signal.SIGKILL)
                for thread in threads:
                    thread.join()
            _, _, errors = server.end()
        assert {200} <= codes <= {200, 201, 503}
        assert "Traceback" not in errors


@contextmanager
def forked_server(collection):
    """A server forked from this process, with what the test has replaced: its process id and a client."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        process = multiprocessing.get_context("fork").Process(target=serve_forked, args=(collection, listening))
        process.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            with httpx.Client(base_url=address, headers=FROM_PAGE, timeout=30) as client:
                yield process.pid, client
        finally:
            process.terminate()
            process.join(30)


def serve_forked(collection, listening):
    run_workers(Supervisor(collection, create_app, listening), 2)


def test_killed_training_is_reported_as_failed(trained, tmp_path, monkeypatch):
    def hold(directory, report):
        wait_until((tmp_path / "released").exists)
        run_training(directory, report)

    monkeypatch.setattr(shared_state, "run_training", hold)
    with forked_server(trained) as (supervisor, client):
        assert client.get(f"{API}/training").json()["state"] == "idle"
        workers = set(children_of(supervisor))
        assert client.post(f"{API}/training").status_code == 202
        (trainer,) = set(children_of(supervisor)) - workers
        os.kill(trainer, signal.SIGKILL)
        wait_until(lambda: client.get(f"{API}/training").json()["state"] != "running")
        assert client.get(f"{API}/training").json()["state"] == "failed"
        (tmp_path / "released").touch()
        assert train_again(client)["state"] == "done"


class Corrector(threading.Thread):
    """Corrects pictures of its own until it is stopped, whatever happens to the server."""

    def __init__(self, port, numbers, stop):
        super().__init__(daemon=True)
        self.port, self.numbers, self.stop = port, numbers, stop
        self.kept, self.open, self.rejected = {}, {}, []
        self.n_acknowledged = 0

    def run(self):
        rng = random.Random(self.numbers[0])
        while not self.stop.is_set():
            with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=FROM_PAGE, timeout=10) as client:
                try:
                    while not self.stop.is_set():
                        self.correct(client, rng.choice(self.numbers), str(rng.randrange(1000)))
                        client.get(f"{API}/rank?picture={self.numbers[0]}")
                except httpx.TransportError:
                    time.sleep(0.05)

    def correct(self, client, number, grade):
        self.open.setdefault(number, set()).add(grade)
        response = set_grade(client, number, grade)
        if response.status_code == 200:
            self.kept[number] = grade
            del self.open[number]
            self.n_acknowledged += 1
        else:
            self.rejected.append(response.text)


def test_no_acknowledged_grade_is_lost_when_all_processes_are_killed_under_load(trained):
    stop, server = threading.Event(), Server(trained, "--workers", "2")
    correctors = [Corrector(server.port, list(range(1 + i, 41, 8)), stop) for i in range(8)]
    for one in correctors:
        one.start()

    def wait_for_more_grades():
        expected = 40 + sum(one.n_acknowledged for one in correctors)
        wait_until(lambda: sum(one.n_acknowledged for one in correctors) >= expected)

    for _ in range(2):
        wait_for_more_grades()
        for number in (server.process.pid, *workers_of(server)):
            os.kill(number, signal.SIGKILL)
        server.end()
        server = Server(trained, "--workers", "2", port=server.port)
    wait_for_more_grades()
    stop.set()
    for one in correctors:
        one.join(30)
    server.end()
    kept = {
        number: f"{grade:g}" for number, grade in rows(trained, "SELECT id, grade FROM pictures") if grade is not None
    }
    assert [text for one in correctors for text in one.rejected] == []
    for one in correctors:
        for number, grade in one.kept.items():
            assert kept[number] in {grade, *one.open.get(number, ())}
