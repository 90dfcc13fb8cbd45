"""Exact line search for quartics, in plain Python: with five coefficients NumPy calls would cost more."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ordrank._protocols import FloatArray


def minimize_on_ray(coefficients: FloatArray, upper: float = np.inf) -> float:
    """Return the t in [0, upper] that minimises p(t) = c₀ + c₁t + … + c₄t⁴.

    Candidates are the real roots of the cubic p′, refined by Newton's method, and the ends of the interval. A
    polynomial that decreases without bound gives ``upper``.

    Parameters
    ----------
    coefficients : ndarray of shape (5,)
        In ascending order.
    upper : float
        End of the interval, possibly infinite.
    """
    change = [0.0, *coefficients[1:].tolist()]  # relative to p(0), to avoid cancellation
    if change[1] == 0 and change[2] >= 0 and not any(change[3:]):
        return 0.0
    candidates = [t for t in _stationary_points(change) if 0 < t < upper]
    if math.isfinite(upper):
        candidates.append(upper)
    elif next((c for c in reversed(change) if c != 0), 0.0) < 0:
        return upper
    best = min(candidates, key=lambda t: _value(change, t), default=0.0)
    return best if _value(change, best) < 0 else 0.0


def _stationary_points(coefficients: Sequence[float]) -> list[float]:
    """Return the real roots of p′ (within rounding) after three Newton steps."""
    slope = _derivative(coefficients)
    curvature = _derivative(slope)
    # Companion matrices of nearly degenerate cubics overflow.
    with np.errstate(all="ignore"):
        roots = np.roots(slope[::-1]).tolist()
    return [_refined(root.real, slope, curvature) for root in roots if abs(root.imag) <= 1e-6 * abs(root.real)]


def _refined(root: float, polynomial: Sequence[float], derivative: Sequence[float]) -> float:
    """Apply three Newton steps, skipped where the derivative vanishes."""
    for _ in range(3):
        if (slope := _value(derivative, root)) != 0:
            root -= _value(polynomial, root) / slope
    return root


def _derivative(coefficients: Sequence[float]) -> list[float]:
    return [power * coefficient for power, coefficient in enumerate(coefficients)][1:]


def _value(coefficients: Sequence[float], t: float) -> float:
    """Evaluate c₀ + c₁t + … by Horner's rule."""
    total = 0.0
    for coefficient in reversed(coefficients):
        total = total * t + coefficient
    return total
