"""Small pictures with grades, and everything that a collection holds of them."""

import sqlite3
from contextlib import closing

import numpy as np
from PIL import Image

N_GRADES = 3


def draw(number, grade=None):
    """A picture of 24 × 24 pixels that is the redder the higher its grade."""
    rng = np.random.default_rng(number)
    values = rng.normal(70, 20, size=(24, 24, 3)) + np.linspace(0, 40 * rng.normal(), 24)[:, None, None]
    values[..., 0] += 45 * (number % N_GRADES if grade is None else grade)
    return Image.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def redness(name):
    """The order of the pictures: by grade, and within a grade by number."""
    return int(name[:3]) % N_GRADES + int(name[:3]) / 1000


def draw_files(folder, numbers):
    """Files 000.png, 001.png, …; their names."""
    folder.mkdir(exist_ok=True)
    names = [f"{number:03d}.png" for number in numbers]
    for number, name in zip(numbers, names, strict=True):
        draw(number).save(folder / name)
    return names


def write_grades(file, names, grade=lambda name: int(name[:3]) % N_GRADES):
    file.write_text("file,grade\n" + "".join(f"{name},{grade(name)}\n" for name in names))
    return file


def rows(collection, statement):
    """What a statement finds, read as any other program could."""
    with closing(sqlite3.connect(f"file:{collection}/collection.sqlite?mode=ro", uri=True)) as connection:
        return connection.execute(statement).fetchall()


def column(collection, name):
    """Values of one column of the pictures, by name."""
    return dict(rows(collection, f"SELECT name, {name} FROM pictures"))


def names(collection):
    return {name for (name,) in rows(collection, "SELECT name FROM pictures")}


def content(collection):
    """Every table and every model, to the last bit; not when it was fitted."""
    tables = ("pictures", "features", "embeddings", "thumbnails", "meta")
    found = {table: rows(collection, f"SELECT * FROM {table} ORDER BY 1") for table in tables}
    found["meta"] = [(key, value) for key, value, _ in found["meta"] if key not in ("fitted", "models")]
    (model,) = (value for key, value in found["meta"] if key == "model")
    models = {path.name: path.read_bytes() for path in collection.glob("*model-*") if path.stem == model}
    return found | models


def files(collection):
    """Names of all files, except those that SQLite keeps for a while."""
    return {path.name for path in collection.iterdir() if not path.name.endswith(("-wal", "-shm", "-journal"))}
