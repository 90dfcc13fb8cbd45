"""Preprocessing in ONNX, against that with Pillow."""

from itertools import product

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, checker, helper
from PIL import Image

from ordrank.features.onnx_graph import OnnxGraph
from ordrank.features.preprocessing import Preprocessing
from ordrank.features.preprocessing_graph import append_preprocessing
from tests.features.painting import paint


def preprocess(preprocessing, picture):
    graph = OnnxGraph("test")
    append_preprocessing(graph, preprocessing, "picture", "pictures")
    into = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["height", "width", 3])
    out = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, [1, 3, preprocessing.size, preprocessing.size])
    model = helper.make_model(
        helper.make_graph(graph.nodes, "preprocessing", [into], [out], graph.initializers),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"picture": np.asarray(picture)})[0]


def noise(width, height):
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("size", [(64, 64), (70, 64), (301, 203), (40, 31), (1200, 800), (1, 1)])
@pytest.mark.parametrize("make", [paint, noise])
def test_pixels_are_those_of_pillow_up_to_rounding(size, make):
    picture = make(*size)
    for resize, fraction, interpolation in product(("crop", "stretch"), (1.0, 0.875, 0.61), ("bilinear", "bicubic")):
        levels = Preprocessing(
            64, (0, 0, 0), (1, 1, 1), 1, resize=resize, crop_fraction=fraction, interpolation=interpolation
        )
        deviation = np.abs(preprocess(levels, picture) - levels.apply(picture))
        assert deviation.max() <= 1
        assert (deviation > 0).mean() < 0.03


@pytest.mark.parametrize("size", [(60, 200), (3, 90)])
def test_smooth_tall_pictures_differ_by_rounding(size):
    # From version 13 on, Pillow resizes them vertically first, and rounds in between.
    picture = paint(*size)
    levels = Preprocessing(64, (0, 0, 0), (1, 1, 1), 1, resize="stretch", interpolation="bicubic")
    assert np.abs(preprocess(levels, picture) - levels.apply(picture)).max() <= 2


def test_values_are_normalised():
    preprocessing = Preprocessing(size=32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    picture = paint(32, 32)
    np.testing.assert_array_equal(preprocess(preprocessing, picture), preprocessing.apply(picture))
