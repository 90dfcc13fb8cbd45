"""The ONNX graph of EfficientNet-Lite computes what its definition says."""

import math

import numpy as np
import onnx
import onnxruntime
import pytest

from ordrank.errors import InputError
from ordrank.features._checkpoint import read_checkpoint
from ordrank.features.efficientnet import EfficientNetLite, Stage, build_network, scaled
from ordrank.features.preprocessing import METADATA_KEY, parse_preprocessing
from ordrank.features.pretrained import PRETRAINED
from tests.features.published import published_weights

TINY = EfficientNetLite(
    size=29, stages=(Stage(1, 3, 1, 1, 4), Stage(2, 5, 2, 6, 8), Stage(2, 3, 2, 3, 8)), stem=4, head=12
)


def layers(network):
    """Yield prefix, input channels, wide channels, output channels, kernel and stride of each block."""
    channels, number = network.stem, 0
    for stage in network.stages:
        for repeat in range(stage.repeats):
            stride = stage.stride if repeat == 0 else 1
            yield f"_blocks.{number}.", channels, channels * stage.expansion, stage.channels, stage.kernel, stride
            channels, number = stage.channels, number + 1


def random_weights(network, seed=0):
    """Return a state dictionary with random filters and statistics."""
    rng, weights = np.random.default_rng(seed), {}

    def add(convolution, normalization, inner, outer, kernel=1):
        scale = 1 / math.sqrt(inner * kernel**2)
        weights[f"{convolution}.weight"] = rng.normal(scale=scale, size=(outer, inner, kernel, kernel))
        for part in ("weight", "running_var"):
            weights[f"{normalization}.{part}"] = rng.uniform(0.5, 2, outer)
        for part in ("bias", "running_mean"):
            weights[f"{normalization}.{part}"] = rng.normal(size=outer)

    add("_conv_stem", "_bn0", 3, network.stem, 3)
    for prefix, inner, wide, outer, kernel, _ in layers(network):
        if wide > inner:
            add(f"{prefix}_expand_conv", f"{prefix}_bn0", inner, wide)
        add(f"{prefix}_depthwise_conv", f"{prefix}_bn1", 1, wide, kernel)
        add(f"{prefix}_project_conv", f"{prefix}_bn2", wide, outer)
    add("_conv_head", "_bn1", network.stages[-1].channels, network.head)
    return {name: values.astype(np.float32) for name, values in weights.items()}


def numpy_features(network, weights, pictures):
    """Return the features (n, head) by the definition, in double precision."""

    def convolve(x, convolution, normalization, stride=1, relu6=True):
        filters = weights[f"{convolution}.weight"].astype(float)
        kernel, side = filters.shape[2], x.shape[2]
        padding = max((math.ceil(side / stride) - 1) * stride + kernel - side, 0)
        ends = (padding // 2, padding - padding // 2)
        x = np.pad(x, [(0, 0), (0, 0), ends, ends])
        windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]
        depthwise = filters.shape[1] == 1 and x.shape[1] > 1
        y = (
            np.einsum("nchwij,cij->nchw", windows, filters[:, 0])
            if depthwise
            else np.einsum("nchwij,ocij->nohw", windows, filters)
        )
        gain, shift, mean, variance = (
            weights[f"{normalization}.{part}"].astype(float)[:, None, None]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        y = gain * (y - mean) / np.sqrt(variance + 1e-3) + shift
        return y.clip(0, 6) if relu6 else y

    x = convolve(pictures.astype(float), "_conv_stem", "_bn0", 2)
    for prefix, inner, wide, outer, _, stride in layers(network):
        y = convolve(x, f"{prefix}_expand_conv", f"{prefix}_bn0") if wide > inner else x
        y = convolve(y, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride)
        y = convolve(y, f"{prefix}_project_conv", f"{prefix}_bn2", relu6=False)
        x = x + y if stride == 1 and inner == outer else y
    return convolve(x, "_conv_head", "_bn1").mean(axis=(2, 3))


def run(network, weights, pictures):
    session = onnxruntime.InferenceSession(build_network(network, weights), providers=["CPUExecutionProvider"])
    return session.run(["features"], {"pictures": pictures})[0]


def draw(network, n=3):
    return np.random.default_rng(1).normal(size=(n, 3, network.size, network.size)).astype(np.float32)


@pytest.mark.parametrize("size", [28, 29, 30, 31, 32])
def test_equals_the_definition(size):
    network = EfficientNetLite(size, TINY.stages, TINY.stem, TINY.head)
    weights, pictures = random_weights(network), draw(network)
    expected = numpy_features(network, weights, pictures)
    assert expected.std() > 0.1
    np.testing.assert_allclose(run(network, weights, pictures), expected, atol=3e-5)


@pytest.mark.parametrize("size", [28, 29, 31])
def test_the_module_equals_the_definition(size):
    torch = pytest.importorskip("torch")
    from ordrank.features.efficientnet_module import load_module

    network = EfficientNetLite(size, TINY.stages, TINY.stem, TINY.head)
    weights, pictures = random_weights(network), draw(network)
    with torch.inference_mode():
        found = load_module(network, with_batch_counts(weights)).eval()(torch.from_numpy(pictures)).numpy()
    np.testing.assert_allclose(found, numpy_features(network, weights, pictures), atol=3e-5)


def with_batch_counts(weights):
    """Return weights in single precision, with the counts of batches that PyTorch keeps beside its statistics."""
    counts = {name.replace("running_var", "num_batches_tracked"): np.array(0) for name in weights if "var" in name}
    return {name: values.astype(np.float32) for name, values in weights.items()} | counts


@pytest.mark.parametrize("change", [lambda w: w.pop("_bn1.bias"), lambda w: w.update({"_bn1.bias": np.zeros(3)})])
def test_the_module_rejects_other_weights(change):
    pytest.importorskip("torch")
    from ordrank.features.efficientnet_module import load_module

    weights = with_batch_counts(random_weights(TINY))
    change(weights)
    with pytest.raises(InputError, match=r"not those of this network.*_bn1\.bias"):
        load_module(TINY, weights)


@pytest.mark.parametrize("name", PRETRAINED)
def test_equals_pytorch_with_the_published_weights(name):
    torch = pytest.importorskip("torch")
    from ordrank.features.efficientnet_module import load_module

    file, network = published_weights(name), PRETRAINED[name].network
    pictures = draw(network, 2)
    loaded = {key: tensor.numpy() for key, tensor in torch.load(file, weights_only=True).items()}
    with torch.inference_mode():
        expected = load_module(network, loaded).eval()(torch.from_numpy(pictures)).numpy()
    np.testing.assert_allclose(run(network, read_checkpoint(file.read_bytes(), name), pictures), expected, atol=1e-4)


def test_features_do_not_depend_on_the_batch():
    weights, pictures = random_weights(TINY), draw(TINY, 5)
    alone = np.concatenate([run(TINY, weights, picture[None]) for picture in pictures])
    np.testing.assert_allclose(run(TINY, weights, pictures), alone, atol=1e-5)


def test_scaling_follows_the_paper():
    lite2 = scaled(260, width=1.1, depth=1.2)
    assert [stage.channels for stage in lite2.stages] == [16, 24, 48, 88, 120, 208, 352]
    assert [stage.repeats for stage in lite2.stages] == [1, 3, 3, 4, 4, 5, 1]
    assert (lite2.stem, lite2.head) == (32, 1280)


def test_the_file_states_its_preprocessing():
    model = onnx.load_from_string(build_network(TINY, random_weights(TINY)))
    (entry,) = model.metadata_props
    assert entry.key == METADATA_KEY
    assert parse_preprocessing(entry.value, "metadata") == TINY.preprocessing


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("_bn1.bias", lambda values: None, "the tensor _bn1.bias is missing"),
        ("_conv_stem.weight", lambda values: values[:, :1], r"shape \(4, 1, 3, 3\) instead of .* \(4, 3, 3, 3\)"),
        ("_blocks.1._bn0.weight", lambda values: values[:-1], r"shape \(23,\) instead of"),
        ("_bn0.weight", lambda values: values.astype(int), "int64 of shape"),
        ("_bn0.running_mean", lambda values: values * np.nan, "not finite"),
    ],
)
def test_wrong_tensors_are_named(name, change, sentence):
    weights = random_weights(TINY)
    changed = change(weights.pop(name))
    if changed is not None:
        weights[name] = changed
    with pytest.raises(InputError, match=sentence):
        build_network(TINY, weights)
