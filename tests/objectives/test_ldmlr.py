import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ordrank.objectives.ldmlr import ordinal_scatter


@given(st.integers(0, 10**6), st.integers(1, 5))
def test_constant_matrix_is_the_sum_over_all_pairs(seed, m):
    rng = np.random.default_rng(seed)
    X, label = rng.normal(size=(15, 3)), rng.integers(0, m, size=15)
    weights = rng.uniform(size=(m, m))
    weights = weights + weights.T
    np.fill_diagonal(weights, 0)
    expected = np.zeros((3, 3))
    for i in range(15):
        for j in range(15):
            delta = X[i] - X[j]
            expected += weights[label[i], label[j]] * np.outer(delta, delta)
    np.testing.assert_allclose(ordinal_scatter(X, label, weights), expected, rtol=1e-9, atol=1e-9)
