"""Trained networks in the ONNX format."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ordrank.errors import InputError
from ordrank.features.efficientnet import build_network
from ordrank.features.preprocessing import METADATA_KEY, Preprocessing
from ordrank.features.pretrained import PRETRAINED


def export_backbone(name: str, module: nn.Module, preprocessing: Preprocessing, metadata: Mapping[str, str]) -> bytes:
    """Return a network as an ONNX file: normalised pictures (batch, 3, size, size) in, features (batch, dim) out.

    Parameters
    ----------
    name : str
        Of the backbone. EfficientNets are written as they are for ``efficientnet-lite0``; others by PyTorch's exporter,
        which needs onnxscript.
    module : Module
    preprocessing : Preprocessing
        Stored in the metadata.
    metadata : mapping from str to str
        Stored there too.
    """
    import onnx

    if name in PRETRAINED:
        weights = {key: tensor.cpu().numpy() for key, tensor in module.state_dict().items()}
        model = onnx.load_from_string(
            build_network(replace(PRETRAINED[name].network, size=preprocessing.size), weights)
        )
    else:
        model = _export(module, preprocessing.size)
    onnx.helper.set_model_props(model, {METADATA_KEY: preprocessing.to_json(), **metadata})
    serialized: bytes = model.SerializeToString()
    return serialized


def _export(module: nn.Module, size: int) -> Any:
    """Return the model of any module, by PyTorch's exporter."""
    import onnx

    device = next(module.parameters()).device
    example, stream = torch.zeros(2, 3, size, size, device=device), io.BytesIO()
    try:
        program = torch.onnx.export(
            module.eval(),
            (example,),
            input_names=["pictures"],
            output_names=["features"],
            dynamic_shapes=({0: torch.export.Dim("batch", min=1)},),
            dynamo=True,
            verbose=False,
        )
    except ImportError as error:
        raise InputError(f"PyTorch needs onnxscript to write an ONNX file: pip install onnxscript ({error})") from error
    program.save(stream)
    return onnx.load_from_string(stream.getvalue())
