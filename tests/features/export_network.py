"""Write a small convolutional network with random weights as an ONNX file, with its JSON file.

python -m tests.features.export_network OUT.onnx [--seed 0] [--size 64]
"""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import NodeProto, TensorProto, checker, helper, load, numpy_helper, save

from ordrank.features.onnx_graph import OnnxGraph
from ordrank.features.preprocessing import METADATA_KEY, Preprocessing, read_preprocessing
from ordrank.features.preprocessing_graph import append_preprocessing

CHANNELS = (3, 16, 32, 64)
SETTINGS = {"mean": [0.5, 0.5, 0.5], "std": [0.25, 0.25, 0.25], "scale": 255, "layout": "NCHW", "resize": "crop"}


def export_network(path: Path, *, seed: int = 0, size: int = 64) -> None:
    """Write three convolutions of stride 2 with ReLU and a mean over the picture: 64 values.

    Parameters
    ----------
    path : Path
        Where the network goes; its settings go to the same name with ``.json``.
    seed : int
        Of the weights.
    size : int
        Height and width of the pictures it takes.
    """
    rng = np.random.default_rng(seed)
    weights, nodes = [], []
    for layer, (before, after) in enumerate(pairwise(CHANNELS)):
        filters = rng.normal(scale=np.sqrt(2 / (9 * before)), size=(after, before, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(filters, f"filters{layer}"))
        nodes += convolution(layer)
    nodes.append(helper.make_node("GlobalAveragePool", [f"seen{len(CHANNELS) - 1}"], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["features"]))
    pictures = helper.make_tensor_value_info("seen0", TensorProto.FLOAT, ["batch", 3, size, size])
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", CHANNELS[-1]])
    graph = helper.make_graph(nodes, "random filters", [pictures], [features], weights)
    # An old format, so that every runtime of the last years reads it.
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(network)
    save(network, str(path))
    path.with_suffix(".json").write_text(json.dumps({"size": size, **SETTINGS}, indent=2) + "\n", encoding="utf-8")


def export_pixel_network(path: Path, *, seed: int = 0, size: int = 64, metadata: bool = True) -> Preprocessing:
    """Write the network of :func:`export_network` with its preprocessing before it; there is no JSON file."""
    export_network(path, seed=seed, size=size)
    settings = path.with_suffix(".json")
    preprocessing, network, graph = read_preprocessing(settings), load(str(path)), OnnxGraph("test", "preprocessing/")
    settings.unlink()
    append_preprocessing(graph, preprocessing, "picture", "seen0")
    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["height", "width", 3])
    nodes, initializers = [*graph.nodes, *network.graph.node], [*graph.initializers, *network.graph.initializer]
    # The features are not the first output.
    outputs = [helper.make_tensor_value_info("seen0", TensorProto.FLOAT, [1, 3, size, size]), *network.graph.output]
    network = helper.make_model(
        helper.make_graph(nodes, "pixels", [picture], outputs, initializers),
        opset_imports=network.opset_import,
        ir_version=8,
    )
    if metadata:
        helper.set_model_props(network, {METADATA_KEY: preprocessing.to_json()})
    checker.check_model(network)
    save(network, str(path))
    return preprocessing


def convolution(layer: int) -> list[NodeProto]:
    """One convolution and its ReLU."""
    return [
        helper.make_node(
            "Conv",
            [f"seen{layer}", f"filters{layer}"],
            [f"sum{layer}"],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("Relu", [f"sum{layer}"], [f"seen{layer + 1}"]),
    ]


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=64)
    arguments = parser.parse_args()
    export_network(arguments.out, seed=arguments.seed, size=arguments.size)


if __name__ == "__main__":
    main()
