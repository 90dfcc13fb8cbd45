"""Pictures of one group are held out together."""

import numpy as np
import pytest

from ordrank import Collection
from ordrank.collection import evaluate as evaluation
from ordrank.collection.search import Groups
from ordrank.errors import GradesError, InputError
from tests.collection.pictures import column, draw_files


@pytest.fixture
def drawn(tmp_path):
    names = draw_files(tmp_path / "pictures", range(48))
    lines = "".join(f"{name},{int(name[:3]) % 3},p{int(name[:3]) // 4}\n" for name in names)
    (tmp_path / "grades.csv").write_text(f"file,grade,person\n{lines}")
    return tmp_path


def create(folder, **options):
    return Collection.create(
        folder / "c", folder / "pictures", folder / "grades.csv", features="pixels:4", n_jobs=1, **options
    )


def test_groups_are_stored_exported_and_counted(drawn):
    collection = create(drawn, group_column="person")
    assert column(drawn / "c", "subject")["005.png"] == "p1"
    assert collection.info().groups == 12
    assert set(collection.to_frame()["group"]) == {f"p{i}" for i in range(12)}


def test_nobody_of_the_own_group_votes(drawn):
    collection = create(drawn, group_column="person")
    snapshot = collection._live.current()
    ids = snapshot.images.ids
    found = snapshot.searcher.estimator.estimate(snapshot.space.vectors, ids)
    own = snapshot.groups.of(found.nearest) == snapshot.groups.of(ids)[:, None]
    assert not own.any()


def test_folds_are_of_whole_groups(drawn, monkeypatch):
    collection, folds, split = create(drawn, group_column="person"), [], evaluation._split

    def look(grades, n_folds, groups):
        folds.extend((groups[train], groups[test]) for train, test in split(grades, n_folds, groups))
        return split(grades, n_folds, groups)

    monkeypatch.setattr(evaluation, "_split", look)
    collection.evaluate(4)
    assert len(folds) == 4
    assert not any(np.isin(test, train).any() for train, test in folds)
    with pytest.raises(InputError, match="13 folds need at least 13 groups; there are 12"):
        collection.evaluate(13)


def test_groups_stay_when_the_collection_is_trained_again(drawn):
    collection = create(drawn, group_column="person")
    collection.fit()
    assert collection.info().groups == 12


def test_a_single_group_is_held_out_picture_by_picture(drawn):
    text = (drawn / "grades.csv").read_text()
    (drawn / "grades.csv").write_text("\n".join(line.rsplit(",", 1)[0] + ",same" for line in text.split("\n") if line))
    (drawn / "grades.csv").write_text((drawn / "grades.csv").read_text().replace("grade,same", "grade,person", 1))
    collection = create(drawn, group_column="person")
    assert collection.rank("000.png", k=1).hits


def test_wrong_groups_are_named(drawn):
    with pytest.raises(InputError, match="no column 'nobody'"):
        create(drawn, group_column="nobody")
    with pytest.raises(InputError, match="column 'grade' cannot hold the groups too"):
        create(drawn, group_column="grade")
    with (drawn / "grades.csv").open("a") as stream:
        stream.write("000.png,0,p9\n")
    with pytest.raises(GradesError, match=r"000\.png.*has group.*p9.*here and.*p0.*above"):
        create(drawn, group_column="person")
    assert not (drawn / "c").exists()


def test_pictures_without_a_group_are_alone():
    groups = Groups.from_names(np.array([3, 5, 9, 12]), ["a", None, "a", None])
    codes = groups.of(np.array([3, 5, 9, 12]))
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 3
    assert groups.largest == 2


def test_added_pictures_have_groups_and_get_no_votes_of_their_own(drawn):
    collection = create(drawn, group_column="person")
    draw_files(drawn / "more", range(60, 64))
    (drawn / "more.csv").write_text("file,grade,person\n060.png,0,p0\n061.png,1,p60\n062.png,,p0\n063.png,,\n")
    collection.add(drawn / "more", drawn / "more.csv", group_column="person", n_jobs=1)
    groups = column(drawn / "c", "subject")
    assert {name: groups[name] for name in ("060.png", "061.png", "062.png", "063.png")} == {
        "060.png": "p0",
        "061.png": "p60",
        "062.png": "p0",
        "063.png": None,
    }
    snapshot = collection._live.current()
    for name in ("060.png", "062.png"):
        row = snapshot.row_of(name)
        picture = snapshot.images.ids[[row]]
        found = snapshot.searcher.estimator.estimate(snapshot.space.vector(row)[None], picture)
        assert found.values[0] == snapshot.estimates[row]
        assert not (snapshot.groups.of(found.nearest[0]) == snapshot.groups.of(picture)).any()


def test_groups_of_added_pictures_need_a_csv_file(drawn):
    collection = create(drawn)
    with pytest.raises(InputError, match="groups are a column of the CSV file"):
        collection.add(drawn / "pictures", group_column="person")
    with pytest.raises(InputError, match="give that file instead of a mapping"):
        collection.add(drawn / "pictures", {"000.png": 1}, group_column="person")
