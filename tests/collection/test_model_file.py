import hashlib
import json
import re
from copy import deepcopy

import numpy as np
import pytest
from safetensors.numpy import load

from ordrank.collection.model_file import Model, read_model, remove_model, write_model
from ordrank.collection.projection import fit_projection
from ordrank.errors import CollectionError
from ordrank.estimators import OrdinalMetric, OrdinalRanker

DIM = 12


@pytest.fixture(scope="module")
def features():
    rng = np.random.default_rng(0)
    grades = np.repeat([1.0, 2.0, 5.0], 20)
    features = rng.normal(100, 20, size=(60, DIM)).astype(np.float32)
    features[:, 0] += 30 * grades
    return features, grades


@pytest.fixture(scope="module", params=["linear", "rbf"])
def model(request, features):
    X, grades = features
    projection = fit_projection([X])
    ranker = OrdinalRanker(OrdinalMetric(kernel=request.param)).fit(projection(X), grades)
    return Model("pixels:2;version=1", projection, ranker.metric_, ranker.n_neighbors_, ranker.weights_)


@pytest.fixture
def read_back(model, tmp_path):
    return read_model(tmp_path, write_model(tmp_path, model), model.fingerprint)


def test_places_are_the_same(model, read_back, features):
    assert read_back.place(features[0]).dtype == np.float32
    np.testing.assert_allclose(read_back.place(features[0]), model.place(features[0]), rtol=1e-5, atol=1e-6)


def test_places_are_the_same_to_the_last_bit_for_all_who_read_it(model, read_back, features, tmp_path):
    again = read_model(tmp_path, write_model(tmp_path, read_back), model.fingerprint)
    for rows in (features[0], features[0][:1], features[0][:7]):
        assert again.place(rows).tobytes() == read_back.place(rows).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_metric_works_as_before(model, read_back, features, dtype):
    X = model.projection(features[0]).astype(dtype)
    np.testing.assert_array_equal(read_back.metric.transform(X), model.metric.transform(X))
    assert read_back.metric.transform(X).dtype == model.metric.transform(X).dtype
    pairs = np.stack([X[:10], X[10:20]], axis=1)
    np.testing.assert_array_equal(read_back.metric.pair_distance(pairs), model.metric.pair_distance(pairs))


def test_choices_and_dimensions_are_kept(model, read_back):
    assert read_back.choices() == model.choices()
    assert read_back.n_order == model.n_order == 2
    assert (read_back.fingerprint, read_back.n_votes, read_back.weights) == (
        model.fingerprint,
        model.n_votes,
        model.weights,
    )


def test_the_name_is_the_checksum_of_all_its_files(model, tmp_path):
    name = write_model(tmp_path, model)
    described, arrays = ((tmp_path / f"{name}{suffix}").read_bytes() for suffix in (".json", ".safetensors"))
    assert name == f"model-{hashlib.sha256(described).hexdigest()[:16]}"
    assert json.loads(described)["sha256"] == hashlib.sha256(arrays).hexdigest()
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json", f"{name}.safetensors"}


def test_the_same_model_has_the_same_name_and_another_has_another(model, tmp_path):
    other = deepcopy(model)
    other.metric.mean_ = np.nextafter(other.metric.mean_, np.inf)
    assert write_model(tmp_path, model) == write_model(tmp_path, deepcopy(model))
    assert write_model(tmp_path, other) != write_model(tmp_path, model)


def test_files_hold_numbers_and_text_only(model, tmp_path):
    name = write_model(tmp_path, model)
    assert all(
        np.issubdtype(array.dtype, np.number)
        for array in load((tmp_path / f"{name}.safetensors").read_bytes()).values()
    )
    assert set(json.loads((tmp_path / f"{name}.json").read_text())) == {
        "fingerprint",
        "format",
        "metric",
        "sha256",
        "votes",
    }


def test_a_model_for_other_features_is_refused(model, tmp_path):
    name = write_model(tmp_path, model)
    with pytest.raises(CollectionError, match=re.escape(str(tmp_path))) as error:
        read_model(tmp_path, name, "hog:64;version=1")
    assert "features of pixels:2;version=1, not of hog:64;version=1; train it again" in str(error.value)


def test_only_the_files_of_a_model_are_removed(tmp_path):
    model, other = f"model-{'a' * 16}", f"model-{'b' * 16}"
    mine = (f"{model}.json", f"{model}.safetensors", f".{model}.json.123")
    kept = (f"{other}.json", f"{model}.png", f"{model}.json.bak", "model-card.md", "collection.sqlite")
    for name in (*mine, *kept):
        (tmp_path / name).write_bytes(b"")
    for name in (model, "model-card", "../other", "collection"):
        remove_model(tmp_path, name)
    assert {path.name for path in tmp_path.iterdir()} == set(kept)
