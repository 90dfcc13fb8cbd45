"""Properties of single extractors; tests/contracts/test_extractors.py has the common ones."""

import json
import pickle
import sys
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest
from onnx import TensorProto, helper, load, save
from PIL import Image

from ordrank.errors import InputError
from ordrank.features import Hog, OnnxNetwork, Pixels
from ordrank.features import onnx as onnx_module
from tests.features.export_network import export_network, export_pixel_network
from tests.features.painting import paint


class TestPixels:
    def test_values_are_box_means(self):
        picture = paint(96, 64)
        boxes = np.asarray(picture, dtype=float).reshape(32, 2, 32, 3, 3).mean(axis=(1, 3))
        values = Pixels(32).extract([picture])
        np.testing.assert_allclose(values.reshape(32, 32, 3), boxes, atol=1)

    def test_values_fit_into_bytes(self):
        values = Pixels(16).extract([paint()])
        np.testing.assert_array_equal(values, values.astype(np.uint8))

    def test_grey_has_one_value_per_pixel(self):
        picture = Image.new("RGB", (40, 40), (30, 30, 30))
        np.testing.assert_array_equal(Pixels(8, grey=True).extract([picture]), np.full((1, 64), 30))

    @pytest.mark.parametrize("size", [0, -1, 513])
    def test_sizes_out_of_range(self, size):
        with pytest.raises(InputError, match="1 to 512"):
            Pixels(size)


class TestHog:
    def test_distinguishes_vertical_from_horizontal_stripes(self):
        stripes = np.zeros((64, 64, 3), dtype=np.uint8)
        stripes[:, ::4] = stripes[:, 1::4] = 255
        vertical, horizontal = (Image.fromarray(a) for a in (stripes, np.ascontiguousarray(stripes.swapaxes(0, 1))))
        histograms = Hog().extract([vertical, horizontal]).reshape(2, -1, 9).sum(axis=1)
        assert histograms.argmax(axis=1).tolist() == [0, 4]

    def test_is_invariant_to_brightness(self):
        even = Image.fromarray(2 * np.random.default_rng(0).integers(0, 128, (64, 64, 1), dtype=np.uint8).repeat(3, 2))
        bright, dim = Hog().extract([even, even.point(lambda value: value // 2)])
        np.testing.assert_allclose(bright, dim, atol=1e-5)

    @pytest.mark.parametrize("size", [8, 60, 1024])
    def test_sizes_out_of_range(self, size):
        with pytest.raises(InputError, match="multiple of 8, 16 to 512"):
            Hog(size)

    def test_missing_package_is_named(self, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setitem(sys.modules, "skimage.feature", None)
        monkeypatch.setattr("importlib.metadata.version", missing)
        for use in (lambda: Hog().fingerprint, lambda: Hog().extract([paint()])):
            with pytest.raises(InputError, match=r"pip install 'ordrank\[hog\]'"):
                use()


class TestFingerprints:
    def test_differ_with_every_option(self):
        extractors = [Pixels(32), Pixels(16), Pixels(32, grey=True), Hog(64), Hog(32)]
        assert len({extractor.fingerprint for extractor in extractors}) == len(extractors)

    def test_hog_names_the_version_of_scikit_image(self):
        import skimage

        assert f"scikit-image={'.'.join(skimage.__version__.split('.')[:2])}" in Hog().fingerprint


@pytest.fixture
def network(tmp_path):
    file = tmp_path / "net.onnx"
    export_network(file, seed=0, size=32)
    return file


def change_settings(network, **changes):
    file = network.with_suffix(".json")
    settings = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({key: value for key, value in settings.items() if value is not None}))


def write_metadata(network, text):
    model = load(network)
    helper.set_model_props(model, {"ordrank.preprocessing": text})
    save(model, network)


class TestOnnx:
    def test_equals_onnxruntime(self, network):
        import onnxruntime

        picture = paint(48, 32)
        crop = np.asarray(picture.crop((8, 0, 40, 32)), dtype=np.float32)
        values = ((crop / 255 - 0.5) / 0.25).transpose(2, 0, 1)[None]
        expected = onnxruntime.InferenceSession(network).run(None, {"seen0": values})[0]
        np.testing.assert_allclose(OnnxNetwork(network).extract([picture]), expected, rtol=1e-4, atol=1e-5)

    def test_cropping_ignores_margins_and_stretching_does_not(self, network):
        wide = Image.new("RGB", (96, 32), "white")
        wide.paste("black", (32, 0, 64, 32))
        black = Image.new("RGB", (32, 32))
        cropped, expected = OnnxNetwork(network).extract([wide, black])
        np.testing.assert_allclose(cropped, expected, atol=1e-5)
        change_settings(network, resize="stretch")
        assert np.abs(OnnxNetwork(network).extract([wide])[0] - expected).max() > 0.1

    def test_either_layout(self, network, tmp_path):
        model = load(network)
        turn = helper.make_node("Transpose", ["pictures"], ["seen0"], perm=[0, 3, 1, 2])
        model.graph.node.insert(0, turn)
        shape = helper.make_tensor_value_info("pictures", TensorProto.FLOAT, [1, 32, 32, 3])
        model.graph.input[0].CopyFrom(shape)
        last = tmp_path / "last.onnx"
        save(model, last)
        last.with_suffix(".json").write_bytes(network.with_suffix(".json").read_bytes())
        with pytest.raises(InputError, match=r"last\.onnx does not run on a picture preprocessed"):
            OnnxNetwork(last)
        change_settings(last, layout="NHWC")
        pictures = [paint(seed=i) for i in range(3)]
        np.testing.assert_allclose(
            OnnxNetwork(last).extract(pictures), OnnxNetwork(network).extract(pictures), atol=1e-5
        )

    def test_another_output(self, network):
        model = load(network)
        model.graph.output.append(helper.make_tensor_value_info("seen1", TensorProto.FLOAT, ["batch", 16, 16, 16]))
        save(model, network)
        change_settings(network, output="seen1")
        assert OnnxNetwork(network).dim == 16**3
        change_settings(network, output="logits")
        with pytest.raises(InputError, match=r"no output 'logits'; there are features, seen1"):
            OnnxNetwork(network)

    def test_settings_may_be_in_the_metadata(self, network):
        picture, file = paint(48, 32), network.with_suffix(".json")
        expected, given = OnnxNetwork(network), file.read_text()
        write_metadata(network, given)
        file.unlink()
        extractor = OnnxNetwork(network)
        np.testing.assert_array_equal(extractor.extract([picture]), expected.extract([picture]))
        assert extractor.fingerprint != expected.fingerprint
        write_metadata(network, given.replace("0.25", "0.75"))
        assert np.abs(OnnxNetwork(network).extract([picture]) - expected.extract([picture])).max() > 0.01

    def test_the_json_file_wins_over_the_metadata(self, network):
        write_metadata(network, '{"size": 16, "mean": [0, 0, 0], "std": [1, 1, 1]}')
        assert OnnxNetwork(network).side == 32

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("{", "cannot be read as JSON"),
            ("[]", "must hold one JSON object"),
            ('{"mean": [0, 0, 0], "std": [1, 1, 1]}', "the key 'size' is missing"),
        ],
    )
    def test_invalid_metadata_is_named(self, network, text, sentence):
        network.with_suffix(".json").unlink()
        write_metadata(network, text)
        with pytest.raises(InputError, match=rf"net\.onnx, ordrank\.preprocessing:? {sentence}"):
            OnnxNetwork(network)

    def test_fingerprint_depends_on_network_and_settings(self, network):
        first = OnnxNetwork(network).fingerprint
        assert OnnxNetwork(network).fingerprint == first
        change_settings(network, scale=127.5)
        second = OnnxNetwork(network).fingerprint
        export_network(network, seed=1, size=32)
        assert len({first, second, OnnxNetwork(network).fingerprint}) == 3

    @pytest.mark.parametrize("weights", ["net.onnx.data", "weights.bin"])
    def test_fingerprint_depends_on_external_weights(self, network, weights):
        save(load(network), network, save_as_external_data=True, location=weights, size_threshold=0)
        before = OnnxNetwork(network)
        file = network.with_name(weights)
        file.write_bytes(np.multiply(np.frombuffer(file.read_bytes(), dtype="<f4"), 2).tobytes())
        onnx_module._open.cache_clear()
        after = OnnxNetwork(network)
        assert before.fingerprint != after.fingerprint
        file.unlink()
        with pytest.raises(InputError, match=f"cannot be read with its weights: .*{weights}"):
            OnnxNetwork(network)

    def test_changed_network_is_detected(self, network):
        extractor = pickle.loads(pickle.dumps(OnnxNetwork(network)))
        onnx_module._open.cache_clear()
        export_network(network, seed=1, size=32)
        with pytest.raises(InputError, match="has changed"):
            extractor.extract([paint()])

    @pytest.mark.parametrize(
        ("changes", "sentence"),
        [
            ({"size": None}, "the key 'size' is missing"),
            ({"size": 0}, "'size' must be an integer"),
            ({"size": True}, "'size' must be an integer"),
            ({"mean": [1, 2]}, "'mean' must be a list of three numbers"),
            ({"mean": ["0", "0", "0"]}, "'mean' must be"),
            ({"std": [1, 0, 1]}, "'std' must be a list of three positive"),
            ({"std": [1, float("nan"), 1]}, "'std' must be"),
            ({"scale": 0}, "'scale' must be a positive number"),
            ({"scale": 10**400}, "'scale' must be a positive number"),
            ({"layout": "HWC"}, "'layout' must be NCHW or NHWC, not 'HWC'"),
            ({"resize": ["crop"]}, "'resize' must be crop or stretch"),
            ({"output": 3}, "'output' must be the name"),
            ({"interpolation": "lanczos"}, "'interpolation' must be bilinear or bicubic"),
            ({"crop_fraction": 0}, r"'crop_fraction' must be a number from 0\.1 to 1"),
            ({"crop_fraction": 1.5}, "'crop_fraction' must be"),
            ({"colour": "BGR"}, "the key 'colour' is unknown"),
        ],
    )
    def test_invalid_settings_are_named(self, network, changes, sentence):
        change_settings(network, **changes)
        with pytest.raises(InputError, match=rf"net\.json: {sentence}"):
            OnnxNetwork(network)

    @pytest.mark.parametrize("content", ["", "[1, 2]", "{", "[" * 10**5, '{"size": 1e999, "mean": 1, "std": 1}'])
    def test_invalid_json_is_rejected(self, network, content):
        network.with_suffix(".json").write_text(content)
        with pytest.raises(InputError, match=r"net\.json"):
            OnnxNetwork(network)

    def test_missing_files(self, network, tmp_path):
        network.with_suffix(".json").unlink()
        with pytest.raises(InputError, match=r"net\.json is missing, and net\.onnx has no metadata"):
            OnnxNetwork(network)
        with pytest.raises(InputError, match=r"none\.onnx does not exist"):
            OnnxNetwork(tmp_path / "none.onnx")

    def test_invalid_networks_are_rejected(self, network):
        network.write_bytes(b"not a network")
        with pytest.raises(InputError, match="cannot be loaded as a network"):
            OnnxNetwork(network)

    @pytest.mark.parametrize(
        ("shape", "kind", "sentence"),
        [
            ([8, 3, 32, 32], TensorProto.FLOAT, "takes 8 pictures at a time"),
            (["batch", 3, 32, 32], TensorProto.UINT8, "float32"),
            (["batch", 3], TensorProto.FLOAT, "batch of pictures"),
            (["height", "width", 4], TensorProto.UINT8, r"uint8 picture of any size and shape \(height, width, 3\)"),
            ([32, 32, 3], TensorProto.UINT8, "uint8 picture of any size"),
            (["height", "width", 3], TensorProto.UINT8, "does not run on a picture of any size"),
        ],
    )
    def test_networks_with_unsuitable_inputs_are_rejected(self, network, shape, kind, sentence):
        into = helper.make_tensor_value_info("in", kind, shape)
        out = helper.make_tensor_value_info("out", kind, None)
        graph = helper.make_graph([helper.make_node("Identity", ["in"], ["out"])], "same", [into], [out])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), network)
        with pytest.raises(InputError, match=sentence):
            OnnxNetwork(network)

    def test_network_without_output_values_is_rejected(self, network):
        into, out = (helper.make_tensor_value_info(end, TensorProto.FLOAT, [1, 3, 32, 32]) for end in ("in", "out"))
        bounds = [helper.make_tensor(name, TensorProto.INT64, [1], [0]) for name in ("start", "end")]
        out.type.tensor_type.shape.dim[0].dim_value = 0
        graph = helper.make_graph(
            [helper.make_node("Slice", ["in", "start", "end"], ["out"])], "none", [into], [out], bounds
        )
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), network)
        with pytest.raises(InputError, match="returns no values"):
            OnnxNetwork(network)

    def test_missing_package_is_named(self, network, monkeypatch):
        onnx_module._open.cache_clear()
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(InputError, match=r"pip install 'ordrank\[onnx\]'"):
            OnnxNetwork(network)


class TestOnnxOfPixels:
    """Networks with their preprocessing inside."""

    def test_equals_the_network_behind_the_preprocessing(self, tmp_path):
        export_network(tmp_path / "net.onnx", size=32)
        export_pixel_network(tmp_path / "pixels.onnx", size=32)
        inside, before = OnnxNetwork(tmp_path / "pixels.onnx"), OnnxNetwork(tmp_path / "net.onnx")
        assert (inside.side, inside.dim) == (before.side, before.dim)
        pictures = [paint(*shape) for shape in ((48, 32), (32, 48), (200, 150), (20, 10))]
        np.testing.assert_allclose(inside.extract(pictures), before.extract(pictures), atol=1e-3)

    def test_needs_no_settings(self, tmp_path):
        export_pixel_network(tmp_path / "net.onnx", size=32, metadata=False)
        extractor = OnnxNetwork(tmp_path / "net.onnx")
        assert extractor.side == 1024
        assert extractor.dim == 64

    def test_settings_may_name_the_output(self, tmp_path):
        export_pixel_network(tmp_path / "net.onnx", size=32)
        settings = {"size": 16, "mean": [0, 0, 0], "std": [1, 1, 1], "output": "seen0"}
        (tmp_path / "net.json").write_text(json.dumps(settings))
        extractor = OnnxNetwork(tmp_path / "net.onnx")
        assert (extractor.side, extractor.dim) == (16, 3 * 32**2)
        (tmp_path / "net.json").write_text(json.dumps({**settings, "output": "logits"}))
        with pytest.raises(InputError, match=r"no output 'logits'; there are seen0, features"):
            OnnxNetwork(tmp_path / "net.onnx")


def test_exported_networks_depend_only_on_the_seed(tmp_path):
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        export_network(tmp_path / f"{name}.onnx", seed=seed, size=32)
    a, b, c = (OnnxNetwork(tmp_path / f"{name}.onnx").extract([paint()]) for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.allclose(a, c)
