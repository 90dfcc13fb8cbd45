"""Damaged and foreign files are refused with a sentence that names them and says what to do."""

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from ordrank import service
from ordrank.errors import CollectionError, InputError
from ordrank.features import pixels
from tests.service.drawing import content, draw, draw_files


def write(collection, statement, *values):
    with closing(sqlite3.connect(collection / "collection.sqlite")) as connection, connection:
        connection.execute(statement, values)


def model_file(collection, suffix):
    (file,) = collection.glob(f"model-*{suffix}")
    return file


def flip(file, position):
    data = bytearray(file.read_bytes())
    data[position] ^= 0x10
    file.write_bytes(data)


def refused(collection, *, naming):
    """The sentence with which everything that needs the model is refused."""
    works = (
        lambda: service.ask(collection, ["005.png"]),
        lambda: service.describe(collection),
        lambda: service.export(collection, collection.parent / "out.csv"),
    )
    sentences = set()
    for work in works:
        with pytest.raises(CollectionError) as error:
            work()
        sentences.add(str(error.value))
    (sentence,) = sentences
    assert str(naming) in sentence
    return sentence


class TestModelFiles:
    @pytest.fixture(autouse=True)
    def _healed_by_training(self, trained):
        """Whatever happens to a model, training the collection again brings it back."""
        before, answer = content(trained), service.ask(trained, ["005.png"])
        yield
        service.fit(None, trained)
        assert service.ask(trained, ["005.png"]) == answer
        assert content(trained) == before

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    @pytest.mark.parametrize("part", [0, 0.01, 0.5, 0.999])
    def test_a_changed_byte(self, trained, suffix, part):
        file = model_file(trained, suffix)
        flip(file, int(part * file.stat().st_size))
        sentence = refused(trained, naming=file)
        assert "is damaged" in sentence
        assert f"`ordrank fit --out {trained}`" in sentence

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    @pytest.mark.parametrize("part", [0, 0.5, 0.999])
    def test_a_lost_end(self, trained, suffix, part):
        file = model_file(trained, suffix)
        file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
        assert "is damaged" in refused(trained, naming=file)

    @pytest.mark.parametrize("suffix", [".safetensors", ".json"])
    def test_a_missing_file(self, trained, suffix):
        file = model_file(trained, suffix)
        file.unlink()
        sentence = refused(trained, naming=file)
        assert "is missing" in sentence
        assert f"`ordrank fit --out {trained}`" in sentence

    @pytest.mark.parametrize(
        "change",
        [{"format": 2}, {"format": 99}, {"format": None}, {"fingerprint": "pixels:9;version=1"}, {"sha256": "0" * 64}],
        ids=str,
    )
    def test_another_description_whose_checksum_is_right(self, trained, change):
        file = model_file(trained, ".json")
        described = json.dumps(json.loads(file.read_bytes()) | change).encode()
        name = f"model-{hashlib.sha256(described).hexdigest()[:16]}"
        (trained / f"{name}.json").write_bytes(described)
        model_file(trained, ".safetensors").rename(trained / f"{name}.safetensors")
        write(trained, "UPDATE meta SET value = ? WHERE key = 'model'", name)
        sentence = refused(trained, naming=trained)
        assert "`ordrank fit" in sentence
        for value in change.values():
            assert str(value) in sentence or "is damaged" in sentence

    @pytest.mark.parametrize("lost", ["mean_", "projection.components", "labels_"])
    def test_arrays_that_lack_one_though_their_checksum_is_right(self, trained, lost):
        from safetensors.numpy import load, save

        arrays = load(model_file(trained, ".safetensors").read_bytes())
        del arrays[lost]
        described = json.loads(model_file(trained, ".json").read_bytes())
        data = save(arrays)
        described = json.dumps(described | {"sha256": hashlib.sha256(data).hexdigest()}).encode()
        name = f"model-{hashlib.sha256(described).hexdigest()[:16]}"
        (trained / f"{name}.json").write_bytes(described)
        (trained / f"{name}.safetensors").write_bytes(data)
        write(trained, "UPDATE meta SET value = ? WHERE key = 'model'", name)
        assert "is damaged" in refused(trained, naming=trained / f"{name}.safetensors")


class TestDatabase:
    @pytest.mark.parametrize("format", ["2", "one", ""])
    def test_another_format(self, trained, format):
        write(trained, "UPDATE meta SET value = ? WHERE key = 'format'", format)
        sentence = refused(trained, naming=trained)
        assert f"has the format {format}, this version of ordrank reads 1" in sentence
        assert "make it anew" in sentence

    @pytest.mark.parametrize("text", [b"", b"x", b"file,grade\n" * 1000, bytes(8192)], ids=len)
    def test_something_else(self, trained, text):
        (trained / "collection.sqlite").write_bytes(text)
        sentence = refused(trained, naming=trained)
        assert "collection.sqlite" in sentence
        assert "make the collection anew" in sentence
        with pytest.raises(CollectionError, match=r"collection\.sqlite"):
            service.fit(None, trained)
        assert (trained / "collection.sqlite").read_bytes() == text

    @pytest.mark.parametrize("part", [0.001, 0.02, 0.1, 0.3, 0.6, 0.9])
    def test_a_lost_end(self, trained, part):
        file = trained / "collection.sqlite"
        file.write_bytes(file.read_bytes()[: int(part * file.stat().st_size)])
        with pytest.raises(CollectionError, match=rf"{trained}: its collection\.sqlite is (damaged|no database)"):
            describe_and_ask(trained)

    def test_changed_bytes_give_an_answer_or_a_sentence(self, trained, tmp_path):
        file, rng = trained / "collection.sqlite", np.random.default_rng(0)
        whole, refusals = file.read_bytes(), 0
        for _ in range(60):
            damaged = bytearray(whole)
            for position in rng.integers(0, len(whole), size=20):
                damaged[position] ^= int(rng.integers(1, 256))
            file.write_bytes(damaged)
            try:
                service.ask(trained, ["005.png"])
            except InputError:
                refusals += 1
        assert refusals

    def test_another_table_of_the_same_name(self, trained):
        write(trained, "DROP TABLE embeddings")
        assert "collection.sqlite is damaged (no such table: embeddings)" in refused_by_ask(trained)

    def test_a_damaged_lock_is_named(self, trained):
        (trained / "writer.lock").write_text("not a database, but long enough to be taken for one " * 100)
        with pytest.raises(CollectionError, match=r"writer\.lock is damaged; delete it"):
            service.remove(trained, ["000.png"])
        assert service.describe(trained).pictures == 40


def describe_and_ask(collection):
    service.describe(collection)
    service.ask(collection, [f"{number:03d}.png" for number in range(40)])


def refused_by_ask(collection):
    with pytest.raises(CollectionError) as error:
        service.ask(collection, ["005.png"])
    return str(error.value)


class TestExtractors:
    def test_one_that_has_changed_is_refused_for_new_pictures_only(self, trained, tmp_path, monkeypatch):
        before = service.ask(trained, ["005.png"])
        monkeypatch.setattr(pixels, "_VERSION", 2)
        draw(50).save(tmp_path / "new.png")
        works = (
            lambda: service.ask(trained, [str(tmp_path / "new.png")]),
            lambda: service.add(trained, tmp_path / "new.png", n_jobs=1),
            lambda: service.fit(tmp_path / "new.png", trained, n_jobs=1),
        )
        for work in works:
            with pytest.raises(CollectionError) as error:
                work()
            assert "pixels:4;version=1" in str(error.value)
            assert "pixels:4;version=2" in str(error.value)
            assert str(trained) in str(error.value)
        assert service.ask(trained, ["005.png"]) == before
        service.fit(None, trained)

    def test_one_that_is_not_installed_any_more_is_named(self, trained, tmp_path):
        write(trained, "UPDATE meta SET value = 'foreign' WHERE key = 'extractor'")
        draw(50).save(tmp_path / "new.png")
        with pytest.raises(InputError, match="'foreign'"):
            service.ask(trained, [str(tmp_path / "new.png")])


class TestNamesThatAreNoText:
    """Linux allows any bytes in the name of a file."""

    def test_a_picture_to_ask_about(self, trained, tmp_path):
        file = tmp_path / "caf\udce9.png"
        draw(50).save(tmp_path / "new.png")
        shutil.copy(tmp_path / "new.png", file)
        (strange,), (plain,) = (service.ask(trained, [str(path)]) for path in (file, tmp_path / "new.png"))
        assert strange.results == plain.results
        with pytest.raises(InputError, match="nothing was removed"):
            service.remove(trained, [file.name])

    def test_a_folder_of_pictures_and_a_collection(self, trained, tmp_path):
        folder = tmp_path / "caf\udce9"
        collection = shutil.copytree(trained, tmp_path / "l\udce9gumes")
        draw_files(folder, [50])
        assert service.add(collection, folder, n_jobs=1).read == 1
        assert service.describe(collection).pictures == 41
        service.export(collection, tmp_path / "out.csv")
        assert "caf\\xe9/050.png" in (tmp_path / "out.csv").read_text(encoding="utf-8")
