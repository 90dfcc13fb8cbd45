"""The package as a whole: what it costs to import, what it promises, what its documents say."""

import doctest
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import ordrank
from ordrank.cli import app

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {"ordrank.backend.torch": "torch", "ordrank.backend.kernels": "triton"}
MODULES = [module.name for module in pkgutil.walk_packages(ordrank.__path__, "ordrank.")]


def seconds_to_run(statement):
    code = f"import numpy, time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


def test_import_is_fast():
    assert seconds_to_run("import ordrank") < 0.3


def test_import_loads_nothing_heavy():
    code = "import sys, ordrank; print([m for m in ('sklearn', 'scipy', 'matplotlib', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_command_line_starts_without_scikit_learn():
    code = "import sys, ordrank.cli; print('sklearn' in sys.modules, 'matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


def test_public_names():
    assert set(ordrank.__all__) == {"CMDSMetric", "LDMLR", "OrdinalMetric", "OrdinalRanker", "Ranking"}
    assert set(ordrank.__all__) <= set(dir(ordrank))
    for name in ordrank.__all__:
        assert getattr(ordrank, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        ordrank.Nothing  # noqa: B018


def test_version_is_the_same_everywhere():
    declared = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE).group(1)
    assert ordrank.__version__ == declared
    assert CliRunner().invoke(app, ["--version"]).stdout == f"ordrank {declared}\n"
    assert f"## {declared}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_in_documents_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    if any("import torch" in block for block in blocks):
        pytest.importorskip("torch")
    if any("import lancedb" in block for block in blocks):
        pytest.importorskip("lancedb", reason="LanceDB is not installed: pip install lancedb")
    if document.name == "cluster.md":
        pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    names = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_documents_lead_somewhere(document):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_every_option_of_every_command_is_documented():
    import typer

    text = (ROOT / "docs" / "commands.md").read_text()
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"## ordrank {name}" in text
        for parameter in command.params:
            assert parameter.help
            for option in parameter.opts:
                assert not option.startswith("-") or f"`{option}`" in text, f"{name} {option}"


def test_the_readme_quotes_the_committed_benchmark():
    results = json.loads((ROOT / "benchmarks" / "results" / "solvers.json").read_text())
    text = (ROOT / "README.md").read_text()
    for row in results["rows"]:
        ratios = f"{row['literal_over_fast']:.0f}× | {row['paper_over_fast']:.0f}×"
        assert f"| {row['mu']:g} | {row['fast_iterations']} | {ratios} |" in text
        assert row["literal_over_fast"] >= 100
        assert row["paper_over_fast"] >= 15
