"""The learned map of pictures: outputs of a fine-tuned network beside features of the pretrained one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ordrank._protocols import IntArray
from ordrank.deep.images import Images, read_chunks
from ordrank.deep.training import Model
from ordrank.errors import InputError
from ordrank.features._runtimes import forward
from ordrank.features.preprocessing import Preprocessing


@dataclass(frozen=True)
class NetworkEmbedding:
    """Map of pictures to [z(x), w f₀(x)], whose Euclidean distance is the learned one.

    Attributes
    ----------
    model : Model
        Fine-tuned; its outputs z order the labels.
    pretrained : Module
        Its features f₀ describe what a picture looks like.
    preprocessing : Preprocessing
        Of both.
    weight : float
        w.
    """

    model: Model
    pretrained: nn.Module
    preprocessing: Preprocessing
    weight: float

    def outputs(self, images: Images) -> NDArray[np.float32]:
        """Return z (n, s)."""
        return extract([(self.model, self.model.layer.out_features)], images, self.preprocessing)[0]

    def transform(self, images: Images) -> NDArray[np.float32]:
        """Return both parts, (n, s + dim)."""
        layer = self.model.layer
        modules = [(self.model, layer.out_features), (self.pretrained, layer.in_features)]
        return self.combine(*extract(modules, images, self.preprocessing))

    def decode(self, outputs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the label (n,) that the network estimates from its outputs (n, s)."""
        with torch.inference_mode():
            estimates = self.model.loss.decode(torch.from_numpy(outputs).to(self.model.mean.device))
        values: NDArray[np.float32] = estimates.cpu().numpy()
        return values

    def combine(self, outputs: NDArray[np.floating], features: NDArray[np.floating]) -> NDArray[np.float32]:
        """Return the embedding (n, s + dim) of outputs (n, s) and pretrained features (n, dim)."""
        return np.hstack([outputs, self.weight * features]).astype(np.float32)


def relative_weight(outputs: NDArray[np.floating], features: NDArray[np.floating]) -> float:
    """Return the factor that gives features (n, dim) the root mean square distance of outputs (n, s)."""
    return _spread(outputs) / (_spread(features) or 1.0)


def _spread(X: NDArray[np.floating]) -> float:
    return float(np.sqrt(X.var(axis=0, dtype=np.float64).sum()))


def extract(
    modules: Sequence[tuple[nn.Module, int]], images: Images, preprocessing: Preprocessing
) -> list[NDArray[np.float32]]:
    """Return the outputs (n, dim) of modules, given with their dim; raise InputError if they are not finite."""
    found = [[np.empty((0, dim), dtype=np.float32)] for _, dim in modules]
    for chunk in read_chunks(images, preprocessing.side, preprocessing.apply):
        batch = np.concatenate(chunk)
        for outputs, (module, _) in zip(found, modules, strict=True):
            outputs.append(forward(module, batch))
    values = [np.concatenate(outputs) for outputs in found]
    if not all(np.isfinite(outputs).all() for outputs in values):
        raise InputError("a network gives values that are not finite; with lower learning rates it might not")
    return values


def held_out_outputs(
    models: Sequence[Model], images: Images, preprocessing: Preprocessing, parts: Sequence[tuple[IntArray, IntArray]]
) -> NDArray[np.float32]:
    """Return the outputs (n, s) that each picture has in the network that has not seen it.

    ``parts`` are the positions of the pictures that each network was trained on, and of those it was not.
    """
    s = models[0].layer.out_features
    outputs = np.empty((len(images), s), dtype=np.float32)
    for model, (_, held_out) in zip(models, parts, strict=True):
        outputs[held_out] = extract([(model, s)], [images[i] for i in held_out], preprocessing)[0]
    return outputs
