"""Archives of photographs with grades."""

import io
import zipfile

import numpy as np
import pytest
from ordrank_experiments.datasets import load_photos
from PIL import Image

from ordrank.errors import InputError


def write_photos(folder, grades):
    (folder / "photos").mkdir()
    with zipfile.ZipFile(folder / "photos" / "leaves.zip", "w") as archive:
        for i in range(len(grades)):
            stream = io.BytesIO()
            Image.new("RGB", (40 + i, 30), (10 * i, 0, 0)).save(stream, "PNG")
            archive.writestr(f"images/{i}.png", stream.getvalue())
        rows = "".join(f"images/{i}.png,{grade}\n" for i, grade in enumerate(grades))
        archive.writestr("grades.csv", f"file,grade\n{rows}")


def test_pictures_of_any_size_become_squares(tmp_path):
    write_photos(tmp_path, [0, 3, 1])
    photos = load_photos("leaves", tmp_path, size=8)
    assert photos.images.shape == (3, 8, 8, 3)
    assert photos.images[2, 0, 0].tolist() == [20, 0, 0]
    np.testing.assert_array_equal(photos.grade, [0.0, 3.0, 1.0])


def test_a_missing_or_damaged_archive_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match=r"no leaves.zip in .* Put leaves.zip"):
        load_photos("leaves", tmp_path)
    write_photos(tmp_path, ["high"])
    with pytest.raises(InputError, match="cannot be read as pictures with grades: could not convert"):
        load_photos("leaves", tmp_path)
    (tmp_path / "photos" / "leaves.zip").write_bytes(b"PK")
    with pytest.raises(InputError, match="cannot be read as pictures with grades"):
        load_photos("leaves", tmp_path)
