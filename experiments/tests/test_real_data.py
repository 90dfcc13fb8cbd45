"""Loaders of UMIST and FG-NET, on synthetic files in every format, and on the real ones if present."""

import numpy as np
import pytest
import scipy.io
from hypothesis import given, settings
from hypothesis import strategies as st
from ordrank_experiments.datasets import align_faces, load_fgnet, load_umist
from PIL import Image

from ordrank.errors import InputError

SUBJECTS = [f"1{letter}" for letter in "abcdefghijklmnopqrst"]
COUNTS = [38, 35, 26, 24, 26, 23, 19, 22, 20, 32, 34, 34, 26, 30, 19, 26, 26, 33, 48, 34]


@pytest.fixture(scope="module")
def faces():
    """Noise with the number and size of the UMIST faces."""
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, size=(575, 112, 92), dtype=np.uint8), np.repeat(SUBJECTS, COUNTS)


class TestUMIST:
    def check(self, loaded, faces):
        np.testing.assert_array_equal(loaded.images, faces[0])
        np.testing.assert_array_equal(loaded.subject, faces[1])
        assert np.bincount(loaded.label).tolist() == [111, 239, 225]
        by_subject = dict(zip(loaded.subject.tolist(), loaded.label.tolist(), strict=True))
        assert (by_subject["1b"], by_subject["1a"], by_subject["1c"]) == (2, 0, 1)

    def test_npz(self, faces, tmp_path):
        (tmp_path / "umist").mkdir()
        np.savez(tmp_path / "umist" / "umist_112x92.npz", X=faces[0], subject=faces[1])
        self.check(load_umist(tmp_path), faces)
        self.check(load_umist(tmp_path / "umist"), faces)
        self.check(load_umist(tmp_path / "umist" / "umist_112x92.npz"), faces)

    def test_environment_variable_names_the_directory(self, faces, tmp_path, monkeypatch):
        np.savez(tmp_path / "umist_112x92.npz", X=faces[0], subject=faces[1])
        monkeypatch.setenv("ORDRANK_DATA", str(tmp_path))
        self.check(load_umist(), faces)

    def test_mat(self, faces, tmp_path):
        cells = np.empty((1, 20), dtype=object)
        names = np.empty((1, 20), dtype=object)
        for i, subject_id in enumerate(SUBJECTS):
            cells[0, i] = np.moveaxis(faces[0][faces[1] == subject_id], 0, 2)
            names[0, i] = subject_id
        scipy.io.savemat(tmp_path / "umist_cropped.mat", {"facedat": cells, "dirnames": names})
        self.check(load_umist(tmp_path), faces)
        self.check(load_umist(tmp_path / "umist_cropped.mat"), faces)

    @pytest.mark.parametrize(
        "layout", ["{subject_id}/face/{subject_id}{i:03}.pgm", "{subject_id}/{i:03}.PGM", "{subject_id}{i:03}.pgm"]
    )
    def test_folders_of_pgm(self, faces, tmp_path, layout):
        images, subject = faces
        for i, (picture, subject_id) in enumerate(zip(images, subject, strict=True)):
            file = tmp_path / layout.format(subject_id=subject_id, i=i)
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(file, format="PPM")
        self.check(load_umist(tmp_path), faces)

    def test_incomplete_set_is_rejected(self, faces, tmp_path):
        np.savez(tmp_path / "umist_112x92.npz", X=faces[0][1:], subject=faces[1][1:])
        with pytest.raises(InputError, match="not the complete set"):
            load_umist(tmp_path)

    def test_invalid_pictures_are_named(self, tmp_path):
        (tmp_path / "1a").mkdir()
        (tmp_path / "1a" / "one.pgm").write_bytes(b"P5 92 112 255\n123")
        with pytest.raises(InputError, match=r"one\.pgm cannot be read"):
            load_umist(tmp_path)
        Image.fromarray(np.zeros((5, 5), dtype=np.uint8)).save(tmp_path / "1a" / "one.pgm", format="PPM")
        with pytest.raises(InputError, match=r"one\.pgm has \(5, 5\) pixels"):
            load_umist(tmp_path)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"version https://git-lfs.github.com/spec/v1"])
    @pytest.mark.parametrize("name", ["umist_112x92.npz", "umist_cropped.mat"])
    def test_damaged_files_are_named(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} cannot be read"):
            load_umist(tmp_path)

    def test_damaged_mat_file_raises(self, tmp_path):
        file, cells = tmp_path / "umist_cropped.mat", np.empty((1, 1), dtype=object)
        cells[0, 0] = np.random.default_rng(0).integers(256, size=(112, 92, 3)).astype(np.uint8)
        scipy.io.savemat(file, {"facedat": cells}, do_compression=True)
        content = bytearray(file.read_bytes())
        content[-1] ^= 1  # of the checksum of the compressed data
        file.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as the cells"):
            load_umist(tmp_path)

    def test_inconsistent_arrays_are_named(self, faces, tmp_path):
        file = tmp_path / "umist_112x92.npz"
        np.savez(file, X=faces[0])
        with pytest.raises(InputError, match="cannot be read as the arrays X, subject"):
            load_umist(tmp_path)
        np.savez(file, X=faces[0][:-1], subject=faces[1])
        with pytest.raises(InputError, match="different lengths"):
            load_umist(tmp_path)
        np.savez(file, X=faces[0].astype(float), subject=faces[1])
        with pytest.raises(InputError, match="float64 pictures"):
            load_umist(tmp_path)
        scipy.io.savemat(tmp_path / "umist_cropped.mat", {"other": 1})
        file.unlink()
        with pytest.raises(InputError, match="cannot be read as the cells"):
            load_umist(tmp_path)

    def test_missing_data_are_explained(self, tmp_path, monkeypatch):
        with pytest.raises(InputError, match=r"no UMIST faces in .* umist_cropped\.mat"):
            load_umist(tmp_path)
        with pytest.raises(InputError, match=r"nowhere does not exist\. Get the cropped UMIST"):
            load_umist(tmp_path / "nowhere")
        monkeypatch.delenv("ORDRANK_DATA", raising=False)
        with pytest.raises(InputError, match="set ORDRANK_DATA"):
            load_umist()

    def test_real_faces(self, data_dir):
        loaded = load_umist(data_dir)
        assert loaded.images.shape == (575, 112, 92)
        assert [int((loaded.subject == subject_id).sum()) for subject_id in SUBJECTS] == COUNTS


AGES = np.repeat([1, 5, 9, 15, 19, 40], [27, 40, 25, 30, 23, 7])


@pytest.fixture(scope="module")
def landmarks():
    return np.round(np.random.default_rng(0).uniform(0, 500, size=(len(AGES), 68, 2)), 3)


class TestFGNET:
    def write_points(self, folder, landmarks):
        folder.mkdir()
        for i, (age, face) in enumerate(zip(AGES, landmarks, strict=True)):
            lines = "\n".join(f"{x} {y}" for x, y in face)
            name = f"{i % 80 + 1:03}a{age:02}{'ab'[i // 80]}.pts"
            (folder / name).write_text(f"version: 1\nn_points: 68\n{{\n{lines}\n}}\n")

    def test_folder_of_points_and_pictures(self, landmarks, tmp_path):
        self.write_points(tmp_path / "points", landmarks)
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "001A01A.JPG").write_bytes(b"")
        loaded = load_fgnet(tmp_path)
        assert np.bincount(loaded.label).tolist() == [0, 27, 40, 25, 30, 23]
        np.testing.assert_array_equal(loaded.age, np.array([1, 5, 9, 15, 19])[loaded.label - 1])
        assert loaded.subject.min() == 1
        assert loaded.image_file[0].endswith("images/001A01A.JPG")
        np.testing.assert_array_equal(loaded.points[0], landmarks[0])
        all_ages = load_fgnet(tmp_path, ages=None)
        assert len(all_ages.points) == len(AGES)
        np.testing.assert_array_equal(all_ages.label, all_ages.age)
        reversed_ages = load_fgnet(tmp_path, ages=[40, 9])
        assert np.bincount(reversed_ages.label).tolist() == [0, 7, 25]

    def test_npz(self, landmarks, tmp_path):
        names = np.array([f"{i:03}A{age:02}.JPG" for i, age in enumerate(AGES)])
        arrays = {"points": landmarks, "subject": np.arange(len(AGES)), "age": AGES, "image_file": names}
        np.savez(tmp_path / "fgnet_points.npz", **arrays)
        assert len(load_fgnet(tmp_path).points) == 145
        assert len(load_fgnet(tmp_path / "fgnet_points.npz", ages=None).points) == len(AGES)

    def test_pictures_next_to_the_npz_are_found(self, landmarks, tmp_path):
        names = np.array([f"{i:03}A{age:02}.JPG" for i, age in enumerate(AGES)])
        arrays = {"points": landmarks, "subject": np.arange(len(AGES)), "age": AGES, "image_file": names}
        np.savez(tmp_path / "fgnet_points.npz", **arrays)
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "000a01.jpg").write_bytes(b"")
        assert load_fgnet(tmp_path).image_file[0].endswith("images/000a01.jpg")

    @pytest.mark.parametrize(("value", "complaint"), [(np.nan, "not 68 finite points"), (7.0, "all coincide")])
    def test_invalid_landmarks_are_rejected(self, landmarks, tmp_path, value, complaint):
        points = landmarks.copy()
        points[3] = value
        arrays = {"points": points, "subject": np.arange(len(AGES)), "age": AGES, "image_file": AGES.astype(str)}
        np.savez(tmp_path / "fgnet_points.npz", **arrays)
        with pytest.raises(InputError, match=complaint):
            load_fgnet(tmp_path)

    def test_incomplete_set_is_rejected(self, landmarks, tmp_path):
        self.write_points(tmp_path / "points", landmarks)
        next((tmp_path / "points").iterdir()).unlink()
        with pytest.raises(InputError, match="not the complete set"):
            load_fgnet(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            ("face.pts", "{}", "is not named like"),
            ("001a02.pts", "version: 1\n{\n1 2\n", "does not hold 68 points"),
            ("001a02.pts", "{" + "1 x " * 68 + "}", "does not hold 68 points"),
            ("001a02.pts", "", "does not hold 68 points"),
        ],
    )
    def test_invalid_files_are_named(self, tmp_path, name, text, complaint):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=rf"{name} {complaint}"):
            load_fgnet(tmp_path)

    def test_missing_data_are_explained(self, tmp_path):
        with pytest.raises(InputError, match=r"no FG-NET landmarks in .* Get the FG-NET aging database"):
            load_fgnet(tmp_path)

    def test_real_faces(self, data_dir):
        assert len(load_fgnet(data_dir).points) == 145
        assert len(load_fgnet(data_dir, ages=None).points) == 1002


@settings(max_examples=15)
@given(st.integers(0, 1000))
def test_alignment_removes_translation_scale_and_rotation(seed):
    rng = np.random.default_rng(seed)
    shape = rng.normal(size=(68, 2))
    faces = []
    for _ in range(6):
        angle, scale, shift = rng.uniform(0, 2 * np.pi), rng.uniform(0.1, 100), rng.normal(size=2)
        rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        faces.append(scale * shape @ rotation + shift)
    aligned = align_faces(np.array(faces))
    np.testing.assert_allclose(aligned, np.broadcast_to(aligned[:1], aligned.shape), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(aligned, axis=(1, 2)), 1)


def test_alignment_does_not_reflect():
    shape = np.random.default_rng(0).normal(size=(68, 2))
    aligned = align_faces(np.array([shape, shape, shape * [-1, 1]]))
    assert np.linalg.norm(aligned[0] - aligned[2]) > 0.1
