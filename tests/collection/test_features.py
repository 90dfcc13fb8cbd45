"""Features of a collection: chosen automatically, and switched."""

import numpy as np
import pytest
from PIL import Image

from ordrank import Collection
from ordrank.collection import feature_selection
from ordrank.datasets import make_fruit
from ordrank.errors import BadPicturesError
from tests.collection.commands import add, fit, info, rank
from tests.collection.conftest import N_PICTURES
from tests.collection.pictures import draw_files, rows


@pytest.fixture
def installed(monkeypatch):
    """Pretend that these features are installed, and nothing else."""

    def pretend(*names):
        monkeypatch.setattr(feature_selection, "installed_features", lambda: list(names))

    return pretend


def write_stripes(folder, n):
    """Draw stripes whose direction is the grade: what they look like differs, which way they run does not."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        across, along = np.mgrid[:32, :32] + rng.uniform(0, 32)
        phase = across if i % 2 else along
        colour = rng.uniform(60, 200, 3)
        values = 128 + 100 * np.sign(np.sin(phase / rng.uniform(1, 2)))[:, :, None] * (colour / 255)
        Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(folder / f"{i:03d}.png")
    return {f"{i:03d}.png": i % 2 for i in range(n)}


class TestAuto:
    def test_the_features_with_the_lowest_error_are_taken(self, tmp_path, installed):
        installed("pixels:4", "hog:32")
        labels = write_stripes(tmp_path / "pictures", 60)
        choice = Collection.create(tmp_path / "c", tmp_path / "pictures", labels).fit_report.features
        assert choice.features == info(tmp_path / "c").features == "hog:32"
        assert choice.errors["hog:32"] < 0.5 * choice.errors["pixels:4"]
        assert choice.pictures == 60

    def test_the_result_is_that_of_naming_the_features(self, tmp_path, installed):
        installed("pixels:4", "hog:32")
        labels = write_stripes(tmp_path / "pictures", 60)
        automatic = Collection.create(tmp_path / "a", tmp_path / "pictures", labels)
        named = Collection.create(tmp_path / "b", tmp_path / "pictures", labels, features="hog:32")
        assert automatic.rank("003.png") == named.rank("003.png")

    def test_features_side_by_side_are_taken_only_if_they_gain(self):
        rng = np.random.default_rng(0)
        y = np.repeat([0.0, 1.0, 2.0, 3.0], 20)
        first, second = (y + 0.8 * rng.normal(size=80) for _ in range(2))
        noise = rng.normal(size=(80, 5)).astype(np.float32)
        blocks = {
            name: np.column_stack([np.cos(values), np.sin(values)]).astype(np.float32)
            for name, values in {"first": first, "second": second}.items()
        }
        chosen, errors = feature_selection.compare_features({**blocks, "noise": noise}, y, None)
        assert chosen == ("first", "second")
        assert errors["first+second"] < min(errors["first"], errors["second"])

    def test_few_grades_are_not_compared(self, tmp_path, installed):
        installed("pixels:4", "hog:16")
        labels = write_stripes(tmp_path / "pictures", 20)
        choice = Collection.create(tmp_path / "c", tmp_path / "pictures", labels).fit_report.features
        assert (choice.features, choice.errors) == ("hog:16", {})

    def test_features_that_do_not_differ_are_not_compared(self, tmp_path, installed):
        installed("pixels:4", "hog:16")
        (tmp_path / "pictures").mkdir()
        for i in range(40):  # without any edge
            Image.new("RGB", (32, 32), (5 * i, 100, 100)).save(tmp_path / "pictures" / f"{i:03d}.png")
        labels = {f"{i:03d}.png": i // 20 for i in range(40)}
        choice = Collection.create(tmp_path / "c", tmp_path / "pictures", labels).fit_report.features
        assert (choice.features, list(choice.errors)) == ("pixels:4", ["pixels:4"])

    def test_unreadable_pictures_are_named(self, tmp_path, installed):
        installed("pixels:4", "hog:16")
        labels = write_stripes(tmp_path / "pictures", 40)
        for file in sorted((tmp_path / "pictures").iterdir())[:35]:
            file.write_bytes(file.read_bytes()[:100])
        report = Collection.create(tmp_path / "c", tmp_path / "pictures", labels).fit_report
        assert (report.pictures, len(report.imported.bad), report.features.errors) == (5, 35, {})
        for file in (tmp_path / "pictures").iterdir():
            file.write_bytes(b"")
        with pytest.raises(BadPicturesError, match="none of the files could be read as a picture"):
            Collection.create(tmp_path / "d", tmp_path / "pictures", labels)

    def test_without_a_network_it_says_what_to_install(self, tmp_path, installed):
        labels = write_stripes(tmp_path / "pictures", 20)
        installed("pixels:4")
        choice = Collection.create(tmp_path / "c", tmp_path / "pictures", labels).fit_report.features
        assert "pip install 'ordrank[photos]'" in choice.advice

    def test_groups_are_held_out_together(self, tmp_path, installed):
        installed("pixels:4", "hog:16")
        fruit = make_fruit(60, size=32)
        (tmp_path / "pictures").mkdir()
        rows = ["file,grade,plant"]
        for i, values in enumerate(fruit.images):
            Image.fromarray(values).save(tmp_path / "pictures" / f"{i:03d}.png")
            rows.append(f"{i:03d}.png,{fruit.grade[i]},{fruit.plant[i]}")
        (tmp_path / "g.csv").write_text("\n".join(rows))
        errors = {}
        for groups in (None, "plant"):
            made = Collection.create(
                tmp_path / f"c{groups}", tmp_path / "pictures", tmp_path / "g.csv", group_column=groups
            )
            errors[groups] = made.fit_report.features.errors["pixels:4"]
        assert errors["plant"] > errors[None]


class TestSwitching:
    def test_grades_stay_and_new_pictures_can_be_added(self, trained, pictures, tmp_path):
        before = Collection.open(trained).to_frame()[["name", "grade"]]
        fit(None, trained, features="hog:16")
        assert info(trained).features == "hog:16"
        assert Collection.open(trained).to_frame()[["name", "grade"]].equals(before)
        draw_files(tmp_path / "new", range(50, 52))
        assert add(trained, tmp_path / "new", n_jobs=1).read == 2

    def test_the_result_is_that_of_a_new_collection(self, trained, pictures, drawn, tmp_path):
        fit(None, trained, features="pixels:6")
        fit(drawn / "pictures", tmp_path / "new", labels=drawn / "grades.csv", features="pixels:6")
        switched, new = (rank(directory, ["007.png"])[0] for directory in (trained, tmp_path / "new"))
        assert (switched.value, switched.probabilities, switched.novelty) == (
            new.value,
            new.probabilities,
            new.novelty,
        )
        assert [hit.name for hit in switched.hits] == [hit.name for hit in new.hits]

    def test_pictures_and_grades_may_be_given_at_the_same_time(self, trained, pictures):
        draw_files(pictures, range(60, 63))
        report = fit(pictures, trained, features="hog:16")
        assert (report.imported.read, report.imported.reread, report.pictures) == (3, N_PICTURES, N_PICTURES + 3)
        assert info(trained).features == "hog:16"

    def test_a_missing_picture_is_named_and_nothing_changes(self, trained, pictures):
        (pictures / "003.png").unlink()
        before = rank(trained, ["007.png"])
        with pytest.raises(BadPicturesError, match="1 picture cannot be read again") as raised:
            fit(None, trained, features="hog:16")
        assert [bad.name for bad in raised.value.bad] == ["003.png"]
        assert info(trained).features == "pixels:4"
        assert rank(trained, ["007.png"]) == before

    def test_an_interrupted_switch_keeps_the_old_features_and_continues(self, trained, pictures):
        def interrupt(stage, done, total):
            if stage == "learning a distance":
                raise KeyboardInterrupt

        before = rank(trained, ["007.png"])
        with pytest.raises(KeyboardInterrupt):
            fit(None, trained, features="hog:16", progress=interrupt)
        assert info(trained).features == "pixels:4"
        assert rank(trained, ["007.png"]) == before
        for file in pictures.iterdir():  # all were read
            file.unlink()
        fit(None, trained, features="hog:16")
        assert info(trained).features == "hog:16"
        assert rows(trained, "SELECT id FROM staged_features") == []

    def test_an_open_collection_follows(self, trained, pictures):
        opened = Collection.open(trained)
        opened.rank("007.png")
        fit(None, trained, features="hog:16")
        assert opened.rank(pictures / "007.png").value == rank(trained, ["007.png"])[0].value
        assert opened.info().features == "hog:16"

    def test_the_same_features_are_not_read_again(self, trained):
        stages = []
        fit(None, trained, features="pixels:4", progress=lambda stage, done, total: stages.append(stage))
        assert stages == ["learning a distance"]
