"""The package as a whole: imports, public names, documents."""

import doctest
import importlib
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
NEEDS = {
    "ordrank.backend.torch": "torch",
    "ordrank.backend.triton_kernels": "triton",
    "ordrank.deep": "torch",
    "ordrank.features.efficientnet_module": "torch",
}
PACKAGES = (
    ".datasets",
    ".distributed",
    ".features",
    ".geometry",
    ".kernel_ridge",
    ".neighbors",
    ".objectives",
    ".solvers",
)
MODULES = [module.name for module in pkgutil.walk_packages(ordrank.__path__, "ordrank.")]


def test_import_loads_no_heavy_package():
    code = "import sys, ordrank; print([m for m in ('sklearn', 'scipy', 'matplotlib', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_command_line_starts_without_scikit_learn():
    code = "import sys, ordrank.cli; print('sklearn' in sys.modules, 'matplotlib' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False False\n"


def test_public_names():
    assert set(ordrank.__all__) == {"CMDSMetric", "Collection", "LDMLR", "OrdinalMetric", "OrdinalRanker", "Ranking"}
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
    for module, package in NEEDS.items():
        if name == module or name.startswith(f"{module}."):
            pytest.importorskip(package)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_code_in_documents_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    if any("import torch" in block or "OrdinalNetwork" in block for block in blocks):
        pytest.importorskip("torch")
    if any("import lancedb" in block for block in blocks):
        pytest.importorskip("lancedb", reason="LanceDB is not installed: pip install lancedb")
    if document.name == "cluster.md":
        pytest.importorskip("distributed", reason="Dask is not installed: pip install 'ordrank[dask]'")
    names = {}
    for block in blocks:
        exec(compile(block, str(document), "exec"), names)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_documents_exist(document):
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


def test_networks_say_what_they_need(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ordrank.deep")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'ordrank\[deep\]'"):
        ordrank.OrdinalNetwork  # noqa: B018


@pytest.mark.parametrize("part", ["", *PACKAGES])
def test_every_public_name_is_in_the_api_reference(part):
    module = importlib.import_module(f"ordrank{part}")
    listed = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    for public in module.__all__:
        assert re.search(rf"^   (\w+\.)*{public}$", listed, re.MULTILINE), f"{part}.{public}"


def test_functions_named_in_the_architecture_exist():
    text = (ROOT / "docs" / "architecture.md").read_text()
    hops = re.findall(r"^\d+\. .*?`([\w./]+)`", text, re.MULTILINE)
    assert len(hops) == 36
    for hop in hops:
        if "/" in hop:
            assert (ROOT / "src" / "ordrank" / hop).exists(), hop
            continue
        module, _, name = f"ordrank.{hop}".rpartition(".")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:  # a method: the last part but one is a class
            module, _, owner = module.rpartition(".")
            found = getattr(importlib.import_module(module), owner)
        assert hasattr(found, name), hop
