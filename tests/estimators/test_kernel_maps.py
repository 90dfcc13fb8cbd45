"""What kernels a map is made of, and the lens that they see through."""

import numpy as np
import pytest
from sklearn.base import clone

from ordrank import OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from tests.estimators.test_ordinal_metric import curved

# --- which kernels ------------------------------------------------------------------------------------------------


def of_recipe(recipe):
    kernel = {"kernel": "linear"} if recipe.sharpness is None else {"kernel": "rbf", "sharpness": recipe.sharpness}
    return OrdinalMetric(**kernel, alpha=recipe.alpha, locality=0.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_map_of_few_samples_is_a_mean_over_kernels(dtype):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(40, 10)).astype(dtype), np.arange(40) % 4
    X[:, 0] += y
    metric = OrdinalMetric(locality=0.0).fit(X, y)
    taken = [candidate for candidate in metric.candidates_ if candidate.share > 0]
    assert len(taken) > 2
    assert sum(candidate.share for candidate in taken) == pytest.approx(1)
    assert len({candidate.recipe.sharpness for candidate in taken}) == len(taken)
    expected = sum(c.share * of_recipe(c.recipe).fit(X, y).transform(X).astype(float) for c in taken)
    np.testing.assert_allclose(metric.transform(X), expected, atol=1e-6 if dtype == np.float64 else 1e-3)
    largest = max((c for c in taken if c.recipe.sharpness), key=lambda c: c.share)
    assert (metric.sharpness_, metric.alpha_) == (largest.recipe.sharpness, largest.recipe.alpha)
    by_score = sorted(taken, key=lambda c: c.score)
    assert [c.share for c in by_score] == sorted((c.share for c in taken), reverse=True)


def test_more_samples_decide_for_one_kernel():
    X, y = curved(400, lambda t: np.floor(5 * t), d=10)
    (taken,) = (candidate for candidate in OrdinalMetric().fit(X, y).candidates_ if candidate.share > 0)
    assert taken.share == 1


def words(n, seed):
    """A table of words: grades that follow from all of them, with no order in between; many rows are copies."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, 4, size=(n, 3))
    grades = np.random.default_rng(0).integers(0, 4, size=(4, 4, 4))[tuple(columns.T)]
    return columns.astype(float), grades.astype(float)


def test_where_the_sharpest_kernel_is_best_sharper_ones_are_tried():
    X, y = words(120, seed=1)
    new, grades = words(400, seed=2)
    metric = OrdinalMetric().fit(X, y)
    tried = {candidate.recipe.sharpness for candidate in metric.candidates_}
    assert {16.0, 32.0} <= tried
    assert max(tried - {None}) <= 64
    assert metric.sharpness_ > 8
    errors = [
        np.abs(OrdinalRanker(OrdinalMetric(sharpness=sharpness)).fit(X, y).predict(new) - grades).mean()
        for sharpness in ("auto", 8.0)
    ]
    assert errors[0] < errors[1]
    assert {c.recipe.sharpness for c in OrdinalMetric(sharpness=8.0).fit(X, y).candidates_} == {None, 8.0}


def test_what_is_given_is_no_mean():
    X, y = curved(60, lambda t: np.floor(5 * t), d=10)
    assert OrdinalMetric(kernel="rbf", sharpness=0.7).fit(X, y).sharpnesses_ == (0.7,)
    assert len(OrdinalMetric(mu=0.1).fit(X, y).sharpnesses_) <= 1


def test_a_default_fit_decomposes_once_for_every_kernel_and_graph(monkeypatch):
    calls = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda a: calls.append(len(a)) or eigh(a))
    X, y = curved(200, lambda t: np.floor(5 * t), d=30)
    metric = OrdinalMetric().fit(X, y)
    taken = sum(candidate.share > 0 for candidate in metric.candidates_)
    calls.remove(len(metric.labels_))  # to place the labels
    bent = len(metric.sharpnesses_)
    # A linear map and seven kernels, those of the mean, the lens, kernels of the mean through it; ridges share them.
    assert len(calls) == 8 + taken + 2 + bent


# --- the lens ------------------------------------------------------------------------------------------------------


def test_nothing_is_chosen_through_the_lens(graded):
    X, y = graded
    seen, plain = OrdinalMetric(kernel="rbf").fit(X, y), OrdinalMetric(kernel="rbf", lens=False).fit(X, y)
    assert seen.candidates_ == plain.candidates_
    assert seen.locality_ == plain.locality_
    np.testing.assert_array_equal(seen.neighborhoods_.indices, plain.neighborhoods_.indices)
    assert len(seen.lens_stretches_) == X.shape[1]
    assert len(plain.lens_stretches_) == 0
    assert np.abs(seen.transform(X) - plain.transform(X)).max() > 1e-3


def test_more_samples_than_are_drawn_are_seen_as_they_are(monkeypatch, graded):
    X, y = graded
    monkeypatch.setattr("ordrank.estimators.order_fit.SEARCH_SAMPLES", 60)
    assert len(OrdinalMetric(kernel="rbf").fit(X, y).lens_stretches_) == 0


def test_the_lens_helps_where_things_of_one_grade_look_different():
    """Things of three grades, each seen from many sides; how a side changes the look is the same for all."""
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        things, grades, thing = rng.normal(size=(20, 10)), np.arange(20) % 3, np.arange(600) % 20
        sides = 0.5 * rng.normal(size=(600, 3)) @ rng.normal(size=(3, 20))
        X = np.hstack([things[thing], np.zeros((600, 10))]) + sides
        y = grades[thing].astype(float)
        rankers = [OrdinalRanker(OrdinalMetric(lens=lens)).fit(X[:60], y[:60]) for lens in (True, False)]
        errors.append([np.abs(ranker.predict(X[60:]) - y[60:]).mean() for ranker in rankers])
    seen, plain = np.mean(errors, axis=0)
    assert seen < 0.8 * plain


@pytest.mark.parametrize("lens", ["no", None, 2.5, np.ones(2)], ids=str)
def test_the_lens_is_there_or_not(graded, lens):
    with pytest.raises(InputError, match="lens must be True or False"):
        OrdinalMetric(lens=lens).fit(*graded)


def test_single_precision_sees_the_same_through_the_lens(graded):
    X, y = graded
    metric = OrdinalMetric(kernel="rbf", sharpness=1.0, alpha=1e-3, locality=0.2)
    double, single = (clone(metric).fit(X.astype(dtype), y).transform(X) for dtype in (np.float64, np.float32))
    np.testing.assert_allclose(single, double, atol=1e-4)


def test_where_labels_are_never_the_same_there_is_no_lens(graded):
    X, _ = graded
    assert len(OrdinalMetric(kernel="rbf").fit(X, np.arange(len(X))).lens_stretches_) == 0
