"""Fine-tuning of a collection that is interrupted or killed, and continued."""

import os
import shutil
import signal

import numpy as np
import pytest

pytest.importorskip("torch")

from ordrank import Collection
from ordrank.collection.access import write_store
from ordrank.errors import CollectionBusyError, InputError
from tests.collection.commands import finetune, info, rank
from tests.collection.pictures import rows
from tests.collection.processes import Child, call, call_and_die, duration_of
from tests.collection.test_features import write_stripes
from tests.collection.test_finetune import network_files


def finetune_and_die(pipe, directory, step):
    def progress(stage, done, total):
        if stage.startswith("training") and done == step:
            os.kill(os.getpid(), signal.SIGKILL)

    finetune(directory, progress=progress)


class TestInterrupted:
    def stop(self, step):
        def progress(stage, done, total):
            if stage.startswith("training") and done == step:
                raise KeyboardInterrupt

        return progress

    def steps_of(self, directory, **options):
        seen = []
        report = finetune(
            directory, progress=lambda s, done, total: seen.append(done) if "training" in s and total else 0, **options
        )
        return seen, report

    def test_another_call_continues(self, trained, always_better, tmp_path):
        other = shutil.copytree(trained, tmp_path / "other")
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        assert info(trained).features == "pixels:4"
        assert rank(trained, ["001.png"])[0].hits
        seen, report = self.steps_of(trained)
        assert seen == list(range(12, 33))  # from the checkpoint after 8 + 3
        assert report.network == finetune(other).network
        assert network_files(trained) == [report.network]

    def test_grades_given_meanwhile_do_not_begin_anew(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        Collection(trained).grade("000.png", 3)
        seen, report = self.steps_of(trained)
        assert seen[0] == 12
        assert report.pictures == info(trained).graded - 1

    def test_a_run_without_a_checkpoint_begins_with_the_present_grades(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(2))  # the first checkpoint is after 3
        Collection(trained).grade("000.png", 3)
        Collection(trained).grade("001.png", 7)
        report = finetune(trained)
        assert report.pictures == info(trained).graded
        assert "7.0" in info(trained).finetuned["grades"]

    @pytest.mark.parametrize("change", ["grade", "withdrawn grade", "group"])
    def test_a_changed_picture_begins_anew(self, trained, always_better, change):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        if change == "group":
            with write_store(trained) as store:
                store.set_groups({"001.png": "a", "002.png": "a"})
        else:
            Collection(trained).grade("001.png", 7 if change == "grade" else None)
        seen, report = self.steps_of(trained)
        assert seen[0] == 1
        assert report.pictures == info(trained).graded

    def test_a_limit_of_time_holds_for_the_whole_run(self, trained, always_better, monkeypatch):
        def take(seconds):
            monkeypatch.setattr("ordrank.deep.network.seconds_per_step", lambda *args, **options: seconds)

        take(2.0)
        with pytest.raises(InputError, match=r"a batch takes 2\.0 s: 0\.1 minutes are too short for a network"):
            finetune(trained, minutes=0.1)
        assert network_files(trained) == []
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, minutes=0.8, progress=self.stop(8))
        take(9.0)  # on a machine that is busier by now
        seen, report = self.steps_of(trained, minutes=0.8)
        assert (seen[0], report.steps) == (7, 4 * 6)

    def test_a_killed_run_leaves_the_model_and_continues(self, trained, always_better):
        before = rank(trained, ["001.png"])
        assert Child(finetune_and_die, trained, 12).was_killed
        assert rows(trained, "PRAGMA integrity_check") == [("ok",)]
        assert (rank(trained, ["001.png"]), info(trained).features) == (before, "pixels:4")
        seen, report = self.steps_of(trained)
        assert seen == list(range(12, 33))
        assert network_files(trained) == [report.network]

    def test_wrong_options_leave_the_run_as_it_is(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        for wrong in ({"backbone": "alexnet"}, {"backbone": "efficientnet-lite0", "image_size": 3}):
            with pytest.raises(InputError):
                Collection(trained).finetune(**wrong)
        seen, _ = self.steps_of(trained)
        assert seen[0] == 12

    def test_a_run_is_continued_after_a_failure_that_passes(self, trained, always_better, pictures):
        def progress(stage, done, total):
            if stage.startswith("training") and done == 32:  # the last
                (pictures / "003.png").rename(pictures / "away")

        with pytest.raises(InputError, match=r"003\.png cannot be read"):
            finetune(trained, progress=progress)
        (pictures / "away").rename(pictures / "003.png")
        seen, report = self.steps_of(trained)
        assert (seen, report.adopted) == ([], True)

    def test_files_of_interrupted_writes_are_deleted(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        for name in (".network-1.safetensors.0123", ".run.jsonl.0123", ".plan.json.0123"):
            (trained / "finetuning" / name).write_text("part")
        assert network_files(trained) == ["finetuning"]
        report = finetune(trained)
        assert network_files(trained) == [report.network]

    def test_other_options_begin_anew(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        seen, _ = self.steps_of(trained, flip=False)
        assert seen[0] == 1

    def test_a_removed_picture_begins_anew(self, trained, always_better):
        with pytest.raises(KeyboardInterrupt):
            finetune(trained, progress=self.stop(12))
        Collection(trained).remove(["001.png"])
        seen, report = self.steps_of(trained)
        assert seen[0] == 1
        assert report.pictures == info(trained).graded

    def test_pictures_can_be_graded_while_a_network_is_trained(self, trained, always_better):
        def progress(stage, done, total):
            if stage.startswith("training") and done == 5:
                Collection(trained).grade("000.png", 2)

        finetune(trained, progress=progress)
        assert Collection(trained).picture("000.png").grade == "2"

    def test_one_run_at_a_time(self, trained, always_better):
        def progress(stage, done, total):
            if stage.startswith("training") and done == 5:
                with pytest.raises(CollectionBusyError, match="finetuning is being written by process"):
                    finetune(trained)

        finetune(trained, progress=progress)

    @pytest.mark.slow
    def test_killed_at_any_write_the_old_features_answer_until_the_new_ones_do(self, trained, tmp_path):
        labels = write_stripes(tmp_path / "pictures", 40)
        Collection.create(tmp_path / "c", tmp_path / "pictures", labels, features="pixels:4", n_jobs=1)
        whole = shutil.copytree(tmp_path / "c", tmp_path / "whole")
        done, count = Child(call_and_die, 0, "finetune", whole).end()
        assert done == "done"
        old, new = (rank(collection, ["005.png"]) for collection in (tmp_path / "c", whole))
        results = []
        for write in (*np.linspace(1, count - 15, 6).astype(int), *range(count - 14, count + 1, 2)):
            collection = shutil.copytree(tmp_path / "c", tmp_path / str(write))
            assert Child(call_and_die, write, "finetune", collection).was_killed
            assert rows(collection, "PRAGMA integrity_check") == [("ok",)]
            results.append(rank(collection, ["005.png"]))
            duration_of(call, "finetune", collection)
            assert rank(collection, ["005.png"]) in (old, new)
            assert "finetuning" not in network_files(collection)
        assert old in results
        assert all(result in (old, new) for result in results)
