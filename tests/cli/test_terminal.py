"""Usage, terminals, interrupts, and the guide that shows the commands."""

import os
import re
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from PIL import Image

from ordrank import Collection
from ordrank.cli.terminal import plain_errors
from tests.cli.running import document, done, failed, paint, run, start, write_folder

ROOT = Path(__file__).parents[2]


COMMANDS = ("fit", "add", "remove", "rank", "evaluate", "doctor", "info", "export")
# SciPy itself is small; its submodules are not.
HEAVY = {f"scipy.{name}" for name in ("linalg", "optimize", "sparse", "spatial", "special", "stats")}
HEAVY |= {"dask", "fastapi", "jinja2", "joblib", "matplotlib", "onnxruntime", "pandas", "sklearn", "torch"}


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("fit", "folder"),
            ("add", "collection"),
            ("remove", "collection"),
            ("rank", "collection"),
            ("rank", "collection", "x", "-k", "0"),
            ("evaluate", "collection", "--folds", "1"),
            ("export", "collection"),
            ("info",),
            ("info", "collection", "--yaml"),
        ],
        ids=" ".join,
    )
    def test_wrong_usage_exits_with_2(self, arguments):
        assert run(*arguments).exit_code == 2

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_shows_examples(self, command, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        lines = [line.strip() for line in done(command, "--help").strip().splitlines()]
        shown = lines[lines.index("Examples:") + 1 :]
        assert len(shown) >= 2
        assert all(line.startswith(f"ordrank {command} ") for line in shown)

    def test_help_imports_no_heavy_package(self):
        code = (
            "import sys; before = set(sys.modules); "  # coverage, when it is measured, imports sqlite3 first
            "from typer.testing import CliRunner; from ordrank.cli import app; "
            f"[CliRunner().invoke(app, [*c, '--help']) for c in ([], *[[c] for c in {COMMANDS!r}])]; "
            "heavy = {'numpy', 'scipy', 'sklearn', 'PIL', 'matplotlib', 'sqlite3'}; "
            "print(sorted(heavy & (set(sys.modules) - before)))"
        )
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

    @pytest.mark.parametrize("command", ["info", "rank"])
    def test_info_and_rank_of_one_picture_import_no_heavy_package(self, command, named, tmp_path):
        picture = tmp_path / "query.png"
        Image.new("RGB", (40, 30), "orange").save(picture)
        arguments = [command, str(named), *([str(picture)] if command == "rank" else [])]
        code = (
            "import sys; from ordrank.cli import app; "
            f"app({arguments!r}, standalone_mode=False); "
            f"print(sorted({HEAVY!r} & set(sys.modules)), file=sys.stderr)"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert run.stderr == "[]\n"
        assert run.stdout

    def test_out_of_memory_is_reported_in_one_sentence(self, monkeypatch, named):
        def fail(collection):
            raise MemoryError

        monkeypatch.setattr(Collection, "info", fail)
        assert failed("info", named).startswith("ordrank: there is not enough memory")


class TestTerminals:
    @pytest.mark.parametrize("columns", ["1", "12", "40"])
    def test_narrow_terminals(self, named, columns, monkeypatch):
        monkeypatch.setenv("COLUMNS", columns)
        for command in (("rank", named, "p005.png"), ("info", named), ("evaluate", named, "--folds", "2")):
            done(*command)

    def test_narrow_tables_keep_names_and_grades(self, named, monkeypatch):
        monkeypatch.setenv("COLUMNS", "40")
        text = done("rank", named, "p005.png", "-k", "2")
        assert re.search(r"1 +p\d\d\d.png +(≈ )?severe +\d", text)
        assert max(map(len, text.splitlines())) <= 40

    def test_ascii_terminals(self, named, tmp_path):
        strange = tmp_path / "grün 🍏.png"
        paint(2, 4711).save(strange)
        environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
        out, errors = start("rank", named, "p005.png", strange, "-k", "30", env=environment).communicate(timeout=60)
        assert errors == ""
        assert out.isascii()
        assert "distance^2 = order^2" in out
        assert "~ severe" in out
        assert "#####" in out
        assert "gr\\xfcn \\U0001f34f.png" in out

    @pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
    @pytest.mark.parametrize("more", [(), ("--json",)], ids=["table", "json"])
    def test_full_output_device_is_reported(self, named, more):
        with open("/dev/full", "w") as full:
            command = [sys.executable, "-m", "ordrank", "info", str(named), *more]
            buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
            process = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=buffered)
        assert process.returncode == 1
        assert process.stderr == "ordrank: No space left on device\n"

    def test_closed_pipe_ends_quietly(self, named):
        process = start("rank", named, *["p005.png"] * 300, "-k", "30")
        process.stdout.readline()
        process.stdout.close()
        assert "ordrank" not in process.stderr.read()
        process.wait(timeout=60)

    def test_progress_bar_on_a_terminal(self, made, tmp_path):
        pty = pytest.importorskip("pty")
        parent, child = pty.openpty()
        options = ("--labels", made[0] / "grades.csv", "--features", "pixels:4", "--out", tmp_path / "new")
        process = start("fit", made[0] / "pictures", *options)
        process.communicate(timeout=60)
        command = [sys.executable, "-m", "ordrank", "evaluate", str(tmp_path / "new"), "--folds", "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child, env=os.environ | {"TERM": "xterm"})
        out, _ = process.communicate(timeout=60)
        os.close(child)
        assert process.returncode == 0
        assert b"\x1b" not in out
        assert re.search(rb"[01]/2", os.read(parent, 100_000))
        os.close(parent)


def test_interrupted_fit_can_be_continued(tmp_path):
    write_folder(tmp_path / "pictures", count=300, table=tmp_path / "grades.csv")
    command = ("fit", tmp_path / "pictures", "--labels", tmp_path / "grades.csv", "--out", tmp_path / "out")
    process = start(*command, start_new_session=True)
    while "learning" not in process.stderr.readline():
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the processes that read pictures, too
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    expected = "ordrank: interrupted; what was read is kept, and the same command continues from there"
    assert errors.strip() == expected
    assert out == ""
    assert document("info", tmp_path / "out")["not_embedded"] == 300
    assert "none yet; `ordrank fit --out" in done("info", tmp_path / "out")
    found = document(*command)
    assert (found["imported"]["read"], found["imported"]["known"]) == (0, 300)


def write_network(file):
    """A network that passes on what it is given, averaged a little."""
    from onnx import TensorProto, helper, save

    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])]
    exits = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[28, 28], strides=[28, 28])
    graph = helper.make_graph([node], "small", ends, exits)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), file)


def test_commands_in_the_guide_on_collections_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "collection.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for block in (block for kind, block in blocks if kind == "python"):
        exec(compile(block, "docs/collection.md", "exec"), {})  # each on its own
    write_network(tmp_path / "network.onnx")
    (tmp_path / "network.json").write_text(next(block for kind, block in blocks if kind == "json"))
    lines = [line for kind, block in blocks if kind == "sh" for line in block.splitlines()]
    assert {shlex.split(line)[1] for line in lines} == set(COMMANDS)
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "ordrank"
        done(*arguments)
    assert (tmp_path / "results.html").exists()


def test_a_warning_is_one_sentence(capsys):
    with plain_errors(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("held-out groups\nare not predicted", stacklevel=1)
    assert capsys.readouterr().err == "ordrank: warning: held-out groups\\nare not predicted\n"
