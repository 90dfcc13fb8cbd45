"""Networks of timm, with random weights in local checkpoints."""

import sys

import numpy as np
import pytest
from PIL import Image

from ordrank.errors import InputError
from ordrank.features import TimmNetwork, find_extractor
from ordrank.features import timm as timm_module
from tests.features.painting import paint
from tests.features.timm_checkpoints import MODEL, import_timm, write_timm_checkpoint


@pytest.fixture
def timm():
    timm_module._open.cache_clear()
    yield import_timm()
    timm_module._open.cache_clear()


@pytest.fixture
def pictures():
    return [paint(300, 220, seed) for seed in range(3)]


class TestFeatures:
    @pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
    def test_are_those_of_timm(self, timm, tmp_path, suffix):
        import torch

        extractor = find_extractor(write_timm_checkpoint(tmp_path, suffix=suffix))
        torch.manual_seed(0)
        model = timm.create_model(MODEL)
        model.reset_classifier(0)
        size = extractor.preprocessing.size
        square = Image.fromarray(np.asarray(paint(size, size)))
        uncropped = extractor.preprocessing.apply(square)
        with torch.inference_mode():
            expected = model.eval()(torch.from_numpy(uncropped)).numpy()
        np.testing.assert_allclose(extractor.extract([square]), expected, atol=1e-5)
        assert extractor.dim == expected.shape[1]

    @pytest.mark.parametrize("name", [MODEL, "vit_tiny_patch16_224", "tf_efficientnet_lite0"])
    def test_preprocessing_is_that_of_timm(self, timm, pictures, name):
        config = timm.data.resolve_model_data_config(timm.create_model(name, num_classes=0))
        ours = timm_module._preprocessing(name, config)
        transform = timm.data.create_transform(**config)
        for picture in pictures:
            picture = picture.resize((600, 440), Image.Resampling.BICUBIC)  # smooth, so that half a pixel matters less
            difference = np.abs(ours.apply(picture)[0] - transform(picture).numpy())
            assert difference.mean() < 0.05


class TestFingerprint:
    def test_covers_name_weights_and_version(self, timm, tmp_path):
        import torch

        extractor = find_extractor(write_timm_checkpoint(tmp_path))
        assert f"model={MODEL};" in extractor.fingerprint
        assert extractor.fingerprint.endswith(f"timm={'.'.join(timm.__version__.split('.')[:2])}")
        torch.manual_seed(1)
        other = tmp_path / "other.pth"
        torch.save(timm.create_model(MODEL).state_dict(), other)
        assert TimmNetwork(MODEL, other).fingerprint != extractor.fingerprint

    def test_is_the_same_for_either_format(self, timm, tmp_path):
        specs = [write_timm_checkpoint(tmp_path, suffix=suffix) for suffix in (".safetensors", ".pth")]
        assert len({find_extractor(spec).fingerprint for spec in specs}) == 1

    def test_a_changed_checkpoint_is_noticed(self, timm, tmp_path, pictures):
        import torch

        extractor = find_extractor(write_timm_checkpoint(tmp_path, suffix=".pth"))
        timm_module._open.cache_clear()
        torch.manual_seed(1)
        torch.save(timm.create_model(MODEL).state_dict(), tmp_path / "net.pth")
        with pytest.raises(InputError, match="have changed while they were in use"):
            extractor.extract(pictures)


class TestCheckpoints:
    def test_the_number_of_classes_is_free(self, timm, tmp_path):
        assert find_extractor(write_timm_checkpoint(tmp_path, num_classes=7)).dim == 512

    def test_of_another_network_are_rejected(self, timm, tmp_path):
        import torch

        file = tmp_path / "net.pth"
        torch.save(timm.create_model("resnet18").state_dict(), file)
        with pytest.raises(InputError, match=r"net\.pth (is not|cannot be loaded as) a checkpoint of resnet10t"):
            TimmNetwork(MODEL, file)
        torch.save({}, file)
        with pytest.raises(InputError, match=r"is not a checkpoint of resnet18 .*: it lacks "):
            TimmNetwork("resnet18", file)
        torch.save(timm.create_model("resnet34").state_dict(), file)
        with pytest.raises(InputError, match=r"is not a checkpoint of resnet18 .*: it holds layer1\.2"):
            TimmNetwork("resnet18", file)

    def test_that_would_execute_code_are_rejected(self, timm, tmp_path):
        import os

        import torch

        class Hostile:
            def __reduce__(self):
                return os.system, (f"touch {tmp_path}/executed",)

        torch.save({"state_dict": Hostile()}, tmp_path / "net.pth")
        with pytest.raises(InputError, match="cannot be loaded as a checkpoint"):
            TimmNetwork(MODEL, tmp_path / "net.pth")
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize("name", ["net.pth", "net.safetensors"])
    def test_that_are_damaged_are_rejected(self, timm, tmp_path, name):
        (tmp_path / name).write_bytes(b"damaged")
        with pytest.raises(InputError, match=rf"{name} cannot be loaded as a checkpoint of resnet10t"):
            TimmNetwork(MODEL, tmp_path / name)

    def test_that_do_not_exist_or_have_another_format_are_named(self, timm, tmp_path):
        with pytest.raises(InputError, match=r"none\.pth does not exist"):
            TimmNetwork(MODEL, tmp_path / "none.pth")
        (tmp_path / "net.npz").write_bytes(b"")
        with pytest.raises(InputError, match=r"net\.npz is not one"):
            TimmNetwork(MODEL, tmp_path / "net.npz")


class TestErrors:
    def test_unknown_networks(self, timm):
        with pytest.raises(InputError, match="timm has no network called 'resnet10000'"):
            TimmNetwork("resnet10000")

    def test_a_failed_download_names_the_alternative(self, timm, monkeypatch):
        def fail(*_, **options):
            assert options == {"pretrained": True, "num_classes": 0}
            raise OSError("the hub cannot be reached\nmore lines")

        monkeypatch.setattr(timm, "create_model", fail)
        with pytest.raises(InputError, match=r"downloaded \(the hub cannot be reached\); .* timm:resnet10t@FILE"):
            TimmNetwork(MODEL)

    def test_no_gpu(self, timm, tmp_path):
        import torch

        if torch.cuda.is_available():
            pytest.skip("PyTorch has a GPU here")
        with pytest.raises(InputError, match="device cuda needs an NVIDIA GPU"):
            TimmNetwork(MODEL, tmp_path / "net.pth", "cuda")

    @pytest.mark.parametrize(
        "change", [{"crop_mode": "border"}, {"interpolation": "lanczos"}, {"input_size": (3, 224, 192)}]
    )
    def test_an_unknown_preprocessing(self, change):
        config = {
            "input_size": (3, 224, 224),
            "interpolation": "bicubic",
            "mean": (0.5, 0.5, 0.5),
            "std": (0.5, 0.5, 0.5),
            "crop_pct": 0.9,
            "crop_mode": "center",
        }
        assert timm_module._preprocessing("timm:net", config).crop_fraction == 0.9
        assert timm_module._preprocessing("timm:net", config | {"crop_mode": "squash"}).resize == "stretch"
        with pytest.raises(InputError, match="timm:net needs a preprocessing that ordrank does not have"):
            timm_module._preprocessing("timm:net", config | change)

    def test_a_missing_package(self, monkeypatch):
        timm_module._open.cache_clear()
        monkeypatch.setitem(sys.modules, "timm", None)
        with pytest.raises(InputError, match=r"needs timm and PyTorch: pip install 'ordrank\[deep\]'"):
            TimmNetwork(MODEL)

    def test_a_package_that_cannot_be_imported(self, monkeypatch):
        def fail(name):
            raise RuntimeError("operator torchvision::nms does not exist")

        timm_module._open.cache_clear()
        monkeypatch.setattr(timm_module, "import_module", fail)
        with pytest.raises(InputError, match=r"nms does not exist\): install a torchvision for this torch"):
            TimmNetwork(MODEL)
