"""The code on the page about vector databases returns the hits of ordrank."""

import re
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ordrank.collection.access import read_store
from ordrank.collection.model_file import current_model
from ordrank.errors import InputError
from tests.collection.commands import embed, export, rank
from tests.collection.pictures import draw
from tests.collection.postgres import postgres

PAGE = Path(__file__).parents[2] / "docs" / "databases.md"


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(tmp_path, monkeypatch):
    """Run the Python code of the page, except for LanceDB; return its variables."""
    monkeypatch.chdir(tmp_path)
    variables = {}
    for block in blocks("python"):
        if "lancedb" not in block:
            exec(compile(block, str(PAGE), "exec"), variables)
    return variables


def assert_same(rows, result):
    """Compare names, and distances up to single precision."""
    assert [name for name, _ in rows] == [picture.name for picture in result.hits]
    expected = [picture.distance for picture in result.hits]
    np.testing.assert_allclose([float(distance) for _, distance in rows], expected, rtol=1e-5)


def test_pgvector(page, tmp_path):
    create, search, index = blocks("sql")
    embedding = (tmp_path / "embedding.txt").read_text()
    collection = page["collection"]
    with postgres() as server:
        server.ask(create, tmp_path, width=len(page["embedding"]))
        assert server.ask("SELECT count(*), count(grade), count(estimate) FROM pictures", tmp_path) == [
            ["144", "120", "144"]
        ]
        assert_same(server.ask(search, tmp_path, embedding=embedding, lowest="'-infinity'"), page["result"])
        assert_same(server.ask(search, tmp_path, embedding=embedding, lowest=3), page["filtered"])
        name = collection.pictures(given=False).items[0].name
        by_name = search.replace(":'embedding'", f"(SELECT embedding FROM pictures WHERE name = '{name}')")
        itself, *others = server.ask(by_name, tmp_path, lowest="'-infinity'")
        assert itself == [name, "0"]
        assert_same(others, collection.rank(name, k=9))
        server.ask(index, tmp_path)
        force_index = "SET enable_seqscan = off; SET enable_sort = off;"
        unfiltered = {"embedding": embedding, "lowest": "'-infinity'"}
        plan = server.ask(f"{force_index} EXPLAIN {search}", tmp_path, **unfiltered)
        assert any("Index Scan using pictures_embedding_idx" in line for (line,) in plan), plan
        approximate = {name for name, _ in server.ask(force_index + search, tmp_path, **unfiltered)}
        assert len(approximate & {picture.name for picture in page["result"].hits}) >= 8


def test_lancedb(page):
    pytest.importorskip("lancedb", reason="LanceDB is not installed: pip install lancedb")
    (code,) = (block for block in blocks("python") if "lancedb" in block)
    exec(compile(code, str(PAGE), "exec"), page)  # asserts that the names are equal
    for rows, result in ((page["nearest"], page["result"]), (page["some"], page["filtered"])):
        assert_same([(row["name"], np.sqrt(row["_distance"])) for row in rows], result)
    assert page["pictures"].count_rows() == 144


def test_distance_of_exported_embeddings_is_the_learned_distance(trained, tmp_path):
    export(trained, tmp_path / "out.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    width = len(table["embedding"][0])
    assert table.schema.field("embedding").type == pyarrow.list_(pyarrow.float32(), width)
    exported = dict(zip(table["name"].to_pylist(), np.array(table["embedding"].to_pylist()), strict=True))
    draw(99).save(tmp_path / "new.png")
    queries = [str(tmp_path / "new.png"), "003.png", "004.png"]
    embedded = embed(trained, queries)
    assert (embedded.shape, embedded.dtype) == ((3, width), np.float32)
    for name, vector in zip(queries[1:], embedded[1:], strict=True):
        np.testing.assert_array_equal(vector, exported[name])
    with read_store(trained) as store:
        n_held_out = current_model(trained, store.header).n_held_out
        _, (held_out,) = store.held_out(n_held_out, store.find("003.png").id)
    embedded[1, :2] = held_out[:2]  # a graded picture is ranked without its own grade
    for result, vector in zip(rank(trained, queries, k=40), embedded, strict=True):
        for picture in result.hits:
            assert np.linalg.norm(exported[picture.name] - vector.astype(float)) == pytest.approx(picture.distance)


def test_invalid_queries_are_rejected(trained):
    with pytest.raises(InputError, match="neither a picture file nor a name in"):
        embed(trained, ["004.pgn"])
    with pytest.raises(InputError, match="no picture to embed"):
        embed(trained, [])
