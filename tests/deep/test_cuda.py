"""OrdinalNetwork on a GPU: the same laws as on a CPU."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

from ordrank.datasets import make_fruit  # noqa: E402
from ordrank.deep import OrdinalNetwork  # noqa: E402
from ordrank.deep.losses import LOSSES  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from tests.deep.stopping import Stop, stop_at  # noqa: E402
from tests.deep.tiny import tiny_networks  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def tiny():
    with tiny_networks():
        yield


@pytest.fixture(scope="module")
def fruit():
    fruit = make_fruit(80, size=40)
    return fruit.images, fruit.grade


def network(**options):
    return OrdinalNetwork("tiny", device="cuda", **{"steps": 20, "backbone_rate": 3e-3, **options})


@pytest.mark.parametrize("loss", LOSSES)
def test_the_first_loss_is_that_of_a_cpu(fruit, loss):
    on_gpu = network(loss=loss, steps=1).fit(*fruit)
    on_cpu = OrdinalNetwork("tiny", loss=loss, steps=1, backbone_rate=3e-3).fit(*fruit)
    np.testing.assert_allclose(on_gpu.losses_, on_cpu.losses_, rtol=0.05)  # bfloat16 has eight bits


@pytest.mark.parametrize("mu", [0.0, 0.1])
def test_is_deterministic(fruit, mu):
    one, other = (network(mu=mu).fit(*fruit) for _ in range(2))
    assert one.losses_ == other.losses_
    np.testing.assert_array_equal(one.outputs_, other.outputs_)


def test_training_changes_the_weights_and_lowers_the_loss(fruit):
    trained = network(steps=150).fit(*fruit)
    for losses in trained.losses_:
        assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])


def test_continues_to_the_same_network(fruit, tmp_path, monkeypatch):
    monkeypatch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 4)
    whole = network(steps=14).fit(*fruit)
    with pytest.raises(Stop):
        network(steps=14, checkpoints=tmp_path, progress=stop_at(24)).fit(*fruit)
    continued = network(steps=14, checkpoints=tmp_path).fit(*fruit)
    assert continued.losses_ == whole.losses_
    np.testing.assert_array_equal(continued.outputs_, whole.outputs_)


def test_too_little_memory_is_named(fruit):
    torch.cuda.set_per_process_memory_fraction(1e-6)
    try:
        with pytest.raises(InputError, match="the memory of the GPU is too small"):
            network().fit(*fruit)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
