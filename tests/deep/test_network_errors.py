"""What OrdinalNetwork says when it cannot be fitted, or does not fit in memory."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from ordrank.deep import OrdinalNetwork  # noqa: E402
from ordrank.errors import InputError, InsufficientMemoryError  # noqa: E402
from tests.deep.stopping import Stop, stop_at  # noqa: E402


def failing(error):
    """Return a function that raises an error."""

    def fail(*args, **options):
        raise error

    return fail


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "sentence"),
        [
            ({"backbone": "alexnet"}, "there is no backbone 'alexnet'; there are efficientnet-lite0"),
            ({"loss": "hinge"}, "loss must be one of 'cmds'"),
            ({"locality": -1}, "locality must be a number at least 0"),
            ({"augmentation": "wild"}, "augmentation must be one of 'none'"),
            ({"epochs": 0}, "epochs must be a number above 0"),
            ({"mu": -1}, "mu must be a number at least 0"),
            ({"steps": 0}, "steps must be an integer of at least 1"),
            ({"n_folds": 0}, "n_folds must be an integer of at least 1"),
            ({"minutes": 0}, "minutes must be a number above 0"),
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
            OrdinalNetwork().fit(images[:10], [1] * 10)
        with pytest.raises(InputError, match="0 graded images are too few to train a network"):
            OrdinalNetwork().fit([], [])
        with pytest.raises(InputError, match="1 graded image is too few to train a network"):
            OrdinalNetwork().fit(images[:1], [1])
        with pytest.raises(InputError, match="3 graded images are too few to train a network"):
            OrdinalNetwork().fit(images[:3], [1, 2, 3])
        with pytest.raises(InputError, match="without one fold the images left have a single label"):
            OrdinalNetwork().fit(images[:10], [1] * 9 + [2])
        with pytest.raises(InputError, match="3 folds need at least as many groups; there are 2"):
            OrdinalNetwork().fit(images[:10], [1, 2] * 5, [1, 2] * 5)
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
                OrdinalNetwork().fit([*fruit[0][:9], image], [1, 2] * 5)
        with pytest.raises(InputError, match=r"image 70 must be a file, or uint8 .*; it is float64 of shape \(4, 4\)"):
            OrdinalNetwork().fit([*fruit[0][:70], np.zeros((4, 4))], np.arange(71) % 2)

    def test_diverging_training_is_named(self, tiny, fruit):
        with pytest.raises(InputError, match="training diverged before step"):
            OrdinalNetwork(steps=20, backbone_rate=1e30, head_rate=1e30).fit(*fruit)

    @pytest.mark.parametrize(
        "error",
        [
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB"),
            RuntimeError("CUDA error: out of memory"),
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory"),
            MemoryError(),
        ],
        ids=str,
    )
    def test_too_little_memory_is_named(self, tiny, fruit, monkeypatch, error):
        monkeypatch.setattr("ordrank.deep.training._loss", failing(error))
        with pytest.raises(InsufficientMemoryError, match=r"memory of this machine.*choose a smaller image size"):
            OrdinalNetwork(steps=2).fit(*fruit)

    @pytest.mark.parametrize(
        "function",
        [
            "ordrank.deep.network.load_backbone",
            "ordrank.deep.initialization.forward",
            "ordrank.deep.training.copy.deepcopy",
            "ordrank.deep.network.held_out_outputs",
            "ordrank.deep.network.relative_weight",
            "ordrank.deep.network.OrdinalRanker.fit",
        ],
    )
    def test_too_little_memory_is_named_in_every_part_of_a_fit(self, tiny, fruit, monkeypatch, function):
        monkeypatch.setattr(function, failing(MemoryError()))
        with pytest.raises(InsufficientMemoryError, match="is too small for this network"):
            OrdinalNetwork(steps=2).fit(*fruit)

    def test_too_little_memory_for_a_batch_is_named_before_pictures_are_read(self, tiny, fruit, monkeypatch):
        monkeypatch.setattr("ordrank.deep.training._loss", failing(MemoryError()))
        monkeypatch.setattr("ordrank.deep.network.read_pictures", failing(AssertionError("read")))
        with pytest.raises(InsufficientMemoryError, match="is too small for this network"):
            OrdinalNetwork(steps=2).fit(*fruit)

    def test_too_little_memory_for_new_pictures_is_named(self, tiny, fruit, monkeypatch):
        network = OrdinalNetwork(steps=2).fit(*fruit)
        monkeypatch.setattr("ordrank.deep.embedding.forward", failing(MemoryError()))
        for method in (network.transform, network.predict, network.predict_from_outputs):
            with pytest.raises(InsufficientMemoryError, match="is too small for this network"):
                method(fruit[0])

    def test_a_checkpoint_that_does_not_fit_into_memory_is_not_called_damaged(self, tiny, fruit, monkeypatch, tmp_path):
        with pytest.raises(Stop):
            OrdinalNetwork(steps=2, checkpoints=tmp_path, progress=stop_at(3)).fit(*fruit)
        monkeypatch.setattr("ordrank.deep.training.safe_open", failing(MemoryError()))
        with pytest.raises(InsufficientMemoryError, match="is too small for this network"):
            OrdinalNetwork(steps=2, checkpoints=tmp_path).fit(*fruit)

    def test_other_errors_of_pytorch_are_passed_on(self, tiny, fruit, monkeypatch):
        monkeypatch.setattr("ordrank.deep.training._loss", failing(RuntimeError("CUDA error: illegal address")))
        with pytest.raises(RuntimeError, match="illegal address"):
            OrdinalNetwork(steps=2).fit(*fruit)
