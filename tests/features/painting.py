"""Test pictures and files."""

from io import BytesIO

import numpy as np
from PIL import Image


def paint(width=90, height=60, seed=0):
    """Return a smooth picture without symmetries: colour waves and a gradient."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0 : 1 : height * 1j, 0 : 1 : width * 1j]
    waves = [np.sin(2 * np.pi * (rng.uniform(0.5, 2) * x + rng.uniform(0.5, 2) * y) + i) for i in range(3)]
    values = 120 + 50 * np.stack(waves, axis=-1) + 60 * (x - y)[..., None]
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def encode(picture, format="PNG", **options):
    stream = BytesIO()
    picture.save(stream, format, **options)
    return stream.getvalue()


def write_pictures(folder, count, **shape):
    """Write pictures and return (name, path) of each."""
    files = []
    for i in range(count):
        path = folder / f"{i:03d}.jpg"
        path.write_bytes(encode(paint(seed=i, **shape), "JPEG"))
        files.append((path.name, path))
    return files
