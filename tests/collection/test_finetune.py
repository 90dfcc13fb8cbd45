"""Fine-tuning of a network on the grades of a collection."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("torch")

from ordrank import Collection, OrdinalNetwork
from ordrank.collection import finetune as module
from ordrank.collection.access import read_store, write_store
from ordrank.collection.model_file import Model
from ordrank.errors import BadPicturesError, CollectionError, InputError
from tests.collection.commands import add, evaluate, finetune, fit, info, rank
from tests.collection.pictures import content, draw_files, names, rows, write_grades
from tests.collection.test_features import write_stripes
from tests.deep.tiny import tiny_networks

N_OUTPUTS, PIXELS = 2, 48  # of the network, and of the features before


def network_files(directory):
    return sorted(file.name for file in directory.iterdir() if file.name.startswith(("network", "finetuning")))


def features_of(directory):
    with read_store(directory) as store:
        return np.vstack(list(store.features()))


class TestAdopted:
    @pytest.fixture
    def before(self, trained):
        return features_of(trained)

    @pytest.fixture
    def tuned(self, trained, before, always_better):
        return finetune(trained)

    def test_the_collection_has_the_features_of_the_network(self, trained, tuned):
        summary = info(trained)
        assert tuned.adopted
        assert summary.features == tuned.network
        assert network_files(trained) == [tuned.network]
        assert summary.dimensions["features"] == N_OUTPUTS + PIXELS
        assert summary.finetuned["pictures"] == tuned.pictures == summary.graded
        assert summary.finetuned["backbone"] == "tiny"
        assert sum(summary.finetuned["grades"].values()) == summary.graded
        assert summary.changed == summary.added == 0

    def test_graded_pictures_have_outputs_of_a_network_that_has_not_seen_them(self, trained, before, tuned):
        with tiny_networks(steps=8):
            files = Collection(trained).training_files()
            network = OrdinalNetwork("tiny").fit(files.graded, files.grades, files.groups)
        with read_store(trained) as store:
            graded = ~np.isnan(store.grades())
        outputs, appearance = np.split(features_of(trained), [N_OUTPUTS], axis=1)
        np.testing.assert_array_equal(outputs[graded], network.outputs_)
        scale = np.abs(outputs).max()
        np.testing.assert_allclose(outputs[~graded], network.embedding_.outputs(files.ungraded), atol=1e-4 * scale)
        assert np.abs(outputs[graded] - network.embedding_.outputs(files.graded)).max() > 1e-3 * scale
        # Beside them stand the features before, with a root mean square distance four times as large.
        weight = np.median(appearance[before > 0] / before[before > 0])
        np.testing.assert_allclose(appearance, weight * before, rtol=1e-4, atol=1e-6)
        spread = [np.sqrt(part[graded].var(axis=0).sum()) for part in (appearance, outputs)]
        assert spread[0] == pytest.approx(4 * spread[1], rel=1e-4)

    def test_all_operations_go_on(self, trained, tuned, pictures, tmp_path):
        (result,) = rank(trained, [str(pictures / "000.png")])
        assert result.query == str(pictures / "000.png")
        new = draw_files(tmp_path / "new", range(50, 53))
        add(trained, tmp_path / "new", n_jobs=1)
        assert set(new) <= names(trained)
        assert evaluate(trained, folds=3).pictures == 30
        fit(None, trained)
        assert info(trained).features == tuned.network

    @pytest.mark.slow
    def test_workers_of_a_cluster_read_pictures_with_the_network(self, trained, tuned, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 53))
        copy = shutil.copytree(trained, tmp_path / "copy")
        fit(tmp_path / "new", trained, workers=1)
        fit(tmp_path / "new", copy, n_jobs=1)
        np.testing.assert_array_equal(features_of(trained), features_of(copy))
        assert set(new) <= names(trained)

    def test_a_moved_collection_takes_its_network_along(self, trained, tuned, pictures, tmp_path):
        new = draw_files(tmp_path / "new", range(50, 51))
        before = rank(trained, [str(tmp_path / "new" / new[0])])
        moved = trained.rename(tmp_path / "moved")
        assert rank(moved, [str(tmp_path / "new" / new[0])]) == before

    @pytest.mark.parametrize("change", ["touched", "moved", "added"])
    def test_files_that_have_only_moved_keep_the_features_of_held_out_pictures(
        self, trained, tuned, pictures, tmp_path, change
    ):
        before, results = features_of(trained), rank(trained, ["001.png"])
        if change == "moved":
            pictures = pictures.rename(tmp_path / "elsewhere")
        elif change == "added":
            pictures = shutil.copytree(pictures, tmp_path / "copy")
        for file in pictures.iterdir():
            file.touch()
        if change == "added":
            add(trained, pictures, n_jobs=1)
            assert rank(trained, ["001.png"]) == results
        else:
            fit(pictures, trained, n_jobs=1)
        np.testing.assert_array_equal(features_of(trained), before)

    def test_undo_restores_the_stored_features_before(self, trained, before, tuned, pictures):
        shutil.rmtree(pictures)
        report = Collection(trained).undo_finetuning(n_jobs=1)
        assert (report.pictures, report.imported.reread) == (len(names(trained)), 0)
        np.testing.assert_allclose(features_of(trained), before, rtol=1e-6)
        summary = info(trained)
        assert (summary.features, summary.finetuned) == ("pixels:4", None)
        assert network_files(trained) == []
        with pytest.raises(InputError, match="has no fine-tuned network; there is nothing to undo"):
            Collection(trained).undo_finetuning(n_jobs=1)

    def test_a_second_network_replaces_the_first_and_undo_leads_to_the_start(self, trained, tuned):
        collection = Collection(trained)
        collection.grade("001.png", 4)
        second = finetune(trained)
        assert second.features_before == tuned.network
        assert second.undone_to == "pixels:4"
        assert info(trained).features == second.network != tuned.network
        collection.undo_finetuning(n_jobs=1)
        assert info(trained).features == "pixels:4"

    def test_a_damaged_or_missing_network_is_named(self, trained, tuned, pictures, tmp_path):
        new = tmp_path / "new" / draw_files(tmp_path / "new", range(50, 51))[0]
        file = trained / tuned.network
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + b"x")
        with pytest.raises(CollectionError, match=r"network-.*onnx is damaged.*--undo"):
            rank(trained, [str(new)])
        file.unlink()
        with pytest.raises(CollectionError, match=r"network-.*onnx is missing.*--undo"):
            rank(trained, [str(new)])
        assert rank(trained, ["001.png"])[0].hits  # needs no network
        assert Collection(trained).undo_finetuning(n_jobs=1).imported.reread == len(names(trained))
        assert rank(trained, [str(new)])[0].hits

    @pytest.mark.parametrize("door", ["add", "page"])
    def test_pictures_that_are_removed_and_added_again_have_outputs_of_held_out_ones(
        self, trained, tuned, pictures, door
    ):
        before = dict(zip(sorted(names(trained)), features_of(trained), strict=True))["001.png"]
        Collection(trained).remove(["001.png"])
        if door == "add":
            add(trained, pictures / "001.png", n_jobs=1)
        else:
            Collection(trained).files.add((pictures / "001.png").read_bytes(), "001.png")
        with read_store(trained) as store:
            (after,) = store.features_of([store.find("001.png").id])
        np.testing.assert_array_equal(after[:N_OUTPUTS], before[:N_OUTPUTS])
        np.testing.assert_allclose(after, before, rtol=1e-5)

    def test_pictures_that_are_removed_are_scored_with_outputs_of_held_out_ones(
        self, trained, tuned, pictures, tmp_path, monkeypatch
    ):
        before, read = features_of(trained)[1], []
        Collection(trained).remove(["001.png"])
        shutil.copytree(pictures, tmp_path / "new", ignore=lambda _, files: set(files) - {"001.png"})
        embed = Model.embed
        monkeypatch.setattr(Model, "embed", lambda model, features: read.append(features) or embed(model, features))
        shutil.copy(pictures / "000.png", tmp_path / "new")
        Collection(trained).remove(["000.png"])
        Collection(trained).evaluate_on(tmp_path / "new", {"000.png": 0, "001.png": 1}, n_jobs=1)
        np.testing.assert_array_equal(read[-1][1, :N_OUTPUTS], before[:N_OUTPUTS])

    def test_what_a_network_was_trained_on_is_forgotten_with_it(self, trained, tuned):
        counted = "SELECT network, count(*) FROM network_samples GROUP BY network ORDER BY network"
        assert rows(trained, counted) == [(tuned.network, tuned.pictures)]
        finetune(trained, flip=False)
        assert [network for network, _ in rows(trained, counted)] == network_files(trained)
        Collection(trained).undo_finetuning(n_jobs=1)
        assert rows(trained, counted) == []


def test_many_ungraded_pictures_are_read_in_processes(tmp_path, always_better):
    # Forked from a process in which PyTorch has started its threads.
    drawn = draw_files(tmp_path / "pictures", range(130))
    grades = write_grades(tmp_path / "grades.csv", drawn[:30])
    fit(tmp_path / "pictures", tmp_path / "c", labels=grades, features="pixels:2", n_jobs=1)
    with tiny_networks(steps=4):
        report = Collection(tmp_path / "c").finetune(backbone="tiny", n_jobs=2)
    assert info(tmp_path / "c").features == report.network
    assert len(features_of(tmp_path / "c")) == 130


class TestError:
    def test_a_better_network_is_adopted(self, tmp_path):
        labels = write_stripes(tmp_path / "pictures", 60)
        collection = Collection.create(tmp_path / "c", tmp_path / "pictures", labels, features="pixels:4", n_jobs=1)
        with tiny_networks(steps=40):
            report = collection.finetune(backbone="tiny", n_jobs=1)
        assert report.adopted
        assert report.error_after < 0.5 * report.error_before
        assert collection.info().error == pytest.approx(report.error_after)
        assert collection.info().features == report.network

    def test_a_network_that_is_not_better_is_not(self, tmp_path):
        labels = write_stripes(tmp_path / "pictures", 60)
        collection = Collection.create(tmp_path / "c", tmp_path / "pictures", labels, features="hog:32", n_jobs=1)
        before = content(tmp_path / "c")["pictures"], features_of(tmp_path / "c").tolist(), collection.rank("003.png")
        with tiny_networks(steps=8):
            report = collection.finetune(backbone="tiny", n_jobs=1)
        assert not report.adopted
        assert report.error_after >= report.error_before
        after = content(tmp_path / "c")["pictures"], features_of(tmp_path / "c").tolist(), collection.rank("003.png")
        assert after == before
        assert network_files(tmp_path / "c") == []
        assert rows(tmp_path / "c", "SELECT id FROM staged_features") == []

    def test_wrong_grades_are_not_confirmed(self, tmp_path):
        labels = write_stripes(tmp_path / "pictures", 60)
        wrong = {"004.png": 1, "011.png": 0}
        given = {**labels, **wrong}
        collection = Collection.create(tmp_path / "c", tmp_path / "pictures", given, features="pixels:4", n_jobs=1)
        with tiny_networks(steps=60):
            assert collection.finetune(backbone="tiny", n_jobs=1).adopted
        for name in wrong:
            assert collection.rank(name).grade == str(labels[name])


class TestGroups:
    FLATTERS = "; this flatters, because the fine-tuned network has seen other pictures of the groups"

    @pytest.fixture
    def people(self, trained):
        """Two pictures in a row show the same person."""
        return {name: f"p{int(name[:3]) // 2}" for name in names(trained)}

    def give(self, directory, people):
        with write_store(directory) as store:
            store.set_groups(people)

    def verdicts(self, directory):
        collection = Collection(directory)
        assessed = (collection.fit(), collection.evaluate(3), collection.doctor(), collection.quality())
        return [report.verdict for report in assessed]

    def test_groups_are_held_out_together(self, trained, people, always_better):
        self.give(trained, people)
        files = Collection(trained).training_files()
        with tiny_networks(steps=8):
            network = OrdinalNetwork("tiny").fit(files.graded, files.grades, files.groups)
        finetune(trained)
        assert info(trained).finetuned["groups"] == len(set(files.groups.tolist())) == 20
        with read_store(trained) as store:
            graded = ~np.isnan(store.grades())
        np.testing.assert_array_equal(features_of(trained)[graded, :N_OUTPUTS], network.outputs_)
        assert not any(self.FLATTERS in verdict for verdict in self.verdicts(trained))

    def test_groups_that_are_given_later_make_errors_flatter_until_it_is_trained_again(
        self, trained, people, monkeypatch
    ):
        errors = iter([2.0, 1.0, 2.0, 1.0])
        measured = []
        monkeypatch.setattr(
            module, "_held_out_error", lambda store, _: measured.append(store.header.extractor) or next(errors)
        )
        finetune(trained)
        self.give(trained, people)
        assert all(self.FLATTERS in verdict for verdict in self.verdicts(trained))
        report = finetune(trained)
        assert report.adopted
        # Not with the error of the first network, which no other can fall below.
        assert measured[2] == report.features_before == "pixels:4"
        assert not any(self.FLATTERS in verdict for verdict in self.verdicts(trained))

    def test_new_pictures_of_known_people_make_errors_flatter(self, trained, people, always_better, tmp_path):
        self.give(trained, people)
        finetune(trained)
        draw_files(tmp_path / "new", range(50, 52))
        for person, number, flatters in (("p99", 50, False), ("p1", 51, True)):
            table = tmp_path / "new.csv"
            table.write_text(f"file,grade,person\n{number:03d}.png,1,{person}\n")
            add(trained, tmp_path / "new", labels=table, group_column="person", n_jobs=1)
            assert (self.FLATTERS in Collection(trained).fit().verdict) == flatters

    def test_a_single_group_is_held_out_picture_by_picture(self, trained, people, always_better):
        finetune(trained)
        self.give(trained, dict.fromkeys(people, "the same"))
        assert self.FLATTERS not in Collection(trained).fit().verdict


class TestBadInput:
    def test_an_untrained_collection(self, tmp_path):
        with pytest.raises(CollectionError, match="is not a collection"):
            finetune(tmp_path)

    @pytest.mark.parametrize("number", [3, 4])  # with and without a grade
    @pytest.mark.parametrize("problem", ["missing", "changed", "broken"])
    def test_files_that_are_not_what_was_read(self, trained, pictures, number, problem):
        file = pictures / f"{number:03d}.png"
        if problem == "missing":
            file.unlink()
        elif problem == "changed":
            shutil.copy(pictures / "005.png", file)
        else:
            file.write_bytes(b"\x89PNG\r\n\x1a\n")
        with pytest.raises(BadPicturesError, match="1 picture cannot be read again; restore the files") as caught:
            finetune(trained)
        (bad,) = caught.value.bad
        reason = "vanished before it was read" if problem == "missing" else "has changed since it was read"
        assert (bad.name, bad.reason) == (file.name, reason)
        assert network_files(trained) == []

    @pytest.mark.parametrize("n", [3, 9])
    def test_few_pictures(self, tmp_path, n):
        drawn = draw_files(tmp_path / "pictures", range(n))
        grades = write_grades(tmp_path / "grades.csv", drawn)
        fit(tmp_path / "pictures", tmp_path / "c", labels=grades, features="pixels:2", n_jobs=1)
        with pytest.raises(InputError, match=f"{n} graded images are too few to train a network: 10 are the least"):
            finetune(tmp_path / "c")
        assert network_files(tmp_path / "c") == []

    def test_a_single_grade(self, trained):
        with write_store(trained) as store:
            store.set_grades({name: 1.0 for name, grade in store.named_grades().values() if grade is not None})
        with pytest.raises(InputError, match="all 30 samples have the same label"):
            finetune(trained)
        assert network_files(trained) == []

    def test_few_groups(self, trained):
        with write_store(trained) as store:
            store.set_groups({name: str(i % 2) for i, name in enumerate(names(trained))})
        with pytest.raises(InputError, match="3 folds need at least as many groups; there are 2"):
            finetune(trained)
        assert network_files(trained) == []

    def test_too_little_memory(self, trained, monkeypatch):
        import torch

        def fail(*arguments):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

        before = features_of(trained)
        monkeypatch.setattr("ordrank.deep.training._loss", fail)
        with pytest.raises(InputError, match=r"memory of this machine is too small.*choose a smaller image size"):
            finetune(trained)
        assert network_files(trained) == []
        np.testing.assert_array_equal(features_of(trained), before)

    def test_an_unknown_backbone(self, trained):
        with pytest.raises(InputError, match="there is no backbone 'alexnet'; there are efficientnet-lite0"):
            Collection(trained).finetune(backbone="alexnet")
        assert network_files(trained) == []

    def test_files_of_others_stay(self, trained, always_better):
        for name in ("network-card.md", "network-0123456789abcdef.onnx", "finetuning-notes.txt"):
            (trained / name).write_text("mine")
        (trained / "finetuning").mkdir()
        (trained / "finetuning" / "mine.txt").write_text("mine")
        finetune(trained)
        Collection(trained).undo_finetuning(n_jobs=1)
        for name in ("network-card.md", "network-0123456789abcdef.onnx", "finetuning-notes.txt", "finetuning/mine.txt"):
            assert (trained / name).read_text() == "mine"


def test_the_card_is_in_the_network(trained, always_better):
    import onnx

    report = finetune(trained)
    metadata = {entry.key: entry.value for entry in onnx.load(trained / report.network).metadata_props}
    assert json.loads(metadata["ordrank.card"]) == info(trained).finetuned
