"""Checks of constructor parameters; each error names the parameter, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

from ordrank.errors import InputError


def check_integer(name: str, value: Any, *, minimum: int) -> None:
    """Require an integer of at least ``minimum``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise InputError(f"{name} must be an integer of at least {minimum}, got {value!r}")


def check_number(
    name: str, value: Any, *, above: float = -math.inf, below: float = math.inf, at_least: float = -math.inf
) -> None:
    """Require a finite number with ``above < value < below`` and ``value >= at_least``."""
    if (
        not isinstance(value, Real)
        or isinstance(value, bool)
        or not math.isfinite(value)
        or not (above < value < below)
        or value < at_least
    ):
        bounds = [
            text
            for text, bound in (
                (f"above {above:g}", above),
                (f"below {below:g}", below),
                (f"at least {at_least:g}", at_least),
            )
            if math.isfinite(bound)
        ]
        raise InputError(f"{name} must be a number {' and '.join(bounds)}, got {value!r}".replace("  ", " "))


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Require one of a few words."""
    if not isinstance(value, str) or value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise InputError(f"{name} must be one of {allowed}, got {value!r}")
