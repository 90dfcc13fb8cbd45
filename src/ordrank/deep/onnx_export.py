"""Trained networks in the ONNX format."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from ordrank.deep.embedding import NetworkEmbedding
from ordrank.errors import InputError
from ordrank.estimators._onnx_graph import append_ranker, ranker_metadata
from ordrank.estimators.ranker import OrdinalRanker
from ordrank.features.efficientnet import build_network
from ordrank.features.onnx_check import find_unsafe
from ordrank.features.onnx_graph import OnnxGraph, check_size, import_onnx
from ordrank.features.preprocessing import METADATA_KEY, Preprocessing
from ordrank.features.preprocessing_graph import append_preprocessing
from ordrank.features.pretrained import PRETRAINED


def export_backbone(name: str, module: nn.Module, preprocessing: Preprocessing) -> Any:
    """Return a network in the classes of onnx: ``pictures`` (batch, 3, size, size) in, ``features`` (batch, dim) out.

    Parameters
    ----------
    name : str
        Of the backbone. EfficientNets are written as they are for ``efficientnet-lite0``; others by PyTorch's exporter,
        which needs onnxscript.
    module : Module
    preprocessing : Preprocessing
    """
    onnx = import_onnx("a fine-tuned network")
    if name not in PRETRAINED:
        return _export(module, preprocessing.size)
    weights = {key: tensor.cpu().numpy() for key, tensor in module.state_dict().items()}
    return onnx.load_from_string(build_network(replace(PRETRAINED[name].network, size=preprocessing.size), weights))


def export_outputs(name: str, embedding: NetworkEmbedding, metadata: Mapping[str, str]) -> bytes:
    """Return a fine-tuned network as an ONNX file: normalised pictures in, ``outputs`` (batch, s) out.

    Its preprocessing and the given texts are in the metadata.
    """
    onnx = import_onnx("a fine-tuned network")
    model = _outputs_model(name, embedding)
    onnx.helper.set_model_props(model, {METADATA_KEY: embedding.preprocessing.to_json(), **metadata})
    onnx.checker.check_model(model)
    serialized: bytes = model.SerializeToString()
    return serialized


def export_network(name: str, embedding: NetworkEmbedding, ranker: OrdinalRanker, coverage: float) -> bytes:
    """Return preprocessing, networks and ranker as one ONNX file; see :meth:`OrdinalNetwork.to_onnx`."""
    before, after = OnnxGraph("to_onnx", "preprocessing/"), OnnxGraph("to_onnx", "ranker/")
    outputs = append_ranker(after, ranker, "features", coverage)  # first: it checks the coverage

    import onnx

    helper, preprocessing = onnx.helper, embedding.preprocessing
    pretrained = export_backbone(name, embedding.pretrained, preprocessing)
    networks = {"tuned/": _outputs_model(name, embedding), "pretrained/": pretrained}
    models = [onnx.compose.add_prefix(model, prefix, inplace=True) for prefix, model in networks.items()]
    append_preprocessing(before, preprocessing, "picture", "pictures")
    for model in models:
        before.add_node("Identity", ["pictures"], model.graph.input[0].name)
    tuned, untuned = (model.graph.output[0].name for model in models)
    join = OnnxGraph("to_onnx", "join/")
    join.add_node("Concat", [tuned, join.add_node("Mul", [untuned, np.float32(embedding.weight)])], "features", axis=1)
    nodes = [*before.nodes, *(node for model in models for node in model.graph.node), *join.nodes, *after.nodes]
    initializers = [*before.initializers, *join.initializers, *after.initializers]
    initializers += [tensor for model in models for tensor in model.graph.initializer]
    check_size("to_onnx", sum(tensor.ByteSize() for tensor in initializers))
    picture = helper.make_tensor_value_info("picture", onnx.TensorProto.UINT8, ["height", "width", 3])
    shapes = {"features": (1, ranker.n_features_in_), **{key: (1, *shape[1:]) for key, shape in outputs.items()}}
    whole = helper.make_model(
        helper.make_graph(nodes, "OrdinalNetwork", [picture], before.describe(shapes), initializers),
        opset_imports=pretrained.opset_import,  # all nodes mean the same in opset 17 and later
        ir_version=pretrained.ir_version,
    )
    metadata = {METADATA_KEY: preprocessing.to_json(), "ordrank.backbone": name.partition("@")[0]}
    helper.set_model_props(whole, {**ranker_metadata(ranker, coverage), **metadata})
    onnx.checker.check_model(whole)
    serialized: bytes = whole.SerializeToString()
    return serialized


def _outputs_model(name: str, embedding: NetworkEmbedding) -> Any:
    """Return a fine-tuned network in the classes of onnx, with its linear layer: ``pictures`` in, ``outputs`` out."""
    model = export_backbone(name, embedding.model.backbone, embedding.preprocessing)

    layer, mean = embedding.model.layer, embedding.model.mean.cpu().numpy()
    weight, bias = layer.weight.detach().cpu().numpy(), layer.bias.detach().cpu().numpy()
    weight = weight / embedding.model.scale
    last = OnnxGraph("a fine-tuned network", "layer/")
    features = model.graph.output.pop().name
    last.add_node("Gemm", [features, weight, (bias - weight @ mean).astype(np.float32)], "outputs", transB=1)
    model.graph.node.extend(last.nodes)
    model.graph.initializer.extend(last.initializers)
    model.graph.output.extend(last.describe({"outputs": ("batch", layer.out_features)}))
    return model


def _export(module: nn.Module, size: int) -> Any:
    """Return the model of any module, by PyTorch's exporter; raise InputError if a collection could not run it."""
    import onnx
    import onnx.inliner

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
    model = onnx.inliner.inline_local_functions(onnx.load_from_string(stream.getvalue()))
    if (unsafe := find_unsafe(model.SerializeToString())) is not None:
        raise InputError(f"PyTorch writes this network with {unsafe} in the ONNX format, which is not run")
    return model
