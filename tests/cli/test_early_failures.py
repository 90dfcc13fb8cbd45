"""Commands fail before long work: a missing extra, a broken plug-in, a file that must not be replaced."""

import subprocess
import sys

import pytest

from ordrank import Collection
from ordrank.cli import serve
from tests.cli.running import failed, run


def test_serving_without_the_extra_names_it(made, monkeypatch):
    monkeypatch.setattr(serve, "_listen", lambda *_: pytest.fail("it listens"))
    for name in [name for name in sys.modules if name.startswith("ordrank.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    message = failed("serve", made[0] / "collection", "--port", "0")
    assert message == "ordrank: the page needs FastAPI and uvicorn: pip install 'ordrank[web]'\n"


def test_a_missing_part_of_ordrank_is_not_taken_for_the_extra(made, monkeypatch):
    monkeypatch.setitem(sys.modules, "ordrank.web.app", None)
    result = run("serve", made[0] / "collection", "--port", "0")
    assert isinstance(result.exception, ModuleNotFoundError)


def test_a_page_that_would_replace_another_file_is_rejected_before_ranking(made, tmp_path, monkeypatch):
    monkeypatch.setattr(Collection, "rank_all", lambda *_, **__: pytest.fail("it ranks"))
    (tmp_path / "mine.html").write_text("mine")
    message = failed("rank", made[0] / "collection", "p000.png", "--html", tmp_path / "mine.html")
    assert "was not written by ordrank" in message
    assert "is a folder" in failed("rank", made[0] / "collection", "p000.png", "--html", tmp_path)


def test_a_broken_plug_in_breaks_no_command(tmp_path):
    plug_in = tmp_path / "broken-1.0.dist-info"
    plug_in.mkdir()
    (plug_in / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (plug_in / "entry_points.txt").write_text("[ordrank.commands]\nbroken = broken_commands:app\n")
    (tmp_path / "broken_commands.py").write_text("raise RuntimeError('no luck')\n")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from ordrank.cli import app; app(['--version'])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0
    assert ended.stdout.startswith("ordrank ")
    assert ended.stderr == "ordrank: the commands of broken cannot be loaded: no luck\n"
