"""Parameters, weights and samples that OrdinalMetric cannot use are named."""

import numpy as np
import pytest

from ordrank import OrdinalMetric
from ordrank.errors import InputError


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1"),
        ({"alpha": 0}, "alpha must be a number above 0"),
        ({"alpha": "none"}, "alpha must be a number above 0"),
        ({"sharpness": -1}, "sharpness must be a number above 0"),
        ({"locality": -0.1}, "locality must be a number at least 0"),
        ({"nu": -1}, "nu must be a number at least 0"),
        ({"beta": -0.1}, "beta must be a number at least 0"),
        ({"mu": float("nan")}, "mu must be a number at least 0"),
        ({"tau": -1}, "tau must be a number at least 0"),
        ({"kernel": "linear", "sharpness": 2.0}, "sharpness belongs to a kernel"),
        ({"kernel": "poly"}, "kernel must be one of 'auto', 'linear', 'rbf'"),
        ({"class_weight": "heavy"}, "class_weight must be one of 'balanced'"),
        ({"repair": "no"}, "repair must be one of"),
    ],
)
def test_invalid_parameters_are_named(parameters, sentence, graded):
    with pytest.raises(InputError, match=sentence):
        OrdinalMetric(**parameters).fit(*graded)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        (np.full(90, -1.0), "negative values, the smallest is -1"),
        (np.ones(89), "inconsistent numbers of samples"),
        (np.ones((90, 2)), "one weight for each of the 90 samples"),
        (np.full(90, np.nan), "NaN"),
    ],
)
def test_invalid_weights_are_named(weights, sentence, graded):
    with pytest.raises(ValueError, match=sentence):
        OrdinalMetric().fit(*graded, sample_weight=weights)


def test_weights_of_a_single_label_are_rejected(graded):
    X, y = graded
    with pytest.raises(InputError, match="same label"):
        OrdinalMetric().fit(X, y, sample_weight=(y == 1).astype(float))


def test_weights_of_identical_samples_are_rejected():
    X = np.array([[0.0, 0], [0, 0], [1, 1], [2, 0]])
    with pytest.raises(InputError, match="all samples with a positive weight are identical"):
        OrdinalMetric().fit(X, [0, 1, 1, 0], sample_weight=[1, 1, 0, 0])


def test_labels_out_of_range_are_rejected(graded):
    X, y = graded
    with pytest.raises(InputError, match="overflow or underflow when squared; rescale them"):
        OrdinalMetric().fit(X, 1e200 * y)


def test_unlabelled_samples_out_of_range_are_rejected(graded):
    X, y = graded
    with pytest.raises(InputError, match="overflow or underflow when squared; rescale them"):
        OrdinalMetric().fit(X, y, unlabeled=1e160 * X)


def test_unlabelled_samples_that_cannot_be_compared_are_reported(graded):
    X, y = graded
    with pytest.raises(InputError, match="times as far from the mean of the labelled ones"):
        OrdinalMetric().fit(X, y, unlabeled=1e10 * X)
