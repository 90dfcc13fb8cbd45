"""Where a training starts: the linear map by ridge regression, and target neighbours, on the pretrained features."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from torch import nn

from ordrank._protocols import FloatArray, IntArray
from ordrank.deep.backbones import Backbone
from ordrank.deep.training import Model
from ordrank.errors import NeighborsCappedWarning
from ordrank.neighbors import target_neighbors

_RIDGES = np.logspace(-4, 2, 13)  # of features whose mean square norm is 1


def unfitted_model(backbone: Backbone, loss: Any, frozen: FloatArray) -> Model:
    """Return the model before its linear map is fitted; features are scaled to a mean square norm of 1."""
    mean = frozen.mean(axis=0)
    scale = float(np.sqrt(((frozen - mean) ** 2).sum(axis=1).mean())) or 1.0
    layer = nn.Linear(frozen.shape[1], loss.targets.shape[1])
    return Model(backbone.module, layer, loss, torch.tensor(mean, dtype=torch.float32), scale)


def with_ridge_layer(model: Model, frozen: FloatArray, label_index: IntArray) -> Model:
    """Return a copy whose linear map is a ridge regression of the targets on the pretrained features."""
    model = copy.deepcopy(model)
    X = (frozen - model.mean.numpy()) / model.scale
    ridge = RidgeCV(alphas=_RIDGES).fit(X, model.loss.targets.numpy()[label_index])
    with torch.no_grad():
        model.layer.weight.copy_(torch.from_numpy(np.reshape(ridge.coef_, model.layer.weight.shape)))
        model.layer.bias.copy_(torch.from_numpy(np.reshape(ridge.intercept_, model.layer.bias.shape)))
    return model


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
