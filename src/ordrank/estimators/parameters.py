"""Checks of constructor parameters; each error names the parameter, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from ordrank.errors import InputError


def check_integer(name: str, value: Any, *, minimum: int) -> None:
    """Require an integer of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < minimum:
        raise InputError(f"{name} must be an integer of at least {minimum}, got {value!r}")


def check_number(
    name: str, value: Any, *, above: float = -math.inf, below: float = math.inf, at_least: float = -math.inf
) -> None:
    """Require a finite number with ``above < value < below`` and ``value >= at_least``."""
    number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
    if number and above < value < below and value >= at_least:
        return
    bounds = {f"above {above:g}": above, f"at least {at_least:g}": at_least, f"below {below:g}": below}
    stated = " and ".join(text for text, bound in bounds.items() if math.isfinite(bound))
    raise InputError(f"{name} must be a number{' ' if stated else ''}{stated}, got {value!r}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Require one of a few words."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name} must be one of {allowed}, got {value!r}")


def check_flag(name: str, value: Any) -> None:
    """Require a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {value!r}")


def check_device(value: Any) -> None:
    """Require None or the name of a device."""
    if value is not None and not (isinstance(value, str) and value.partition(":")[0] in ("cpu", "cuda")):
        raise InputError(f"device must be None, 'cpu' or 'cuda', got {value!r}")


def is_auto(value: Any) -> bool:
    """Whether a value is to be chosen."""
    return isinstance(value, str) and value == "auto"
