"""Synthetic pictures of ripening fruit: the label is the ripeness, the subject the plant.

A *plant* fixes what its fruits share: variety, outline, colours, stem, leaf, freckles and background cloth. A *scene*
holds the nuisance parameters of one picture: light, folds of the cloth, position, rotation, scale, blemishes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin
from numbers import Integral

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng
from numpy.typing import NDArray

from ordrank.datasets.fruit_painting import Array, Plant, Scene, Variety, blend, floats, linear_light, paint, unit
from ordrank.errors import InputError

__all__ = ["Fruit", "make_fruit"]

PICTURES_PER_PLANT = 15
ORDER_STREAM, PLANT_STREAM, PICTURE_STREAM = range(3)


@dataclass(frozen=True)
class Fruit:
    """Pictures of fruit with their ripeness and their plants.

    Attributes
    ----------
    images : ndarray of uint8, shape (n, size, size, 3)
    grade : ndarray of int64, shape (n,)
        Ripeness from 0, unripe, to ``n_grades - 1``, ripe, in turns and so balanced.
    plant : ndarray of int64, shape (n,)
        The subject.
    ripeness : ndarray of float64, shape (n,)
        With which the picture was drawn, from 0 to 1: ``grade`` is ``n_grades * ripeness`` rounded down.
    """

    images: NDArray[np.uint8]
    grade: NDArray[np.int64]
    plant: NDArray[np.int64]
    ripeness: NDArray[np.float64]


_VARIETIES = (
    # apple, pear, tomato, plum, orange
    Variety(("#69a530", "#b4ae3c", "#d5762f", "#b01624"), 0.56, -0.05, 0.07, (-0.20, 14), (-0.06, 14),
             streaks=0.45, freckles=0.3, gloss=0.6),
    Variety(("#5a9a36", "#a8ae3c", "#dcb53a", "#f2ae36"), 0.51, -0.04, 0.02, (0.72, 5), (-0.06, 10),
             freckles=0.6, gloss=0.3),
    Variety(("#62a538", "#b8aa36", "#e58428", "#d3201c"), 0.57, -0.16, 0.03, (-0.10, 8),
             stem=(0.22, 0.05), sepals=True, gloss=1.0),
    Variety(("#669e3e", "#a09a50", "#8c4a62", "#5c2460"), 0.52, 0.16, -0.03, (-0.05, 20),
             crease=0.8, wax=0.7, gloss=0.35),
    Variety(("#579a32", "#b0aa32", "#eb9a26", "#f27c12"), 0.55, -0.05, 0.00, (-0.04, 14),
             stem=(0.12, 0.07), freckles=0.5),
    # peach, lemon, cherry, mango, fig
    Variety(("#7fae4c", "#c2b552", "#eb9a52", "#e2604a"), 0.55, -0.05, -0.05, (-0.16, 10), (0.05, 25),
             stem=(0.20, 0.06), crease=0.8, gloss=0.15),
    Variety(("#4f9a30", "#a6b034", "#e6be30", "#fcbf22"), 0.50, 0.14, 0.00, (0.10, 22), (0.18, 24),
             stem=(0.14, 0.06), freckles=0.4),
    Variety(("#7db044", "#bfae48", "#d46438", "#8c1026"), 0.48, -0.06, 0.05, (-0.18, 10),
             stem=(0.90, 0.035), gloss=1.0),
    Variety(("#5f9c40", "#a2a63c", "#e09a34", "#e2562e"), 0.53, 0.20, -0.10, (-0.04, 9), (0.04, 8),
             stem=(0.20, 0.06), freckles=0.4),
    Variety(("#74a548", "#94905a", "#7a4a66", "#4c2350"), 0.50, -0.06, 0.00, (0.50, 5.5), (-0.03, 10),
             stem=(0.18, 0.08), streaks=0.8, wax=0.4, gloss=0.2),
)  # fmt: skip

_CLOTHS = (
    "#f4eee3", "#dcc09a", "#e6bfae", "#c2aecb", "#a9c3dc", "#7394ab",
    "#b9c9a8", "#6f8f78", "#8f6f58", "#3f666c", "#474553", "#c48b76",
)  # fmt: skip


def make_fruit(
    n_samples: int = 600,
    *,
    size: int = 64,
    n_grades: int = 5,
    n_plants: int | None = None,
    random_state: int | Generator | None = 0,
) -> Fruit:
    """Generate pictures of ripening fruit.

    Parameters
    ----------
    n_samples : int, default=600
        Number of pictures.
    size : int, default=64
        Height and width of a picture in pixels, at least 8.
    n_grades : int, default=5
        Number of grades, at least 2. Ripeness varies within a grade; grades do not overlap.
    n_plants : int, optional
        Number of plants, which alternate after every round of grades. By default each plant has 15 consecutive
        pictures.
    random_state : int, Generator or None, default=0
        Picture i depends on the seed, its grade and its plant, not on the number of pictures.

    Examples
    --------
    >>> from ordrank.datasets import make_fruit
    >>> fruit = make_fruit(30, size=32)
    >>> fruit.images.shape
    (30, 32, 32, 3)
    >>> fruit.grade[:6].tolist(), fruit.plant[[0, 14, 15]].tolist()
    ([0, 1, 2, 3, 4, 0], [0, 0, 1])
    """
    n_samples = _checked("n_samples", n_samples, least=1)
    size = _checked("size", size, least=8)
    n_grades = _checked("n_grades", n_grades, least=2)
    index = np.arange(n_samples, dtype=np.int64)
    grade = index % n_grades
    if n_plants is None:
        plant = index // PICTURES_PER_PLANT
    else:
        plant = index // n_grades % _checked("n_plants", n_plants, least=1)
    seed = _seed(random_state)
    # Every variety is used once before any is used again.
    varieties = _stream(seed, ORDER_STREAM, 0).permutation(len(_VARIETIES))
    kinds = varieties[np.arange(plant.max() + 1) % len(varieties)]
    plants = [_draw_plant(_VARIETIES[kind], _stream(seed, PLANT_STREAM, p)) for p, kind in enumerate(kinds)]
    images = np.empty((n_samples, size, size, 3), dtype=np.uint8)
    ripeness = np.empty(n_samples)
    for i in range(n_samples):
        rng = _stream(seed, PICTURE_STREAM, i)
        ripeness[i] = (int(grade[i]) + rng.uniform(0.15, 0.85)) / n_grades
        images[i] = paint(plants[plant[i]], _draw_scene(plants[plant[i]], rng), float(ripeness[i]), size)
    return Fruit(images=images, grade=grade, plant=plant, ripeness=ripeness)


def _checked(name: str, value: object, least: int) -> int:
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be an integer of at least {least}; got {value!r}.")
    return int(value)


def _seed(random_state: int | Generator | None) -> int:
    if random_state is None or isinstance(random_state, Generator):
        return int(default_rng(random_state).integers(2**63))
    return _checked("random_state", random_state, least=0)


def _stream(seed: int, kind: int, index: int) -> Generator:
    """Return an independent random stream for each plant and picture."""
    return default_rng(SeedSequence(seed, spawn_key=(kind, index)))


def _draw_waves(rng: Generator, count: int, dims: int, frequency: float) -> Array:
    """Draw plane waves (count, dims + 1): wave vectors and phases."""
    vectors = unit(rng.normal(size=(count, dims))) * frequency * rng.uniform(0.6, 1.4, size=(count, 1))
    return floats(np.column_stack([vectors, rng.uniform(0, 2 * pi, size=count)]))


def _draw_cloth(rng: Generator) -> Array:
    """Draw a background colour (3,) between two of the palette."""
    one, other = (linear_light(_CLOTHS[k]) for k in rng.integers(len(_CLOTHS), size=2))
    return blend(one, other, rng.uniform(0, 0.4))


def _draw_plant(variety: Variety, rng: Generator) -> Plant:
    tint = rng.normal(0, 0.14, size=3)
    drift = np.outer([0.3, 0.6, 0.9, 1.0], tint - tint.mean())  # a change of hue, smaller in unripe fruits
    leaf = rng.uniform([0.5, 0.55, 0.14, -0.2], [1.25, 0.85, 0.24, 0.2])
    leaf[0] *= rng.choice([-1, 1])
    return Plant(
        variety=variety,
        colours=floats(np.minimum([linear_light(colour) for colour in variety.colours] * np.exp(drift), 1)),
        size=variety.size * rng.uniform(0.86, 1.1),
        stretch=variety.stretch + rng.uniform(-0.06, 0.06),
        skew=rng.uniform(-0.05, 0.05),
        lean=rng.uniform(-0.3, 0.3),
        cloth=_draw_cloth(rng),
        bend=rng.uniform(-0.5, 0.5),
        leaf=tuple(leaf.tolist()),
        leaf_colour=floats(linear_light("#4f8f35") * rng.uniform(0.6, 1.4, size=3))[:, None],
        sunny=unit(rng.normal([0.0, -0.6, 0.6], 1)),
        patches=_draw_waves(rng, 6, 3, 3.0),
        freckles=unit(rng.normal(size=(rng.integers(30, 60), 3))),
        n_blemishes=int(rng.integers(0, 4)),
        blemish=rng.uniform(0.06, 0.14),
    )


def _draw_scene(plant: Plant, rng: Generator) -> Scene:
    azimuth = pi * rng.uniform(0.05, 0.95)
    warmth, brightness = rng.uniform(-1, 1), rng.uniform(0.92, 1.2)
    cloth = blend(plant.cloth, _draw_cloth(rng), rng.uniform(0, 0.2))
    return Scene(
        centre=floats(rng.uniform([[-0.07], [-0.17]], [[0.07], [-0.03]])),
        angle=plant.lean + rng.uniform(-0.25, 0.25),
        scale=rng.uniform(0.9, 1.1),
        light=unit([cos(azimuth), sin(azimuth), rng.uniform(0.4, 0.9)]),
        lamp=floats(brightness * np.exp(warmth * np.array([[0.12], [0.0], [-0.16]]))),
        cloth=floats(np.multiply.outer(rng.uniform([1.0, 0.7], [1.2, 1.0]), cloth))[:, :, None],
        fall=unit(rng.normal(size=2)),
        folds=_draw_waves(rng, 4, 2, rng.choice([3.0, 9.0, 22.0])),
        relief=rng.uniform(0.0, 0.05),
        patches=_draw_waves(rng, 4, 3, 4.0),
        blemishes=unit(rng.normal([0.0, 0.0, 0.7], 1, size=(plant.n_blemishes, 3))),
    )
