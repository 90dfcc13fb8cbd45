r"""Which two samples to compare next: those whose answer has the largest mutual information with all positions.

The mutual information of an answer and the positions is the entropy of the answer minus its expected entropy if the
positions were known (Houlsby et al. 2011): it is high where the model does not know the answer, but the person does.
"""

from __future__ import annotations

from collections.abc import Collection
from math import log, pi, sqrt

import numpy as np
import scipy

from ordrank._protocols import FloatArray
from ordrank.labeling.comparisons import Positions

_MAX_CANDIDATES = 400  # samples all of whose pairs are compared: 80,000 pairs take a few milliseconds
_PROBIT = sqrt(pi / 8)  # the logistic function at x is close to the normal distribution function at this times x
_WIDTH = pi * log(2) / 2  # squared width of the normal curve that approximates the entropy of an answer in bits


def expected_information(mean: FloatArray, variance: FloatArray) -> FloatArray:
    r"""Return the information in bits about normal differences that answers without ties have.

    With mean :math:`\mu` and variance :math:`v` in units of the noise, scaled by :math:`\sqrt{\pi / 8}` from the
    logistic to the normal distribution, and :math:`C^2 = \pi \ln 2 / 2`, it is in close approximation

    .. math:: h\left(\Phi\left(\frac{\mu}{\sqrt{v + 1}}\right)\right)
              - \frac{C}{\sqrt{v + C^2}} \exp\left(-\frac{\mu^2}{2 (v + C^2)}\right).

    References
    ----------
    N. Houlsby, F. Huszár, Z. Ghahramani, M. Lengyel (2011). Bayesian active learning for classification and preference
    learning.
    """
    mu, v = _PROBIT * np.abs(mean), _PROBIT**2 * variance
    higher = scipy.special.ndtr(-mu / np.sqrt(v + 1))
    entropy = (scipy.special.entr(higher) + scipy.special.entr(1 - higher)) / log(2)
    if_known = np.sqrt(_WIDTH / (v + _WIDTH)) * np.exp(-(mu**2) / (2 * (v + _WIDTH)))
    return np.asarray(np.maximum(entropy - if_known, 0.0))


def choose_pair(
    positions: Positions, answered: Collection[tuple[int, int]] = (), *, seed: int = 0
) -> tuple[int, int] | None:
    """Return the two samples whose comparison has the largest expected information; None if none is left.

    Parameters
    ----------
    positions : Positions
    answered : collection of pairs
        Not to be chosen, in any order of the two.
    seed : int
        Of the random subset of 400 samples that are considered if there are more.
    """
    n = len(positions.mean)
    samples = np.arange(n)
    if n > _MAX_CANDIDATES:
        samples = np.sort(np.random.default_rng(seed).permutation(n)[:_MAX_CANDIDATES])
    mean = positions.mean[samples] / positions.answers.noise
    covariance = positions.covariance[np.ix_(samples, samples)] / positions.answers.noise**2
    variances = np.diag(covariance)
    i, j = np.triu_indices(len(samples), 1)
    variance = np.maximum(variances[i] + variances[j] - 2 * covariance[i, j], 0.0)
    is_answered = np.zeros((n, n), dtype=np.bool_)
    if answered:
        first, second = np.array(list(answered), dtype=np.int64).T
        is_answered[first, second] = is_answered[second, first] = True
    information = expected_information(mean[i] - mean[j], variance)
    information[is_answered[samples[i], samples[j]]] = -1.0
    if not len(information) or information.max() < 0:
        return None
    best = int(information.argmax())
    return int(samples[i[best]]), int(samples[j[best]])
