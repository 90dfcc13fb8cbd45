"""Fits of OrdinalNetwork that are interrupted or killed, and continued."""

import errno
import hashlib
import io
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from ordrank.deep import OrdinalNetwork  # noqa: E402
from ordrank.deep.training import _State  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from tests.deep.stopping import Stop, stop_at  # noqa: E402
from tests.deep.tiny import PREPROCESSING, tiny_backbone  # noqa: E402

ROOT = Path(__file__).parents[2]


class TestResume:
    def test_continues_to_the_same_network(self, tiny, fruit, tmp_path, monkeypatch):
        monkeypatch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 4)
        folder = tmp_path / "state"
        whole = OrdinalNetwork(steps=14).fit(*fruit)
        with pytest.raises(Stop):
            OrdinalNetwork(steps=14, checkpoints=folder, progress=stop_at(24)).fit(*fruit)
        assert sorted(file.name for file in folder.iterdir()) == ["network-0.safetensors", "network-1.safetensors"]
        seen = []
        continued = OrdinalNetwork(
            steps=14, checkpoints=folder, progress=lambda *event: seen.append(event) if event[2] == 56 else None
        ).fit(*fruit)
        assert [done for _, done, _ in seen] == list(range(23, 57))  # from the checkpoint after 14 + 8
        assert continued.losses_ == whole.losses_
        np.testing.assert_array_equal(continued.transform(fruit[0]), whole.transform(fruit[0]))
        assert not folder.exists()

    def test_random_layers_continue_as_without_the_interruption(self, fruit, tmp_path, monkeypatch):
        def with_dropout(name, image_size=None):
            backbone = tiny_backbone(name)
            return replace(backbone, module=torch.nn.Sequential(backbone.module, torch.nn.Dropout(0.5)))

        monkeypatch.setattr("ordrank.deep.network.load_backbone", with_dropout)
        monkeypatch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 4)
        options = {"steps": 10, "n_folds": 1}
        torch.manual_seed(1)
        whole = OrdinalNetwork(**options).fit(*fruit)
        torch.manual_seed(2)
        assert OrdinalNetwork(**options).fit(*fruit).losses_ == whole.losses_
        with pytest.raises(Stop):
            OrdinalNetwork(**options, checkpoints=tmp_path, progress=stop_at(7)).fit(*fruit)
        continued = OrdinalNetwork(**options, checkpoints=tmp_path).fit(*fruit)
        assert continued.losses_ == whole.losses_
        np.testing.assert_array_equal(continued.transform(fruit[0]), whole.transform(fruit[0]))

    def test_pictures_are_hashed_once(self, tiny, fruit, tmp_path, monkeypatch):
        sizes, sha256 = [], hashlib.sha256

        class Counted:
            def __init__(self, data=b""):
                self.digest = sha256(data)

            def update(self, data):
                sizes.append(memoryview(data).nbytes)
                self.digest.update(data)

            def hexdigest(self):
                return self.digest.hexdigest()

        monkeypatch.setattr("ordrank.deep.training.hashlib.sha256", Counted)
        OrdinalNetwork(steps=2, checkpoints=tmp_path).fit(*fruit)
        assert sizes.count(80 * 3 * PREPROCESSING.side**2) == 1

    def test_a_killed_fit_continues_from_its_checkpoint(self, tiny, fruit, tmp_path):
        folder = tmp_path / "state"
        code = f"""
import os, signal
from ordrank.datasets import make_fruit
from ordrank.deep import network, training
from tests.deep.tiny import tiny_backbone
network.load_backbone, training._CHECKPOINT_EVERY = tiny_backbone, 4
def kill(stage, done, total):
    if stage.startswith("training") and done == 24:
        os.kill(os.getpid(), signal.SIGKILL)
fruit = make_fruit(80, size=40)
network.OrdinalNetwork(steps=14, checkpoints={str(folder)!r}, progress=kill).fit(fruit.images, fruit.grade)
"""
        killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert sorted(file.name for file in folder.iterdir()) == ["network-0.safetensors", "network-1.safetensors"]
        seen = []
        OrdinalNetwork(
            steps=14, checkpoints=folder, progress=lambda *event: seen.append(event) if event[2] == 56 else None
        ).fit(*fruit)
        assert len(seen) == 34
        assert not folder.exists()

    def test_a_checkpoint_of_another_run_is_named(self, tiny, fruit, tmp_path):
        options = {"checkpoints": tmp_path / "state"}
        with pytest.raises(Stop):
            OrdinalNetwork(steps=4, progress=stop_at(6), **options).fit(*fruit)
        images, grade = fruit
        for other, y, steps in ((images, grade, 5), (images[::-1], grade, 4), (images, grade[::-1], 4)):
            with pytest.raises(InputError, match=r"network-0\.safetensors is the checkpoint of another run"):
                OrdinalNetwork(steps=steps, **options).fit(other, y)

    def test_moments_are_laid_out_as_parameters(self, tmp_path):
        """As the optimizer of GPUs requires; pictures have their channels last there."""

        def state():
            layer = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
            optimizer = torch.optim.AdamW(layer.parameters())
            return layer, optimizer, _State(optimizer, 5, "run")

        layer, optimizer, saved = state()
        layer(torch.ones(1, 3, 4, 4)).sum().backward()
        optimizer.step()
        saved.save(tmp_path / "file", [0.5])
        again, other, loaded = state()
        assert loaded.load(tmp_path / "file") == [0.5]
        for before, after in zip(layer.parameters(), again.parameters(), strict=True):
            torch.testing.assert_close(after, before, rtol=0, atol=0)
            for name, moment in optimizer.state[before].items():
                torch.testing.assert_close(other.state[after][name], moment, rtol=0, atol=0)
                assert other.state[after][name].stride() == moment.stride()

    def test_other_files_in_the_folder_stay(self, tiny, fruit, tmp_path):
        (tmp_path / "network-card.md").write_text("mine")
        OrdinalNetwork(steps=2, checkpoints=tmp_path).fit(*fruit)
        assert [file.name for file in tmp_path.iterdir()] == ["network-card.md"]

    def test_a_full_disk_is_an_error_of_the_system(self, tiny, fruit, tmp_path, monkeypatch):
        class FullDisk(io.BytesIO):
            def write(self, data):
                raise OSError(errno.ENOSPC, "No space left on device")

        opened = Path.open
        monkeypatch.setattr(
            Path,
            "open",
            lambda path, mode="r": FullDisk() if "network-0" in path.name else opened(path, mode),
        )
        with pytest.raises(OSError, match="No space left on device"):
            OrdinalNetwork(steps=2, checkpoints=tmp_path).fit(*fruit)

    @pytest.mark.parametrize("content", [b"", b"damaged"])
    def test_a_damaged_checkpoint_is_named(self, tiny, fruit, tmp_path, content):
        file = tmp_path / "network-0.safetensors"
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"safetensors cannot be read as a checkpoint: .*delete it to begin anew"):
            OrdinalNetwork(steps=2, checkpoints=tmp_path).fit(*fruit)
        assert file.read_bytes() == content
