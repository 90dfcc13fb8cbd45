"""Out-of-sample quality of OrdinalMetric."""

import tracemalloc

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.metrics import mean_absolute_error
from sklearn.pipeline import make_pipeline

from ordrank import CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.datasets import make_fruit
from ordrank.errors import InputError
from ordrank.estimators._defaults import Defaults
from ordrank.metrics import inside_grade, same_subject_precision
from tests.estimators.test_ordinal_metric import curved

# --- labelled samples -------------------------------------------------------------------------------------------

LABELS = {
    "2 labels": lambda t: (t > 0.5).astype(float),
    "5 labels": lambda t: np.floor(5 * t),
    "50 labels": lambda t: np.floor(50 * t),
    "continuous": lambda t: 7 + 100 * t,
}


@pytest.mark.parametrize("d", [6, 400], ids=["n >> d", "n < d"])
@pytest.mark.parametrize("labels", LABELS)
def test_error_on_new_samples(labels, d):
    errors = []
    for seed in range(8):
        X, y = curved(400, LABELS[labels], seed=seed, d=d, noise=0.0)
        train, test = slice(0, 200), slice(200, None)
        rankers = (OrdinalRanker(metric).fit(X[train], y[train]) for metric in (None, "passthrough"))
        estimates = [*(ranker.predict(X[test]) for ranker in rankers), np.full(200, np.median(y[train]))]
        errors.append([mean_absolute_error(y[test], estimate) for estimate in estimates])
    error, plain, guess = np.mean(errors, axis=0)
    assert error < 0.1 * guess
    assert error < plain + 0.02 * guess


def test_thousands_of_labels_need_no_distance_matrix():
    X, y = curved(20_000, lambda t: t)
    assert len(np.unique(y)) == 20_000
    tracemalloc.start()
    try:
        metric = OrdinalMetric(kernel="linear", alpha=0.01, locality=0.1).fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000**2  # bytes; a matrix of doubles has eight times as many
    assert metric.label_positions_.shape == (20_000, 2)
    assert np.corrcoef(metric.label_positions_[:, 0], metric.labels_)[0, 1] > 0.99


def test_the_kernel_is_selected_for_a_curved_order():
    X, y = curved(300, lambda t: np.floor(5 * t))
    assert OrdinalMetric().fit(X, y).kernel_ == "rbf"


def test_a_linear_order_is_learned_as_well_as_by_the_linear_map():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = np.round(X[:, 0] + 0.2 * rng.normal(size=300))
    chosen = OrdinalRanker().fit(X[:150], y[:150]).predict(X[150:])
    linear = OrdinalRanker(OrdinalMetric(kernel="linear")).fit(X[:150], y[:150]).predict(X[150:])
    assert mean_absolute_error(y[150:], chosen) < 1.1 * mean_absolute_error(y[150:], linear)


def test_order_and_similarity_inside_a_grade():
    fruit = make_fruit(400, size=32, random_state=3)
    X = PCA(60, random_state=0).fit_transform(fruit.images.reshape(400, -1).astype(float))
    grade, plant = fruit.grade, fruit.plant

    def aims(ranker):
        ranker.fit(X[:250], grade[:250])
        inside = inside_grade(ranker.rank(X[250:], k=250), grade[250:], 3)
        error = mean_absolute_error(grade[250:], ranker.predict(X[250:]))
        return error, same_subject_precision(inside, plant[:250], plant[250:])

    ours, order_only = aims(OrdinalRanker()), aims(OrdinalRanker(OrdinalMetric(locality=0.0)))
    paper = CMDSMetric(2, solver="fast", scale="fixed", init="lstsq", mu=0.0, alpha=0.01 * float((X**2).sum()))
    assert ours[0] < aims(OrdinalRanker(paper, n_neighbors=5))[0]
    assert ours[0] < order_only[0] + 0.03
    assert ours[1] > 1.5 * order_only[1]


# --- unlabelled samples --------------------------------------------------------------------------------------------


def turning_heads(seed, n_heads=12, n_frames=60):
    """Frames of turning heads, each with a label: like UMIST, a label is a set of curves."""
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0, 2 * np.pi, size=(n_heads, n_frames)), axis=1)[..., None]
    centre, first, second = rng.normal(size=(3, n_heads, 1, 20))
    X = 0.7 * centre + np.cos(angle) * first + np.sin(angle) * second + 0.02 * rng.normal(size=(n_heads, n_frames, 20))
    y = np.repeat(np.arange(n_heads) % 3, n_frames).astype(float)
    order = rng.permutation(n_heads * n_frames)
    return X.reshape(-1, 20)[order], y[order]


def test_unlabelled_samples_lower_the_error_on_other_queries():
    X, y = turning_heads(0)
    labelled, others, queries = slice(0, 60), slice(60, 400), slice(400, None)
    alone = OrdinalRanker().fit(X[labelled], y[labelled])
    helped = OrdinalRanker().fit(X[labelled], y[labelled], unlabeled=X[others])
    assert helped.metric_.nu_ > 0
    error = mean_absolute_error(y[queries], helped.predict(X[queries]))
    assert error < 0.7 * mean_absolute_error(y[queries], alone.predict(X[queries]))
    assert helped.rank(X[queries], k=5).indices.max() < 60


def test_many_samples_score_the_graph_with_the_best_kernels_only(monkeypatch):
    X, y = turning_heads(0)
    labelled, others = np.arange(0, len(X), 12), np.arange(5, len(X), 2)
    every_kernel = OrdinalMetric().fit(X[labelled], y[labelled], unlabeled=X[others])
    monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(exact_samples=100))
    some = OrdinalMetric().fit(X[labelled], y[labelled], unlabeled=X[others])
    assert every_kernel.nu_ > 0
    assert some.nu_ > 0
    assert len(some.candidates_) < 0.6 * len(every_kernel.candidates_)
    tried = {candidate.hyperparameters for candidate in every_kernel.candidates_}
    assert {candidate.hyperparameters for candidate in some.candidates_} < tried


def test_unlabelled_samples_without_structure_are_not_used():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10))
    y = np.round(X[:, 0])
    alone = OrdinalMetric().fit(X[:100], y[:100])
    helped = OrdinalMetric().fit(X[:100], y[:100], unlabeled=X[100:])
    assert helped.nu_ == 0
    np.testing.assert_allclose(helped.transform(X), alone.transform(X), atol=1e-4)


def test_an_empty_array_of_unlabelled_samples_changes_nothing(graded):
    X, y = graded
    none = OrdinalMetric().fit(X, y, unlabeled=X[:0])
    np.testing.assert_array_equal(none.transform(X), OrdinalMetric().fit(X, y).transform(X))


def test_pipelines_transform_unlabelled_samples():
    X, y = turning_heads(1)
    pipeline = OrdinalRanker(make_pipeline(PCA(15), OrdinalMetric())).fit(X[:60], y[:60], unlabeled=X[60:300])
    head = PCA(15).fit(X[:60])
    by_hand = OrdinalMetric().fit(head.transform(X[:60]), y[:60], unlabeled=head.transform(X[60:300]))
    assert pipeline.metric_[-1].nu_ == by_hand.nu_ > 0
    np.testing.assert_allclose(pipeline.embedding_, by_hand.transform(head.transform(X[:60])), atol=1e-6)


def test_metrics_without_unlabelled_samples_reject_them(graded):
    X, y = graded
    with pytest.raises(InputError, match="CMDSMetric does not learn from unlabelled samples; use OrdinalMetric"):
        OrdinalRanker(CMDSMetric()).fit(X, y, unlabeled=X)


@pytest.mark.parametrize("estimator", [OrdinalMetric(), OrdinalRanker()], ids=repr)
def test_invalid_unlabelled_samples_are_rejected(estimator, graded):
    X, y = graded
    with pytest.raises(ValueError, match="features"):
        estimator.fit(X, y, unlabeled=X[:, :3])
    gap = X.copy()
    gap[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        estimator.fit(X, y, unlabeled=gap)


def test_too_few_unlabelled_samples_are_ignored(graded):
    X, y = graded
    few = OrdinalMetric().fit(X, y, unlabeled=X[: len(X) // 11] + 0.1)
    np.testing.assert_array_equal(few.transform(X), OrdinalMetric().fit(X, y).transform(X))
