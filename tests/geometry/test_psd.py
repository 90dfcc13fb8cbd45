import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ordrank.geometry import project_psd

matrices = st.integers(1, 8).flatmap(lambda d: arrays(np.float64, (d, d), elements=st.floats(-10, 10)))


@given(matrices)
def test_projection_is_psd_idempotent_and_the_residual_is_normal_to_the_cone(A):
    S, projected = (A + A.T) / 2, project_psd(A)
    tolerance = 1e-10 * (1 + np.abs(A).max() ** 2)
    assert np.linalg.eigvalsh(projected).min() >= -tolerance
    np.testing.assert_allclose(project_psd(projected), projected, atol=tolerance)
    assert abs(np.vdot(S - projected, projected)) <= tolerance * len(A) ** 2
    assert np.linalg.eigvalsh(S - projected).max() <= tolerance * len(A)


@given(matrices)
def test_projection_is_symmetric_to_the_last_bit(A):
    projected = project_psd(A)
    np.testing.assert_array_equal(projected, projected.T)
