"""What every extractor must satisfy."""

import pickle

import numpy as np
import pytest
from PIL import Image

from benchmarks.export_network import export_network
from ordrank._types import Extractor
from ordrank.features import find_extractor
from tests.features.painting import paint

SPECS = ["pixels", "pixels:7,grey", "hog", "hog:16", "onnx"]
SHAPES = [(90, 60), (60, 90), (64, 64), (1, 1), (300, 2), (500, 400)]


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    file = tmp_path_factory.mktemp("network") / "net.onnx"
    export_network(file, seed=0, size=32)
    return file


@pytest.fixture(params=SPECS)
def extractor(request, network):
    return find_extractor(f"onnx:{network}" if request.param == "onnx" else request.param)


@pytest.fixture
def pictures():
    return [paint(width, height, seed) for seed, (width, height) in enumerate(SHAPES)]


def test_it_has_every_part(extractor):
    assert isinstance(extractor, Extractor)
    assert extractor.name
    assert extractor.fingerprint
    assert extractor.dim > 0
    assert extractor.side > 0


def test_vectors_of_single_precision_and_finite(extractor, pictures):
    values = extractor.extract(pictures)
    assert values.shape == (len(pictures), extractor.dim)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


def test_no_pictures_give_no_vectors(extractor):
    assert extractor.extract([]).shape == (0, extractor.dim)


def test_a_picture_s_vector_does_not_depend_on_the_others(extractor, pictures):
    alone = np.concatenate([extractor.extract([picture]) for picture in pictures])
    np.testing.assert_array_equal(extractor.extract(pictures), alone)
    np.testing.assert_array_equal(extractor.extract(pictures[::-1]), alone[::-1])


def test_different_pictures_give_different_vectors(extractor, pictures):
    values = extractor.extract([pictures[0], pictures[2]])
    assert np.abs(values[0] - values[1]).max() > 0


def test_it_travels_to_other_processes(extractor, pictures):
    again = pickle.loads(pickle.dumps(extractor))
    assert (again.name, again.dim, again.fingerprint) == (extractor.name, extractor.dim, extractor.fingerprint)
    np.testing.assert_array_equal(again.extract(pictures), extractor.extract(pictures))


def test_its_name_builds_it_again(extractor):
    assert find_extractor(extractor.name).fingerprint == extractor.fingerprint


def test_pictures_are_not_changed(extractor, pictures):
    before = [picture.tobytes() for picture in pictures]
    extractor.extract(pictures)
    assert [picture.tobytes() for picture in pictures] == before
    assert [picture.size for picture in pictures] == SHAPES


def test_one_colour_is_no_problem(extractor):
    assert np.isfinite(extractor.extract([Image.new("RGB", (50, 50), colour) for colour in ("black", "white")])).all()
