"""Preprocessing of pictures for networks, against its formula."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from ordrank.features.preprocessing import Preprocessing, parse_preprocessing
from tests.features.painting import paint

IMAGENET = Preprocessing(size=32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


def test_values_are_scaled_shifted_and_divided():
    picture = paint(32, 32)
    expected = (np.asarray(picture, dtype=np.float32) / 255 - IMAGENET.mean) / IMAGENET.std
    np.testing.assert_allclose(IMAGENET.apply(picture)[0], expected.transpose(2, 0, 1), atol=1e-6)
    np.testing.assert_allclose(replace(IMAGENET, layout="NHWC").apply(picture)[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("resize", "fraction", "box"),
    [
        ("crop", 1.0, (20, 0, 100, 80)),
        ("crop", 0.5, (40, 20, 80, 60)),
        ("stretch", 1.0, (0, 0, 120, 80)),
        ("stretch", 0.5, (30, 20, 90, 60)),
    ],
)
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_centred_part_of_the_picture_is_resized(resize, fraction, box, interpolation):
    picture = paint(120, 80)
    preprocessing = replace(IMAGENET, resize=resize, crop_fraction=fraction, interpolation=interpolation)
    expected = picture.resize((32, 32), Image.Resampling[interpolation.upper()], box=box)
    np.testing.assert_array_equal(preprocessing.apply(picture), IMAGENET.apply(expected))


@pytest.mark.parametrize(("size", "fraction", "side"), [(224, 0.875, 256), (260, 0.875, 298), (224, 1.0, 224)])
def test_downsampled_pictures_have_a_pixel_for_every_pixel_of_the_input(size, fraction, side):
    assert replace(IMAGENET, size=size, crop_fraction=fraction).side == side


def test_json_round_trip():
    for preprocessing in (IMAGENET, replace(IMAGENET, output="pooled", interpolation="bicubic", crop_fraction=0.9)):
        assert parse_preprocessing(preprocessing.to_json(), "metadata") == preprocessing
