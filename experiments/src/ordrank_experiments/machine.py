"""Versions and machine of a measurement, and its output as JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any


def describe_machine(*packages: str) -> dict[str, Any]:
    """Return the versions of the numerical and the given packages, and the machine without its name."""
    names = ("ordrank", "numpy", "scipy", "scikit-learn", *packages)
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in names},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }


def print_document(document: Mapping[str, Any], out: Path | None) -> None:
    """Print a JSON document, and write it to a file if one is given."""
    text = json.dumps(document, indent=1) + "\n"
    sys.stdout.write(text)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text)
