"""The exact minimiser of a quartic along a ray.

In plain numbers: of so few of them NumPy would take longer to begin than to compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ordrank._types import FloatArray


def minimize_on_ray(coefficients: FloatArray, upper: float = np.inf) -> float:
    """Return the t in [0, upper] that minimises p(t) = c₀ + c₁t + … + c₄t⁴.

    The candidates are the real roots of the cubic p′, polished by Newton's method, and the ends of the
    interval. A polynomial that falls without bound gives ``upper``.

    Parameters
    ----------
    coefficients : ndarray of shape (5,)
        In rising order.
    upper : float
        End of the interval, possibly infinite.
    """
    rise = [0.0, *coefficients[1:].tolist()]  # relative to p(0): differences keep their digits
    if rise[1] == 0 and rise[2] >= 0 and not any(rise[3:]):
        return 0.0
    candidates = [t for t in _stationary_points(rise) if 0 < t < upper]
    if math.isfinite(upper):
        candidates.append(upper)
    elif _falls_forever(rise):
        return upper
    best = min(candidates, key=lambda t: _value(rise, t), default=0.0)
    return best if _value(rise, best) < 0 else 0.0


def _stationary_points(coefficients: Sequence[float]) -> list[float]:
    """Real parts of the roots of p′ that are real within rounding, after three Newton steps."""
    slope = _derivative(coefficients)
    curvature = _derivative(slope)
    # Companion matrices of nearly degenerate cubics overflow; a tiny leading coefficient has its root far out.
    with np.errstate(all="ignore"):
        roots = np.roots(slope[::-1]).tolist()
    return [_polished(root.real, slope, curvature) for root in roots if abs(root.imag) <= 1e-6 * abs(root.real)]


def _polished(root: float, polynomial: Sequence[float], derivative: Sequence[float]) -> float:
    """The root after three Newton steps, fewer where the derivative vanishes."""
    for _ in range(3):
        if (steepness := _value(derivative, root)) != 0:
            root -= _value(polynomial, root) / steepness
    return root


def _derivative(coefficients: Sequence[float]) -> list[float]:
    return [power * coefficient for power, coefficient in enumerate(coefficients)][1:]


def _value(coefficients: Sequence[float], t: float) -> float:
    """c₀ + c₁t + …, by Horner's rule."""
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * t + coefficient
    return total


def _falls_forever(coefficients: Sequence[float]) -> bool:
    return next((c for c in reversed(coefficients) if c != 0), 0.0) < 0
