"""Modules of the page that need no server, called in Chromium."""

import numpy as np
import pytest

from ordrank.metrics import nearest_label


@pytest.fixture
def call(visit, url):
    """Call a JavaScript function with the exports of a module and arguments."""
    page = visit(url)

    def call_module(name, function, *arguments):
        script = f"async (arguments) => ({function})(await import('/static/{name}.js'), ...arguments)"
        return page.evaluate(script, arguments)

    return call_module


def test_a_value_has_the_colour_of_the_nearest_grade(call):
    grades = np.array([-1.0, 0.0, 0.5, 3.0, 20240130.0, 20240131.0])
    values = np.concatenate([grades, (grades[1:] + grades[:-1]) / 2, np.random.default_rng(0).uniform(-3, 5, 50)])
    index = """({ Palette }, grades, values) => {
      const palette = new Palette(grades.map((value) => ({ grade: String(value), value, pictures: 1 })));
      return [...values, NaN].map((value) => palette.index(value));
    }"""
    found = call("palette", index, grades.tolist(), values.tolist())
    assert found == [*nearest_label(grades, values), -1]
    assert call("palette", "({ Palette }) => new Palette([]).index(1)") == -1
