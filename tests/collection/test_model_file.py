import hashlib
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load

from ordrank._io import write_files
from ordrank.collection.model_file import Model, read_model, remove_model, serialize_model
from ordrank.collection.projection import fit_projection
from ordrank.errors import CollectionError
from ordrank.estimators import OrdinalMetric, OrdinalRanker

DIM = 12


def write_model(directory, model):
    """Write a model and return its name."""
    name, contents = serialize_model(model)
    write_files(directory, contents)
    return name


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
    return Model.from_ranker("pixels:2;version=1", projection, ranker)


@pytest.fixture
def read_back(model, tmp_path):
    return read_model(tmp_path, write_model(tmp_path, model), model.fingerprint, DIM)


def test_embeddings_are_the_same(model, read_back, features):
    assert read_back.embed(features[0]).dtype == np.float32
    np.testing.assert_allclose(read_back.embed(features[0]), model.embed(features[0]), rtol=1e-5, atol=1e-6)


def test_embeddings_are_bit_equal_after_every_round_trip(model, read_back, features, tmp_path):
    again = read_model(tmp_path, write_model(tmp_path, read_back), model.fingerprint, DIM)
    for rows in (features[0], features[0][:1], features[0][:7]):
        assert again.embed(rows).tobytes() == read_back.embed(rows).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_embedding_is_the_same_to_the_last_bit(model, read_back, features, dtype):
    X = model.projection(features[0]).astype(dtype)
    np.testing.assert_array_equal(read_back.embedding.transform(X), model.embedding.transform(X))
    assert read_back.embedding.transform(X).dtype == model.embedding.transform(X).dtype
    distances = [one.embedding.distances(X[:10], X[10:20]) for one in (read_back, model)]
    np.testing.assert_array_equal(*distances)


def test_choices_and_dimensions_are_kept(model, read_back):
    assert read_back.choices() == model.choices()
    assert read_back.n_order == model.n_order == 2
    assert read_back.fingerprint == model.fingerprint


def test_the_distribution_of_grades_is_the_same_to_the_last_bit(model, read_back, features):
    (arrays, values), (expected, expected_values) = (one.distribution.to_arrays() for one in (read_back, model))
    assert values == expected_values
    assert arrays.keys() == expected.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, expected[name])
        assert array.dtype == expected[name].dtype
    votes, distances = np.array([[0, 0, 2]]), np.array([[0.5, 1.0, 2.0]])
    vectors = read_back.embed(features[0][:1])
    proba = read_back.distribution.proba(votes, distances, vectors)
    np.testing.assert_array_equal(proba, model.distribution.proba(votes, distances, vectors))
    assert proba.sum() == pytest.approx(1)


def test_the_name_is_the_checksum_of_all_its_files(model, tmp_path):
    name = write_model(tmp_path, model)
    described, arrays = ((tmp_path / f"{name}{suffix}").read_bytes() for suffix in (".json", ".safetensors"))
    assert name == f"model-{hashlib.sha256(described).hexdigest()[:16]}"
    assert json.loads(described)["sha256"] == hashlib.sha256(arrays).hexdigest()
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.json", f"{name}.safetensors"}


def test_the_same_model_has_the_same_name_and_another_has_another(model, tmp_path):
    embedding = replace(model.embedding, mean=np.nextafter(model.embedding.mean, np.inf))
    other = replace(model, embedding=embedding)
    assert write_model(tmp_path, model) == write_model(tmp_path, replace(model))
    assert write_model(tmp_path, other) != write_model(tmp_path, model)


def test_files_hold_numbers_and_text_only(model, tmp_path):
    name = write_model(tmp_path, model)
    assert all(
        np.issubdtype(array.dtype, np.number)
        for array in load((tmp_path / f"{name}.safetensors").read_bytes()).values()
    )
    assert set(json.loads((tmp_path / f"{name}.json").read_text())) == {
        "distribution",
        "embedding",
        "fingerprint",
        "format",
        "hyperparameters",
        "sha256",
    }


def test_a_model_for_other_features_is_rejected(model, tmp_path):
    name = write_model(tmp_path, model)
    with pytest.raises(CollectionError, match=re.escape(str(tmp_path))) as error:
        read_model(tmp_path, name, "hog:64;version=1", DIM)
    assert "features of pixels:2;version=1, not of hog:64;version=1; train it again" in str(error.value)


def test_a_model_is_removed_with_all_its_parts_and_nothing_else(tmp_path):
    old, other = "model-0123456789abcdef", "model-fedcba9876543210"
    parts = {f"{old}.json", f"{old}.safetensors", f".{old}.json.12ab"}
    others = {f"{other}.json", f"{old}.png", f"{old}", "model-card.md", ".model-c.json.123", "collection.sqlite"}
    for name in parts | others:
        (tmp_path / name).write_bytes(b"")
    remove_model(tmp_path, old)
    assert {path.name for path in tmp_path.iterdir()} == others


@pytest.mark.parametrize("name", ["../model-0123456789abcdef", "model-*", "notes", "model-0123456789ABCDEF"])
def test_invalid_model_names_delete_nothing(name, tmp_path):
    (tmp_path / "inside").mkdir()
    files = [tmp_path / f"{kept}.json" for kept in ("model-0123456789abcdef", "notes", "model-0123456789ABCDEF")]
    for file in files:
        file.write_bytes(b"")
    remove_model(tmp_path / "inside", name)
    remove_model(tmp_path, name.removeprefix("../"))
    assert [file for file in files if not file.exists()] == ([files[0]] if name.startswith("..") else [])


def test_reading_a_model_does_not_import_scikit_learn(model, tmp_path):
    name = write_model(tmp_path, model)
    code = (
        "import sys, pathlib; from ordrank.collection.model_file import read_model\n"
        f"model = read_model(pathlib.Path({str(tmp_path)!r}), {name!r}, {model.fingerprint!r}, {DIM})\n"
        f"import numpy; model.embed(numpy.ones((2, {DIM}), dtype=numpy.float32)); assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
