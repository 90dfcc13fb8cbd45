"""Selection and averaging of kernels, and discriminant rescaling."""

import numpy as np
import pytest
from sklearn.base import clone

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._defaults import Defaults
from tests.estimators.test_ordinal_metric import curved

# --- kernels ------------------------------------------------------------------------------------------------------


def metric_with(selected):
    kernel = {"kernel": "linear"} if selected.sharpness is None else {"kernel": "rbf", "sharpness": selected.sharpness}
    return OrdinalMetric(**kernel, alpha=selected.alpha, locality=0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_map_of_few_samples_is_a_mean_over_kernels(dtype):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 10)).astype(dtype), np.arange(40) % 4
    X[:, 0] += y
    metric = OrdinalMetric(locality=0.0).fit(X, y)
    taken = [candidate for candidate in metric.candidates_ if candidate.weight > 0]
    assert len(taken) > 2
    assert sum(candidate.weight for candidate in taken) == pytest.approx(1)
    assert len({candidate.hyperparameters.sharpness for candidate in taken}) == len(taken)
    expected = sum(c.weight * metric_with(c.hyperparameters).fit(X, y).transform(X).astype(float) for c in taken)
    np.testing.assert_allclose(metric.transform(X), expected, atol=1e-6 if dtype == np.float64 else 1e-3)
    largest = max((c for c in taken if c.hyperparameters.sharpness), key=lambda c: c.weight)
    assert (metric.sharpness_, metric.alpha_) == (largest.hyperparameters.sharpness, largest.hyperparameters.alpha)
    by_score = sorted(taken, key=lambda c: c.score)
    assert [c.weight for c in by_score] == sorted((c.weight for c in taken), reverse=True)


def test_more_samples_select_one_kernel():
    X, y = curved(400, lambda t: np.floor(5 * t), d=10)
    (taken,) = (candidate for candidate in OrdinalMetric().fit(X, y).candidates_ if candidate.weight > 0)
    assert taken.weight == 1


def categories(n, seed):
    """A categorical table: labels depend on all columns, without order; many rows are duplicates."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 4, size=(n, 3))
    grades = np.random.default_rng(0).integers(0, 4, size=(4, 4, 4))[tuple(columns.T)]
    return columns.astype(float), grades.astype(float)


def test_the_sharpness_grid_is_extended_where_its_largest_value_is_best():
    X, y = categories(120, seed=1)
    new, grades = categories(400, seed=2)
    metric = OrdinalMetric().fit(X, y)
    tried = {candidate.hyperparameters.sharpness for candidate in metric.candidates_}
    assert {16.0, 32.0} <= tried
    assert max(tried - {None}) <= 64
    assert metric.sharpness_ > 8
    errors = [
        np.abs(OrdinalRanker(OrdinalMetric(sharpness=sharpness)).fit(X, y).predict(new) - grades).mean()
        for sharpness in ("auto", 8.0)
    ]
    assert errors[0] < errors[1]
    assert {c.hyperparameters.sharpness for c in OrdinalMetric(sharpness=8.0).fit(X, y).candidates_} == {None, 8.0}


def test_a_given_sharpness_or_a_local_term_is_not_averaged():
    X, y = curved(60, lambda t: np.floor(5 * t), d=10)
    assert OrdinalMetric(kernel="rbf", sharpness=0.7).fit(X, y).ordinal_embedding_.sharpnesses == (0.7,)
    assert len(OrdinalMetric(mu=0.1).fit(X, y).ordinal_embedding_.sharpnesses) <= 1


# --- discriminant rescaling ----------------------------------------------------------------------------------------


def n_directions(metric):
    return len(metric.ordinal_embedding_.rescaling.factors)


def test_selection_does_not_use_the_rescaling(graded):
    X, y = graded
    rescaled, plain = (OrdinalMetric(kernel="rbf", discriminant=flag).fit(X, y) for flag in (True, False))
    assert rescaled.candidates_ == plain.candidates_
    assert rescaled.locality_ == plain.locality_
    np.testing.assert_array_equal(rescaled.loo_neighbors_.indices, plain.loo_neighbors_.indices)
    assert n_directions(rescaled) == X.shape[1]
    assert n_directions(plain) == 0
    assert np.abs(rescaled.transform(X) - plain.transform(X)).max() > 1e-3


def test_many_samples_are_not_rescaled(monkeypatch, graded):
    X, y = graded
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(selection_samples=60))
    assert n_directions(OrdinalMetric(kernel="rbf").fit(X, y)) == 0


def test_rescaling_helps_where_variation_inside_a_label_is_common_to_all():
    """Objects of three grades under a common linear variation, like a change of view."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        objects, grades, index = rng.normal(size=(20, 10)), np.arange(20) % 3, np.arange(600) % 20
        views = 0.5 * rng.normal(size=(600, 3)) @ rng.normal(size=(3, 20))
        X = np.hstack([objects[index], np.zeros((600, 10))]) + views
        y = grades[index].astype(float)
        rankers = [OrdinalRanker(OrdinalMetric(discriminant=flag)).fit(X[:60], y[:60]) for flag in (True, False)]
        errors.append([np.abs(ranker.predict(X[60:]) - y[60:]).mean() for ranker in rankers])
    rescaled, plain = np.mean(errors, axis=0)
    assert rescaled < 0.8 * plain


@pytest.mark.parametrize("value", ["no", None, 2.5, np.ones(2)], ids=str)
def test_discriminant_must_be_boolean(graded, value):
    with pytest.raises(InputError, match="discriminant must be True or False"):
        OrdinalMetric(discriminant=value).fit(*graded)


def test_rescaling_in_single_precision_agrees_with_double(graded):
    X, y = graded
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=1e-3, locality=0.2)
    double, single = (clone(metric).fit(X.astype(dtype), y).transform(X) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(single, double, atol=1e-4)


def test_no_rescaling_if_all_labels_differ(graded):
    X, _ = graded
    assert n_directions(OrdinalMetric(kernel="rbf").fit(X, np.arange(len(X)))) == 0
