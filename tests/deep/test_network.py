"""OrdinalNetwork on drawn fruit, with a small untrained network of timm's in place of a pretrained one."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ordrank.datasets import make_fruit  # noqa: E402
from ordrank.deep import OrdinalNetwork, backbones  # noqa: E402
from ordrank.deep.backbones import Backbone  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from ordrank.features.efficientnet import EfficientNetLite, Stage  # noqa: E402
from ordrank.features.efficientnet_module import EfficientNetLiteModule  # noqa: E402
from ordrank.features.preprocessing import Preprocessing  # noqa: E402
from ordrank.neighbors import target_neighbors  # noqa: E402
from tests.features.published import published_weights  # noqa: E402

ROOT = Path(__file__).parents[2]
TINY = EfficientNetLite(size=32, stages=(Stage(1, 3, 1, 1, 8), Stage(1, 3, 2, 4, 16)), stem=8, head=24)
PREPROCESSING = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.25,) * 3, resize="stretch", crop_fraction=0.875)


def tiny_backbone(name, image_size=None):
    torch.manual_seed(0)
    return Backbone(EfficientNetLiteModule(TINY), PREPROCESSING, TINY.head)


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr("ordrank.deep.network.load_backbone", tiny_backbone)


@pytest.fixture(scope="module")
def fruit():
    fruit = make_fruit(80, size=40)
    return fruit.images, fruit.grade


class Stop(Exception):  # noqa: N818 - not an error
    pass


class TestFit:
    @pytest.mark.parametrize("loss", ["cmds", "regression", "coral", "cross-entropy"])
    def test_lowers_the_loss(self, tiny, fruit, loss):
        network = OrdinalNetwork(loss=loss, steps=100, backbone_rate=1e-3, head_rate=1e-2).fit(*fruit)
        assert len(network.losses_) == 100
        assert np.mean(network.losses_[-10:]) < 0.9 * np.mean(network.losses_[:10])
        assert network.transform(fruit[0][:3]).shape == (3, TINY.head)
        assert set(network.predict_from_outputs(fruit[0])) <= set(fruit[1])

    def test_is_deterministic(self, tiny, fruit):
        one, other = (OrdinalNetwork(steps=5).fit(*fruit) for _ in range(2))
        assert one.losses_ == other.losses_
        np.testing.assert_array_equal(one.transform(fruit[0]), other.transform(fruit[0]))
        assert OrdinalNetwork(steps=5, random_state=1).fit(*fruit).losses_ != one.losses_

    def test_starts_from_the_ridge_regression(self, tiny, fruit):
        network = OrdinalNetwork(steps=1, backbone_rate=0, head_rate=1e-12).fit(*fruit)
        images, grade = fruit
        features = network.transform(images)
        torch.testing.assert_close(network._model.mean, torch.from_numpy(features).mean(0), atol=1e-4, rtol=1e-4)
        constant = np.abs(np.median(grade) - grade).mean()
        assert np.abs(network.predict_from_outputs(images) - grade).mean() < constant

    def test_batch_statistics_stay(self, tiny, fruit):
        network = OrdinalNetwork(steps=3, backbone_rate=1e-2).fit(*fruit)
        torch.testing.assert_close(network._model.backbone._bn0.running_mean, torch.zeros(TINY.stem))

    def test_files_and_arrays_give_the_same(self, tiny, fruit, tmp_path):
        from PIL import Image

        images, grade = fruit
        files = [tmp_path / f"{i}.png" for i in range(20)]
        for file, image in zip(files, images, strict=False):
            Image.fromarray(image).save(file)
        one, other = (
            OrdinalNetwork(steps=3).fit(images[:20], grade[:20]),
            OrdinalNetwork(steps=3).fit(files, grade[:20]),
        )
        np.testing.assert_array_equal(one.transform(images), other.transform(images))

    def test_labels_may_be_named(self, tiny, fruit):
        import pandas as pd

        images, grade = fruit
        names = np.array(["green", "pale", "ripe", "brown", "black"])
        y = pd.Categorical(names[grade.astype(int)], categories=names, ordered=True)
        network = OrdinalNetwork(steps=3).fit(images, y)
        assert set(network.predict(images)) <= set(names)
        assert set(network.predict_from_outputs(images)) <= set(names)


class TestLocality:
    def test_keeps_distances_to_target_neighbours(self, tiny, fruit):
        images, grade = fruit

        before = OrdinalNetwork(steps=1, backbone_rate=0).fit(images, grade).transform(images)
        pairs = target_neighbors(before.astype(float), np.unique(grade, return_inverse=True)[1], 5)

        def change(locality):
            network = OrdinalNetwork(steps=80, batch_size=32, locality=locality, backbone_rate=3e-3).fit(images, grade)
            after = network.transform(images)
            distances = np.square(after[pairs.first] - after[pairs.second]).sum(1)
            return np.abs(distances - pairs.squared_distances).mean()

        assert change(10.0) < 0.5 * change(0.0)


class TestResume:
    def test_continues_to_the_same_network(self, tiny, fruit, tmp_path, monkeypatch):
        monkeypatch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 4)
        file = tmp_path / "state.pt"
        whole = OrdinalNetwork(steps=14).fit(*fruit)

        def stop(step, steps, loss):
            if step == 10:
                raise Stop

        with pytest.raises(Stop):
            OrdinalNetwork(steps=14, checkpoint=file, progress=stop).fit(*fruit)
        seen = []
        continued = OrdinalNetwork(steps=14, checkpoint=file, progress=lambda *done: seen.append(done)).fit(*fruit)
        assert len(seen) == 6  # from the checkpoint after 8
        assert continued.losses_ == whole.losses_
        np.testing.assert_array_equal(continued.transform(fruit[0]), whole.transform(fruit[0]))
        assert not file.exists()

    def test_a_killed_fit_continues_from_its_checkpoint(self, tiny, fruit, tmp_path):
        file = tmp_path / "state.pt"
        code = f"""
import os, signal
from ordrank.datasets import make_fruit
from ordrank.deep import network, training
from tests.deep.test_network import tiny_backbone
network.load_backbone, training._CHECKPOINT_EVERY = tiny_backbone, 4
def kill(step, steps, loss):
    if step == 10:
        os.kill(os.getpid(), signal.SIGKILL)
fruit = make_fruit(80, size=40)
network.OrdinalNetwork(steps=14, checkpoint={str(file)!r}, progress=kill).fit(fruit.images, fruit.grade)
"""
        killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
        seen = []
        OrdinalNetwork(steps=14, checkpoint=file, progress=lambda *done: seen.append(done)).fit(*fruit)
        assert len(seen) == 6
        assert not file.exists()

    def test_a_checkpoint_of_another_run_is_named(self, tiny, fruit, tmp_path, monkeypatch):
        monkeypatch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 1)
        file = tmp_path / "state.pt"

        def stop(step, steps, loss):
            if step == 2:
                raise Stop

        with pytest.raises(Stop):
            OrdinalNetwork(steps=4, checkpoint=file, progress=stop).fit(*fruit)
        images, grade = fruit
        for other, y, steps in ((images, grade, 5), (images[::-1], grade, 4), (images, grade[::-1], 4)):
            with pytest.raises(InputError, match=r"state\.pt is the checkpoint of another run"):
                OrdinalNetwork(steps=steps, checkpoint=file).fit(other, y)

    @pytest.mark.parametrize("content", [b"", b"damaged"])
    def test_a_damaged_checkpoint_is_named(self, tiny, fruit, tmp_path, content):
        file = tmp_path / "state.pt"
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"state\.pt cannot be read as a checkpoint.*delete it to begin anew"):
            OrdinalNetwork(steps=2, checkpoint=file).fit(*fruit)
        assert file.read_bytes() == content


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "sentence"),
        [
            ({"backbone": "alexnet"}, "there is no backbone 'alexnet'; there are efficientnet-lite0"),
            ({"loss": "hinge"}, "loss must be one of 'cmds'"),
            ({"locality": -1}, "locality must be a number at least 0"),
            ({"steps": 0}, "steps must be an integer of at least 1"),
            ({"batch_size": 1}, "batch_size must be an integer of at least 2"),
            ({"image_size": 8}, "image_size must be an integer of at least 32"),
            ({"device": "tpu"}, "device must be one of"),
        ],
    )
    def test_parameters(self, fruit, parameters, sentence):
        with pytest.raises(InputError, match=sentence):
            OrdinalNetwork(**parameters).fit(*fruit)

    def test_labels(self, tiny, fruit):
        images, _ = fruit
        with pytest.raises(InputError, match="same label"):
            OrdinalNetwork().fit(images[:4], [1, 1, 1, 1])
        with pytest.raises(InputError, match="there are 4 images and 3 labels"):
            OrdinalNetwork().fit(images[:4], [1, 2, 3])
        with pytest.raises(InputError, match="missing or infinite"):
            OrdinalNetwork().fit(images[:3], [1, 2, np.nan])

    def test_images(self, tiny, fruit, tmp_path):
        (tmp_path / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        for image, sentence in {
            tmp_path / "none.png": r"none\.png cannot be read: no such file",
            tmp_path / "damaged.png": r"damaged\.png is cut off",
        }.items():
            with pytest.raises(InputError, match=sentence):
                OrdinalNetwork().fit([fruit[0][0], image], [1, 2])
        with pytest.raises(InputError, match=r"image 1 must be a file, or uint8 .*; it is float64 of shape \(4, 4\)"):
            OrdinalNetwork().fit([fruit[0][0], np.zeros((4, 4))], [1, 2])

    def test_diverging_training_is_named(self, tiny, fruit):
        with pytest.raises(InputError, match="training diverged at step"):
            OrdinalNetwork(steps=20, backbone_rate=1e30, head_rate=1e30).fit(*fruit)


def test_published_weights_can_be_trained(fruit):
    published_weights("efficientnet-lite0")
    images, _ = fruit
    network = OrdinalNetwork(image_size=64, steps=2, batch_size=4).fit(images[:8], [0, 0, 1, 1, 2, 2, 3, 3])
    assert network.n_features_out_ == 1280
    assert np.isfinite(network.transform(images[:2])).all()


def test_networks_of_timm_can_be_trained(fruit, tmp_path):
    from tests.features.timm_checkpoints import write_timm_checkpoint

    name = write_timm_checkpoint(tmp_path)
    backbone = backbones.load_backbone(name, 64)
    assert backbone.preprocessing.size == 64
    network = OrdinalNetwork(name, image_size=64, steps=2, batch_size=4)
    assert network.fit(fruit[0][:8], [0, 0, 1, 1, 2, 2, 3, 3]).transform(fruit[0][:2]).shape == (2, backbone.dim)
