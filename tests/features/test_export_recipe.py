"""The recipe in docs/networks.md exports the image towers that it names; here with random weights."""

import re
from pathlib import Path

import numpy as np
import pytest

from ordrank.features import OnnxNetwork
from tests.features.painting import paint
from tests.features.timm_checkpoints import import_timm

DOCUMENT = Path(__file__).parents[2] / "docs" / "networks.md"
SMALL = {"embed_dim": 48, "depth": 2, "num_heads": 3}
TOWERS = {
    "vit_small_patch14_dinov2.lvd142m": {"img_size": 56},
    "vit_base_patch16_siglip_224.webli": {"img_size": 64},
    "vit_base_patch32_clip_224.openai": {"img_size": 64},
}


def test_the_document_names_these_towers():
    assert all(f'"{name}"' in DOCUMENT.read_text() for name in TOWERS)


@pytest.mark.parametrize("name", TOWERS)
def test_exported_towers_give_the_features_of_pytorch(name, tmp_path):
    timm = import_timm()
    pytest.importorskip("onnxscript")
    import torch

    recipe = {}
    exec(re.search(r"^```python\n(.*?)^```", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)[1], recipe)
    torch.manual_seed(0)
    tower = timm.create_model(name, num_classes=0, **SMALL, **TOWERS[name])
    preprocessing = recipe["describe"](timm.data.resolve_model_data_config(tower), TOWERS[name]["img_size"])
    recipe["export"](tower, tmp_path / "tower.onnx", preprocessing)
    extractor, picture = OnnxNetwork(tmp_path / "tower.onnx"), paint(120, 90)
    with torch.inference_mode():
        expected = tower(torch.from_numpy(extractor._preprocessing.apply(picture))).numpy()
    np.testing.assert_allclose(extractor.extract([picture]), expected, atol=1e-4)
    assert extractor.dim == 48
