"""The reader of checkpoints: it returns what PyTorch would, and constructs nothing but tensors."""

import builtins
import os
import pickle
import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.errors import InputError
from ordrank.features._checkpoint import read_checkpoint
from ordrank.features.pretrained import PRETRAINED
from tests.features.checkpoints import assemble, call, checkpoint, constant, mapping, name, storage, tensor
from tests.features.published import published_weights

ONE = np.arange(3, dtype=np.float32)
DATA = [("0", 3, ONE.tobytes())]
SMALL = {
    "filters": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4)),
    "bias": np.array([1.5, -2.0], dtype=np.float32),
    "steps": np.array(7),
    "none": np.zeros((0, 3), dtype=np.float32),
}


def reject(content, reason):
    with pytest.raises(InputError, match=reason) as caught:
        read_checkpoint(content, "net.pth")
    assert str(caught.value).startswith("net.pth is ")
    assert "\n" not in str(caught.value)


def test_returns_the_arrays_that_were_written():
    read = read_checkpoint(checkpoint(SMALL), "net.pth")
    assert list(read) == list(SMALL)
    for key, expected in SMALL.items():
        np.testing.assert_array_equal(read[key], expected)
        assert read[key].dtype == expected.dtype


def test_returns_what_torch_has_saved():
    torch = pytest.importorskip("torch")
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 5), torch.nn.BatchNorm2d(4))
    weights = layers.state_dict()
    weights["turned"] = torch.arange(12.0).reshape(3, 4).T
    weights["part"] = torch.arange(12.0)[3:7]
    stream = BytesIO()
    torch.save(weights, stream, _use_new_zipfile_serialization=False)
    read = read_checkpoint(stream.getvalue(), "net.pth")
    assert list(read) == list(weights)
    for key, expected in weights.items():
        np.testing.assert_array_equal(read[key], expected.numpy())


@pytest.mark.parametrize("network", PRETRAINED)
def test_returns_what_torch_reads_from_the_published_weights(network):
    torch = pytest.importorskip("torch")
    file = published_weights(network)
    expected, read = torch.load(file, weights_only=True), read_checkpoint(file.read_bytes(), str(file))
    assert list(read) == list(expected)
    assert all(np.array_equal(read[key], tensor.numpy()) for key, tensor in expected.items())


def hostile(tmp_path):
    """Return pickles that would create a file, by what they try."""
    command = f"touch {tmp_path}/executed"
    code = f"open({str(tmp_path / 'executed')!r}, 'w')"

    class Reduced:
        def __reduce__(self):
            return os.system, (command,)

    class Evaluated:
        def __reduce__(self):
            return builtins.eval, (code,)

    system, run = name("os", "system"), name("builtins", "eval")
    build = name("torch._utils", "_rebuild_tensor_v2")
    imported = call(name("builtins", "__import__"), constant("os"))
    return {
        "os.system": call(system, constant(command)),
        "posix.system": call(name("posix", "system"), constant(command)),
        "subprocess": call(name("subprocess", "getoutput"), constant(command)),
        "builtins.eval": call(run, constant(code)),
        "builtins.exec": call(name("builtins", "exec"), constant(code)),
        "__reduce__": pickle.dumps(Reduced(), 2)[2:-1],
        "__reduce__ of protocol 4": pickle.dumps(Evaluated(), 4)[2:-1],
        "nested getattr": call(call(name("builtins", "getattr"), imported, constant("system")), constant(command)),
        "dotted name": b"\x8c\x05torch\x8c\x16FloatStorage.__class__\x93",
        "dotted builder": constant("torch._utils") + constant("_rebuild_tensor_v2.__class__") + b"\x93",
        "instance opcode": b"(" + constant(command) + b"ios\nsystem\n",
        "object opcode": b"(" + system + constant(command) + b"o",
        "new object": name("builtins", "object") + b")\x81",
        "extension": b"\x82\x01",
        "torch.load": call(name("torch", "load"), constant(str(tmp_path))),
        "unsafe storage": call(name("torch.storage", "_load_from_bytes"), constant(b"")),
        "called storage": call(name("torch", "FloatStorage"), constant(code)),
        "changed builder": build + b"}" + constant("__call__") + system + b"sb",
        "state of the builder": build + constant((None, {"__call__": 1})) + b"b",
        "state of the mapping": name("collections", "OrderedDict") + constant((None, {"__init__": 1})) + b"b",
        "state of a tensor": tensor(storage("0", 3), 0, (3,), (1,)) + constant((None, {"offset": 9})) + b"b",
        "state of a storage": storage("0", 3) + constant({"length": 9}) + b"b",
    }


@pytest.mark.parametrize("attempt", list(hostile(Path("unused"))))
@pytest.mark.parametrize("inside", [False, True])
def test_hostile_pickles_do_nothing(tmp_path, attempt, inside):
    payload = hostile(tmp_path)[attempt]
    described = mapping([("weights", payload)]) if inside else payload
    reject(assemble(described, DATA), "not a checkpoint of plain tensors")
    assert not (tmp_path / "executed").exists()
    np.testing.assert_array_equal(read_checkpoint(checkpoint({"one": ONE}), "net.pth")["one"], ONE)


@pytest.mark.parametrize("part", range(5))
def test_every_pickle_of_a_file_is_restricted(tmp_path, part):
    payload = b"\x80\x02" + hostile(tmp_path)["os.system"] + b"."
    pickles = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}, {}, [])]
    reject(b"".join([*pickles[:part], payload, *pickles[part + 1 :]]), r"it names os\.system")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        (0, (4,), (1,)),
        (1, (3,), (1,)),
        (0, (2, 2), (2, 1)),
        (3, (1,), (1,)),
        (0, (2**62,), (1,)),
        (0, (2**40, 2**40), (0, 0)),
        (0, (10**6,), (0,)),
        (0, (2,), (2**62,)),
        (2**80, (1,), (1,)),
        (0, (0, 2**70), (1, 1)),
        (-1, (1,), (1,)),
        (0, (-1,), (1,)),
        (2, (2,), (-1,)),
        (0, (3,), (1, 1)),
        (0, (1,) * 100, (1,) * 100),
        (0, (2.0,), (1,)),
        (0, (True,), (1,)),
        (0, [3], (1,)),
        (None, (3,), (1,)),
    ],
)
def test_tensors_beyond_their_data_are_rejected(offset, shape, strides):
    described = mapping([("weights", tensor(storage("0", 3), offset, shape, strides))])
    reject(assemble(described, DATA), "damaged")


@pytest.mark.parametrize(
    ("stored", "data"),
    [
        (storage("0", 2**60), [("0", 2**60, b"")]),
        (storage("0", -1), [("0", -1, ONE.tobytes())]),
        (storage("0", 3), [("0", 4, ONE.tobytes())]),
        (storage("0", 3), [("1", 3, ONE.tobytes())]),
        (storage("0", 3), []),
        (storage("0", 3), [("0", 3, ONE.tobytes()), ("0", 3, ONE.tobytes())]),
        (storage("0", 3), [("0", 3, ONE.tobytes()[:-1])]),
        (storage("0", 3, "float16"), DATA),
        (constant("storage") + b"Q", DATA),
        (constant(("module", "<f4", "0", "cpu", 3)) + b"Q", DATA),
        (constant(("storage", "<f8", "0", "cpu", 3)) + b"Q", DATA),
        (constant(("storage", "<f4", 0, "cpu", 3)) + b"Q", DATA),
        (constant(("storage", "<f4", "0", "cpu", 3, ("1", 0, 3))) + b"Q", DATA),
        (constant("0"), DATA),
    ],
)
def test_wrong_storages_are_rejected(stored, data):
    reject(assemble(mapping([("weights", tensor(stored, 0, (3,), (1,)))]), data), "damaged")


def test_two_types_of_the_same_data_are_rejected():
    both = [(dtype, tensor(storage("0", 1, dtype), 0, (1,), (1,))) for dtype in ("int64", "float32")]
    reject(assemble(mapping(both), [("0", 1, bytes(8))]), "int64 reaches beyond")


@pytest.mark.parametrize(
    "described",
    [constant([1]), constant("weights"), mapping([("a", constant(1))]), mapping([("a", mapping([]))])],
)
def test_anything_but_named_tensors_is_rejected(described):
    reject(assemble(described, []), "not a mapping from names to tensors")


def test_other_formats_are_named():
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    reject(stream.getvalue(), "zip archive: only checkpoints in the format before")
    reject(stream.getvalue()[:30], "zip archive")
    reject(pickle.dumps({}, 2) * 2, "does not begin as torch.save does")
    reject(b"", "damaged")
    true, false = (b"little_endianq\x01" + opcode for opcode in (b"\x88", b"\x89"))
    swapped = checkpoint(SMALL).replace(true, false)
    reject(swapped, "big-endian")


def test_every_truncated_file_is_rejected():
    content = checkpoint(SMALL)
    for length in range(len(content)):
        with pytest.raises(InputError):
            read_checkpoint(content[:length], "net.pth")


@given(st.integers(0, len(checkpoint(SMALL)) - 1), st.integers(1, 255))
def test_any_damaged_byte_gives_arrays_or_an_input_error(position, change):
    content = bytearray(checkpoint(SMALL))
    content[position] ^= change
    with suppress(InputError):
        read = read_checkpoint(bytes(content), "net.pth")
        assert all(isinstance(array, np.ndarray) for array in read.values())
