"""Losses: optima, gradients, and decoding to labels."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ordrank.deep.losses import LOSSES, local_loss, make_loss  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from ordrank.geometry import classical_mds, label_distances  # noqa: E402

LABELS = np.array([0.0, 1.0, 4.0, 5.0])
INDEX = np.repeat(np.arange(4), [5, 3, 4, 8])


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_are_finite_differences(name):
    loss = make_loss(name, LABELS, INDEX).double()
    torch.manual_seed(0)
    outputs = torch.randn(20, loss.targets.shape[1], dtype=torch.float64, requires_grad=True)
    features = torch.randn(20, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, f: loss(z, torch.from_numpy(INDEX), f), [outputs, features])


@pytest.mark.parametrize("name", ["cmds", "regression"])
def test_positions_are_the_minimum_and_decode_to_their_labels(name):
    loss = make_loss(name, LABELS, INDEX)
    at_targets = loss.targets[torch.from_numpy(INDEX)]
    assert float(loss(at_targets, torch.from_numpy(INDEX), at_targets)) == 0
    np.testing.assert_array_equal(loss.decode(at_targets + 0.01), LABELS[INDEX])


def test_cmds_positions_are_those_of_the_paper():
    standard = (LABELS - LABELS[INDEX].mean()) / LABELS[INDEX].std()
    counts = np.bincount(INDEX)
    expected = classical_mds(label_distances(standard, 1.0) ** 2, 3, counts.astype(float)).points
    np.testing.assert_allclose(make_loss("cmds", LABELS, INDEX).targets, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["cmds", "regression"])
def test_positions_do_not_depend_on_origin_and_unit_of_the_labels(name):
    one, other = (make_loss(name, labels, INDEX).targets for labels in (LABELS, 100 + 7 * LABELS))
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_coral_starts_from_the_label_frequencies():
    loss = make_loss("coral", LABELS, INDEX)
    above = torch.sigmoid(loss.biases).detach().numpy()
    np.testing.assert_allclose(above, [15 / 20, 12 / 20, 8 / 20], rtol=1e-5)


def test_coral_starts_from_those_it_is_trained_on_also_if_they_lack_labels():
    rows = np.flatnonzero((INDEX == 1) | (INDEX == 2))
    above = torch.sigmoid(make_loss("coral", LABELS, INDEX, rows).biases).detach().numpy()
    np.testing.assert_allclose(above, [6.5 / 7, 4 / 7, 0.5 / 7], rtol=1e-5)


def test_coral_decodes_by_exceeded_thresholds():
    loss = make_loss("coral", LABELS, INDEX)
    outputs = torch.tensor([[-99.0], [99.0]])
    np.testing.assert_array_equal(loss.decode(outputs), [0.0, 5.0])
    assert np.all(np.diff(loss.decode(torch.linspace(-5, 5, 50)[:, None]).numpy()) >= 0)


def test_cross_entropy_decodes_to_the_median():
    loss = make_loss("cross-entropy", LABELS, INDEX)
    probabilities = torch.tensor([[0.4, 0.2, 0.2, 0.2], [0.6, 0.1, 0.1, 0.2], [0.0, 0.1, 0.2, 0.7]])
    np.testing.assert_array_equal(loss.decode(probabilities.clamp_min(1e-9).log()), [1.0, 0.0, 5.0])


class TestRankNContrast:
    def loss(self, features):
        loss = make_loss("rank-n-contrast", LABELS, INDEX).double()
        index = torch.from_numpy(INDEX)
        return float(loss(loss.targets[index], index, torch.as_tensor(features, dtype=torch.float64)))

    def test_is_the_formula_of_the_paper(self):
        f, y, n = np.random.default_rng(0).normal(size=(20, 4)), LABELS[INDEX], 20
        similarity = -np.linalg.norm(f[:, None] - f, axis=2) / 0.2
        terms = [
            np.log(sum(np.exp(similarity[i, k]) for k in range(n) if k != i and abs(y[i] - y[k]) >= abs(y[i] - y[j])))
            - similarity[i, j]
            for i in range(n)
            for j in range(n)
            if i != j
        ]
        assert self.loss(f) == pytest.approx(np.mean(terms))

    def test_is_lower_where_distances_follow_the_labels(self):
        ordered, rng = 10 * LABELS[INDEX][:, None], np.random.default_rng(0)
        assert self.loss(ordered) < min(self.loss(rng.permutation(ordered)) for _ in range(20))

    def test_copies_have_a_gradient(self):
        loss = make_loss("rank-n-contrast", LABELS, INDEX)
        features = torch.ones(20, 3, requires_grad=True)
        loss(loss.targets[torch.from_numpy(INDEX)], torch.from_numpy(INDEX), features).backward()
        assert torch.isfinite(features.grad).all()


def test_two_labels_are_enough():
    for name in LOSSES:
        loss = make_loss(name, np.array([1.0, 2.0]), np.array([0, 1, 1]))
        assert torch.isfinite(loss(loss.targets, torch.tensor([0, 1]), loss.targets))


def test_unknown_losses_are_named():
    with pytest.raises(InputError, match="there is no loss 'hinge'; there are cmds, regression"):
        make_loss("hinge", LABELS, INDEX)


def test_the_local_term_vanishes_where_distances_are_kept():
    rng = np.random.default_rng(0)
    f, g = (torch.from_numpy(rng.normal(size=(6, 9))) for _ in range(2))
    distances = (f - g).square().sum(1)
    rotation = torch.from_numpy(np.linalg.qr(rng.normal(size=(9, 9)))[0])
    unit = float(distances.mean())
    assert float(local_loss(f @ rotation + 3, g @ rotation + 3, distances, unit)) == pytest.approx(0, abs=1e-20)
    expected = 9 * float((distances / unit).square().mean())
    assert float(local_loss(2 * f, 2 * g, distances, unit)) == pytest.approx(expected)
