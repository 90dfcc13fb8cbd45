"""Where a training starts: pictures, pretrained features, and the linear map and target neighbours from these."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from torch import Tensor, nn

from ordrank._protocols import FloatArray, IntArray, Progress
from ordrank.deep.backbones import Backbone
from ordrank.deep.embedding import extract
from ordrank.deep.images import Images, read_chunks
from ordrank.deep.training import Model
from ordrank.errors import NeighborsCappedWarning
from ordrank.features._runtimes import forward
from ordrank.features.preprocessing import Preprocessing
from ordrank.neighbors import target_neighbors

if TYPE_CHECKING:
    from PIL.Image import Image

_RIDGES = np.logspace(-4, 2, 13)  # of features whose mean square norm is 1


def read_pictures(images: Images, backbone: Backbone, pictures: Tensor, progress: Progress) -> FloatArray:
    """Write pictures to a tensor of uint8 (n, 3, side, side), and return their pretrained features (n, dim)."""
    preprocessing, n, done = backbone.preprocessing, len(images), 0
    features = np.empty((n, backbone.dim))

    def convert(picture: Image) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        return preprocessing.square(picture, preprocessing.side, 1.0), preprocessing.apply(picture)

    progress("reading pictures", 0, n)
    for chunk in read_chunks(images, preprocessing.side, convert):
        rows = slice(done, done + len(chunk))
        squares, prepared = zip(*chunk, strict=True)
        pictures[rows] = torch.from_numpy(np.stack(squares)).to(pictures.device).permute(0, 3, 1, 2)
        features[rows] = forward(backbone.module, np.concatenate(prepared))
        done += len(chunk)
        progress("reading pictures", done, n)
    return features


def unfitted_model(backbone: Backbone, loss: Any, frozen: FloatArray) -> Model:
    """Return the model before its linear map is fitted; features are scaled to a mean square norm of 1."""
    mean = frozen.mean(axis=0)
    scale = float(np.sqrt(((frozen - mean) ** 2).sum(axis=1).mean())) or 1.0
    layer = nn.Linear(frozen.shape[1], loss.targets.shape[1])
    return Model(backbone.module, layer, loss, torch.tensor(mean, dtype=torch.float32), scale)


def with_ridge_layer(model: Model, features: NDArray[np.floating], label_index: IntArray) -> Model:
    """Return a copy whose linear map is a ridge regression of the targets on features (n, dim) of its backbone."""
    model = copy.deepcopy(model)
    X = (features.astype(np.float64) - model.mean.cpu().numpy()) / model.scale
    ridge = RidgeCV(alphas=_RIDGES).fit(X, model.loss.targets.cpu().numpy()[label_index])
    with torch.no_grad():
        model.layer.weight.copy_(torch.from_numpy(np.reshape(ridge.coef_, model.layer.weight.shape)))
        model.layer.bias.copy_(torch.from_numpy(np.reshape(ridge.intercept_, model.layer.bias.shape)))
    return model


def second_stage(
    models: Sequence[Model],
    images: Images,
    label_index: IntArray,
    preprocessing: Preprocessing,
    parts: Sequence[tuple[IntArray, IntArray]],
) -> list[Model]:
    """Return copies whose linear maps are ridge regressions on the features of the pictures they were trained on."""
    refitted = []
    for model, (rows, _) in zip(models, parts, strict=True):
        modules = [(model.backbone, model.layer.in_features)]
        (features,) = extract(modules, [images[i] for i in rows], preprocessing)
        refitted.append(with_ridge_layer(model, features, label_index[rows]))
    return refitted


def neighbor_table(frozen: FloatArray, label_index: IntArray, n_neighbors: int) -> tuple[IntArray, NDArray[np.float32]]:
    """Return target neighbours (n, K) and squared distances (n, K).

    Rows of labels with few samples repeat their neighbours; a sample without any is its own.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeighborsCappedWarning)
        pairs = target_neighbors(frozen, label_index, n_neighbors)
    counts = np.bincount(pairs.first, minlength=len(frozen))
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    column = np.arange(n_neighbors) % np.maximum(counts, 1)[:, None]
    has_any = (counts > 0)[:, None]
    position = np.where(has_any, starts[:, None] + column, 0)
    neighbors = np.where(has_any, pairs.second[position], np.arange(len(frozen))[:, None])
    return neighbors, np.where(has_any, pairs.squared_distances[position], 1.0).astype(np.float32)
