import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.manifold import ClassicalMDS

from ordrank.errors import InputError
from ordrank.geometry import classical_mds, cmds, embed_labels, label_distances, label_embedding, squared_distances

points = st.tuples(st.integers(2, 10), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, width=32))
)
label_sets = st.lists(st.integers(-20, 20), min_size=2, max_size=7, unique=True).map(sorted)
counts = st.lists(st.integers(1, 5), min_size=7, max_size=7)


@given(points)
def test_points_reproduce_an_edm(Z):
    D = squared_distances(Z)
    again = squared_distances(classical_mds(D, Z.shape[1]).points)
    np.testing.assert_allclose(again, D, rtol=1e-9, atol=1e-9 * D.max(initial=0.0))


@given(label_sets, counts, st.floats(0, 3), st.integers(1, 8))
def test_weighted_labels_equal_repeated_samples_at_every_dimension(labels, counts, beta, s):
    index = np.repeat(np.arange(len(labels)), counts[: len(labels)])
    D = label_distances(labels, beta) ** 2
    by_samples = classical_mds(D[np.ix_(index, index)], s)
    by_labels = classical_mds(D, s, np.bincount(index))
    # Where a truncation falls on equal eigenvalues either choice is right: compare what both must keep.
    gap = by_samples.eigenvalues[s - 1] - by_samples.eigenvalues[s] if s < len(index) else 1.0
    m = len(labels)
    np.testing.assert_allclose(by_labels.eigenvalues, by_samples.eigenvalues[:m], atol=1e-9 * D.max() * len(index))
    if s >= m or gap > 1e-6 * D.max():
        np.testing.assert_allclose(
            squared_distances(by_labels.points[index]), squared_distances(by_samples.points), atol=1e-8 * D.max()
        )


@given(label_sets, counts, st.floats(0, 3), st.integers(0, 3))
def test_algorithm_1_keeps_all_distances_and_centres_the_samples(labels, counts, beta, spare):
    index = np.repeat(np.arange(len(labels)), counts[: len(labels)])
    D = label_distances(labels, beta) ** 2
    embedded = label_embedding(D, index, len(labels) - 1 + spare)
    scale = D.max()
    np.testing.assert_allclose(squared_distances(embedded.points), D[np.ix_(index, index)], atol=1e-9 * scale)
    np.testing.assert_allclose(embedded.points.mean(axis=0), 0, atol=1e-12 * scale)
    by_samples = classical_mds(D[np.ix_(index, index)], len(labels) - 1 + spare)
    np.testing.assert_allclose(
        squared_distances(embedded.points), squared_distances(by_samples.points), atol=1e-9 * scale
    )


def test_dimensions_above_the_rank_are_zero():
    embedding = classical_mds(label_distances([1, 2], beta=1) ** 2, 5)
    assert embedding.points.shape == (2, 5)
    assert not embedding.points[:, 1:].any()
    np.testing.assert_allclose(embedding.points[:, 0], [-1, 1])


def test_an_edm_has_no_negative_mass_and_another_matrix_reports_it():
    assert classical_mds(label_distances([1, 2, 4]) ** 2, 2).negative_mass == 0
    broken = np.array([[0, 1, 9.0], [1, 0, 1], [9, 1, 0]])
    embedding = classical_mds(broken, 3)
    expected = np.abs(embedding.eigenvalues[embedding.eigenvalues < 0]).sum() / np.abs(embedding.eigenvalues).sum()
    assert embedding.negative_mass == pytest.approx(expected)
    assert embedding.negative_mass > 0.05
    assert np.isfinite(embedding.points).all()


@given(points)
def test_agrees_with_scikit_learn_for_euclidean_distances(Z):
    rank = np.linalg.matrix_rank(Z - Z.mean(axis=0))
    if rank == 0:
        return
    D = squared_distances(Z)
    reference = ClassicalMDS(n_components=int(rank), metric="precomputed").fit_transform(np.sqrt(D))
    ours = classical_mds(D, int(rank)).points
    np.testing.assert_allclose(squared_distances(ours), squared_distances(reference), atol=1e-7 * D.max())


def test_negative_eigenvalues_give_finite_points_unlike_scikit_learn():
    D = label_distances([1, 2, 3, 4, 5], beta=-0.5) ** 2
    with np.errstate(invalid="ignore"):
        reference = ClassicalMDS(n_components=5, metric="precomputed").fit_transform(np.sqrt(D))
    assert np.isnan(reference).any()
    assert np.isfinite(classical_mds(D, 5).points).all()


def test_the_highest_label_lies_on_the_positive_side():
    points_of_labels = classical_mds(label_distances([1, 2, 4, 7]) ** 2, 3, [5, 1, 2, 9]).points
    assert (points_of_labels[-1] > 0).all()
    assert (np.diff(points_of_labels[:, 0]) > 0).all()


def test_coinciding_objects_and_a_single_object():
    assert not classical_mds(np.zeros((3, 3)), 2).points.any()
    assert classical_mds(np.zeros((1, 1)), 1).negative_mass == 0


def test_zero_components_are_rejected():
    with pytest.raises(InputError, match="n_components"):
        classical_mds(np.zeros((2, 2)), 0)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0, 3), st.integers(1, 4))
def test_matrix_free_embedding_equals_classical_mds(seed, beta, s):
    rng = np.random.default_rng(seed)
    labels, weights = np.sort(rng.uniform(0, 10, size=40)), rng.uniform(0.5, 3, size=40)
    expected = classical_mds(label_distances(labels, beta) ** 2, s, weights).points
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmds, "_MANY_LABELS", 10)
        found = embed_labels(labels, s, beta=beta, weights=weights)
    np.testing.assert_allclose(squared_distances(found), squared_distances(expected), atol=1e-7)
    np.testing.assert_allclose(weights @ found, 0, atol=1e-4)  # the square root of rounding, where beta is 0
