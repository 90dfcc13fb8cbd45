import numpy as np
import pytest
from ordrank_experiments import figures


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_an_embedding_of_any_dimension_is_drawn(dimensions):
    rng = np.random.default_rng(0)
    figure = figures.embedding_3d(rng.normal(size=(12, dimensions)), np.arange(12) % 3, "title")
    assert figures.as_bytes(figure).startswith(b"\x89PNG")
    assert figures.as_bytes(figure, "pdf").startswith(b"%PDF")


def test_equal_figures_are_equal_files():
    labels = np.repeat([1, 5], 4)

    def draw():
        return figures.distances_from_one({"a": np.arange(8.0)}, labels, anchor=0)

    assert figures.as_bytes(draw()) == figures.as_bytes(draw())
    assert figures.as_bytes(draw(), "pdf") == figures.as_bytes(draw(), "pdf")


def test_luminance_increases_with_the_grade():
    luminance = figures.grade_colours(6)[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(luminance) > 0).all()


@pytest.mark.parametrize("panels", [1, 2, 4])
def test_methods_without_a_number_are_listed_with_the_reason(panels):
    dots = [
        figures.Dot("a", 0.3, 0.1, "default"),
        figures.Dot("b", 0.4, 0.0, "baseline"),
        figures.Dot("c", None, 0, "baseline", "failed"),
    ]
    figure = figures.dot_plot({f"panel {i}": dots for i in range(panels)}, "error")
    for axes in figure.axes[:panels]:
        assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b", "c"]
        assert [text.get_text() for text in axes.texts] == ["failed"]
        assert axes.yaxis_inverted()
    assert figures.as_bytes(figure).startswith(b"\x89PNG")
