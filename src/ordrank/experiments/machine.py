"""What a measurement was made with, to be kept beside its figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Versions of the numerical packages, and the machine, without anything that names it."""
    packages = ("ordrank", "numpy", "scipy", "scikit-learn")
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
        "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
    }
