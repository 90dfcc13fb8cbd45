"""A collection with falsified grades, a near copy, and pictures unlike the others."""

import numpy as np
from PIL import Image

from ordrank import Collection
from ordrank.datasets import make_fruit

N_FRUITS = 150
FALSE = {10: 3, 31: 4, 52: 0, 73: 0, 94: 1, 111: 4}  # given instead of i % 5


def create_spoiled(folder):
    """Return a new collection, of fruits in five grades and of stripes without one."""
    (folder / "pictures").mkdir()
    fruit = make_fruit(N_FRUITS, size=32)
    for i, image in enumerate(fruit.images):
        Image.fromarray(image).save(folder / "pictures" / f"{i:03d}.png")
    copied = fruit.images[20].astype(int)
    copied[0, 0] = (copied[0, 0] + 3) % 256
    Image.fromarray(copied.astype(np.uint8)).save(folder / "pictures" / "copy.png")
    # Far from every fruit, and with enough variance for the principal components.
    for i in range(3):
        stripes = np.zeros((32, 32, 3), dtype=np.uint8)
        stripes[:, (np.arange(32) // 8 + i) % 2 == 0] = (255, 0, 255)
        Image.fromarray(stripes).save(folder / "pictures" / f"odd{i}.png")
    grades = {f"{i:03d}.png": FALSE.get(i, int(fruit.grade[i])) for i in range(N_FRUITS)}
    grades["copy.png"] = (int(fruit.grade[20]) + 2) % 5
    return Collection.create(folder / "Spoiled", folder / "pictures", grades, features="pixels:8", n_jobs=1)
