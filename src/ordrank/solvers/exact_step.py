"""The exact minimiser of a quartic along a ray."""

from __future__ import annotations

import numpy as np
from numpy.polynomial import polynomial as P

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
    if coefficients[1] == 0 and coefficients[2] >= 0 and not coefficients[3:].any():
        return 0.0
    rise = np.array([0.0, *coefficients[1:]])  # relative to p(0): differences keep their digits
    candidates = [t for t in _stationary_points(rise) if 0 < t < upper]
    if np.isfinite(upper):
        candidates.append(upper)
    elif _falls_forever(rise):
        return upper
    best = min(candidates, key=lambda t: float(P.polyval(t, rise)), default=0.0)
    return best if P.polyval(best, rise) < 0 else 0.0


def _stationary_points(coefficients: FloatArray) -> list[float]:
    """Real parts of the roots of p′ that are real within rounding, after three Newton steps."""
    slope = P.polyder(coefficients)
    curvature = P.polyder(slope)
    leading = np.flatnonzero(slope)
    if leading.size == 0 or leading[-1] == 0:
        return []
    # Companion matrices of nearly degenerate cubics overflow; a tiny leading coefficient has its root far out.
    with np.errstate(all="ignore"):
        roots = P.polyroots(slope[: leading[-1] + 1])
        points = np.real(roots[np.abs(roots.imag) <= 1e-6 * np.abs(roots)])
        for _ in range(3):
            points = points - P.polyval(points, slope) / P.polyval(points, curvature)
    return [float(t) for t in points if np.isfinite(t)]


def _falls_forever(coefficients: FloatArray) -> bool:
    leading = np.flatnonzero(coefficients)
    return bool(leading.size) and bool(coefficients[leading[-1]] < 0)
