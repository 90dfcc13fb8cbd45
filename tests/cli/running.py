"""Small folders of pictures, and commands that must succeed or fail."""

import json
import subprocess
import sys

import numpy as np
from PIL import Image
from typer.testing import CliRunner

from ordrank.cli import app


def paint(grade, seed):
    """A small picture that is the brighter the higher its grade, and like no other."""
    noise = np.random.default_rng(seed).normal(0, 12, size=(12, 12, 3))
    return Image.fromarray(np.clip(60 + 50 * grade + noise, 0, 255).astype(np.uint8))


def write_folder(folder, count=36, first=0, table=None, names=None, every=6):
    """Pictures of three grades in turn, one in ``every`` not graded."""
    folder.mkdir()
    lines = ["file,grade"]
    for i in range(first, first + count):
        paint(i % 3, i).save(folder / f"p{i:03d}.png")
        if i % every != every - 1:
            lines.append(f"p{i:03d}.png,{i % 3 if names is None else names[i % 3]}")
    if table is not None:
        table.write_text("\n".join(lines) + "\n")


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments):
    """Run a command that must succeed; return what it printed."""
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def failed(*arguments):
    """Run a command that must fail for its data; return its messages."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def document(*arguments):
    return json.loads(done(*arguments, "--json"))


def start(*arguments, **options):
    """Start a real process."""
    command = [sys.executable, "-m", "ordrank", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
