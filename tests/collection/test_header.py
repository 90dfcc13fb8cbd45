import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ordrank.collection.types import Header
from ordrank.metrics import nearest_label


@given(n_grades=st.integers(1, 12), quarters=st.integers(-20, 80))
def test_named_grades_are_rounded_as_scores_are(n_grades, quarters):
    """Half-way values, which medians of votes take, are among the quarters; ``format_grade`` is scalar for speed."""
    names = tuple(f"grade {i}" for i in range(n_grades))
    value = quarters / 4
    (nearest,) = nearest_label(np.arange(n_grades, dtype=float), np.array([value]))
    assert Header("pixels", "", 1, names).format_grade(value) == names[nearest]
