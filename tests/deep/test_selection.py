"""The choice of parameters by the error on held-out pictures."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn.model_selection import GroupShuffleSplit  # noqa: E402

from ordrank.datasets import make_fruit  # noqa: E402
from ordrank.deep import OrdinalNetwork  # noqa: E402
from ordrank.deep.selection import CANDIDATES, list_candidates  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from tests.deep.stopping import Stop  # noqa: E402

pytestmark = pytest.mark.usefixtures("tiny")

QUICK = {"n_folds": 1, "steps": 3}
LOSSES = {"loss": ["regression", "coral"]}


@pytest.fixture(scope="module")
def fruit():
    fruit = make_fruit(40, size=32)
    return fruit.images, fruit.grade


@pytest.fixture
def estimates(monkeypatch):
    """Return a list to which the estimates of all candidates are added."""
    seen, original = [], OrdinalNetwork.predict_from_outputs

    def note(network, images):
        seen.append(original(network, images))
        return seen[-1]

    monkeypatch.setattr(OrdinalNetwork, "predict_from_outputs", note)
    return seen


def split(n, groups=None):
    units = np.arange(n) if groups is None else groups
    return next(GroupShuffleSplit(1, test_size=0.25, random_state=0).split(units, groups=units))


def test_the_candidate_with_the_lowest_error_is_used(fruit, monkeypatch):
    images, grade = fruit
    _, held_out = split(len(grade))

    def estimate(network, pictures):
        return grade[held_out] + {"cmds": 2, "regression": 1, "coral": 3}[network.loss]

    monkeypatch.setattr(OrdinalNetwork, "predict_from_outputs", estimate)
    network = OrdinalNetwork(**QUICK, select=LOSSES).fit(*fruit)
    assert network.selection_ == [
        {"parameters": {"loss": loss}, "error": error}
        for loss, error in (("cmds", 2.0), ("regression", 1.0), ("coral", 3.0))
    ]
    assert network.best_params_ == {"loss": "regression"}
    assert network.loss == "cmds"  # of the constructor
    alone = OrdinalNetwork(**QUICK, loss="regression").fit(*fruit)
    np.testing.assert_array_equal(network.transform(images), alone.transform(images))


def test_ties_are_decided_for_the_parameters_of_the_network(fruit):
    # `steps` are in place of epochs: all are the same.
    network = OrdinalNetwork(**QUICK, select={"epochs": [1, 99]}).fit(*fruit)
    assert len({candidate["error"] for candidate in network.selection_}) == 1
    assert network.best_params_ == {"epochs": 20}


def test_labels_of_held_out_pictures_have_no_influence_on_candidates(fruit, estimates):
    images, grade = fruit
    _, held_out = split(len(grade))
    changed = grade.copy()
    changed[held_out] = grade.max() - grade[held_out]
    one, other = (OrdinalNetwork(**QUICK, select=LOSSES).fit(images, y).selection_ for y in (grade, changed))
    assert len(estimates) == 6
    for before, after in zip(estimates[:3], estimates[3:], strict=True):
        np.testing.assert_array_equal(before, after)
    assert one != other


def test_groups_are_held_out_together(fruit, monkeypatch):
    images, grade = fruit
    groups = np.arange(40) // 4
    train, held_out = split(40, groups)
    fitted, original = [], OrdinalNetwork.fit_networks

    def note(network, images, y, groups=None):
        fitted.append(np.asarray(images))
        return original(network, images, y, groups)

    monkeypatch.setattr(OrdinalNetwork, "fit_networks", note)
    OrdinalNetwork(**QUICK, select={"loss": ["coral"]}).fit(images, grade, groups)
    assert not set(groups[train]) & set(groups[held_out])
    assert len(fitted) == 3
    for given in fitted[1:]:
        np.testing.assert_array_equal(given, images[train])


def test_is_deterministic(fruit):
    one, other = (OrdinalNetwork(**QUICK, select=LOSSES).fit(*fruit) for _ in range(2))
    assert one.selection_ == other.selection_
    np.testing.assert_array_equal(one.outputs_, other.outputs_)


def test_named_labels(fruit):
    import pandas as pd

    images, grade = fruit
    names = np.array(["green", "pale", "ripe", "brown", "black"])
    y = pd.Categorical(names[grade.astype(int)], categories=names, ordered=True)
    named, numbered = (OrdinalNetwork(**QUICK, select=LOSSES).fit(images, labels) for labels in (y, grade))
    assert named.selection_ == numbered.selection_


def test_a_limit_of_time_is_that_of_candidates_and_networks(fruit, monkeypatch):
    monkeypatch.setattr("ordrank.deep.network.seconds_per_step", lambda *args, **options: 1.0)
    seen = []
    network = OrdinalNetwork(
        n_folds=2, steps=50, minutes=1, select=LOSSES, progress=lambda *event: seen.append(event)
    ).fit(*fruit)
    assert [len(losses) for losses in network.losses_] == [10, 10, 10]  # six networks in 60 seconds
    stages = list(dict.fromkeys(stage for stage, *_ in seen if "training" in stage))
    assert stages[0] == "candidate 1 of 3 (loss cmds): training 1 network with 10 batches in all, about 10 seconds"
    assert stages[1].startswith("candidate 2 of 3 (loss regression, about ")
    assert stages[3] == "training 3 networks with 30 batches in all, about 30 seconds"


def test_an_interrupted_fit_continues(fruit, tmp_path):
    folder = tmp_path / "state"
    options = {**QUICK, "select": LOSSES}
    whole = OrdinalNetwork(**options).fit(*fruit)

    def stop(stage, done, total):
        if stage.startswith("candidate 3") and "training" in stage and done == 2:
            raise Stop

    with pytest.raises(Stop):
        OrdinalNetwork(**options, checkpoints=folder, progress=stop).fit(*fruit)
    assert sorted(file.name for file in folder.iterdir()) == ["candidate-0", "candidate-1"]
    seen = []
    continued = OrdinalNetwork(**options, checkpoints=folder, progress=lambda *event: seen.append(event)).fit(*fruit)
    trained = {stage.split("(")[0] for stage, _, total in seen if "training" in stage and total}
    assert {stage for stage in trained if stage.startswith("candidate")} == {"candidate 3 of 3 "}
    assert continued.selection_ == whole.selection_
    np.testing.assert_array_equal(continued.outputs_, whole.outputs_)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("select", "sentence"),
    [
        ({"loss": "coral"}, "select must be a dict of lists, or a list of these"),
        ("loss", "select must be a dict of lists, or a list of these"),
        ({"backbone": ["alexnet"]}, "select chooses among values of loss, .*, not backbone"),
        ({}, "select chooses among values of loss, .*, and names none"),
        ({"loss": ["hinge"]}, "loss must be one of 'cmds'"),
        ([{"loss": ["coral"]}, {"augmentation": ["wild"]}], "augmentation must be one of 'none'"),
    ],
)
def test_wrong_candidates_are_named_before_training(fruit, select, sentence, estimates):
    with pytest.raises(InputError, match=sentence):
        OrdinalNetwork(**QUICK, select=select).fit(*fruit)
    assert not estimates


def test_few_pictures_are_named(fruit):
    images, grade = fruit
    with pytest.raises(InputError, match="select holds out a quarter of the images"):
        OrdinalNetwork(**QUICK, select=LOSSES).fit(images[:12], grade[:12])
    with pytest.raises(InputError, match="select holds out a quarter of the images"):
        OrdinalNetwork(**QUICK, select=LOSSES).fit(images, grade, np.arange(40) < 35)  # the large group is held out


def test_candidates_of_the_command_are_one_change_each():
    own, *others = list_candidates(OrdinalNetwork(select=CANDIDATES))
    assert own == {"loss": "cmds", "augmentation": "strong", "epochs": 20}
    assert len(others) == 6
    assert all(sum(candidate[name] != own[name] for name in own) == 1 for candidate in others)
