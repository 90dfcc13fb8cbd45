"""One ONNX file from a picture to its grade, against PyTorch and the ranker."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import onnx  # noqa: E402
import onnxruntime  # noqa: E402
from PIL import Image  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402

from ordrank.datasets import make_fruit  # noqa: E402
from ordrank.deep import OrdinalNetwork  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from ordrank.features import find_extractor  # noqa: E402
from ordrank.features.preprocessing import METADATA_KEY, parse_preprocessing  # noqa: E402
from tests.deep.tiny import TINY, tiny_networks  # noqa: E402
from tests.features.painting import paint  # noqa: E402
from tests.features.published import published_weights  # noqa: E402
from tests.features.timm_checkpoints import write_timm_checkpoint  # noqa: E402

OUTPUTS = ["features", "embedding", "probabilities", "grade", "interval"]
SHAPES = [(40, 40), (224, 200), (500, 300), (300, 500), (1200, 800), (20, 13)]  # width and height


@pytest.fixture(scope="module")
def fruit():
    return make_fruit(60, size=40)


@pytest.fixture(scope="module")
def tiny():
    """Name of an untrained backbone."""
    with tiny_networks():
        yield "tiny"


@pytest.fixture(scope="module")
def network(tiny, fruit):
    return OrdinalNetwork(tiny, n_folds=2, steps=30, backbone_rate=3e-3).fit(fruit.images, fruit.grade)


def run(file, picture, outputs=OUTPUTS):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(outputs, {"picture": np.asarray(picture)})


def predict(ranker, features):
    embedding, proba = ranker.metric_.transform(features), ranker.predict_proba(features)
    return features, embedding, proba, ranker.predict(features), ranker.predict_interval(features, 0.8)


def assert_equals(network, file, picture):
    """Compare with Pillow's preprocessing: pixels may differ by one level."""
    found, expected = run(file, picture), predict(network.ranker_, network.transform([np.asarray(picture)]))
    for values, exact in zip(found, expected, strict=True):
        np.testing.assert_allclose(values, exact, atol=5e-3 * np.abs(exact).max())


def test_equals_pytorch_and_the_ranker_for_the_same_pixels(network, fruit, tmp_path):
    network.to_onnx(tmp_path / "network.onnx", coverage=0.8)
    model = onnx.load(tmp_path / "network.onnx")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("pictures"))
    for picture in (*fruit.images[:10], *(paint(*shape) for shape in SHAPES)):
        pixels, *found = run(model.SerializeToString(), picture, ["pictures", *OUTPUTS])
        embedding = network.embedding_
        with torch.inference_mode():
            parts = [module(torch.from_numpy(pixels)).numpy() for module in (embedding.model, embedding.pretrained)]
        features = embedding.combine(*parts)
        for values, expected in zip(found, predict(network.ranker_, features), strict=True):
            np.testing.assert_allclose(values, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_takes_pictures_of_any_size(network, tmp_path, shape):
    network.to_onnx(tmp_path / "network.onnx", coverage=0.8)
    assert_equals(network, tmp_path / "network.onnx", paint(*shape))


def test_published_weights(fruit, tmp_path):
    published_weights("efficientnet-lite0")
    network = OrdinalNetwork(image_size=64, n_folds=2, steps=2, batch_size=4).fit(fruit.images[:20], fruit.grade[:20])
    network.to_onnx(tmp_path / "network.onnx", coverage=0.8)
    for picture in (*fruit.images[20:23], paint(300, 200)):
        assert_equals(network, tmp_path / "network.onnx", picture)


def test_networks_of_timm(fruit, tmp_path):
    name = write_timm_checkpoint(tmp_path)
    network = OrdinalNetwork(name, image_size=64, n_folds=2, steps=2, batch_size=4)
    network.fit(fruit.images[:20], fruit.grade[:20]).to_onnx(tmp_path / "network.onnx", coverage=0.8)
    for picture in (*fruit.images[20:23], paint(300, 200)):
        assert_equals(network, tmp_path / "network.onnx", picture)
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "network.onnx").metadata_props}
    assert metadata["ordrank.backbone"] == "timm:resnet10t"  # the file is of this machine


def test_signature_and_metadata(network, tmp_path):
    network.to_onnx(str(tmp_path / "new" / "network.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "new" / "network.onnx", providers=["CPUExecutionProvider"])
    (into,) = session.get_inputs()
    assert (into.name, into.type, into.shape) == ("picture", "tensor(uint8)", ["height", "width", 3])
    dim, m = network.ranker_.embedding_.shape[1], len(network.ranker_.classes_)
    shapes = [[1, 3 + TINY.head], [1, dim], [1, m], [1], [1, 2]]
    assert [(out.name, out.type, out.shape) for out in session.get_outputs()] == [
        (name, "tensor(float)", shape) for name, shape in zip(OUTPUTS, shapes, strict=True)
    ]
    metadata = session.get_modelmeta().custom_metadata_map
    assert parse_preprocessing(metadata[METADATA_KEY], "metadata") == network.embedding_.preprocessing
    assert metadata["ordrank.backbone"] == "tiny"
    assert json.loads(metadata["ordrank.labels"]) == network.ranker_.classes_.tolist()
    assert json.loads(metadata["ordrank.coverage"]) == 0.9


def test_named_labels(tiny, fruit, tmp_path):
    import pandas as pd

    y = pd.Categorical.from_codes(fruit.grade.astype(int) // 2, ["green", "turning", "ripe"], ordered=True)
    network = OrdinalNetwork(tiny, n_folds=2, steps=10).fit(fruit.images, y)
    network.to_onnx(tmp_path / "network.onnx")
    model = onnx.load(tmp_path / "network.onnx")
    labels = json.loads({entry.key: entry.value for entry in model.metadata_props}["ordrank.labels"])
    (grade,) = run(tmp_path / "network.onnx", fruit.images[0], ["grade"])
    assert labels[int(grade[0])] == network.predict(fruit.images[:1])[0]


def test_features_of_the_file_are_those_of_the_network(network, fruit, tmp_path):
    network.to_onnx(tmp_path / "network.onnx")
    extractor = find_extractor(f"onnx:{tmp_path / 'network.onnx'}")
    assert (extractor.dim, extractor.side) == (3 + TINY.head, network.embedding_.preprocessing.side)
    found, expected = extractor.extract([Image.fromarray(x) for x in fruit.images]), network.transform(fruit.images)
    np.testing.assert_allclose(found, expected, atol=2e-3 * np.abs(expected).max())


def test_wrong_arguments_are_rejected(network, tmp_path):
    with pytest.raises(NotFittedError):
        OrdinalNetwork().to_onnx(tmp_path / "network.onnx")
    with pytest.raises(InputError, match="coverage must be a number above 0 and below 1"):
        network.to_onnx(tmp_path / "network.onnx", coverage=1)
    with pytest.raises(InputError, match=f"{tmp_path} is a folder; name a file in it"):
        network.to_onnx(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/network.onnx cannot be written: \w"):
        network.to_onnx(tmp_path / "file" / "network.onnx")


def test_a_network_too_large_for_a_file_is_rejected(network, tmp_path, monkeypatch):
    sizes = [tensor.nbytes for tensor in network.embedding_.model.backbone.state_dict().values()]
    monkeypatch.setattr("ordrank.features.onnx_graph._MAX_BYTES", sum(sizes))
    with pytest.raises(InputError, match=r"to_onnx needs .* more than the 2 GB of an ONNX file"):
        network.to_onnx(tmp_path / "network.onnx")
    assert not list(tmp_path.iterdir())
