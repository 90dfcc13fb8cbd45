"""Networks of strangers: what is not run, and what a run may take."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from ordrank.errors import InputError
from ordrank.features import OnnxNetwork
from ordrank.features.onnx_check import find_unsafe
from tests.features.export_network import export_network
from tests.features.painting import paint


def constant(values, name="constant"):
    return numpy_helper.from_array(np.asarray(values), name)


def network(*nodes, constants=(), **model):
    """A network ``features`` of ``pictures`` (batch, 3, 8, 8)."""
    inputs = [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, ["batch", 3, 8, 8])]
    outputs = [helper.make_tensor_value_info("features", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "network", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, **model)


def loop():
    """A network that counts to 2^62."""
    kinds = {"i": TensorProto.INT64, "again": TensorProto.BOOL, "x": TensorProto.FLOAT}
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in list(kinds.items())[1:]]
    for output in outputs:
        output.name += " after"
    nodes = [
        helper.make_node("Identity", ["again"], ["again after"]),
        helper.make_node("Add", ["x", "x"], ["x after"]),
    ]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    return network(
        helper.make_node("ReduceMean", ["pictures"], ["mean"], keepdims=0),
        helper.make_node("Loop", ["count", "", "mean"], ["features"], body=body),
        constants=[constant(np.int64(2**62), "count")],
    )


def branch():
    nodes = [helper.make_node("Identity", ["pictures"], ["features"])]
    graph = helper.make_graph(nodes, "branch", [], [helper.make_tensor_value_info("features", TensorProto.FLOAT, None)])
    return network(helper.make_node("If", ["is"], ["features"], then_branch=graph, else_branch=graph))


def external():
    tensor = constant([1.0])
    tensor.external_data.add(key="location", value="../../../etc/passwd")
    tensor.data_location = TensorProto.EXTERNAL
    return tensor


def function():
    node = helper.make_node("Identity", ["x"], ["y"])
    return helper.make_function("own", "f", ["x"], ["y"], [node], [helper.make_opsetid("", 17)])


def sparse():
    return SparseTensorProto(values=constant([1.0]), indices=constant([5]), dims=[2**40])


def with_sparse_weights():
    model = network()
    model.graph.sparse_initializer.append(sparse())
    return model


UNSAFE = {
    "loop": (loop(), "a loop or a branch"),
    "branch": (branch(), "a loop or a branch"),
    "weights elsewhere": (network(constants=[external()]), "data in another file"),
    "constant elsewhere": (
        network(helper.make_node("Constant", [], ["features"], value=external())),
        "data in another file",
    ),
    "functions": (network(functions=[function()]), "functions"),
    "sparse weights": (with_sparse_weights(), "a sparse tensor"),
    "sparse constant": (
        network(helper.make_node("Constant", [], ["features"], sparse_value=sparse())),
        "a sparse tensor",
    ),
    "texts": (network(helper.make_node("StringConcat", ["a", "a"], ["b"])), "operations on texts"),
}


@pytest.mark.parametrize("case", UNSAFE)
def test_what_is_not_run_is_named(case):
    model, found = UNSAFE[case]
    assert find_unsafe(model.SerializeToString()) == found


def test_what_other_readers_may_take_for_another_field_is_not_run():
    content = network(functions=[function()]).SerializeToString()
    for tag, found in ((b"\xca\x81\x80\x00", "functions"), (b"\xca\x81\x80\x80\x10", "an invalid structure")):
        assert content.count(b"\xca\x01") == 1  # the tag of functions
        assert find_unsafe(content.replace(b"\xca\x01", tag)) == found


@pytest.mark.parametrize("content", [b"\x07", b"\x3a\x05x", b"\x3a", b"\x08" + b"\xff" * 20, b"\x08\x07" + b"[" * 99])
def test_what_is_no_network_is_named(content):
    assert find_unsafe(content) == "an invalid structure"


def test_ordinary_networks_are_run(tmp_path):
    export_network(tmp_path / "net.onnx", size=32)
    assert find_unsafe((tmp_path / "net.onnx").read_bytes()) is None


def test_a_limited_network_does_not_fill_the_memory(tmp_path):
    nodes = [
        helper.make_node("ReduceMean", ["pictures"], ["mean"], keepdims=0),
        helper.make_node("Expand", ["mean", "shape"], ["huge"]),
        helper.make_node("ReduceMax", ["huge"], ["features"], keepdims=1),
    ]
    write(tmp_path, network(*nodes, constants=[constant(np.array([2**31]), "shape")]))
    with pytest.raises(InputError, match="does not run on a picture"):
        OnnxNetwork(tmp_path / "net.onnx", is_limited=True)


def test_a_limited_network_has_the_same_features(tmp_path):
    export_network(tmp_path / "net.onnx", size=32)
    limited, unlimited = (OnnxNetwork(tmp_path / "net.onnx", is_limited=limited) for limited in (True, False))
    assert limited.fingerprint == unlimited.fingerprint
    np.testing.assert_array_equal(limited.extract([paint()]), unlimited.extract([paint()]))


@pytest.mark.parametrize("is_endless", [True, False])
def test_an_interrupt_ends_a_run(tmp_path, is_endless):
    """Also within a node: a product of matrices that takes minutes."""
    product = [
        helper.make_node("ReduceMean", ["pictures"], ["mean"], keepdims=0),
        helper.make_node("Expand", ["mean", "shape"], ["huge"]),
        helper.make_node("MatMul", ["huge", "huge"], ["features"]),
    ]
    write(tmp_path, loop() if is_endless else network(*product, constants=[constant([15_000, 15_000], "shape")]))
    code = "import sys; from ordrank.features import OnnxNetwork; print(flush=True); OnnxNetwork(sys.argv[1])"
    command = [sys.executable, "-c", code, tmp_path / "net.onnx"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)  # it runs
        process.send_signal(signal.SIGINT)
        _, printed = process.communicate(timeout=10)
    finally:
        process.kill()
    assert printed.splitlines()[-1] == "KeyboardInterrupt"


def write(folder, model):
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    (folder / "net.json").write_text('{"size": 8, "mean": [0, 0, 0], "std": [1, 1, 1]}')
