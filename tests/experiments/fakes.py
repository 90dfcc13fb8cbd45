"""Data sets with the shape of the real ones and nothing of their content."""

import numpy as np

AGES = (1, 5, 9, 15, 19)
COUNTS = (27, 40, 25, 30, 23)


def write_fgnet(folder, seed=0):
    """Landmarks that grow longer with age, in the form of fgnet_points.npz."""
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
    """Noise with a brightness that follows the person, in the form of umist_112x92.npz."""
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
