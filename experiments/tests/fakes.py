"""Synthetic data in the format of the real data sets."""

import numpy as np

AGES = (1, 5, 9, 15, 19)
COUNTS = (27, 40, 25, 30, 23)


def write_fgnet(folder, seed=0):
    """Write landmarks that grow longer with age as fgnet_points.npz."""
    rng = np.random.default_rng(seed)
    age = np.repeat(AGES, COUNTS)
    angles = np.linspace(0, 2 * np.pi, 68, endpoint=False)
    shape = np.column_stack([np.cos(angles), np.sin(angles)])
    points = np.stack([shape * [1, 1 + a / 40] + 0.03 * rng.normal(size=(68, 2)) for a in age]) * 100 + 300
    (folder / "fgnet").mkdir(parents=True)
    np.savez(
        folder / "fgnet" / "fgnet_points.npz",
        points=points,
        age=age,
        subject=np.arange(len(age)) % 40,
        image_file=np.array([f"{i:03}A{a:02}.JPG" for i, a in enumerate(age)]),
    )


def write_umist(folder):
    """Write noise around a mean face of each subject as umist_112x92.npz."""
    rng = np.random.default_rng(0)
    per_person = [38, 35, 26, 24, 26, 23, 19, 22, 20, 32, 34, 34, 26, 30, 19, 26, 26, 33, 48, 34]
    person = np.repeat(np.arange(20), per_person)
    faces = rng.normal(size=(20, 112, 92))[person] * 30 + rng.normal(size=(575, 112, 92)) * 40 + 128
    (folder / "umist").mkdir(parents=True)
    np.savez(
        folder / "umist" / "umist_112x92.npz",
        X=np.clip(faces, 0, 255).astype(np.uint8),
        subject=np.array([f"1{chr(97 + p)}" for p in person]),
    )


def write_tables(folder, names=("car", "tae", "winequality-red"), holdouts=3):
    """Write tables of forty rows and three columns, the first correlated with the label."""
    (folder / "tables").mkdir(parents=True, exist_ok=True)
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        label = np.repeat([1, 2, 3], [14, 13, 13])
        rows = np.column_stack([rng.normal((0, 5, 100), 1, size=(40, 3)), label]).astype(np.float32)
        rows[:, 0] += 2 * label
        arrays = {}
        for i in range(holdouts):
            order = rng.permutation(40)
            arrays |= {f"train_{i}": rows[order[:30]], f"test_{i}": rows[order[30:]]}
        np.savez(folder / "tables" / f"{name}.npz", **arrays)


def write_retinamnist(folder):
    """Write noise whose brightness follows the grade as retinamnist.npz."""
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 1080), ("val", 120), ("test", 400)):
        label = rng.integers(0, 5, count)
        pictures = rng.integers(0, 100, size=(count, 28, 28, 3)) + 20 * label[:, None, None, None]
        arrays |= {f"{part}_images": pictures.astype(np.uint8), f"{part}_labels": label[:, None].astype(np.uint8)}
    (folder / "retinamnist").mkdir(parents=True)
    np.savez(folder / "retinamnist" / "retinamnist.npz", **arrays)


def assert_rejected(result, complaint):
    """Assert that a command reported the complaint and exited with 1."""
    assert result.exit_code == 1
    assert complaint in result.stderr.replace("\n", " ")
