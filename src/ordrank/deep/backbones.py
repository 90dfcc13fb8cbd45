"""Pretrained networks by name, ready to be trained."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from torch import nn

from ordrank.errors import InputError
from ordrank.features._runtimes import forward
from ordrank.features.efficientnet_module import load_module
from ordrank.features.preprocessing import Preprocessing
from ordrank.features.pretrained import PRETRAINED, read_weights
from ordrank.features.timm import load_network


@dataclass(frozen=True)
class Backbone:
    """A network from pictures to features (n, dim), and its preprocessing."""

    module: nn.Module
    preprocessing: Preprocessing
    dim: int


def load_backbone(name: str, image_size: int | None = None) -> Backbone:
    """Return a network with its pretrained weights.

    Parameters
    ----------
    name : str
        ``efficientnet-lite0``, ``efficientnet-lite2``, ``timm:NAME`` or ``timm:NAME@FILE``.
    image_size : int, optional
        Side of the pictures, by default that of the pretraining. Smaller ones take less time.
    """
    if name in PRETRAINED:
        network = PRETRAINED[name].network
        found = Backbone(load_module(network, read_weights(name)), network.preprocessing, network.head)
    elif name.startswith("timm:"):
        model, _, file = name.removeprefix("timm:").partition("@")
        module, preprocessing = load_network(model, file or None)
        found = Backbone(module, preprocessing, module.num_features)
    else:
        known = ", ".join([*PRETRAINED, "timm:NAME", "timm:NAME@FILE"])
        raise InputError(f"there is no backbone {name!r}; there are {known}")
    if image_size is None:
        return found
    _check_size(name, found, image_size)
    return replace(found, preprocessing=replace(found.preprocessing, size=image_size))


def _check_size(name: str, backbone: Backbone, size: int) -> None:
    """Raise InputError if a network takes no pictures of a size: many transformers take those of one size only."""
    try:
        forward(backbone.module.eval(), np.zeros((1, 3, size, size), dtype=np.float32))
    except (AssertionError, RuntimeError, ValueError) as error:
        own = backbone.preprocessing.size
        raise InputError(
            f"{name} takes no pictures of {size} × {size} pixels; it was trained on {own} × {own}: leave the image "
            "size out, or choose another network"
        ) from error
