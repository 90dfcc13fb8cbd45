"""Synthetic fruit: labels, seeding, and difficulty of the two tasks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor

from ordrank.datasets import Fruit, make_fruit


@pytest.fixture(scope="module")
def data() -> Fruit:
    """Twenty plants with three fruits of each grade."""
    return make_fruit(300, size=32)


@pytest.fixture(scope="module")
def features(data: Fruit) -> NDArray[np.float64]:
    """Return principal components (300, 60) of the pixels."""
    pixels = data.images.reshape(len(data.images), -1) / 255
    components: NDArray[np.float64] = PCA(60, random_state=0).fit_transform(pixels)
    return components


def linear_light(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    return (images / 255) ** 2


def halve(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Average blocks of 2 × 2 pixels in linear light."""
    n, side, _, _ = images.shape
    blocks = linear_light(images).reshape(n, side // 2, 2, side // 2, 2, 3)
    return 255 * np.sqrt(blocks.mean(axis=(2, 4)))


@pytest.mark.parametrize(
    ("n_samples", "size", "n_grades", "n_plants"),
    [(1, 8, 5, None), (7, 9, 2, None), (31, 17, 3, 4), (23, 33, 7, 50), (16, 130, 2, 1)],
)
def test_shapes_dtypes_and_balance(n_samples: int, size: int, n_grades: int, n_plants: int | None) -> None:
    data = make_fruit(n_samples, size=size, n_grades=n_grades, n_plants=n_plants)
    assert data.images.shape == (n_samples, size, size, 3)
    assert data.images.dtype == np.uint8
    assert data.grade.shape == data.plant.shape == (n_samples,)
    assert data.grade.dtype == data.plant.dtype == np.int64
    counts = np.bincount(data.grade, minlength=n_grades)
    assert len(counts) == n_grades
    assert np.ptp(counts) <= 1
    assert (data.images.std(axis=(1, 2)) > 3).all(), "a picture is blank"


def test_the_grade_is_the_ripeness_rounded_down(data: Fruit) -> None:
    np.testing.assert_array_equal(np.floor(5 * data.ripeness).astype(np.int64), data.grade)
    assert len(np.unique(data.ripeness)) == len(data.ripeness)


def test_plants_have_fifteen_pictures_by_default(data: Fruit) -> None:
    np.testing.assert_array_equal(np.bincount(data.plant), np.full(20, 15))
    pairs = np.unique(np.column_stack([data.plant, data.grade]), axis=0, return_counts=True)
    np.testing.assert_array_equal(pairs[1], np.full(100, 3))


def test_given_plants_alternate() -> None:
    data = make_fruit(24, size=8, n_grades=3, n_plants=4)
    np.testing.assert_array_equal(np.bincount(data.plant), [6, 6, 6, 6])
    np.testing.assert_array_equal(data.plant[:12:3], [0, 1, 2, 3])


def test_seed_determines_the_pictures() -> None:
    first = make_fruit(6, size=16, random_state=3).images
    np.testing.assert_array_equal(first, make_fruit(6, size=16, random_state=3).images)
    np.testing.assert_array_equal(first, make_fruit(6, size=np.int64(16), random_state=np.int64(3)).images)
    assert not np.array_equal(first, make_fruit(6, size=16, random_state=4).images)


def test_generator_is_a_seed_and_advances() -> None:
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    first = make_fruit(3, size=16, random_state=one).images
    np.testing.assert_array_equal(first, make_fruit(3, size=16, random_state=other).images)
    assert not np.array_equal(first, make_fruit(3, size=16, random_state=one).images)


def test_without_a_seed_each_call_differs() -> None:
    one, other = (make_fruit(2, size=16, random_state=None).images for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("n_plants", [None, 3])
def test_pictures_do_not_depend_on_their_number(n_plants: int | None) -> None:
    few = make_fruit(17, size=16, n_plants=n_plants)
    many = make_fruit(40, size=16, n_plants=n_plants)
    np.testing.assert_array_equal(few.images, many.images[:17])
    np.testing.assert_array_equal(few.grade, many.grade[:17])
    np.testing.assert_array_equal(few.plant, many.plant[:17])


@pytest.mark.parametrize("size", [16, 64, 128])
def test_scene_is_independent_of_the_size(size: int) -> None:
    small = make_fruit(6, size=size).images
    large = halve(make_fruit(6, size=2 * size).images)
    assert abs(small - large).mean() < 0.6
    assert abs(small - large[::-1]).mean() > 10, "other scenes would pass as well"


def ripening(i: int, n_grades: int, seed: int) -> float:
    """Return the mean change of picture i, of this many grades, from the first of i grades, almost unripe.

    Its plant and its scene do not depend on the number of grades, only its ripeness does.
    """
    images = (
        make_fruit(i + 1, size=16, n_grades=n, n_plants=1, random_state=seed).images[i].astype(np.float64)
        for n in (n_grades, i)
    )
    return float(abs(np.subtract(*images)).mean())


def test_ripeness_varies_within_grades_that_do_not_overlap() -> None:
    """Of five grades, grade j is riper than j/5 and less ripe than (j + 1)/5."""
    positions = []
    for seed, i in product(range(2), range(10, 15)):
        grade, found = i % 5, ripening(i, 5, seed)
        lowest = ripening(i, -(-5 * (i + 1) // grade), seed) if grade > 0 else 0.0
        highest = ripening(i, 5 * i // (grade + 1), seed) if grade < 4 else np.inf
        assert lowest < found < highest
        positions += [(found - lowest) / (highest - lowest)] if 0 < grade < 4 else []
    assert np.std(positions) > 0.05


def test_greenness_decreases_with_the_grade(data: Fruit) -> None:
    red, green, _ = data.images[:, 13:21, 12:20].astype(float).mean(axis=(1, 2)).T
    contrast = green - red
    by_grade = np.array([contrast[data.grade == g].mean() for g in range(5)])
    assert (np.diff(by_grade) < -10).all(), by_grade


def test_ridge_regression_beats_nearest_neighbours_on_pixels(data: Fruit, features: NDArray[np.float64]) -> None:
    order = np.random.default_rng(0).permutation(300)
    train, test = order[:150], order[150:]

    def error(model: Any) -> float:
        estimate = model.fit(features[train], data.grade[train]).predict(features[test])
        return float(abs(np.clip(np.rint(estimate), 0, 4) - data.grade[test]).mean())

    ridge = error(RidgeCV(np.logspace(-2, 3, 11)))
    neighbours = min(error(KNeighborsRegressor(k)) for k in (1, 5))
    assert ridge < 0.6
    assert neighbours > 0.6
    assert ridge < 0.75 * neighbours


def test_nearest_pictures_within_a_grade_share_the_plant(data: Fruit, features: NDArray[np.float64]) -> None:
    distance = np.linalg.norm(features[:, None] - features, axis=-1)
    comparable = (data.grade[:, None] == data.grade) & ~np.eye(300, dtype=bool)
    nearest = np.where(comparable, distance, np.inf).argsort(axis=1)[:, :3]
    same = data.plant[:, None] == data.plant
    chance = same[comparable].mean()
    found = np.take_along_axis(same, nearest, axis=1).mean()
    assert found > 5 * chance, (found, chance)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, r"n_samples must be an integer of at least 1; got 0\."),
        ({"n_samples": 2.5}, r"n_samples must be an integer of at least 1; got 2\.5\."),
        ({"size": 7}, r"size must be an integer of at least 8; got 7\."),
        ({"n_grades": 1}, r"n_grades must be an integer of at least 2; got 1\."),
        ({"n_plants": 0}, r"n_plants must be an integer of at least 1; got 0\."),
        ({"random_state": -1}, r"random_state must be an integer of at least 0; got -1\."),
        ({"random_state": "seven"}, r"random_state must be an integer of at least 0; got 'seven'\."),
    ],
)
def test_invalid_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_fruit(**arguments)
