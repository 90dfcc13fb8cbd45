"""The training loop: schedule, batches of samples and their target neighbours, checkpoints."""

from __future__ import annotations

import copy
import hashlib
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ordrank._io import write_files
from ordrank.deep.images import augment
from ordrank.deep.losses import local_loss
from ordrank.errors import InputError, InsufficientMemoryError
from ordrank.features.preprocessing import Preprocessing

_WEIGHT_DECAY = 0.05
_WARM_UP = 0.15  # share of the steps in which the learning rate rises
_MAX_GRADIENT = 5.0
_MOMENTS = ("exp_avg", "exp_avg_sq")  # of a parameter, in AdamW
_CHECKPOINT_EVERY = 50
_CHECK_EVERY = 10  # steps between two looks at the loss, for which a GPU has to be waited for
TIMED_STEPS = 3  # of which the first is not counted
# PyTorch has no class for most errors of memory, only their texts.
_MACHINE_FULL = ("can't allocate memory", "DefaultCPUAllocator", "std::bad_alloc")
_GPU_FULL = ("out of memory", "ALLOC_FAILED")  # of CUDA; of cuBLAS, cuDNN and others


@dataclass(frozen=True)
class Schedule:
    """Length and step sizes of a training run: AdamW with one cycle of the learning rate."""

    steps: int
    batch_size: int
    backbone_rate: float
    head_rate: float
    mu: float  # weight of the local term
    seed: int
    flip: bool
    strength: float  # of the augmentation


@dataclass(frozen=True)
class TrainingSet:
    """Samples of a run.

    Attributes
    ----------
    pictures : Tensor of uint8, shape (n_all, 3, side, side)
        On the device of the training.
    label_index : Tensor of shape (n_all,)
    rows : ndarray of shape (n,)
        Those of them that are trained on.
    neighbors : ndarray of shape (n, K)
        Target neighbours in the embedding of the network before training, by their position in ``rows``; a sample
        without any is its own.
    distances : ndarray of shape (n, K)
        Squared distances to them.
    unit : float
        Their mean.
    digest : str
        Of the pictures, for checkpoints; see :func:`digest_of`.
    """

    pictures: Tensor
    label_index: Tensor
    rows: NDArray[np.int64]
    neighbors: NDArray[np.int64]
    distances: NDArray[np.float32]
    unit: float
    digest: str = ""


class Model(nn.Module):
    """A backbone, a linear layer and a loss. Features are centred and scaled before the layer."""

    def __init__(self, backbone: nn.Module, layer: nn.Linear, loss: nn.Module, mean: Tensor, scale: float) -> None:
        super().__init__()
        self.backbone, self.layer, self.loss, self.scale = backbone, layer, loss, scale
        self.register_buffer("mean", mean)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the outputs (n, n_outputs) of normalised pictures (n, 3, size, size)."""
        return self.outputs(self.backbone(pictures))

    def outputs(self, features: Tensor) -> Tensor:
        """Return the outputs (n, n_outputs) of features (n, dim)."""
        outputs: Tensor = self.layer(self._normalize(features))
        return outputs

    def loss_of(self, features: Tensor, label_index: Tensor) -> Tensor:
        """Return the loss of features (n, dim) with label numbers (n,)."""
        loss: Tensor = self.loss(self.outputs(features), label_index, self._normalize(features))
        return loss

    def _normalize(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale


def train(
    model: Model,
    data: TrainingSet,
    preprocessing: Preprocessing,
    schedule: Schedule,
    *,
    device: str,
    checkpoint: Path | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[float]:
    """Train in place and return the loss of every step.

    Batch normalisations keep their statistics: those of a few hundred pictures are worse than those of ImageNet.

    Parameters
    ----------
    checkpoint : Path, optional
        File to which the state is written regularly and at the end. If it exists, training continues where it ended,
        with the same result as without the interruption.
    progress : callable, optional
        Called with the number of steps done.
    """
    model.to(device)
    groups = [
        {"params": list(model.backbone.parameters())},
        {"params": [*model.layer.parameters(), *model.loss.parameters()]},
    ]
    optimizer = torch.optim.AdamW(groups, weight_decay=_WEIGHT_DECAY, fused=device == "cuda")
    state = None if checkpoint is None else _State(optimizer, schedule.steps, _fingerprint(model, data, schedule))
    losses = state.load(checkpoint) if state is not None and checkpoint is not None and checkpoint.exists() else []
    _train_mode(model)
    recent = list[Tensor]()
    gpus = [torch.cuda.current_device()] if device == "cuda" else []
    # Deterministic algorithms: the same seed gives the same network.
    deterministic = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
    with deterministic, torch.random.fork_rng(gpus), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The AccumulateGrad node's stream does not match")  # of CUDA graphs
        backbone = record_backbone(model.backbone, batch_shape(data, preprocessing, schedule), device)
        for step in range(len(losses), schedule.steps):
            # Seeded by the step, so that a run that is continued draws what it would have drawn.
            rng = np.random.default_rng([schedule.seed, step])
            loss = _loss(model, backbone, data, preprocessing, schedule, rng, device)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRADIENT)
            for group, rate in zip(optimizer.param_groups, (schedule.backbone_rate, schedule.head_rate), strict=True):
                group["lr"] = rate * one_cycle(step, schedule.steps)
            optimizer.step()
            recent.append(loss.detach())
            done = step + 1
            is_saved = done % _CHECKPOINT_EVERY == 0 or done == schedule.steps
            if is_saved or done % _CHECK_EVERY == 0:
                losses += _finite(recent, done)
                recent.clear()
            if is_saved and state is not None and checkpoint is not None:
                state.save(checkpoint, losses)
            if progress is not None:
                progress(done)
    model.eval()
    return losses


def seconds_per_step(
    model: Model,
    pictures: Tensor,
    label_index: Tensor,
    preprocessing: Preprocessing,
    schedule: Schedule,
    *,
    device: str,
) -> float:
    """Return the time that a step takes, the least of those of a schedule, on a copy of the model.

    The pictures may be blank: time and memory are those of a training.
    """
    times = list[float]()

    def note_time(done: int) -> None:
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter())

    rows = np.arange(len(pictures))
    data = TrainingSet(pictures, label_index, rows, np.roll(rows, 1)[:, None], np.ones((len(rows), 1), np.float32), 1.0)
    train(copy.deepcopy(model), data, preprocessing, schedule, device=device, progress=note_time)
    return float(np.diff(times).min())


def _finite(losses: Sequence[Tensor], step: int) -> list[float]:
    """Return losses as numbers; raise InputError if they are none."""
    values = [float(value) for value in losses]
    if not all(map(math.isfinite, values)):
        raise InputError(f"training diverged before step {step}; with lower learning rates it might not")
    return values


@contextmanager
def memory_errors(device: str) -> Iterator[None]:
    """Raise InsufficientMemoryError if the memory does not suffice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        is_of_machine = isinstance(error, MemoryError) or any(text in str(error) for text in _MACHINE_FULL)
        is_of_gpu = isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in _GPU_FULL)
        if not is_of_machine and not is_of_gpu:
            raise
        where = "this machine" if is_of_machine or device == "cpu" else "the GPU"
        raise InsufficientMemoryError(
            f"the memory of {where} is too small for this network: choose a smaller image size or another network"
        ) from error


def one_cycle(step: int, steps: int) -> float:
    """Return the factor of the learning rate: a linear rise, then half a cosine down to zero."""
    rise = max(1.0, _WARM_UP * steps)
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1.0, steps - rise)))


def _train_mode(model: nn.Module) -> None:
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def batch_shape(data: TrainingSet, preprocessing: Preprocessing, schedule: Schedule) -> tuple[int, int, int, int]:
    """Return the shape of a batch of pictures: random samples and, for the local term, a target neighbour of each."""
    n_alike = 2 if schedule.mu else 1
    n = n_alike * min(len(data.rows), schedule.batch_size // n_alike)
    return n, 3, preprocessing.size, preprocessing.size


class _Recorded(nn.Module):
    """A module of its own, because recording replaces its ``forward``."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, pictures: Tensor) -> Any:
        return self.module(pictures)


def record_backbone(backbone: nn.Module, shape: tuple[int, int, int, int], device: str) -> Callable[[Tensor], Tensor]:
    """Return the backbone, on a GPU as CUDA graphs of the forward and backward pass in bfloat16.

    Launched one by one, the hundreds of small kernels of a batch take longer to launch than to run.
    """
    if device != "cuda":
        return backbone
    example = torch.zeros(shape, device=device).to(memory_format=torch.channels_last)
    # Emulated bfloat16 would be slower than float32. Without a cache, the graph converts the weights anew each time.
    has_bfloat16 = torch.cuda.is_bf16_supported(including_emulation=False)
    with torch.autocast(device, torch.bfloat16, enabled=has_bfloat16, cache_enabled=False):
        recorded: Callable[[Tensor], Tensor] = torch.cuda.make_graphed_callables(_Recorded(backbone), (example,))
    return recorded


def _loss(
    model: Model,
    backbone: Callable[[Tensor], Tensor],
    data: TrainingSet,
    preprocessing: Preprocessing,
    schedule: Schedule,
    rng: np.random.Generator,
    device: str,
) -> Tensor:
    """Return the loss of a batch, with the backbone of the model as it runs on the device."""
    n_alike = 2 if schedule.mu else 1
    anchors = rng.choice(len(data.rows), batch_shape(data, preprocessing, schedule)[0] // n_alike, replace=False)
    chosen = rng.integers(data.neighbors.shape[1], size=len(anchors))
    others = data.neighbors[anchors, chosen] if schedule.mu else anchors[:0]
    batch = _send(data.rows[np.concatenate([anchors, others])], device)
    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    # The pictures of a pair are varied alike: otherwise their distance would be that of the variations.
    pictures = augment(
        data.pictures[batch],
        preprocessing,
        generator,
        flip=schedule.flip,
        strength=schedule.strength,
        n_alike=n_alike,
    )
    torch.manual_seed(int(rng.integers(2**62)))  # of dropout
    features = backbone(pictures.to(memory_format=torch.channels_last)).float()
    loss = model.loss_of(features, data.label_index[batch])
    if schedule.mu and (kept := np.flatnonzero(others != anchors)).size:
        distances = _send(data.distances[anchors, chosen][kept], device)
        first = _send(kept, device)
        pairs = features[first], features[first + len(anchors)]
        loss = loss + schedule.mu * local_loss(*pairs, distances, data.unit)
    return loss


def _send(values: NDArray[Any], device: str) -> Tensor:
    """Return a tensor on the device without waiting for what the device is doing."""
    tensor = torch.from_numpy(values)
    return tensor.pin_memory().to(device, non_blocking=True) if device == "cuda" else tensor


def digest_of(*tensors: Tensor) -> str:
    """Return the SHA-256 of tensors."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()


def _fingerprint(model: Model, data: TrainingSet, schedule: Schedule) -> str:
    """Return a text with all that determines a run but the versions of the libraries."""
    tensors = digest_of(*model.state_dict().values(), data.label_index, torch.from_numpy(data.rows))
    return f"{schedule} {tensors} {data.digest}"


class _State:
    """The parameters, their moments and the losses of an interrupted run, in one file; all else follows from the run.

    The file may come from a stranger, with the collection that it is in: it holds arrays alone, of known shapes.
    """

    def __init__(self, optimizer: torch.optim.AdamW, steps: int, fingerprint: str) -> None:
        self._optimizer, self._steps, self._fingerprint = optimizer, steps, fingerprint
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def save(self, file: Path, losses: list[float]) -> None:
        tensors = {"losses": torch.tensor(losses, dtype=torch.float64)}
        for i, parameter in enumerate(self._parameters):
            moments = self._optimizer.state[parameter]  # none without a gradient
            tensors[f"parameter {i}"] = parameter.detach()
            tensors |= {f"{name} {i}": moments.get(name, torch.zeros_like(parameter)) for name in _MOMENTS}
        contiguous = {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}
        write_files(file.parent, {file.name: save(contiguous, {"fingerprint": self._fingerprint})})

    def load(self, file: Path) -> list[float]:
        """Restore the state and return the losses so far; raise InputError if it is that of another run."""
        try:
            with safe_open(file, "pt") as stored:
                fingerprint = (stored.metadata() or {}).get("fingerprint")
                tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a mapping
        except (SafetensorError, OSError) as error:
            raise _unreadable(file, str(error).splitlines()[0]) from error
        if fingerprint != self._fingerprint:
            raise InputError(f"{file} is the checkpoint of another run; delete it or name another file")
        losses = self._check(file, tensors)
        with torch.no_grad():
            for i, parameter in enumerate(self._parameters):
                parameter.copy_(tensors[f"parameter {i}"])
        moments = {
            i: {"step": torch.tensor(float(len(losses)))}
            # Laid out in memory as the parameter is.
            | {name: torch.empty_like(parameter).copy_(tensors[f"{name} {i}"]) for name in _MOMENTS}
            for i, parameter in enumerate(self._parameters)
        }
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": moments})
        return losses

    def _check(self, file: Path, tensors: dict[str, Tensor]) -> list[float]:
        """Return the losses; raise InputError if tensors are not those of this run."""
        expected = {
            f"{name} {i}": (parameter.dtype, parameter.shape)
            for i, parameter in enumerate(self._parameters)
            for name in ("parameter", *_MOMENTS)
        }
        losses = tensors.pop("losses", torch.empty(0))
        found = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        is_possible = losses.dtype == torch.float64 and losses.ndim == 1 and 0 < len(losses) <= self._steps
        if found != expected or not is_possible:
            raise _unreadable(file, "its arrays are not those of this network")
        if not all(tensor.isfinite().all() for tensor in (losses, *tensors.values())):
            raise _unreadable(file, "its values are not finite")
        return losses.tolist()


def _unreadable(file: Path, reason: str) -> InputError:
    return InputError(f"{file} cannot be read as a checkpoint: {reason}; delete it to begin anew")
