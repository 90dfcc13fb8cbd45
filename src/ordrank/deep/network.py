"""A pretrained network, fine-tuned on ordered labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.linear_model import RidgeCV
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ordrank._protocols import FloatArray
from ordrank.deep.backbones import Backbone, load_backbone
from ordrank.deep.images import iterate_pictures, load_tensor
from ordrank.deep.losses import LOSSES, make_loss
from ordrank.deep.training import Model, Schedule, TrainingSet, train
from ordrank.errors import InputError
from ordrank.estimators._labels import OrdinalLabels, encode_labels, ordinal_labels
from ordrank.estimators._validation import check_choice, check_flag, check_integer, check_number
from ordrank.estimators.ranker import OrdinalRanker
from ordrank.features._runtimes import check_torch_device, run_module
from ordrank.neighbors import target_neighbors

_CHUNK = 64  # pictures decoded at a time
_RIDGES = np.logspace(-4, 2, 13)  # of features whose mean square norm is 1
_MIN_STEPS, _MAX_STEPS, _EPOCHS = 100, 1000, 20

Images = Sequence[Any] | NDArray[np.uint8]


class OrdinalNetwork(TransformerMixin, BaseEstimator):
    """cMDS-DML with a network in place of the linear map.

    All weights of a pretrained network f and a linear map L are trained on

        mean ‖L f(x_i) - p(y_i)‖² + locality · mean over target neighbours (‖f(x_i) - f(x_j)‖² - δ_ij²)² / mean(δ²)²,

    where p are the positions of the labels by classical MDS, target neighbours are the nearest pictures with the same
    label before training, and δ are their distances then. The first term orders the labels, the second keeps what is
    similar within a label. L starts from a ridge regression on the pretrained features. :class:`ordrank.OrdinalRanker`
    on the trained features predicts.

    Parameters
    ----------
    backbone : str, default="efficientnet-lite0"
        Or ``efficientnet-lite2``, ``timm:NAME``, ``timm:NAME@FILE``.
    loss : {"cmds", "regression", "coral", "cross-entropy"}, default="cmds"
        In place of the first term.
    locality : float, default=0.1
        Weight of the second term.
    n_neighbors : int, default=5
        Target neighbours of each picture.
    steps : int, optional
        Number of batches; by default 20 passes over the pictures, at least 100 and at most 1000 batches.
    batch_size : int, default=32
    backbone_rate, head_rate : float, default=3e-4 and 1e-3
        Highest learning rates of the pretrained network and of the linear map.
    image_size : int, optional
        Side of the pictures for the network; by default that of its pretraining.
    flip : bool, default=True
        Whether a mirrored picture has the same label.
    device : {"cpu", "cuda"}, default="cpu"
    random_state : int, default=0
        The same number gives the same network on the same machine.
    checkpoint : path, optional
        File from which an interrupted fit continues. It is deleted when the fit is complete.
    progress : callable, optional
        Called after each batch with the number of batches, the number of all batches and the loss.

    Attributes
    ----------
    ranker_ : OrdinalRanker
        Fitted on the features of the training pictures. The network has seen their labels, so that its leave-one-out
        estimates and intervals are optimistic.
    losses_ : list of float
        Of each batch.

    References
    ----------
    P. Yu and Q. Li, "Ordinal distance metric learning with MDS for image ranking".

    Examples
    --------
    >>> from ordrank.deep import OrdinalNetwork
    >>> network = OrdinalNetwork("efficientnet-lite2", device="cuda")
    >>> network.fit(files, ages).predict(other_files)  # doctest: +SKIP
    """

    def __init__(
        self,
        backbone: str = "efficientnet-lite0",
        *,
        loss: str = "cmds",
        locality: float = 0.1,
        n_neighbors: int = 5,
        steps: int | None = None,
        batch_size: int = 32,
        backbone_rate: float = 3e-4,
        head_rate: float = 1e-3,
        image_size: int | None = None,
        flip: bool = True,
        device: str = "cpu",
        random_state: int = 0,
        checkpoint: str | Path | None = None,
        progress: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.backbone = backbone
        self.loss = loss
        self.locality = locality
        self.n_neighbors = n_neighbors
        self.steps = steps
        self.batch_size = batch_size
        self.backbone_rate = backbone_rate
        self.head_rate = head_rate
        self.image_size = image_size
        self.flip = flip
        self.device = device
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.progress = progress

    def fit(self, images: Images, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Train the network, and fit the ranker on its features.

        Parameters
        ----------
        images : sequence of paths, or of uint8 arrays of shape (height, width, 3)
        y : array-like of shape (n,)
            Numbers, or an ordered pandas categorical.
        groups : array-like of shape (n,), optional
            What a picture shows, such as the person; for the ranker.
        """
        self._check_parameters()
        labels = _check_labels(images, y)
        backbone = load_backbone(self.backbone, self.image_size)
        pictures = list(iterate_pictures(images, backbone.preprocessing.side))
        device_module = backbone.module.eval().to(self.device, memory_format=torch.channels_last)
        frozen = run_module(device_module, pictures, backbone.preprocessing).astype(np.float64)
        tensor = load_tensor(iter(pictures), backbone.preprocessing)
        del pictures
        model = _start_model(backbone, make_loss(self.loss, labels.distinct, labels.index), frozen, labels.index)
        neighbors, distances = _neighbor_table(frozen, labels.index, self.n_neighbors)
        data = TrainingSet(tensor, torch.from_numpy(labels.index), neighbors, distances, float(distances.mean()) or 1.0)
        file = None if self.checkpoint is None else Path(self.checkpoint)
        self.losses_ = train(
            model,
            data,
            backbone.preprocessing,
            self._schedule(len(tensor)),
            device=self.device,
            checkpoint=file,
            progress=self.progress,
        )
        self._model, self._preprocessing, self._labels = model.requires_grad_(False), backbone.preprocessing, labels
        self.n_features_out_ = backbone.dim
        self.ranker_ = OrdinalRanker().fit(self.transform(images), y, groups=groups)
        if file is not None:
            file.unlink(missing_ok=True)
        return self

    def transform(self, images: Images) -> NDArray[np.float32]:
        """Return the features of pictures, float32 (n, n_features)."""
        check_is_fitted(self, "losses_")
        rows = [np.empty((0, self.n_features_out_), dtype=np.float32)]
        for start in range(0, len(images), _CHUNK):
            pictures = list(iterate_pictures(images[start : start + _CHUNK], self._preprocessing.side))
            rows.append(run_module(self._model.backbone, pictures, self._preprocessing))
        return np.concatenate(rows)

    def predict(self, images: Images) -> NDArray[Any]:
        """Return the estimates of the ranker on the features of pictures, (n,)."""
        check_is_fitted(self, "ranker_")
        return self.ranker_.predict(self.transform(images))

    def predict_from_outputs(self, images: Images) -> NDArray[Any]:
        """Return the estimates of the network's own outputs, (n,)."""
        features = torch.from_numpy(self.transform(images)).to(self.device)
        with torch.inference_mode():
            values = self._model.loss.decode(self._model.outputs(features)).cpu().numpy()
        return self._labels.decode(values.astype(np.float64))

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_choice("device", self.device, ("cpu", "cuda"))
        check_number("locality", self.locality, at_least=0)
        check_number("backbone_rate", self.backbone_rate, at_least=0)
        check_number("head_rate", self.head_rate, above=0)
        for name, minimum in {"n_neighbors": 1, "batch_size": 2, "random_state": 0}.items():
            check_integer(name, getattr(self, name), minimum=minimum)
        for name, minimum in {"steps": 1, "image_size": 32}.items():
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), minimum=minimum)
        check_flag("flip", self.flip)
        check_torch_device(self.device)

    def _schedule(self, n: int) -> Schedule:
        steps = self.steps or int(np.clip(_EPOCHS * n // self.batch_size, _MIN_STEPS, _MAX_STEPS))
        return Schedule(
            steps, self.batch_size, self.backbone_rate, self.head_rate, self.locality, self.random_state, self.flip
        )


def _check_labels(images: Images, y: ArrayLike) -> OrdinalLabels:
    values, names = encode_labels(y)
    if values is None or len(values) != len(images):
        raise InputError(f"there are {len(images)} images and {0 if values is None else len(values)} labels")
    if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
        raise InputError("y holds missing or infinite labels; remove these images")
    return ordinal_labels(values, names)


def _start_model(backbone: Backbone, loss: Any, frozen: FloatArray, label_index: NDArray[np.int64]) -> Model:
    """Return the model whose linear map is a ridge regression of the targets on the pretrained features."""
    mean = frozen.mean(axis=0)
    scale = float(np.sqrt(((frozen - mean) ** 2).sum(axis=1).mean())) or 1.0
    targets = loss.targets.numpy()[label_index]
    ridge = RidgeCV(alphas=_RIDGES).fit((frozen - mean) / scale, targets)
    layer = nn.Linear(frozen.shape[1], targets.shape[1])
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(np.reshape(ridge.coef_, layer.weight.shape)))
        layer.bias.copy_(torch.from_numpy(np.reshape(ridge.intercept_, layer.bias.shape)))
    return Model(backbone.module, layer, loss, torch.tensor(mean, dtype=torch.float32), scale)


def _neighbor_table(
    frozen: FloatArray, label_index: NDArray[np.int64], n_neighbors: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return target neighbours (n, K) and squared distances (n, K).

    Rows of labels with few samples repeat their neighbours; a sample without any is its own.
    """
    pairs = target_neighbors(frozen, label_index, n_neighbors)
    counts = np.bincount(pairs.first, minlength=len(frozen))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    column = np.arange(n_neighbors) % np.maximum(counts, 1)[:, None]
    has_any = (counts > 0)[:, None]
    position = np.where(has_any, starts[:, None] + column, 0)
    neighbors = np.where(has_any, pairs.second[position], np.arange(len(frozen))[:, None])
    return neighbors, np.where(has_any, pairs.squared_distances[position], 1.0).astype(np.float32)
