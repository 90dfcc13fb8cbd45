"""The objective over shards computes what the objective in memory computes."""

import numpy as np
import pytest

from ordrank.backend import backend_of
from ordrank.distributed.local_term import ShardTerm, image, value_and_gradient
from ordrank.neighbors import target_neighbors
from ordrank.objectives import CMDSObjective
from ordrank.objectives.local import LocalDistanceTerm


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_shard_has_the_value_and_gradient_of_the_objective_in_memory(dtype):
    n, mu, rng = 20_000, 1e-3, np.random.default_rng(0)
    F, Y, L = (rng.normal(size=shape).astype(dtype) for shape in ((n, 6), (n, 2), (2, 6)))
    weights = rng.uniform(0.5, 1.5, size=n).astype(dtype) / n
    near = target_neighbors(F, np.arange(n) % 500, 2)
    pairs = backend_of(F).pairs(near.first, near.second, n, F)
    term = ShardTerm(0, F, Y, weights, [], pairs, pairs, len(near), near.squared_distances)
    value, gradient = value_and_gradient(term, [image(term, L.astype(np.float64))], mu)
    local = LocalDistanceTerm(pairs, near.squared_distances, mu)
    objective = CMDSObjective(F, Y, local, alpha=0.0, free_scale=False, weights=weights)
    expected = objective.value_and_gradient(L.reshape(-1), objective.image(L.reshape(-1)))
    assert value == pytest.approx(expected[0], rel=1e-12)
    np.testing.assert_array_equal(gradient.reshape(-1), expected[1])
