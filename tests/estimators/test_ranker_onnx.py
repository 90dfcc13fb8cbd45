"""A ranker in the ONNX format computes what the ranker predicts."""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from ordrank import LDMLR, CMDSMetric, OrdinalMetric, OrdinalRanker
from ordrank.errors import InputError
from ordrank.estimators._onnx_graph import append_ranker
from ordrank.features import onnx_graph
from ordrank.features.onnx_graph import OnnxGraph
from ordrank.neighbors import k_nearest

OUTPUTS = ["embedding", "probabilities", "grade", "interval"]
NAMES = ["none", "mild", "bad", "awful", "fatal"]


def samples(seed=0, n=150):
    """Return samples that float32 holds exactly, and labels with a gap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)).astype(np.float32).astype(float)
    latent = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.8 * rng.normal(size=n)
    return X, np.array([0.0, 1.0, 2.0, 5.0])[np.searchsorted([-0.7, 0.3, 1.2], latent)]


def named(y):
    """Return an ordered categorical in which the second name never occurs."""
    return pd.Categorical.from_codes(np.array([0, 2, 3, 4])[np.searchsorted([0, 1, 2, 5], y)], NAMES, ordered=True)


RANKERS = {
    "default": OrdinalRanker(),
    "rbf, distance": OrdinalRanker(OrdinalMetric(kernel="rbf"), weights="distance"),
    "rbf, uniform": OrdinalRanker(OrdinalMetric(kernel="rbf"), weights="uniform"),
    "rbf, no rescaling": OrdinalRanker(OrdinalMetric(kernel="rbf", discriminant=False), n_neighbors=7),
    "rbf, no appearance": OrdinalRanker(OrdinalMetric(kernel="rbf", locality=0.0), n_neighbors=9),
    "linear, distance": OrdinalRanker(OrdinalMetric(kernel="linear"), weights="distance"),
    "linear, uniform": OrdinalRanker(OrdinalMetric(kernel="linear"), weights="uniform"),
    "one neighbour": OrdinalRanker(n_neighbors=1),
    "all neighbours": OrdinalRanker(n_neighbors=150),
    "prior": OrdinalRanker(class_prior=[0.1, 0.2, 0.3, 0.4]),
    "cMDS": OrdinalRanker(CMDSMetric(2, solver="fast", scale="fixed")),
    "cMDS, votes alone": OrdinalRanker(CMDSMetric(2, solver="fast", scale="fixed"), n_neighbors=5, weights="distance"),
    "LDMLR": OrdinalRanker(LDMLR(step="exact", max_iter=20)),
    "passthrough": OrdinalRanker("passthrough"),
}


def run(file, queries):
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(OUTPUTS, {"features": np.asarray(queries, dtype=np.float32)})


def export(ranker, queries, directory, **options):
    file = directory / "ranker.onnx"
    ranker.to_onnx(file, **options)
    return run(file, queries)


def assert_same_predictions(ranker, queries, directory, atol=1e-4):
    embedding, proba, grade, interval = export(ranker, queries, directory)
    expected = queries if isinstance(ranker.metric_, str) else ranker.metric_.transform(queries)
    scale = np.abs(expected).max()
    assert scale > 0
    np.testing.assert_allclose(embedding / scale, expected / scale, atol=1e-6)
    expected = ranker.predict_proba(queries)
    np.testing.assert_allclose(proba, expected, atol=atol)
    np.testing.assert_array_equal(grade, ranker.grade_distribution_.median(expected))
    np.testing.assert_array_equal(interval, ranker.grade_distribution_.interval(expected, 0.9))


@pytest.fixture(scope="module")
def ranker():
    return OrdinalRanker().fit(*samples())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RANKERS)
def test_outputs_equal_the_predictions(name, dtype, tmp_path):
    X, y = samples()
    fitted = RANKERS[name].fit(X.astype(dtype), y)
    queries = np.vstack([samples(1)[0], X]).astype(dtype)  # training samples too: only copies have weight
    assert_same_predictions(fitted, queries, tmp_path)


def test_no_part_of_the_distribution_is_left_out_of_these_tests(ranker):
    distribution = ranker.grade_distribution_
    assert 0 < distribution.frequency_weight < 1
    assert 0 < distribution.threshold_weight < 1
    assert np.isfinite(distribution._largest_scores(0.9)).all()
    rbf = OrdinalMetric(kernel="rbf").fit(*samples()).ordinal_embedding_
    assert not rbf.rescaling.is_identity
    assert rbf.locality > 0


def test_features_far_from_the_origin_lose_no_digits(tmp_path):
    X, y = samples()
    X = np.round(X, 2)
    far = (1e4 + X).astype(np.float32)
    fitted = OrdinalRanker().fit(far, y)
    assert_same_predictions(fitted, np.vstack([far, far + np.float32(0.1)]), tmp_path)
    fitted = OrdinalRanker("passthrough").fit(far.astype(float), y)
    assert_same_predictions(fitted, far + 0.125, tmp_path)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_copies_of_a_query_share_its_votes(kernel, dtype, tmp_path):
    X, y = samples()
    other = np.where(y == 5, 0.0, 5.0)
    X, y = np.vstack([X, X[:20], X[:20]]).astype(dtype), np.concatenate([y, other[:20], y[:20]])
    fitted = OrdinalRanker(OrdinalMetric(kernel=kernel), n_neighbors=9, weights="distance").fit(X, y)
    assert_same_predictions(fitted, X, tmp_path)


def test_votes_of_copies_alone_are_their_labels(tmp_path):
    X, y = samples(n=40)
    metric = CMDSMetric(2, solver="fast", scale="fixed")
    X, y = np.vstack([X, X[:1], X[:1]]), np.concatenate([y, [0.0, 5.0]])
    y[0] = 5
    fitted = OrdinalRanker(metric, n_neighbors=7, weights="distance").fit(X, y)
    _, proba, grade, _ = export(fitted, X[:1], tmp_path)
    np.testing.assert_allclose(proba, [[1 / 3, 0, 0, 2 / 3]], atol=1e-6)
    assert grade.tolist() == [5]


features = st.integers(-40, 40).map(lambda number: number / 8)


@given(
    arrays(float, (24, 2), elements=features),
    arrays(float, (8, 2), elements=features),
    st.integers(1, 24),
    st.sampled_from(["uniform", "distance"]),
)
@settings(max_examples=25)
def test_any_samples_have_the_same_votes(tmp_path_factory, X, queries, k, weights):
    _, distances = k_nearest(X, queries, len(X))
    assume(k == len(X) or (distances[:, k] > distances[:, k - 1]).all())  # voters are not chosen among equals
    fitted = OrdinalRanker("passthrough", n_neighbors=k, weights=weights).fit(X, np.arange(24) % 3)
    _, proba, _, _ = export(fitted, queries, tmp_path_factory.mktemp("onnx"))
    np.testing.assert_allclose(proba, fitted.predict_proba(queries), atol=1e-6)


def test_a_query_does_not_depend_on_the_others(ranker, tmp_path):
    queries = samples(1)[0]
    together = export(ranker, queries, tmp_path)
    for row in (0, 7):
        for one, all_ in zip(run(tmp_path / "ranker.onnx", queries[row : row + 1]), together, strict=True):
            np.testing.assert_allclose(one[0], all_[row], atol=1e-6)


def test_tensors_give_the_same_file(tmp_path):
    torch = pytest.importorskip("torch")
    X, y = samples()
    fitted = OrdinalRanker().fit(torch.from_numpy(X), torch.from_numpy(y))
    queries = samples(1)[0]
    _, proba, grade, _ = export(fitted, queries, tmp_path)
    np.testing.assert_allclose(proba, fitted.predict_proba(torch.from_numpy(queries)), atol=1e-4)
    np.testing.assert_array_equal(grade, fitted.predict(torch.from_numpy(queries)))


def test_inputs_and_outputs_are_described(ranker, tmp_path):
    ranker.to_onnx(str(tmp_path / "new" / "ranker.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "new" / "ranker.onnx", providers=["CPUExecutionProvider"])
    described = {tensor.name: (tensor.type, tensor.shape) for tensor in session.get_inputs() + session.get_outputs()}
    width = ranker.embedding_.shape[1]
    shapes = [["n", 6], ["n", width], ["n", 4], ["n"], ["n", 2]]
    assert described == {
        name: ("tensor(float)", shape) for name, shape in zip(["features", *OUTPUTS], shapes, strict=True)
    }
    metadata = session.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["ordrank.labels"]) == json.loads(metadata["ordrank.label_values"]) == [0, 1, 2, 5]
    assert float(metadata["ordrank.coverage"]) == 0.9


def test_named_labels_are_numbers_with_names_in_the_metadata(tmp_path):
    X, y = samples()
    fitted = OrdinalRanker().fit(X, named(y))
    queries = samples(1)[0]
    _, proba, grade, interval = export(fitted, queries, tmp_path)
    metadata = {entry.key: json.loads(entry.value) for entry in onnx.load(tmp_path / "ranker.onnx").metadata_props}
    assert metadata["ordrank.labels"] == ["none", "bad", "awful", "fatal"]
    assert metadata["ordrank.label_values"] == [0, 2, 3, 4]
    np.testing.assert_allclose(proba, fitted.predict_proba(queries), atol=1e-4)
    names = dict(zip(metadata["ordrank.label_values"], metadata["ordrank.labels"], strict=True))
    assert [names[value] for value in grade] == fitted.predict(queries).tolist()
    assert [[names[value] for value in row] for row in interval] == fitted.predict_interval(queries).tolist()


@given(st.floats(0.05, 0.95))
@settings(max_examples=10)
def test_intervals_have_the_given_coverage(ranker, tmp_path_factory, coverage):
    queries, directory = samples(1, n=40)[0], tmp_path_factory.mktemp("onnx")
    *_, interval = export(ranker, queries, directory, coverage=coverage)
    np.testing.assert_array_equal(interval, ranker.predict_interval(queries, coverage=coverage))
    metadata = {entry.key: entry.value for entry in onnx.load(directory / "ranker.onnx").metadata_props}
    assert float(metadata["ordrank.coverage"]) == coverage


@pytest.mark.parametrize("opset", [17, 21])
def test_nodes_can_follow_a_network(ranker, opset):
    """Of another version, with names of its own."""
    helper, graph = onnx.helper, OnnxGraph("this test", prefix="ranker/")
    network = [helper.make_node("Neg", ["pictures"], ["x0"]), helper.make_node("Identity", ["x0"], ["c0"])]
    outputs = append_ranker(graph, ranker, "c0", 0.9)
    inputs = graph.describe({"pictures": ("n", 6)})
    whole = helper.make_graph([*network, *graph.nodes], "both", inputs, graph.describe(outputs), graph.initializers)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    queries = samples(1)[0]
    (proba,) = session.run(["probabilities"], {"pictures": -queries.astype(np.float32)})
    np.testing.assert_allclose(proba, ranker.predict_proba(queries), atol=1e-4)


def test_an_unfitted_ranker_is_rejected(tmp_path):
    with pytest.raises(NotFittedError):
        OrdinalRanker().to_onnx(tmp_path / "ranker.onnx")


@pytest.mark.parametrize("coverage", [0, 1, float("nan")])
def test_an_impossible_coverage_is_rejected(ranker, tmp_path, coverage):
    with pytest.raises(InputError, match="coverage must be a number above 0 and below 1"):
        ranker.to_onnx(tmp_path / "ranker.onnx", coverage=coverage)
    assert not list(tmp_path.iterdir())


def test_other_metrics_are_rejected(tmp_path):
    fitted = OrdinalRanker(make_pipeline(PCA(3), OrdinalMetric()), n_neighbors=5, weights="uniform").fit(*samples())
    with pytest.raises(InputError, match="OrdinalMetric, CMDSMetric, LDMLR or 'passthrough', not Pipeline"):
        fitted.to_onnx(tmp_path / "ranker.onnx")
    assert not list(tmp_path.iterdir())


def test_a_missing_package_is_named(ranker, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(InputError, match=r"to_onnx needs the package onnx: pip install 'ordrank\[photos\]'"):
        ranker.to_onnx(tmp_path / "ranker.onnx")


def test_a_ranker_too_large_for_a_file_is_rejected(ranker, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "_MAX_BYTES", 1000)
    with pytest.raises(InputError, match="more than the 2 GB of an ONNX file"):
        ranker.to_onnx(tmp_path / "ranker.onnx")
    assert not list(tmp_path.iterdir())


def test_a_path_that_cannot_be_written_is_named(ranker, tmp_path):
    with pytest.raises(InputError, match=f"{tmp_path} is a folder; name a file in it"):
        ranker.to_onnx(tmp_path)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InputError, match=r"file/ranker.onnx cannot be written: \w"):
        ranker.to_onnx(file / "ranker.onnx")


def test_a_full_disk_leaves_the_old_file(ranker, tmp_path, monkeypatch):
    file = tmp_path / "ranker.onnx"
    file.write_text("old")

    def write_half(self, content):
        with self.open("wb") as stream:
            stream.write(content[: len(content) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(InputError, match=r"ranker.onnx cannot be written: no space left on device"):
        ranker.to_onnx(file)
    assert [path.name for path in tmp_path.iterdir()] == ["ranker.onnx"]
    assert file.read_text() == "old"
