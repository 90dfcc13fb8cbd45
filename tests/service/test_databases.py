"""The recipes for vector databases, run as they are written, find what ordrank finds."""

import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ordrank import service
from ordrank.errors import InputError
from tests.service.drawing import draw
from tests.service.postgres import postgres

PAGE = Path(__file__).parents[2] / "docs" / "databases.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def followed(tmp_path, monkeypatch):
    """Names in the Python of the page when all of it has run that needs no other package."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks("python"):
        if "lancedb" not in block:
            exec(compile(block, str(PAGE), "exec"), names)
    return names


def assert_same(rows, answer):
    """Names, and distances up to single precision."""
    assert [name for name, _ in rows] == [picture.name for picture in answer.results]
    expected = [picture.distance for picture in answer.results]
    np.testing.assert_allclose([float(distance) for _, distance in rows], expected, rtol=1e-5)


def test_pgvector(followed, tmp_path):
    make, ask, index = blocks("sql")
    place = (tmp_path / "place.txt").read_text()
    collection = followed["collection"]
    with postgres() as server:
        server.ask(make, tmp_path, width=len(followed["place"]))
        assert server.ask("SELECT count(*), count(grade), count(estimate) FROM pictures", tmp_path) == [
            ["144", "120", "24"]
        ]
        assert_same(server.ask(ask, tmp_path, place=place, lowest="'-infinity'"), followed["answer"])
        assert_same(server.ask(ask, tmp_path, place=place, lowest=3), followed["higher"])
        known = ask.replace(":'place'", "(SELECT embedding FROM pictures WHERE name = 'fruit-005.png')")
        itself, *others = server.ask(known, tmp_path, lowest="'-infinity'")
        assert itself == ["fruit-005.png", "0"]
        assert_same(others, service.ask(collection, ["fruit-005.png"], k=9)[0])
        server.ask(index, tmp_path)
        use, everything = "SET enable_seqscan = off; SET enable_sort = off;", {"place": place, "lowest": "'-infinity'"}
        plan = server.ask(f"{use} EXPLAIN {ask}", tmp_path, **everything)
        assert any("Index Scan using pictures_embedding_idx" in line for (line,) in plan), plan
        approximate = {name for name, _ in server.ask(use + ask, tmp_path, **everything)}
        assert len(approximate & {picture.name for picture in followed["answer"].results}) >= 8


def test_lancedb(followed):
    pytest.importorskip("lancedb", reason="LanceDB is not installed: pip install lancedb")
    (recipe,) = (block for block in blocks("python") if "lancedb" in block)
    exec(compile(recipe, str(PAGE), "exec"), followed)  # it asserts the same names
    for rows, answer in ((followed["nearest"], followed["answer"]), (followed["some"], followed["higher"])):
        assert_same([(row["name"], np.sqrt(row["_distance"])) for row in rows], answer)
    assert followed["pictures"].count_rows() == 144


def test_places_of_an_export_have_the_learned_distance(trained, tmp_path):
    service.export(trained, tmp_path / "out.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    width = len(table["embedding"][0])
    assert table.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), width)
    places = dict(zip(table["name"].to_pylist(), np.array(table["embedding"].to_pylist()), strict=True))
    draw(99).save(tmp_path / "new.png")
    queries = [str(tmp_path / "new.png"), "003.png", "004.png"]
    embedded = service.embed(trained, queries)
    assert (embedded.shape, embedded.dtype) == ((3, width), np.float32)
    np.testing.assert_array_equal(embedded[1], places["003.png"])
    for answer, place in zip(service.ask(trained, queries, k=40), embedded, strict=True):
        for picture in answer.results:
            assert np.linalg.norm(places[picture.name] - place.astype(float)) == pytest.approx(picture.distance)


def test_what_cannot_be_embedded_is_said(trained):
    with pytest.raises(InputError, match="neither a picture file nor a name in"):
        service.embed(trained, ["004.pgn"])
    with pytest.raises(InputError, match="no picture to embed"):
        service.embed(trained, [])
