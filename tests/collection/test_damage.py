"""Damaged and foreign files raise an error that names the file and says what to do."""

import hashlib
import json
import shutil
from contextlib import closing

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection.database import connect_to_write
from ordrank.collection.snapshot import take_snapshot
from ordrank.errors import CollectionError, InputError
from ordrank.features import pixels
from tests.collection.commands import add, export, fit, info, rank, remove
from tests.collection.pictures import content, draw, draw_files


def write(collection, statement, *values):
    """Write as the package does, with valid checksums."""
    with closing(connect_to_write(collection)) as connection:
        connection.execute(statement, values)


def model_file(collection, suffix):
    (file,) = collection.glob(f"model-*{suffix}")
    return file


def flip(file, position):
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def error_of_readers(collection, *, mentions):
    """Return the one message with which all operations that need the model fail."""
    operations = (
        lambda: rank(collection, ["005.png"]),
        lambda: info(collection),
        lambda: export(collection, collection.parent / "out.csv"),
    )
    messages = set()
    for operation in operations:
        with pytest.raises(CollectionError) as error:
            operation()
        messages.add(str(error.value))
    (message,) = messages
    assert str(mentions) in message
    return message


class TestModelFiles:
    @pytest.fixture(autouse=True)
    def _repaired_by_training(self, trained):
        """Check that training again repairs the model."""
        before, result = content(trained), rank(trained, ["005.png"])
        yield
        fit(None, trained)
        assert rank(trained, ["005.png"]) == result
        assert content(trained) == before

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    @pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.999])
    def test_changed_byte_is_detected(self, trained, suffix, part):
        file = model_file(trained, suffix)
        flip(file, int(part * file.stat().st_size))
        message = error_of_readers(trained, mentions=file)
        assert "is damaged" in message
        assert f"`ordrank fit --out {trained}`" in message

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    @pytest.mark.parametrize("part", [0, 0.5, 0.999])
    def test_truncated_file_is_detected(self, trained, suffix, part):
        file = model_file(trained, suffix)
        file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
        assert "is damaged" in error_of_readers(trained, mentions=file)

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    def test_missing_file_is_reported(self, trained, suffix):
        file = model_file(trained, suffix)
        file.unlink()
        message = error_of_readers(trained, mentions=file)
        assert "is missing" in message
        assert f"`ordrank fit --out {trained}`" in message

    @pytest.mark.parametrize(
        "change",
        [{"format": 2}, {"format": 99}, {"format": None}, {"fingerprint": "pixels:9;version=1"}, {"sha256": "0" * 64}],
        ids=str,
    )
    def test_other_description_with_a_valid_checksum_is_rejected(self, trained, change):
        file = model_file(trained, ".json")
        description = json.dumps(json.loads(file.read_bytes()) | change).encode()
        name = f"model-{hashlib.sha256(description).hexdigest()[:16]}"
        (trained / f"{name}.json").write_bytes(description)
        model_file(trained, ".safetensors").rename(trained / f"{name}.safetensors")
        write(trained, "UPDATE meta SET value = ? WHERE key = 'model'", name)
        message = error_of_readers(trained, mentions=trained)
        assert "`ordrank fit" in message
        for value in change.values():
            assert str(value) in message or "is damaged" in message

    @pytest.mark.parametrize("lost", ["mean", "projection.components", "rescaling.factors"])
    def test_missing_array_with_a_valid_checksum_is_rejected(self, trained, lost):
        from safetensors.numpy import load, save

        arrays = load(model_file(trained, ".safetensors").read_bytes())
        del arrays[lost]
        description = json.loads(model_file(trained, ".json").read_bytes())
        data = save(arrays)
        description = json.dumps(description | {"sha256": hashlib.sha256(data).hexdigest()}).encode()
        name = f"model-{hashlib.sha256(description).hexdigest()[:16]}"
        (trained / f"{name}.json").write_bytes(description)
        (trained / f"{name}.safetensors").write_bytes(data)
        write(trained, "UPDATE meta SET value = ? WHERE key = 'model'", name)
        assert "is damaged" in error_of_readers(trained, mentions=trained / f"{name}.safetensors")


class TestDatabase:
    @pytest.mark.parametrize("format", ["1", "one", ""])
    def test_other_format_is_rejected(self, trained, format):
        write(trained, "UPDATE meta SET value = ? WHERE key = 'format'", format)
        message = error_of_readers(trained, mentions=trained)
        assert f"has the format {format}, this version of ordrank reads 5" in message
        assert "create it again" in message

    @pytest.mark.parametrize("text", [b"", b"x", b"file,grade\n" * 1000, bytes(8192)], ids=len)
    def test_foreign_file_is_rejected(self, trained, text):
        (trained / "collection.sqlite").write_bytes(text)
        message = error_of_readers(trained, mentions=trained)
        assert "collection.sqlite" in message
        assert "create the collection again" in message
        with pytest.raises(CollectionError, match=r"collection\.sqlite"):
            fit(None, trained)
        assert (trained / "collection.sqlite").read_bytes() == text

    @pytest.mark.parametrize("part", [0.001, 0.02, 0.1, 0.3, 0.6, 0.9])
    def test_truncated_file_is_detected(self, trained, part):
        file = trained / "collection.sqlite"
        file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
        with pytest.raises(CollectionError, match=rf"{trained}: its collection\.sqlite is (damaged|no database)"):
            info_and_rank(trained)

    def test_changed_bytes_give_a_result_or_an_error(self, trained, tmp_path):
        file, rng = trained / "collection.sqlite", np.random.default_rng(0)
        write(trained, "UPDATE pictures SET path = '/pictures/' || name")  # the same bytes in every run
        intact, n_errors = file.read_bytes(), 0
        for _ in range(60):
            damaged = bytearray(intact)
            for position in rng.integers(0, len(intact), size=20):
                damaged[position] ^= int(rng.integers(1, 256))
            file.write_bytes(damaged)
            try:
                rank(trained, ["005.png"])
            except InputError:
                n_errors += 1
        assert n_errors

    @pytest.mark.parametrize("column", ["name", "sha256", "width", "height", "grade", "estimate", "lowest", "highest"])
    def test_values_of_another_type_are_reported(self, trained, column):
        write(trained, f"UPDATE pictures SET {column} = x'00' WHERE id = 7")
        assert "is damaged" in error_of_rank(trained)

    @pytest.mark.parametrize("column", ["name", "path", "sha256", "grade", "estimate", "lowest", "highest"])
    def test_values_of_another_type_are_not_exported(self, trained, column, tmp_path):
        write(trained, f"UPDATE pictures SET {column} = x'00' WHERE id = 7")
        for use in (lambda opened: opened.export(tmp_path / "out.csv"), Collection.to_frame):
            with pytest.raises(CollectionError, match="is damaged"), Collection.open(trained) as opened:
                use(opened)

    @pytest.mark.parametrize("held_out", ["substr(held_out, 1, 3)", "substr(held_out, 1, 4)", "x''", "'text'", "1.5"])
    @pytest.mark.parametrize("pictures", ["id = 6", "held_out IS NOT NULL"], ids=["one", "all"])
    def test_damaged_coordinates_without_the_grade_are_reported(self, trained, held_out, pictures):
        write(trained, f"UPDATE embeddings SET held_out = {held_out} WHERE {pictures}")
        assert "is damaged" in error_of_rank(trained)
        snapshot = take_snapshot(trained, load_vectors=False)  # as for a search on a cluster
        with Collection.open(trained) as opened, pytest.raises(CollectionError, match="is damaged"):
            opened._queries.embed(snapshot, ["005.png"])

    @pytest.mark.parametrize("column", ["lowest", "highest"])
    def test_values_that_are_no_numbers_are_reported_everywhere(self, trained, column, tmp_path):
        write(trained, f"UPDATE pictures SET {column} = 'high' WHERE id = 7")
        for use in (Collection.pictures, Collection.to_frame, lambda opened: opened.export(tmp_path / "out.csv")):
            with pytest.raises(CollectionError, match="is damaged"), Collection.open(trained) as opened:
                use(opened)

    def test_missing_table_is_reported(self, trained):
        write(trained, "DROP TABLE embeddings")
        assert "collection.sqlite is damaged (no such table: embeddings)" in error_of_rank(trained)

    def test_damaged_lock_is_reported(self, trained):
        (trained / "writer.lock").write_text("not a database, but long enough to be taken for one " * 100)
        with pytest.raises(CollectionError, match=r"writer\.lock is damaged; delete it"):
            remove(trained, ["000.png"])
        assert info(trained).pictures == 40


def info_and_rank(collection):
    info(collection)
    rank(collection, [f"{number:03d}.png" for number in range(40)])


def error_of_rank(collection):
    with pytest.raises(CollectionError) as error:
        rank(collection, ["005.png"])
    return str(error.value)


class TestExtractors:
    def test_changed_extractor_is_rejected_for_new_pictures_only(self, trained, tmp_path, monkeypatch):
        before = rank(trained, ["005.png"])
        monkeypatch.setattr(pixels, "_VERSION", 2)
        draw(50).save(tmp_path / "new.png")
        operations = (
            lambda: rank(trained, [str(tmp_path / "new.png")]),
            lambda: add(trained, tmp_path / "new.png", n_jobs=1),
            lambda: fit(tmp_path / "new.png", trained, n_jobs=1),
        )
        for operation in operations:
            with pytest.raises(CollectionError) as error:
                operation()
            assert "pixels:4;version=1" in str(error.value)
            assert "pixels:4;version=2" in str(error.value)
            assert str(trained) in str(error.value)
        assert rank(trained, ["005.png"]) == before
        fit(None, trained)

    def test_extractor_that_is_not_installed_is_named(self, trained, tmp_path):
        write(trained, "UPDATE meta SET value = 'foreign' WHERE key = 'extractor'")
        draw(50).save(tmp_path / "new.png")
        with pytest.raises(InputError, match="'foreign'"):
            rank(trained, [str(tmp_path / "new.png")])


class TestUndecodableNames:
    """Linux allows any bytes in a file name."""

    def test_query_with_an_undecodable_name(self, trained, tmp_path):
        file = tmp_path / "caf\udce9.png"
        draw(50).save(tmp_path / "new.png")
        shutil.copy(tmp_path / "new.png", file)
        (undecodable,), (plain,) = (rank(trained, [str(path)]) for path in (file, tmp_path / "new.png"))
        assert undecodable.hits == plain.hits
        with pytest.raises(InputError, match="nothing was removed"):
            remove(trained, [file.name])

    def test_folder_and_collection_with_undecodable_names(self, trained, tmp_path):
        folder = tmp_path / "caf\udce9"
        collection = shutil.copytree(trained, tmp_path / "l\udce9gumes")
        draw_files(folder, [50])
        assert add(collection, folder, n_jobs=1).read == 1
        assert info(collection).pictures == 41
        export(collection, tmp_path / "out.csv")
        assert "caf\\xe9/050.png" in (tmp_path / "out.csv").read_text(encoding="utf-8")
