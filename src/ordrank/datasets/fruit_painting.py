"""Rendering of one fruit, given its plant and its scene.

Picture coordinates lie in [-1, 1]², x to the right and y upwards, independent of the size. In fruit coordinates the
radius is 1 and the stem points upwards. Colours are linear and encoded once, at the end, with a gamma of 2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import cos, pi, sin
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float32]
_Part = Callable[[Array], tuple[Array, Array]]

RASTER = 128  # smaller pictures are rendered at least this wide and averaged, for antialiasing


class Variety(NamedTuple):
    """Parameters of a variety.

    The outline is a radius as a function of the cosine c of the angle from the stem: a circle stretched (c²), tapered
    (c³), and raised or dimpled at its crown, the stem end, and at its foot.
    """

    colours: tuple[str, str, str, str]  # from unripe to ripe
    size: float
    stretch: float
    taper: float
    crown: tuple[float, float]  # height, sharpness
    foot: tuple[float, float] = (0, 8)
    stem: tuple[float, float] = (0.4, 0.06)  # length, half width
    sepals: bool = False  # a green star around the stem in place of a leaf
    streaks: float = 0.0
    freckles: float = 0.0
    crease: float = 0.0
    wax: float = 0.0
    gloss: float = 0.5


class Plant(NamedTuple):
    """Parameters of a plant, shared by its fruits."""

    variety: Variety
    colours: Array  # (4, 3), from unripe to ripe
    size: float
    stretch: float
    skew: float
    lean: float
    cloth: Array  # (3,)
    bend: float  # of the stem
    leaf: tuple[float, ...]  # angle, length, half width, curl
    leaf_colour: Array  # (3, 1)
    sunny: Array  # (3,), the side that ripens first
    patches: Array  # (6, 4), waves: skin that ripens early or late
    freckles: Array  # (k, 3), unit vectors
    n_blemishes: int
    blemish: float  # radius


class Scene(NamedTuple):
    """Nuisance parameters of one picture."""

    centre: Array  # (2, 1)
    angle: float
    scale: float
    light: Array  # (3,), unit vector towards the lamp
    lamp: Array  # (3, 1), colour and brightness
    cloth: Array  # (2, 3, 1), the colours at the two ends of the background
    fall: Array  # (2,), the direction from the one to the other
    folds: Array  # (4, 3), waves
    relief: float  # strength of the folds
    patches: Array  # (4, 4), waves: this fruit's own early and late skin
    blemishes: Array  # (k, 3), unit vectors


def paint(plant: Plant, scene: Scene, ripeness: float, size: int) -> NDArray[np.uint8]:
    """Return one picture (size, size, 3)."""
    fold = -(-RASTER // size)
    ticks = floats((2 * np.arange(size * fold) + 1) / (size * fold) - 1)
    points = np.stack(np.meshgrid(ticks, -ticks)).reshape(2, -1)
    radius = plant.size * scene.scale * (0.86 + 0.16 * ripeness)
    turn = _axes(scene.angle)
    middle = floats([[0.0], [sum(_ends(plant)) / 2]])  # the centre of a pear lies above its core
    own = middle + floats(turn @ (points - scene.centre) / radius)
    light = floats(np.concatenate([turn @ scene.light[:2], scene.light[2:]]))
    canvas = _background(scene, points)
    for part, height in (
        (partial(_body, plant, scene, ripeness, light), 0.3),
        (partial(_stem, plant, light), 0.08),
        (partial(_sepals if plant.variety.sepals else _leaf, plant, light), 0.08),
    ):
        _lay(canvas, part, own, height * light[:2, None], height, pixel=2 / (size * fold * radius))
    small = (canvas * scene.lamp).reshape(3, size, fold, size, fold).mean(axis=(2, 4))
    return np.asarray(np.rint(255 * np.sqrt(np.clip(small, 0, 1))), dtype=np.uint8).transpose(1, 2, 0)


def _lay(canvas: Array, part: _Part, own: Array, ahead: Array, height: float, pixel: float) -> None:
    """Draw the soft shadow of a part on the canvas (3, p), then the part."""
    inside, colour = part(own)
    hides_lamp, _ = part(own + ahead)
    canvas *= 1 - 0.5 * _smooth(-height, height, hides_lamp)
    canvas *= 1 - 0.3 * _smooth(-height / 2, 0, inside)  # ambient occlusion next to the part
    canvas += np.clip(0.5 + inside / pixel, 0, 1) * (colour - canvas)


def _background(scene: Scene, points: Array) -> Array:
    """Return the cloth (3, p): a gradient, faint folds, darker corners."""
    shade = 1 + scene.relief * _ripple(scene.folds, points) - 0.1 * (points * points).sum(axis=0)
    return floats(blend(scene.cloth[0], scene.cloth[1], _smooth(-1.4, 1.4, scene.fall @ points)) * shade)


def _outline(plant: Plant, own: Array) -> tuple[Array, Array, Array]:
    """Return distances (p,) from the core, of points and of the outline, and outward normals (2, p)."""
    variety = plant.variety
    distance = np.sqrt((own * own).sum(axis=0)) + np.float32(1e-6)
    s, c = own / distance
    crown = variety.crown[0] * np.exp(variety.crown[1] * (c - 1))
    foot = variety.foot[0] * np.exp(variety.foot[1] * (-c - 1))
    swell = plant.stretch * (c * c - 0.5) + variety.taper * c * c * c + plant.skew * s * c
    radius = 1 + swell + crown + foot
    by_cosine = c * (2 * plant.stretch + 3 * variety.taper * c)
    by_cosine += variety.crown[1] * crown - variety.foot[1] * foot
    slope = (plant.skew * (c * c - s * s) - s * by_cosine) / radius
    return distance, radius, np.stack([s - slope * c, c + slope * s]) / np.sqrt(1 + slope * slope)


def _ends(plant: Plant) -> tuple[float, float]:
    """Return the heights of the base of the stem and of the bottom of the fruit above the core."""
    _, radius, _ = _outline(plant, floats([[0, 0], [1, -1]]))
    return float(radius[0]) - 0.06, -float(radius[1])


def _body(plant: Plant, scene: Scene, ripeness: float, light: Array, own: Array) -> tuple[Array, Array]:
    """Return the signed distance (p,) to the edge of the fruit, positive inside, and its colour (3, p)."""
    distance, radius, outward = _outline(plant, own)
    inside = (radius - distance) * (outward * own).sum(axis=0) / distance
    near = np.flatnonzero(inside > -0.1)
    rim = np.minimum(distance[near] / radius[near], 1)
    normal = np.concatenate([outward[:, near] * rim, np.sqrt(1 - rim * rim)[None]])
    lit = _lit(plant, scene, ripeness, light, normal)
    if plant.variety.crown[0] < 0:  # the dimple of the stem is dark
        x, y = own[:, near]
        lit *= 1 - 0.5 * np.exp(-((x / 0.22) ** 2) - ((y - _ends(plant)[0]) / 0.13) ** 2)
    colour = np.zeros((3, own.shape[1]), dtype=np.float32)
    colour[:, near] = lit
    return floats(inside), colour


def _lit(plant: Plant, scene: Scene, ripeness: float, light: Array, normal: Array) -> Array:
    """Return the lit skin (3, p): soft Lambert, ambient light, reflection of the cloth, highlight."""
    diffuse = floats(np.clip((light @ normal + 0.2) / 1.2, 0, 1))
    shade = (0.28 + 0.85 * diffuse) * (0.75 + 0.25 * _smooth(0, 0.6, normal[2]))
    glow = 0.3 * (1 - normal[2]) * (1 - diffuse) * scene.cloth[0]
    mirror = np.clip(unit(light + floats([0, 0, 1])) @ normal, 0, 1)
    shine = plant.variety.gloss * (0.35 + 0.65 * ripeness) * (0.6 * mirror**60 + 0.12 * mirror**12)
    return floats(_skin(plant, scene, ripeness, normal) * (shade + glow) + shine)


def _skin(plant: Plant, scene: Scene, ripeness: float, normal: Array) -> Array:
    """Return the colour (3, p) of the skin, which ripens in patches."""
    variety, own_patches = plant.variety, _ripple(scene.patches, normal)
    early = 0.10 * _ripple(plant.patches, normal) + 0.06 * own_patches + 0.14 * (plant.sunny @ normal - 0.5)
    if variety.streaks:
        longitude = np.arctan2(normal[0], normal[2] + 0.3)
        early += 0.1 * variety.streaks * np.sin(27 * longitude + 2 * np.sin(7 * longitude + 5 * normal[1]))
    local = ripeness + 4 * ripeness * (1 - ripeness) * early  # all unripe at 0, all ripe at 1
    skin = floats([np.interp(local, (0, 0.36, 0.7, 1), channel) for channel in plant.colours.T])
    if variety.freckles:
        freckles = _spots(plant.freckles, 0.045, normal)
        skin = blend(skin, 0.5 * skin + 0.35, 0.45 * variety.freckles * freckles)
    if variety.crease:
        across = normal[0] - 0.45 * np.sqrt(np.maximum(1 - normal[1] ** 2, 0))
        skin *= 1 - 0.3 * variety.crease * np.exp(-((across / 0.07) ** 2))
    if variety.wax:
        wax = variety.wax * ripeness * _smooth(-1, 1.2, own_patches)
        skin = blend(skin, linear_light("#a9a6c8")[:, None], 0.3 * wax)
    bruised = 0.3 * skin + floats([[0.05], [0.03], [0.01]])
    return blend(skin, bruised, 0.6 * _spots(scene.blemishes, plant.blemish, normal))


def _stem(plant: Plant, light: Array, own: Array) -> tuple[Array, Array]:
    """Like ``_body``, for the stem."""
    length, half_width = plant.variety.stem
    above = own[1] - _ends(plant)[0]
    along = np.clip(above / length, 0, 1)
    off = own[0] - plant.bend * length * along * along
    half = half_width * (0.8 + 0.6 * along * along)
    wood = linear_light("#6d7a35" if plant.variety.sepals else "#7a5a34")[:, None]
    inside = np.minimum(half - abs(off), length / 2 - abs(above - length / 2))
    return inside, wood * (0.55 + 0.45 * np.clip(off / half * light[0] + 0.4, -1, 1))


def _sepals(plant: Plant, light: Array, own: Array) -> tuple[Array, Array]:
    """Like ``_body``, for a star of five sepals."""
    x, y = own[0], (own[1] - _ends(plant)[0]) / 0.55
    distance = np.hypot(x, y)
    ray = np.cos(2.5 * (np.arctan2(x, y) + plant.bend)) ** 2
    return 0.5 * (0.08 + 0.42 * ray - distance), plant.leaf_colour * (0.6 + 0.7 * distance)


def _leaf(plant: Plant, light: Array, own: Array) -> tuple[Array, Array]:
    """Like ``_body``, for a leaf with a curled midrib, one half lit."""
    angle, length, half_width, curl = plant.leaf
    sideways, forward = _axes(-angle)
    root = floats([[0.0], [_ends(plant)[0] + 0.35 * plant.variety.stem[0]]])
    along, off = forward @ (own - root) / length, sideways @ (own - root) / length
    t = np.clip(along, 0, 1)
    off -= curl * np.sin(pi * t)
    half = 4 * half_width * t * (1 - t) * (1.25 - 0.5 * t)
    halves = 0.25 * np.tanh(off / 0.02) * np.sign(sideways @ light[:2])
    veins = 0.08 * np.sin(40 * (along - 1.2 * abs(off))) + 0.5 * np.exp(-((off / 0.018) ** 2))
    inside = length * np.minimum(half - abs(off), 0.5 - abs(along - 0.5))
    return inside, plant.leaf_colour * (0.85 + halves + veins)


def floats(values: ArrayLike) -> Array:
    """Convert to float32."""
    return np.asarray(values, dtype=np.float32)


def linear_light(colour: str) -> Array:
    """Convert "#rrggbb" to linear light (3,)."""
    return floats([(int(colour[k : k + 2], 16) / 255) ** 2 for k in (1, 3, 5)])


def unit(vectors: ArrayLike) -> Array:
    """Normalise vectors along the last axis."""
    return floats(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))


def _axes(angle: float) -> Array:
    """Return the axes (2, 2) of a frame rotated anticlockwise, one per row."""
    return floats([[cos(angle), sin(angle)], [-sin(angle), cos(angle)]])


def blend(under: Array, over: Array, share: Array | float) -> Array:
    """Interpolate two colours."""
    return under + share * (over - under)


def _smooth(low: float, high: float, x: Array) -> Array:
    """Return the smoothstep from 0 at low to 1 at high."""
    t = floats(np.clip((x - low) / (high - low), 0, 1))
    return t * t * (3 - 2 * t)


def _ripple(waves: Array, points: Array) -> Array:
    """Return the sum of plane waves at points (d, p), with unit amplitude."""
    return floats(np.sin(waves[:, :-1] @ points + waves[:, -1:]).sum(axis=0) / len(waves) ** 0.5)


def _spots(centres: Array, radius: float, normal: Array) -> Array:
    """Return a mask (p,) of round spots around points of the unit sphere."""
    nearest = (centres @ normal).max(axis=0, initial=-1)
    return _smooth(1 - 1.3 * radius**2, 1 - 0.5 * radius**2, nearest)
