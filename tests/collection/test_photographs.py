"""Collections with the features of pretrained networks."""

import csv
import zipfile

import numpy as np
import pytest
from PIL import Image

from ordrank import Collection, OrdinalRanker
from ordrank.datasets import make_fruit
from ordrank.errors import InputError
from ordrank.features import decode_picture, find_extractor
from tests.features.published import published_weights

NAME = "efficientnet-lite0"


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """A folder of 80 pictures, enough to be read in processes, and their grades."""
    folder, drawn = tmp_path_factory.mktemp("fruit"), make_fruit(80, size=48)
    for i, image in enumerate(drawn.images):
        Image.fromarray(image).save(folder / f"{i:02}.png")
    return folder, {f"{i:02}.png": float(grade) for i, grade in enumerate(drawn.grade)}


def test_a_collection_stores_the_features_of_the_network(fruit, tmp_path):
    published_weights(NAME)
    folder, grades = fruit
    with Collection.create(tmp_path / "out", folder, grades, features=NAME, n_jobs=2) as collection:
        assert collection.info().features == NAME
        result = collection.rank(folder / "03.png", k=1)
        assert result.hits[0].name != "03.png"
        other = tmp_path / "more"
        other.mkdir()
        Image.open(folder / "05.png").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(other / "new.png")
        assert collection.add(other).read == 1
        (embedded,) = collection.embed([other / "new.png"])
        np.testing.assert_allclose(collection.embed(["new.png"])[0], embedded, atol=1e-5)


def test_only_networks_have_a_device(fruit, tmp_path):
    folder, grades = fruit
    with pytest.raises(InputError, match="pixels is computed on the CPU"):
        Collection.create(tmp_path / "out", folder, grades, features="pixels", device="cuda")
    assert not (tmp_path / "out").exists()


def test_a_network_grades_photographs_better_than_pixels(data_dir):
    published_weights(NAME)
    with zipfile.ZipFile(data_dir / "photos" / "coffee-leaf.zip") as archive:
        rows = list(csv.DictReader(archive.read("grades.csv").decode().splitlines()))
        chosen = np.random.default_rng(0).permutation(len(rows))[:360]
        contents = [archive.read(rows[i]["file"]) for i in chosen]
    grades = np.array([float(rows[i]["grade"]) for i in chosen])
    errors = {}
    for name in ("pixels", NAME):
        extractor = find_extractor(name)
        X = extractor.extract([decode_picture(content, side=extractor.side).picture for content in contents])
        ranker = OrdinalRanker().fit(X[:180], grades[:180])
        errors[name] = np.abs(ranker.predict(X[180:]) - grades[180:]).mean()
    assert errors[NAME] < 0.8 * errors["pixels"]
