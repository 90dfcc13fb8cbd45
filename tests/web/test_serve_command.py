"""`ordrank serve` from the shell."""

import signal
import subprocess
import sys

import pytest

from tests.web.conftest import API, serving


def command(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "ordrank", "serve", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


class TestCommand:
    def test_what_is_no_collection_is_told_so(self, tmp_path):
        ended = command(tmp_path, "--port", "0")
        assert ended.returncode == 1
        assert "is not a collection; make one with `ordrank fit" in ended.stderr

    def test_a_taken_port_is_told_so(self, trained, module_server):
        ended = command(trained, "--port", module_server.port)
        assert ended.returncode == 1
        assert (
            ended.stderr
            == f"ordrank: port {module_server.port} is taken; choose another with --port, or 0 for any that is free\n"
        )

    @pytest.mark.parametrize("options", [("--port", "70000"), ("--port", "x"), ("--tokens", "x")])
    def test_wrong_usage_is_told_so(self, trained, options):
        assert command(trained, *options).returncode == 2

    @pytest.mark.parametrize("options", [("--token", " "), ("--host", "no such host.example")])
    def test_what_cannot_be_is_told_in_a_sentence(self, trained, options):
        ended = command(trained, "--port", "0", *options)
        assert ended.returncode == 1
        assert ended.stderr.startswith("ordrank: ")
        assert "Traceback" not in ended.stderr

    def test_ctrl_c_ends_one_process_in_a_sentence(self, trained):
        with serving(trained, "--workers", "1") as server:
            code, _, complained = server.end(signal.SIGINT)
        assert code == 130
        assert "every grade that was confirmed is kept" in complained
        assert "Traceback" not in complained

    def test_an_open_door_is_warned_of(self, trained):
        with serving(trained, "--host", "0.0.0.0") as server:
            _, said, complained = server.end()
        assert "everybody who reaches 0.0.0.0 can see these pictures and change their grades" in complained
        with serving(trained, "--host", "0.0.0.0", "--token", "sesame") as server, server.client() as client:
            assert client.get(f"{API}/collection").status_code == 401
            assert client.get("/?token=sesame").status_code == 303
            _, said, complained = server.end()
        assert "everybody" not in complained
        assert "sesame" not in said + complained  # the address with the token was the first line
