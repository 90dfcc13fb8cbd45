"""Trained networks in the ONNX format."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ordrank.errors import InputError
from ordrank.estimators._onnx_graph import append_ranker, ranker_metadata
from ordrank.estimators.ranker import OrdinalRanker
from ordrank.features.efficientnet import build_network
from ordrank.features.onnx_graph import OnnxGraph, check_size, import_onnx
from ordrank.features.preprocessing import METADATA_KEY, Preprocessing
from ordrank.features.preprocessing_graph import append_preprocessing
from ordrank.features.pretrained import PRETRAINED

# Of the names in the three parts of a graph, so that they are unique.
_PREPROCESSING, _NETWORK, _RANKER = "preprocessing/", "network/", "ranker/"


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
    onnx = import_onnx("a fine-tuned network")
    model = _backbone_model(name, module, preprocessing)
    onnx.helper.set_model_props(model, {METADATA_KEY: preprocessing.to_json(), **metadata})
    serialized: bytes = model.SerializeToString()
    return serialized


def export_network(
    name: str, module: nn.Module, preprocessing: Preprocessing, ranker: OrdinalRanker, coverage: float
) -> bytes:
    """Return preprocessing, network and ranker as one ONNX file; see :meth:`OrdinalNetwork.to_onnx`."""
    before, after = OnnxGraph("to_onnx", _PREPROCESSING), OnnxGraph("to_onnx", _RANKER)
    outputs = append_ranker(after, ranker, "features", coverage)  # first: it checks the coverage

    import onnx

    model = onnx.compose.add_prefix(_backbone_model(name, module, preprocessing), _NETWORK, inplace=True)
    graph, helper = model.graph, onnx.helper
    (pictures,), (features,) = graph.input, graph.output
    append_preprocessing(before, preprocessing, "picture", pictures.name)
    after.nodes.insert(0, helper.make_node("Identity", [features.name], ["features"]))
    nodes = [*before.nodes, *graph.node, *after.nodes]
    initializers = [*before.initializers, *graph.initializer, *after.initializers]
    check_size("to_onnx", sum(tensor.ByteSize() for tensor in initializers))
    picture = helper.make_tensor_value_info("picture", onnx.TensorProto.UINT8, ["height", "width", 3])
    shapes = {"features": (1, ranker.n_features_in_), **{key: (1, *shape[1:]) for key, shape in outputs.items()}}
    whole = helper.make_model(
        helper.make_graph(nodes, "OrdinalNetwork", [picture], before.describe(shapes), initializers),
        opset_imports=model.opset_import,  # all nodes mean the same in opset 17 and later
        functions=model.functions,
        ir_version=model.ir_version,
    )
    metadata = {METADATA_KEY: preprocessing.to_json(), "ordrank.backbone": name.partition("@")[0]}
    helper.set_model_props(whole, {**ranker_metadata(ranker, coverage), **metadata})
    onnx.checker.check_model(whole)
    serialized: bytes = whole.SerializeToString()
    return serialized


def _backbone_model(name: str, module: nn.Module, preprocessing: Preprocessing) -> Any:
    """Return a network in the classes of onnx: ``pictures`` in, ``features`` out."""
    import onnx

    if name not in PRETRAINED:
        return _export(module, preprocessing.size)
    weights = {key: tensor.cpu().numpy() for key, tensor in module.state_dict().items()}
    return onnx.load_from_string(build_network(replace(PRETRAINED[name].network, size=preprocessing.size), weights))


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
    except Exception as error:  # its exporter raises anything for what it does not know
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"PyTorch cannot write this network in the ONNX format: {reason}") from error
    program.save(stream)
    return onnx.load_from_string(stream.getvalue())
