"""Networks in onnxruntime and PyTorch: opening them on a device, and running them on pictures."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ordrank.errors import InputError
from ordrank.features.preprocessing import Preprocessing

if TYPE_CHECKING:
    from PIL.Image import Image

_CUDA = "CUDAExecutionProvider"
_GPU_BATCH = 32
MEMORY = 4_000_000_000  # bytes for the networks of strangers: such a file has at most 2 GB
_STOP_SECONDS = 1.0  # until a network that is to stop is left to itself
_NO_GPU = (
    "device cuda needs an NVIDIA GPU and onnxruntime-gpu in place of onnxruntime (pip uninstall onnxruntime, then pip "
    "install onnxruntime-gpu); {reason}; or use the device cpu"
)


def import_onnxruntime(user: str, extra: str) -> Any:
    """Return the module; raise InputError that says what needs it if it is missing."""
    # Since 1.29 it sends telemetry unless this variable is set before it is imported.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        return import_module("onnxruntime")
    except ImportError:
        raise InputError(f"{user} needs onnxruntime: pip install 'ordrank[{extra}]'") from None


def open_session(runtime: Any, network: str | bytes, device: str, *, is_limited: bool = False) -> Any:
    """Open a network, a file name or the content of a file, with one thread: pictures are read by a process per core.

    With ``is_limited``, all such networks of a process have 4 GB of memory on the CPU. Raise InputError if the device
    cannot be used. Errors of onnxruntime about the network are passed on.
    """
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if is_limited:
        _limit_memory(runtime)
        options.add_session_config_entry("session.use_env_allocators", "1")
    if device == "cpu":
        return runtime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    if not has_cuda(runtime):
        raise InputError(_NO_GPU.format(reason="this onnxruntime has none"))
    # Without TF32, whose products have 10 bits, features are those of the CPU up to rounding.
    session = runtime.InferenceSession(network, options, providers=[(_CUDA, {"use_tf32": "0"})])
    if _CUDA not in session.get_providers():  # it falls back to the CPU without an error
        raise InputError(_NO_GPU.format(reason="here it cannot use one"))
    return session


@cache
def _limit_memory(runtime: Any) -> None:
    """Create the limited memory of this process, once."""
    memory = runtime.OrtMemoryInfo("Cpu", runtime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, runtime.OrtMemType.DEFAULT)
    runtime.create_and_register_allocator(memory, runtime.OrtArenaCfg({"max_mem": MEMORY}))


def has_cuda(runtime: Any) -> bool:
    """Return whether this onnxruntime was built for GPUs."""
    return _CUDA in runtime.get_available_providers()


def run_session(session: Any, pictures: Sequence[Image], preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Return the flattened outputs (n, dim) of a network for upright RGB pictures, of which there is at least one."""
    (inputs,) = session.get_inputs()
    output = preprocessing.output or session.get_outputs()[0].name
    is_fixed = isinstance(inputs.shape[0], int)
    batch_size = 1 if is_fixed or _CUDA not in session.get_providers() else _GPU_BATCH
    return _run(lambda batch: _output(session, output, {inputs.name: batch}), pictures, preprocessing, batch_size)


def run_session_on_pixels(session: Any, pictures: Sequence[Image], output: str) -> NDArray[np.float32]:
    """Return the flattened outputs (n, dim) of a network that takes a picture, uint8 (height, width, 3), as it is."""
    (inputs,) = session.get_inputs()
    rows = [_output(session, output, {inputs.name: np.asarray(picture)}) for picture in pictures]
    return np.stack([np.asarray(row, dtype=np.float32).ravel() for row in rows])


def _output(session: Any, name: str, inputs: dict[str, NDArray[Any]]) -> Any:
    """Return an output of a network, in a thread: Ctrl-C would have no effect before the end of the run."""
    options, outcome = import_module("onnxruntime").RunOptions(), Future[Any]()

    def run() -> None:
        try:
            outcome.set_result(session.run([name], inputs, options)[0])
        except Exception as error:  # noqa: BLE001 - raised in the caller
            outcome.set_exception(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        return outcome.result()
    except KeyboardInterrupt:
        options.terminate = True  # at the end of a node
        thread.join(_STOP_SECONDS)
        raise


def check_torch_device(device: str) -> None:
    """Raise InputError if PyTorch cannot use a device."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda needs an NVIDIA GPU and a CUDA build of PyTorch; or use the device cpu")


def run_module(module: Any, pictures: Sequence[Image], preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Return the flattened outputs (n, dim) of a module for upright RGB pictures, of which there is at least one."""
    is_cpu = next(module.parameters()).device.type == "cpu"
    return _run(lambda batch: forward(module, batch), pictures, preprocessing, 1 if is_cpu else _GPU_BATCH)


def forward(module: Any, batch: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the outputs of a module for a batch of preprocessed pictures."""
    import torch

    device = next(module.parameters()).device
    # Without TF32, whose products have 10 bits, features of a GPU are those of the CPU up to rounding.
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        values: NDArray[np.float32] = module(torch.from_numpy(batch).to(device)).cpu().numpy()
    return values


def _run(
    forward: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    pictures: Sequence[Image],
    preprocessing: Preprocessing,
    batch_size: int,
) -> NDArray[np.float32]:
    """Preprocess pictures and run a network on them.

    On a CPU the batch size is one: larger batches are no faster, and results would depend on them in the last digits.
    """
    rows = []
    for start in range(0, len(pictures), batch_size):
        batch = [preprocessing.apply(picture) for picture in pictures[start : start + batch_size]]
        result = forward(batch[0] if batch_size == 1 else np.concatenate(batch))
        rows.append(np.asarray(result, dtype=np.float32).reshape(len(batch), -1))
    return np.concatenate(rows)
