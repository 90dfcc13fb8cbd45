import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker, Ranking
from ordrank.errors import InputError, NeighborsCappedWarning
from ordrank.estimators._defaults import Defaults
from ordrank.estimators._labels import ordinal_labels
from ordrank.estimators._out_of_fold import held_out_neighbors
from ordrank.neighbors import k_nearest
from ordrank.neighbors.voting import vote_shares, vote_weights, weighted_median


@pytest.fixture
def ranker(graded):
    return OrdinalRanker().fit(*graded)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_shares_of_votes_equal_scikit_learns_knn_probabilities(graded, weights):
    X, y = graded
    queries = np.vstack([X[:5], np.random.default_rng(1).normal(size=(30, 6)) + 1])
    votes, distances = k_nearest(X, queries, 5)[0], k_nearest(X, queries, 5)[1]
    ours = vote_shares(np.searchsorted([1, 2, 5], y)[votes], distances, 3, weights)
    theirs = KNeighborsClassifier(5, weights=weights).fit(X, y).predict_proba(queries)
    np.testing.assert_allclose(ours, theirs)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=9).flatmap(
        lambda votes: st.tuples(st.just(votes), st.lists(st.integers(1, 4), min_size=len(votes), max_size=len(votes)))
    )
)
def test_weighted_median_minimises_the_weighted_absolute_error(case):
    votes, weights = (np.array(part, dtype=float) for part in case)
    median = weighted_median(votes[None], weights[None])[0]
    assert median in votes
    errors = [(weights * np.abs(votes - v)).sum() for v in votes]
    assert (weights * np.abs(votes - median)).sum() == min(errors)
    # The lowest of equally good votes.
    assert median == min(v for v, error in zip(votes, errors, strict=True) if error == min(errors))


def test_only_exact_matches_vote_if_there_are_any():
    np.testing.assert_array_equal(vote_weights(np.array([[0.0, 0.0, 1.0]])), [[1, 1, 0]])
    np.testing.assert_array_equal(vote_weights(np.array([[0.0, 3e-17, 1.0]])), [[1, 1, 0]])  # a copy but for rounding
    np.testing.assert_array_equal(vote_weights(np.array([[0.0, 1.0, np.inf]])), [[1, 0, 0]])
    np.testing.assert_allclose(vote_weights(np.array([[1.0, 2.0, 4.0]])), [[1, 0.5, 0.25]])
    tiny = vote_weights(np.array([[1e-320, 1.0]]))
    assert np.isfinite(tiny).all()


def test_median_predictions_are_training_labels(ranker, graded):
    X, y = graded
    assert set(ranker.predict(X + 0.1)) <= set(y)


class TestSelectionOfVotes:
    def test_few_neighbours_where_they_are_significantly_better(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(300, 2))
        y = np.floor(8 * X[:, 0]) % 2 + np.floor(8 * X[:, 1]) % 2  # a chequerboard: only the nearest are informative
        ranker = OrdinalRanker("passthrough").fit(X, y)
        assert ranker.n_neighbors_ < 100
        default = OrdinalRanker("passthrough", n_neighbors=100, weights="distance").fit(X, y)
        queries = rng.uniform(size=(300, 2))
        truth = np.floor(8 * queries[:, 0]) % 2 + np.floor(8 * queries[:, 1]) % 2
        errors = [np.abs(one.predict(queries) - truth).mean() for one in (ranker, default)]
        assert errors[0] < errors[1]

    def test_a_third_of_the_samples_by_default(self, graded):
        ranker = OrdinalRanker().fit(*graded)
        assert (ranker.n_neighbors_, ranker.weights_) == (30, "distance")

    def test_folds_are_fitted_with_the_unlabelled_samples(self, graded):
        X, y = graded
        settings = {"kernel": "rbf", "sharpness": 0.5, "alpha": 1e-3, "nu": 100.0}
        pipeline = make_pipeline(PCA(3), OrdinalMetric(**settings))
        found = held_out_neighbors(pipeline, X, X, ordinal_labels(y, None), X + 0.1, None, 5)
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            pca = PCA(3).fit(X[train])
            metric = OrdinalMetric(**settings).fit(pca.transform(X[train]), y[train], pca.transform(X + 0.1))
            points, queries = (metric.transform(pca.transform(X[rows])) for rows in (train, test))
            _, distances = k_nearest(points, queries, 5)
            np.testing.assert_allclose(found.distances[test], distances)

    def test_weights_are_selected_with_all_neighbours_that_vote(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(300, 3)), np.arange(300) % 3
        metric = OrdinalMetric(kernel="linear").fit(X, y)
        assert metric.loo_neighbors_.indices.shape[1] == 100
        labels = ordinal_labels(y, None)
        for k in (100, 101, 200):
            found = held_out_neighbors(metric, metric.transform(X), X, labels, None, None, k)
            assert found.indices.shape == (300, k)

    def test_the_constants_of_the_metric_are_used(self, graded, monkeypatch):
        monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(max_neighbors=9))
        assert OrdinalRanker().fit(*graded).n_neighbors_ <= 9
        monkeypatch.setattr(OrdinalMetric, "_defaults", Defaults(samples_per_neighbor=2, min_validation=10**9))
        assert OrdinalRanker().fit(*graded).n_neighbors_ == 45

    def test_a_metric_that_cannot_be_fitted_on_folds_keeps_the_default(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(55, 80)), np.arange(55) % 3
        with pytest.warns(
            UserWarning, match="votes were not selected, because Pipeline cannot be fitted without"
        ) as record:
            ranker = OrdinalRanker(make_pipeline(PCA(50), OrdinalMetric())).fit(X, y)
        assert record[0].filename == __file__
        assert ranker.n_neighbors_ == 18

    def test_a_label_with_one_sample_is_allowed(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(31, 3)), np.r_[np.arange(30) % 3, 3]
        distances = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
        metric = CMDSMetric(solver="fast", scale="fixed", label_distances=distances)
        with pytest.warns(UserWarning, match="label_distances is 4 × 4, but y has 3"):
            assert OrdinalRanker(metric).fit(X, y).n_neighbors_ == 10

    def test_any_sparse_format_is_accepted(self):
        X = scipy.sparse.random_array((60, 8), density=0.5, format="coo", random_state=np.random.default_rng(0))
        pipeline = make_pipeline(TruncatedSVD(4), OrdinalMetric())
        assert len(OrdinalRanker(pipeline).fit(X, np.arange(60) % 3).predict(X)) == 60


def test_ranking_is_sorted_by_the_learned_distance(ranker, graded):
    X, y = graded
    queries = X[:7] + 0.01
    ranking = ranker.rank(queries, k=90)
    assert isinstance(ranking, Ranking)
    assert len(ranking) == 7
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    assert (np.sort(ranking.indices, axis=1) == np.arange(90)).all()
    np.testing.assert_array_equal(ranking.labels, y[ranking.indices])
    pairs = np.stack([queries, X[ranking.indices[:, 0]]], axis=1)
    np.testing.assert_allclose(ranking.distances[:, 0], ranker.metric_.pair_distance(pairs))


def test_within_grade_returns_the_estimated_grade_in_the_same_order(ranker, graded):
    X, _ = graded
    queries = X[:10] + 0.05
    inside = ranker.rank(queries, k=5, within_grade=True)
    everything = ranker.rank(queries, k=90)
    for row, grade in enumerate(ranker.predict(queries)):
        assert (inside.labels[row] == grade).all()
        expected = everything.indices[row][everything.labels[row] == grade][:5]
        np.testing.assert_array_equal(inside.indices[row], expected)


def test_rows_of_small_grades_are_padded():
    X, y = np.arange(6.0)[:, None], [0, 0, 0, 0, 0, 9]
    ranking = OrdinalRanker("passthrough", n_neighbors=1).fit(X, y).rank([[5.1], [0.0]], k=3, within_grade=True)
    np.testing.assert_array_equal(ranking.indices, [[5, -1, -1], [0, 1, 2]])
    assert np.isinf(ranking.distances[0, 1:]).all()
    assert np.isnan(ranking.labels[0, 1:]).all()


def test_k_is_capped_at_the_number_of_samples(ranker, graded):
    assert ranker.rank(graded[0][:2], k=1000).indices.shape == (2, 90)


def test_named_grades_are_returned_as_names(graded):
    X, y = graded
    names = pd.Categorical.from_codes(np.searchsorted([1, 2, 5], y), ["mild", "bad", "awful"], ordered=True)
    ranker = OrdinalRanker().fit(X, names)
    assert ranker.classes_.tolist() == ["mild", "bad", "awful"]
    assert set(ranker.predict(X)) <= {"mild", "bad", "awful"}
    queries = X + 0.05
    assert (ranker.predict(queries) == np.asarray(names)).mean() > 0.7
    assert ranker.score(queries, names) > 0.5
    assert ranker.score(queries, names.reorder_categories(["awful", "bad", "mild"])) == ranker.score(queries, names)
    with pytest.raises(InputError, match="unknown grades dire; the model knows mild, bad, awful"):
        ranker.score(X[:1], ["dire"])
    with pytest.raises(InputError, match="fitted with numbers"):
        OrdinalRanker().fit(X, y).score(X, names)
    ranking = ranker.rank(X[:3], k=4)
    np.testing.assert_array_equal(ranking.labels, np.asarray(names)[ranking.indices])
    assert set(ranker.predict_interval(X).ravel()) <= {"mild", "bad", "awful"}


def test_grades_that_never_occurred_are_not_predicted():
    names = pd.Categorical(["a"] * 6 + ["e"] * 2, categories=list("abcde"), ordered=True)
    X = np.arange(8.0)[:, None]
    ranker = OrdinalRanker("passthrough", n_neighbors=8, weights="uniform").fit(X, names)
    assert ranker.classes_.tolist() == ["a", "e"]
    assert ranker.predict(X).tolist() == ["a"] * 8
    assert set(ranker.rank(X, k=2, within_grade=True).labels.ravel()) == {"a"}


def test_padding_of_named_grades_is_none():
    names = pd.Categorical(["low", "low", "low", "high"], categories=["low", "high"], ordered=True)
    ranker = OrdinalRanker("passthrough", n_neighbors=1).fit([[0.0], [1.0], [2.0], [9.0]], names)
    assert ranker.rank([[9.0]], k=2, within_grade=True).labels.tolist() == [["high", None]]


def test_a_failed_fit_changes_nothing(graded):
    X, y = graded
    metric = CMDSMetric(2, solver="fast", scale="fixed", label_distances=1 - np.eye(3))
    ranker = OrdinalRanker(metric).fit(X, y)
    before = ranker.predict(X + 0.1)
    with pytest.raises(InputError, match="label_distances is 3 × 3, but y has 2 distinct labels"):
        ranker.fit(X[:, :4], y > 1)
    np.testing.assert_array_equal(ranker.predict(X + 0.1), before)
    assert ranker.classes_.tolist() == [1, 2, 5]


@pytest.mark.parametrize("metric", [CMDSMetric(2, solver="fast", scale="fixed"), LDMLR(step="exact", max_iter=500)])
def test_the_given_metric_is_cloned(graded, metric):
    ranker = OrdinalRanker(metric).fit(*graded)
    assert ranker.metric_ is not metric
    assert not hasattr(metric, "components_")
    assert ranker.score(graded[0] + 0.05, graded[1]) > 0.5


def test_more_neighbours_than_samples_are_capped_with_a_warning():
    ranker = OrdinalRanker("passthrough", n_neighbors=9, weights="uniform")
    with pytest.warns(NeighborsCappedWarning, match="n_neighbors=9 is more than the 4 samples"):
        ranker.fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 3])
    assert ranker.predict_proba([[0.0]]) == pytest.approx(np.array([[0.5, 0.25, 0.25]]))


@pytest.mark.parametrize("k", [0, -1, 2.5, True, "3"])
def test_an_invalid_k_is_rejected(ranker, graded, k):
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        ranker.rank(graded[0], k=k)


def test_the_metric_gets_data_frames_with_missing_values_unchanged(graded):
    X, y = graded
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame.loc[3, "b"] = np.nan
    columns = ColumnTransformer([("some", SimpleImputer(), ["a", "b", "c"])])
    ranker = OrdinalRanker(make_pipeline(columns, CMDSMetric(2, solver="fast", scale="fixed"))).fit(frame, y)
    assert ranker.feature_names_in_.tolist() == list("abcdef")
    assert ranker.predict(frame).shape == (90,)
    with pytest.raises(ValueError, match="feature names should match"):
        ranker.predict(frame[list("fedcba")])


def test_a_data_frame_of_one_column_is_accepted_as_labels(graded):
    X, y = graded
    names = pd.Categorical.from_codes(np.searchsorted([1, 2, 5], y), ["mild", "bad", "awful"], ordered=True)
    column = pd.DataFrame({"grade": names})
    ranker = OrdinalRanker().fit(X, column)
    assert ranker.classes_.tolist() == ["mild", "bad", "awful"]
    assert ranker.score(X, column) == ranker.score(X, names)
