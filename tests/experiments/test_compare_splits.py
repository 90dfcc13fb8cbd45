"""How the comparison divides its data: rules as properties."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordrank.experiments import contests, reproduce
from ordrank.experiments.contests import (
    Contest,
    Match,
    Rule,
    draw_balanced,
    draw_given,
    draw_people,
    draw_share,
    draw_share_of_people,
    load_contests,
    matches,
    split_of,
)
from tests.experiments.fakes import write_fgnet, write_retinamnist, write_tables, write_umist

# Eleven people with one label each, and thirty with several.
OF_ONE_LABEL = np.repeat(np.arange(11), 9)
LABEL_OF_PERSON = np.array([0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2])[OF_ONE_LABEL]
MIXED = np.arange(150) % 30
MIXED_LABEL = np.arange(150) % 7


def disjoint(train, test):
    return not set(train.tolist()) & set(test.tolist())


repeats = st.integers(0, 500)


@given(repeats, st.sampled_from([3, 15, 30]))
def test_people_with_one_label_are_halved_label_by_label(repeat, n):
    train, test = draw_people(n, repeat, y=LABEL_OF_PERSON, subject=OF_ONE_LABEL)
    assert disjoint(OF_ONE_LABEL[train], OF_ONE_LABEL[test])
    assert np.bincount(LABEL_OF_PERSON[train]).tolist() == [min(n // 3, 18)] + [n // 3] * 2
    # Every picture of everybody else is a query, and every label has people on both sides.
    assert len(np.unique(OF_ONE_LABEL[test])) == 4
    assert len(test) == 4 * 9
    assert set(LABEL_OF_PERSON[test]) == {0, 1, 2}


@given(repeats)
def test_people_with_several_labels_are_halved_at_large(repeat):
    train, test = draw_people(70, repeat, y=MIXED_LABEL, subject=MIXED)
    assert disjoint(MIXED[train], MIXED[test])
    assert len(np.unique(MIXED[test])) == 15
    assert len(test) == 15 * 5
    assert np.bincount(MIXED_LABEL[train]).max() <= 10


@given(repeats)
def test_seven_in_ten_people_teach(repeat):
    train, test = draw_share_of_people(105, repeat, subject=MIXED)
    assert disjoint(MIXED[train], MIXED[test])
    assert len(np.unique(MIXED[train])) == 21
    assert len(train) + len(test) == 150


@given(repeats, st.integers(1, 99))
def test_a_share_at_random(repeat, n):
    train, test = draw_share(n, repeat, size=100)
    assert sorted([*train, *test]) == list(range(100))
    assert len(train) == n


@given(repeats)
def test_the_balanced_rule_takes_as_many_of_each_label(repeat):
    train, test = draw_balanced(21, repeat, y=MIXED_LABEL)
    assert np.bincount(MIXED_LABEL[train]).tolist() == [3] * 7
    assert sorted([*train, *test]) == list(range(150))


def test_given_holdouts_stand_one_after_the_other():
    train, test = draw_given(3, 2, size=5)
    assert (train.tolist(), test.tolist()) == ([10, 11, 12], [13, 14])


@pytest.mark.parametrize(
    "draw",
    [
        lambda repeat: draw_people(15, repeat, y=LABEL_OF_PERSON, subject=OF_ONE_LABEL),
        lambda repeat: draw_share_of_people(15, repeat, subject=MIXED),
        lambda repeat: draw_share(15, repeat, size=100),
    ],
)
def test_draws_are_seeded_and_differ(draw):
    np.testing.assert_array_equal(draw(3)[0], draw(3)[0])
    assert len({tuple(draw(repeat)[0]) for repeat in range(20)}) > 15


def contest(draw, *, subject=None, standardise=False):
    X = np.random.default_rng(0).normal(size=(150, 4)) * [1, 10, 0, 1] + 5
    rule = Rule("random", "", (15,), 4, draw)
    return Contest("c", "C", X, MIXED_LABEL.astype(float), subject, (rule,), standardise)


def test_columns_are_standardised_on_the_training_part_only():
    split = split_of(
        contest(lambda n, repeat: draw_share(n, repeat, size=150), standardise=True), Match("c", "random", 50, 0)
    )
    np.testing.assert_allclose(split.X_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.X_train.std(axis=0), [1, 1, 0, 1])
    assert abs(split.X_test.mean()) > 1e-3


def test_people_are_known_where_some_are_in_both_parts():
    shared = split_of(contest(lambda n, r: draw_share(n, r, size=150), subject=MIXED), Match("c", "random", 50, 0))
    apart = split_of(
        contest(lambda n, r: draw_share_of_people(n, r, subject=MIXED), subject=MIXED), Match("c", "random", 50, 0)
    )
    assert len(shared.subject_train) == 50
    assert shared.groups is None
    assert apart.subject_train is None
    assert len(apart.groups) == len(apart.y_train)
    assert len(set(apart.groups)) < len(set(MIXED))


def test_matches_begin_with_the_first_of_every_condition_and_keep_to_what_there_is():
    found = matches([contest(None)], repeats=9)
    assert [match.repeat for match in found] == [0, 1, 2, 3]
    two = [contest(None), contest(None)]
    assert [match.repeat for match in matches(two, 2)] == [0, 0, 1, 1]


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All contests of made-up data, with plain pixels in place of principal components, which take seconds."""
    folder = tmp_path_factory.mktemp("data")
    write_fgnet(folder)
    write_umist(folder)
    write_retinamnist(folder)
    write_tables(folder)
    with pytest.MonkeyPatch.context() as patch:
        for module in (contests, reproduce):
            patch.setattr(module, "principal_components", lambda X, k: np.asarray(X).reshape(len(X), -1)[:, :k])
        return {contest.name: contest for contest in load_contests("all", folder)}


def test_every_data_set_becomes_a_contest(everything):
    shapes = {name: contest.X.shape for name, contest in everything.items()}
    assert shapes == {
        "umist": (575, 150),
        "fgnet": (145, 80),
        "fgnet-ages": (145, 80),
        "retinamnist": (1600, 100),
        "car": (120, 3),
        "tae": (120, 3),
        "winequality-red": (120, 3),
    }
    conditions = {(m.contest, m.rule, m.n) for m in matches(list(everything.values()), 2)}
    assert {(c, r, n) for c, r, n in conditions if c == "umist"} == {
        ("umist", rule, n) for rule in ("random", "subject-disjoint") for n in (30, 60, 90)
    }
    assert ("retinamnist", "official", 1200) in conditions


def test_repeats_are_fewer_where_they_are_costly(everything):
    found = matches(list(everything.values()), 50)
    counts = {
        (c, r): sum((m.contest, m.rule) == (c, r) for m in found) for c, r in {(m.contest, m.rule) for m in found}
    }
    assert counts["umist", "random"] == 150
    assert counts["umist", "subject-disjoint"] == 60
    assert counts["fgnet-ages", "random"] == counts["fgnet-ages", "subject-disjoint"] == 10
    assert counts["retinamnist", "official"] == 1
    assert counts["car", "hold-out"] == 3


def test_the_official_test_part_is_last(everything):
    split = split_of(everything["retinamnist"], Match("retinamnist", "official", 1200, 0))
    assert (len(split.y_train), len(split.y_test)) == (1200, 400)


@pytest.mark.parametrize("n", [30, 60, 90])
def test_umist_has_all_labels_with_nobody_in_both_parts(everything, n):
    contest = everything["umist"]
    (rule,) = (rule for rule in contest.rules if rule.name == "subject-disjoint")
    for repeat in range(5):
        train, test = rule.draw(n, repeat)
        assert np.bincount(contest.y[train].astype(int)).tolist() == [n // 3] * 3
        assert disjoint(contest.subject[train], contest.subject[test])
        assert len(set(contest.y[test])) == 3


def test_among_strangers_of_umist_nothing_beats_the_middle_grade(data_dir):
    """What the documents say of these splits, with the committed results."""
    (umist,) = load_contests("umist", data_dir)
    (rule,) = (rule for rule in umist.rules if rule.name == "subject-disjoint")
    middle = np.mean([np.abs(umist.y[rule.draw(30, repeat)[1]] - 1).mean() for repeat in range(20)])
    assert round(float(middle), 2) == 0.59
    results = Path(__file__).parents[2] / "benchmarks" / "results" / "compare.json"
    rows = json.loads(results.read_text())["rows"]
    errors = {
        (row["method"], row["n"]): row["mae_mean"]
        for row in rows
        if (row["contest"], row["rule"]) == ("umist", "subject-disjoint") and row["mae_mean"] is not None
    }
    assert min(errors.values()) >= middle - 1e-9
    # Ours knows it, but for one split.
    assert all(error < middle + 0.02 for (method, _), error in errors.items() if method == "OrdinalMetric")
