"""Devices of onnxruntime: what is asked of it, and what it must have."""

import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from ordrank.errors import InputError
from ordrank.features import OnnxNetwork
from ordrank.features import onnx as onnx_module
from ordrank.features._runtimes import open_session, run_session
from ordrank.features.preprocessing import Preprocessing
from tests.features.export_network import export_network

CUDA = "CUDAExecutionProvider"
PREPROCESSING = Preprocessing(size=4, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale=1.0)


class Runtime:
    """An onnxruntime with a GPU that works or not."""

    def __init__(self, *, works=True, batch="batch"):
        self.works, self.batch = works, batch
        self.batches = []

    def SessionOptions(self):  # noqa: N802
        return SimpleNamespace()

    def get_available_providers(self):
        return [CUDA, "CPUExecutionProvider"]

    def InferenceSession(self, network, options, providers):  # noqa: N802
        assert options.intra_op_num_threads == 1
        self.asked = providers
        return self

    def get_providers(self):
        return [CUDA, "CPUExecutionProvider"] if self.works else ["CPUExecutionProvider"]

    def get_inputs(self):
        return [SimpleNamespace(name="pictures", shape=[self.batch, 3, 4, 4])]

    def get_outputs(self):
        return [SimpleNamespace(name="features")]

    def run(self, outputs, inputs, options):
        assert outputs == ["features"]
        self.batches.append(len(inputs["pictures"]))
        return [inputs["pictures"].mean(axis=(2, 3))]


def test_a_gpu_computes_in_full_single_precision():
    runtime = Runtime()
    open_session(runtime, b"", "cuda")
    assert runtime.asked == [(CUDA, {"use_tf32": "0"})]


@pytest.mark.parametrize(("batch", "batches"), [("batch", [32, 32, 6]), (1, [1] * 70)])
def test_a_gpu_gets_batches_where_the_network_takes_them(batch, batches):
    runtime = Runtime(batch=batch)
    pictures = [Image.new("RGB", (9, 6), (i, 0, 2 * i)) for i in range(70)]
    values = run_session(open_session(runtime, b"", "cuda"), pictures, PREPROCESSING)
    assert runtime.batches == batches
    np.testing.assert_array_equal(values, [[i, 0, 2 * i] for i in range(70)])


def test_a_gpu_that_does_not_work_is_an_error():
    with pytest.raises(InputError, match="here it cannot use one; or use the device cpu"):
        open_session(Runtime(works=False), b"", "cuda")


def test_onnxruntime_without_a_gpu_is_an_error(tmp_path):
    import onnxruntime

    if CUDA in onnxruntime.get_available_providers():
        pytest.skip("this onnxruntime has a GPU")
    export_network(tmp_path / "net.onnx", size=32)
    onnx_module._open.cache_clear()
    with pytest.raises(
        InputError, match=r"device cuda needs an NVIDIA GPU and onnxruntime-gpu .*this onnxruntime has none"
    ):
        OnnxNetwork(tmp_path / "net.onnx", "cuda")


def test_a_gpu_gives_the_features_of_the_cpu(tmp_path):
    import onnxruntime

    if CUDA not in onnxruntime.get_available_providers():
        pytest.skip("onnxruntime has no GPU here")
    export_network(tmp_path / "net.onnx", size=32)
    cpu, cuda = (OnnxNetwork(tmp_path / "net.onnx", device) for device in ("cpu", "cuda"))
    assert cpu.fingerprint == cuda.fingerprint
    pictures = [Image.effect_noise((50, 40), 40 + i).convert("RGB") for i in range(40)]
    np.testing.assert_allclose(cuda.extract(pictures), cpu.extract(pictures), atol=1e-4)


def test_onnxruntime_reports_nothing_to_its_maker(tmp_path):
    export_network(tmp_path / "net.onnx", size=32)
    cache = tmp_path / "cache"
    cache.mkdir()
    # It is quiet under continuous integration.
    quiet = ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY")
    environment = {name: value for name, value in os.environ.items() if name not in quiet}
    open_network = "import sys; from ordrank.features import OnnxNetwork; OnnxNetwork(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", open_network, tmp_path / "net.onnx"],
        env=environment | {"XDG_CACHE_HOME": str(cache)},
        check=True,
    )
    assert not list(cache.iterdir())
