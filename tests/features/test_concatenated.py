import numpy as np
import pytest

from ordrank.errors import InputError
from ordrank.features import Concatenated, Hog, Pixels, find_extractor
from ordrank.features.concatenated import unit_length
from tests.features.painting import paint

PICTURES = [paint(40, 30, seed) for seed in range(3)]


def test_vectors_of_all_parts_have_unit_length():
    both = find_extractor("pixels:8+hog:16")
    pixels, hog = Pixels(8).extract(PICTURES), Hog(16).extract(PICTURES)
    found = both.extract(PICTURES)
    np.testing.assert_allclose(found, np.hstack([unit_length(pixels), unit_length(hog)]))
    np.testing.assert_allclose(np.linalg.norm(found[:, : Pixels(8).dim], axis=1), 1, rtol=1e-6)


def test_unscaled_vectors_are_those_of_the_parts():
    parts = Pixels(8), Hog(16)
    found = Concatenated(parts, scaled=False).extract(PICTURES)
    np.testing.assert_array_equal(found, np.hstack([part.extract(PICTURES) for part in parts]))


def test_zeros_stay_zero():
    np.testing.assert_array_equal(unit_length(np.zeros((2, 3), dtype=np.float32)), np.zeros((2, 3)))


def test_the_name_finds_the_same_features():
    both = find_extractor("hog:16+pixels:8,grey")
    again = find_extractor(both.name)
    assert (again.name, again.fingerprint, again.dim, again.side) == (both.name, both.fingerprint, both.dim, both.side)
    assert both.fingerprint != find_extractor("pixels:8,grey+hog:16").fingerprint


def test_a_plus_in_a_file_name_joins_nothing(tmp_path):
    with pytest.raises(InputError, match=r"a\+b.onnx does not exist"):
        find_extractor(f"onnx:{tmp_path / 'a+b.onnx'}")
