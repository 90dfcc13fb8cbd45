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
    def test_missing_collection_is_reported(self, tmp_path):
        ended = command(tmp_path, "--port", "0")
        assert ended.returncode == 1
        assert "is not a collection; create one with `ordrank fit" in ended.stderr

    def test_taken_port_is_reported(self, trained, module_server):
        ended = command(trained, "--port", module_server.port)
        assert ended.returncode == 1
        assert (
            ended.stderr
            == f"ordrank: port {module_server.port} is taken; choose another with --port, or 0 for any that is free\n"
        )

    @pytest.mark.parametrize("options", [("--port", "70000"), ("--port", "x"), ("--tokens", "x")])
    def test_wrong_usage_exits_with_2(self, trained, options):
        assert command(trained, *options).returncode == 2

    @pytest.mark.parametrize("options", [("--token", " "), ("--host", "no such host.example")])
    def test_invalid_token_or_host_is_reported_in_one_sentence(self, trained, options):
        ended = command(trained, "--port", "0", *options)
        assert ended.returncode == 1
        assert ended.stderr.startswith("ordrank: ")
        assert "Traceback" not in ended.stderr

    def test_ctrl_c_ends_a_single_process_with_one_sentence(self, trained):
        with serving(trained, "--workers", "1") as server:
            code, _, errors = server.end(signal.SIGINT)
        assert code == 130
        assert "every confirmed grade is stored" in errors
        assert "Traceback" not in errors

    def test_public_address_without_token_prints_a_warning(self, trained):
        with serving(trained, "--host", "0.0.0.0") as server:
            _, output, errors = server.end()
        assert "anyone who can reach 0.0.0.0 can see these pictures and change their grades" in errors
        with serving(trained, "--host", "0.0.0.0", "--token", "sesame") as server, server.client() as client:
            assert client.get(f"{API}/collection").status_code == 401
            assert client.get("/?token=sesame").status_code == 303
            _, output, errors = server.end()
        assert "anyone" not in errors
        assert "sesame" not in output + errors  # the address with the token was the first line
