"""A small untrained network in place of a pretrained one."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from ordrank.deep.backbones import Backbone, load_backbone
from ordrank.features.efficientnet import EfficientNetLite, Stage
from ordrank.features.efficientnet_module import EfficientNetLiteModule
from ordrank.features.preprocessing import Preprocessing
from ordrank.features.pretrained import PRETRAINED

TINY = EfficientNetLite(size=32, stages=(Stage(1, 3, 1, 1, 8), Stage(1, 3, 2, 4, 16)), stem=8, head=24)
PREPROCESSING = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.25,) * 3, resize="stretch", crop_fraction=0.875)


def tiny_backbone(name, image_size=None):
    torch.manual_seed(0)
    return Backbone(EfficientNetLiteModule(TINY), PREPROCESSING, TINY.head)


@contextmanager
def tiny_networks(steps=None):
    """Add a backbone called tiny; train with this many steps, if it is given."""

    def load(name, image_size=None):
        return tiny_backbone(name) if name == "tiny" else load_backbone(name, image_size)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ordrank.deep.network.load_backbone", load)
        patch.setattr("ordrank.deep.onnx_export.PRETRAINED", {**PRETRAINED, "tiny": SimpleNamespace(network=TINY)})
        if steps is not None:
            patch.setattr("ordrank.deep.network._MIN_STEPS", steps)
            patch.setattr("ordrank.deep.network._MAX_STEPS", steps)
            patch.setattr("ordrank.deep.training._CHECKPOINT_EVERY", 3)
        yield
