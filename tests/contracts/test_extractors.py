"""The contract of every feature extractor."""

import pickle

import numpy as np
import pytest
from PIL import Image

from ordrank._protocols import Extractor
from ordrank.features import find_extractor
from ordrank.features.pretrained import PRETRAINED
from tests.features.export_network import export_network, export_pixel_network
from tests.features.painting import paint
from tests.features.published import published_weights
from tests.features.timm_checkpoints import write_timm_checkpoint

SPECS = [
    "pixels",
    "pixels:7,grey",
    "hog",
    "hog:16",
    "pixels:7+hog:16",
    "efficientnet-lite0",
    "efficientnet-lite2",
    "onnx",
    "onnx of pixels",
    "timm",
]
SHAPES = [(90, 60), (60, 90), (64, 64), (1, 1), (300, 2), (500, 400)]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    file = tmp_path_factory.mktemp("network") / "net.onnx"
    export_network(file, seed=0, size=32)
    return file


@pytest.fixture(params=SPECS)
def extractor(request, network, tmp_path):
    if request.param == "onnx":
        return find_extractor(f"onnx:{network}")
    if request.param == "onnx of pixels":
        export_pixel_network(tmp_path / "net.onnx", size=32)
        return find_extractor(f"onnx:{tmp_path / 'net.onnx'}")
    if request.param == "timm":
        return find_extractor(write_timm_checkpoint(tmp_path))
    if request.param in PRETRAINED:
        published_weights(request.param)
    return find_extractor(request.param)


@pytest.fixture
def pictures():
    return [paint(width, height, seed) for seed, (width, height) in enumerate(SHAPES)]


def test_follows_the_protocol(extractor):
    assert isinstance(extractor, Extractor)
    assert extractor.name
    assert extractor.fingerprint
    assert extractor.dim > 0
    assert extractor.side > 0


def test_vectors_are_finite_float32(extractor, pictures):
    values = extractor.extract(pictures)
    assert values.shape == (len(pictures), extractor.dim)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def test_no_pictures_give_no_vectors(extractor):
    assert extractor.extract([]).shape == (0, extractor.dim)


def test_vector_does_not_depend_on_other_pictures(extractor, pictures):
    alone = np.concatenate([extractor.extract([picture]) for picture in pictures])
    np.testing.assert_array_equal(extractor.extract(pictures), alone)
    np.testing.assert_array_equal(extractor.extract(pictures[::-1]), alone[::-1])


def test_different_pictures_give_different_vectors(extractor, pictures):
    values = extractor.extract([pictures[0], pictures[2]])
    assert np.abs(values[0] - values[1]).max() > 0


def test_survives_pickling(extractor, pictures):
    again = pickle.loads(pickle.dumps(extractor))
    assert (again.name, again.dim, again.fingerprint) == (extractor.name, extractor.dim, extractor.fingerprint)
    np.testing.assert_array_equal(again.extract(pictures), extractor.extract(pictures))


def test_name_rebuilds_the_extractor(extractor):
    assert find_extractor(extractor.name).fingerprint == extractor.fingerprint


def test_pictures_are_not_modified(extractor, pictures):
    before = [picture.tobytes() for picture in pictures]
    extractor.extract(pictures)
    assert [picture.tobytes() for picture in pictures] == before
    assert [picture.size for picture in pictures] == SHAPES


def test_constant_pictures_give_finite_vectors(extractor):
    assert np.isfinite(extractor.extract([Image.new("RGB", (50, 50), colour) for colour in ("black", "white")])).all()
