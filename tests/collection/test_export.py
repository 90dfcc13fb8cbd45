import csv
import struct

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.collection.csv_cells import escape_formulas, unescape_formula
from ordrank.collection.export import COLUMNS
from ordrank.errors import CollectionError, InputError
from tests.collection.commands import export, fit, rank, remove
from tests.collection.pictures import draw, rows, write_grades

STRANGE = ["new\nline.png", 'quo"te, comma.png', "🍎/é ñ.png", "carriage\rreturn.png", "'; DROP TABLE pictures.png"]


@pytest.fixture
def strange(tmp_path):
    """A collection of pictures with strange names, graded with words."""
    folder = tmp_path / "pictures"
    for number, name in enumerate(STRANGE * 2):
        file = folder / f"{'' if number < len(STRANGE) else 'again '}{name}"
        file.parent.mkdir(exist_ok=True, parents=True)
        draw(number).save(file)
    with (tmp_path / "g.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([("file", "grade"), *zip(STRANGE, ("low", "high") * 3, strict=False)])
    labels = tmp_path / "g.csv"
    fit(folder, tmp_path / "strange", labels=labels, order=("low", "high"), features="pixels:2", n_jobs=1)
    return tmp_path / "strange"


def kept(collection):
    """What an export must hold, straight from the tables."""
    words = dict(rows(collection, "SELECT key, value FROM meta")).get("order")
    found = rows(
        collection,
        "SELECT name, path, sha256, width, height, grade, estimate, lowest, highest, subject, vector "
        "FROM pictures JOIN embeddings USING (id) ORDER BY id",
    )

    def shown(grade):
        return grade if grade is None or words is None else ("low", "high")[round(grade)]

    return [
        (*cells[:5], *map(shown, cells[5:9]), cells[9], list(struct.unpack(f"<{len(cells[10]) // 4}f", cells[10])))
        for cells in found
    ]


def read_parquet(file):
    table = pyarrow.parquet.read_table(file).to_pydict()
    return list(zip(*table.values(), strict=True)), list(table)


def read_csv(file, *, numbers):
    with file.open(newline="", encoding="utf-8") as stream:
        head, *lines = csv.reader(stream)

    def grade(text):
        return None if text == "" else float(text) if numbers else text

    return [
        (
            *line[:3],
            int(line[3]),
            int(line[4]),
            *map(grade, line[5:9]),
            line[9] or None,
            [float(np.float32(x)) for x in line[10:]],
        )
        for line in lines
    ], head


@pytest.mark.parametrize("which", ["trained", "strange"])
def test_parquet_and_csv_hold_what_the_collection_holds(which, request, tmp_path):
    collection = request.getfixturevalue(which)
    expected = kept(collection)
    for suffix in (".parquet", ".csv"):
        assert export(collection, tmp_path / f"out{suffix}") == len(expected)
    parquet, columns = read_parquet(tmp_path / "out.parquet")
    assert columns == [*COLUMNS, "embedding"]
    assert parquet == expected
    lines, head = read_csv(tmp_path / "out.csv", numbers=which == "trained")
    assert head == [*columns[:-1], *(f"e{i}" for i in range(len(expected[0][-1])))]
    assert lines == expected


def test_unusual_names_are_exported_unchanged(strange, tmp_path):
    export(strange, tmp_path / "out.csv")
    assert {line[0] for line in read_csv(tmp_path / "out.csv", numbers=False)[0]} >= set(STRANGE)
    assert [answer.known_grade for answer in rank(strange, STRANGE)] == ["low", "high", "low", "high", "low"]


FORMULAS = ["=1+1.png", "+a.png", "-a.png", "@a.png", "'=a.png", "''-a.png", "'a.png"]


def test_a_csv_file_holds_no_formulas_and_is_read_back_as_it_was(tmp_path):
    folder, order = tmp_path / "pictures", ("-low", "=high")
    folder.mkdir()
    for number, name in enumerate(FORMULAS):
        draw(number).save(folder / name)
    names = sorted(path.name for path in folder.iterdir())
    grades = {name: order[number % 2] for number, name in enumerate(names)}
    first, second = tmp_path / "first", tmp_path / "second"
    fit(folder, first, labels=grades, order=order, features="pixels:2", n_jobs=1)
    export(first, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as stream:
        texts = [cell for line in csv.reader(stream) for cell in line[:10]]
    assert not [text for text in texts if text.startswith(("=", "+", "-", "@"))]
    options = {"file_column": "name", "grade_column": "grade", "features": "pixels:2", "n_jobs": 1}
    fit(folder, second, labels=tmp_path / "out.csv", order=order, **options)
    for collection in (first, second):
        assert dict(rows(collection, "SELECT name, grade FROM pictures")) == {
            name: float(order.index(grade)) for name, grade in grades.items()
        }


@given(st.text(alphabet="'=+-@\t\r1a", max_size=5))
def test_escaped_cells_are_unescaped(text):
    (cell,) = escape_formulas([text])
    assert unescape_formula(cell) == text


def test_an_empty_collection_gives_a_table_without_rows(trained, tmp_path):
    remove(trained, [name for (name,) in rows(trained, "SELECT name FROM pictures")])
    for suffix in (".parquet", ".csv"):
        assert export(trained, tmp_path / f"out{suffix}") == 0
    assert read_parquet(tmp_path / "out.parquet")[0] == []
    assert read_csv(tmp_path / "out.csv", numbers=True)[0] == []


@pytest.mark.parametrize("name", ["out.xlsx", "out", "out.parquet.gz"])
def test_another_suffix_is_rejected(trained, tmp_path, name):
    with pytest.raises(InputError, match=r"the name must end in \.parquet or \.csv"):
        export(trained, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_suffixes_may_be_upper_case(trained, tmp_path):
    assert export(trained, tmp_path / "OUT.CSV") == 40


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_existing_file_is_replaced_when_all_is_written_and_not_before(trained, tmp_path, suffix, monkeypatch):
    out = tmp_path / f"out{suffix}"
    export(trained, out)
    old = out.read_bytes()
    from ordrank.collection.store import Store

    with monkeypatch.context() as patch:
        patch.setattr(Store, "rows", lambda self, ids: (_ for _ in ()).throw(CollectionError("broken")))
        with pytest.raises(CollectionError, match="broken"):
            export(trained, out)
    assert out.read_bytes() == old
    assert [path.name for path in tmp_path.iterdir() if path.name != "collection"] == [out.name]
    export(trained, out)
    assert out.stat().st_size > 1000


def test_a_collection_without_a_model_is_rejected(pictures, tmp_path):
    (pictures / "001.png").write_text("no picture")
    grades = write_grades(tmp_path / "g.csv", ["000.png", "001.png"])
    with pytest.raises(InputError):
        fit(pictures, tmp_path / "c", labels=grades, features="pixels:2", n_jobs=1)
    with pytest.raises(CollectionError, match="has no model yet"):
        export(tmp_path / "c", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
