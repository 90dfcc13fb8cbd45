"""Loaders of the tables and of RetinaMNIST, on synthetic files and on the real ones if present."""

import numpy as np
import pytest
from ordrank_experiments.datasets import TABLES, load_retinamnist, load_table

from experiments.tests.fakes import write_retinamnist, write_tables
from ordrank.errors import InputError

DAMAGED = [b"", b"PK\x03\x04 cut off", b"version https://git-lfs.github.com/spec/v1"]


def arrays_of(file):
    with np.load(file) as data:
        return dict(data)


class TestTables:
    @pytest.fixture
    def file(self, tmp_path):
        write_tables(tmp_path, names=("tae",))
        return tmp_path / "tables" / "tae.npz"

    def test_every_path_is_accepted(self, file, tmp_path, monkeypatch):
        monkeypatch.setenv("ORDRANK_DATA", str(tmp_path))
        for table in (load_table("tae", path) for path in (tmp_path, tmp_path / "tables", file, None)):
            assert table.name == "tae"
            assert len(table.holdouts) == 3
            second, raw = table.holdouts[1], arrays_of(file)
            np.testing.assert_array_equal(second.X_train, raw["train_1"][:, :-1])
            np.testing.assert_array_equal(second.y_test, raw["test_1"][:, -1])
            assert second.X_train.dtype == second.y_train.dtype == np.float64

    def test_holdouts_are_in_numerical_order(self, tmp_path):
        write_tables(tmp_path, names=("car",), holdouts=12)
        raw = arrays_of(tmp_path / "tables" / "car.npz")
        np.testing.assert_array_equal(load_table("car", tmp_path).holdouts[10].y_train, raw["train_10"][:, -1])

    @pytest.mark.parametrize("content", DAMAGED)
    def test_damaged_files_are_named(self, file, content):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"tae\.npz cannot be read as the arrays train_0, test_0"):
            load_table("tae", file)

    def test_flipped_byte_is_detected_or_harmless(self, file):
        np.savez_compressed(file, **arrays_of(file))
        whole, expected = file.read_bytes(), load_table("tae", file).holdouts[0].X_train
        complaints = []
        for position in range(0, len(whole), 23):
            file.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
            try:
                np.testing.assert_array_equal(load_table("tae", file).holdouts[0].X_train, expected)
            except InputError as error:
                complaints.append(str(error))
        assert len(complaints) > len(whole) / 23 * 0.7
        assert all("tae.npz" in complaint for complaint in complaints)

    def test_single_array_is_rejected(self, file):
        with file.open("wb") as stream:
            np.save(stream, np.zeros((3, 3)))
        with pytest.raises(InputError, match=r"tae\.npz cannot be read"):
            load_table("tae", file)

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"test_2": None}, "does not hold pairs of arrays"),
            ({"other": np.zeros(3)}, "does not hold pairs of arrays"),
            ({"test_1": np.zeros(3)}, "not tables of numbers"),
            ({"test_1": np.array([["a", "b"]])}, "not tables of numbers"),
            ({"test_1": np.ones((10, 9))}, "different widths or with gaps"),
            ({"test_1": np.full((10, 4), np.nan)}, "different widths or with gaps"),
            ({"test_1": np.ones((9, 4))}, "hold-outs of different sizes"),
            ({"test_1": np.full((10, 4), 1.5)}, "expected 1, 2, ..."),
        ],
    )
    def test_invalid_holdouts_are_rejected(self, file, change, complaint):
        arrays = {name: array for name, array in (arrays_of(file) | change).items() if array is not None}
        np.savez(file, **arrays)
        with pytest.raises(InputError, match=rf"tae\.npz .*{complaint}"):
            load_table("tae", file)

    def test_missing_data_are_explained(self, tmp_path):
        with pytest.raises(InputError, match=r"no car\.npz in .* Put car\.npz, with arrays train_0"):
            load_table("car", tmp_path)
        with pytest.raises(InputError, match="nowhere does not exist"):
            load_table("car", tmp_path / "nowhere")
        with pytest.raises(InputError, match="no table 'cars'; there are car, tae, winequality-red"):
            load_table("cars", tmp_path)

    @pytest.mark.parametrize(("name", "shape"), list(zip(TABLES, [(1296, 21), (113, 54), (1199, 11)], strict=True)))
    def test_real_tables(self, data_dir, name, shape):
        table = load_table(name, data_dir)
        assert len(table.holdouts) == 30
        assert table.holdouts[7].X_train.shape == shape


class TestRetinaMNIST:
    @pytest.fixture
    def file(self, tmp_path):
        write_retinamnist(tmp_path)
        return tmp_path / "retinamnist" / "retinamnist.npz"

    def test_every_path_is_accepted(self, file, tmp_path):
        for path in (tmp_path, file.parent, file):
            loaded = load_retinamnist(path)
            assert loaded.images.shape == (1600, 28, 28, 3)
            assert {part: int((loaded.part == part).sum()) for part in ("train", "val", "test")} == {
                "train": 1080,
                "val": 120,
                "test": 400,
            }
            assert (loaded.part[:1080] == "train").all()
            np.testing.assert_array_equal(loaded.label[1200:], arrays_of(file)["test_labels"].ravel())

    @pytest.mark.parametrize("content", DAMAGED)
    def test_damaged_files_are_named(self, file, content):
        file.write_bytes(content)
        with pytest.raises(InputError, match=r"retinamnist\.npz cannot be read as the arrays train_images"):
            load_retinamnist(file)

    @pytest.mark.parametrize(
        ("change", "complaint"),
        [
            ({"test_labels": None}, "cannot be read as the arrays test_images, test_labels"),
            ({"val_labels": np.zeros((119, 1))}, "different lengths"),
            ({"val_images": np.zeros((120, 64, 64, 3), dtype=np.uint8)}, "expected 120 of 28 × 28 × 3 bytes"),
            ({"val_images": np.zeros((120, 28, 28, 3))}, "float64 val pictures"),
            ({"val_labels": np.full((120, 1), 5)}, "labels other than one of 0 to 4"),
            ({"val_labels": np.zeros((120, 2))}, "labels other than one of 0 to 4"),
        ],
    )
    def test_invalid_pictures_are_rejected(self, file, change, complaint):
        arrays = {name: array for name, array in (arrays_of(file) | change).items() if array is not None}
        np.savez(file, **arrays)
        with pytest.raises(InputError, match=rf"retinamnist\.npz .*{complaint}"):
            load_retinamnist(file)

    def test_missing_data_are_explained(self, tmp_path):
        with pytest.raises(InputError, match=r"no retinamnist\.npz in .* MedMNIST v2"):
            load_retinamnist(tmp_path)

    def test_real_pictures(self, data_dir):
        assert np.bincount(load_retinamnist(data_dir).label[:1080]).tolist() == [486, 128, 206, 194, 66]
