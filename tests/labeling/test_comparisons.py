"""Positions from comparisons and grades: optimality, symmetries, other packages, and the choice of pairs."""

from itertools import pairwise

import choix
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from scipy.stats import kendalltau, norm

from ordrank.errors import InputError
from ordrank.labeling.comparisons import AnswerModel, Comparisons, Grades, Prior, fit_positions, log_likelihood
from ordrank.labeling.pair_choice import choose_pair, expected_information
from ordrank.labeling.position_model import given_grades, graded_model, implied_grades, unscaled_model

N = 7


@st.composite
def problems(draw, ties=True):
    """Comparisons of seven samples, some with a grade, a prior that correlates them, and how people answer."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, 25))
    first = rng.integers(N, size=count)
    second = (first + rng.integers(1, N, size=count)) % N
    outcome = rng.integers(-1, 2, size=count) if ties else rng.choice([-1, 1], size=count)
    root = rng.normal(size=(N, N))
    prior = Prior(rng.normal(size=N), root @ root.T / N + 0.1 * np.eye(N))
    graded = rng.permutation(N)[: draw(st.integers(0, 3))]
    grades = Grades(graded, rng.normal(size=len(graded)), rng.uniform(0.1, 1, size=len(graded)))
    answers = AnswerModel(draw(st.floats(0.1, 2.0)), draw(st.floats(0.05, 3.0)) if ties else 0.0)
    return Comparisons(first, second, outcome), prior, answers, grades


def log_posterior(f, comparisons, prior, answers, grades):
    """The literal formula of Davidson, with a normal prior and normal grades."""
    d = (f[comparisons.first] - f[comparisons.second]) / answers.noise
    total = np.exp(d / 2) + np.exp(-d / 2) + answers.ties
    weight = {1: np.exp(d / 2), -1: np.exp(-d / 2), 0: answers.ties * np.ones(len(d))}
    p = np.choose(comparisons.outcome + 1, [weight[-1], weight[0], weight[1]]) / total
    residual = f - prior.mean
    deviation = f[grades.samples] - grades.values
    return (
        np.log(p).sum()
        - residual @ np.linalg.solve(prior.covariance, residual) / 2
        - (deviation**2 / grades.variances).sum() / 2
    )


def difference_quotients(function, x, step=1e-4):
    return np.array([(function(x + step * e) - function(x - step * e)) / (2 * step) for e in np.eye(len(x))])


@given(problems())
@settings(max_examples=40, deadline=None)
def test_the_gradient_of_the_posterior_is_zero_at_the_positions(problem):
    found = fit_positions(*problem).mean
    assert np.abs(difference_quotients(lambda f: log_posterior(f, *problem), found)).max() < 1e-4


@given(problems())
@settings(max_examples=25, deadline=None)
def test_the_covariance_is_the_inverse_of_the_hessian(problem):
    found = fit_positions(*problem)

    def gradient(f):
        return difference_quotients(lambda x: log_posterior(x, *problem), f)

    hessian = np.array([(gradient(found.mean + 1e-3 * e) - gradient(found.mean - 1e-3 * e)) / 2e-3 for e in np.eye(N)])
    np.testing.assert_allclose(-hessian @ found.covariance, np.eye(N), atol=0.02)


@given(st.floats(-30, 30), st.sampled_from([-1, 0, 1]), st.floats(0.01, 10))
def test_derivatives_of_the_likelihood_are_difference_quotients_and_it_is_concave(d, outcome, ties):
    def value(x):
        return log_likelihood(np.asarray(x), np.array([outcome]), ties)[0][0]

    _, slope, curvature = log_likelihood(np.array([d]), np.array([outcome]), ties)
    assert slope[0] == pytest.approx(approx_fprime([d], value, 1e-6)[0], abs=1e-4)
    assert curvature[0] >= 0
    middle = value([d])
    assert middle >= (value([d - 0.5]) + value([d + 0.5])) / 2 - 1e-12


@given(st.floats(-20, 20), st.floats(0.0, 5.0))
def test_the_probabilities_of_the_outcomes_sum_to_one(d, ties):
    outcomes = (-1, 0, 1) if ties > 0 else (-1, 1)
    total = sum(np.exp(log_likelihood(np.array([d]), np.array([o]), ties)[0][0]) for o in outcomes)
    assert total == pytest.approx(1)


@given(problems(), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_neither_the_order_of_comparisons_nor_that_of_the_two_samples_matters(problem, random):
    comparisons, prior, answers, grades = problem
    expected = fit_positions(*problem)
    order = np.array(random.sample(range(len(comparisons)), len(comparisons)))
    swapped = Comparisons(comparisons.second[order], comparisons.first[order], -comparisons.outcome[order])
    found = fit_positions(swapped, prior, answers, grades)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-5)
    np.testing.assert_allclose(found.covariance, expected.covariance, atol=1e-5)
    assert found.evidence == pytest.approx(expected.evidence, abs=1e-6)


@given(problems())
@settings(max_examples=25, deadline=None)
def test_opposite_outcomes_grades_and_means_give_opposite_positions(problem):
    comparisons, prior, answers, grades = problem
    opposite = fit_positions(
        Comparisons(comparisons.first, comparisons.second, -comparisons.outcome),
        Prior(-prior.mean, prior.covariance),
        answers,
        Grades(grades.samples, -grades.values, grades.variances),
    )
    np.testing.assert_allclose(opposite.mean, -fit_positions(*problem).mean, atol=1e-5)


@given(problems(), st.floats(-100, 100), st.floats(0.1, 10))
@settings(max_examples=25, deadline=None)
def test_positions_move_and_stretch_with_their_prior_the_noise_and_the_grades(problem, shift, factor):
    comparisons, prior, answers, grades = problem
    moved = fit_positions(
        comparisons,
        Prior(factor * prior.mean + shift, factor**2 * prior.covariance),
        AnswerModel(factor * answers.noise, answers.ties),
        Grades(grades.samples, factor * grades.values + shift, factor**2 * grades.variances),
    )
    np.testing.assert_allclose(moved.mean, factor * fit_positions(*problem).mean + shift, atol=1e-4 * factor)


@given(problems(ties=False), st.floats(0.01, 3.0))
@settings(max_examples=25, deadline=None)
def test_without_ties_and_grades_they_are_those_of_choix(problem, alpha):
    """The regularised maximum likelihood of Bradley and Terry, with the penalty α‖f‖²."""
    comparisons, *_ = problem
    found = fit_positions(comparisons, Prior(np.zeros(N), np.eye(N) / (2 * alpha)), AnswerModel())
    won = comparisons.outcome == 1
    pairs = np.where(won[:, None], *(np.column_stack(p) for p in (
        (comparisons.first, comparisons.second), (comparisons.second, comparisons.first)
    )))  # fmt: skip
    expected = choix.opt_pairwise(N, [tuple(pair) for pair in pairs.tolist()], alpha=alpha, tol=1e-12)
    np.testing.assert_allclose(found.mean, expected, atol=1e-6)


def test_a_start_far_away_leads_to_the_same_positions_and_they_are_those_of_a_direct_minimisation():
    rng = np.random.default_rng(0)
    first = rng.integers(N, size=60)
    second = (first + rng.integers(1, N, size=60)) % N
    problem = (
        Comparisons(first, second, np.sign(first - second) * rng.choice([1, 1, 1, 0], size=60)),
        Prior(np.zeros(N), np.eye(N)),
        AnswerModel(0.05, 0.2),
        Grades(np.array([0, 6]), np.array([-3.0, 3.0]), np.array([0.25, 0.25])),
    )
    expected = minimize(lambda f: -log_posterior(f, *problem), np.zeros(N), method="BFGS", options={"gtol": 1e-7}).x
    for start in (None, 100 * rng.normal(size=N)):
        np.testing.assert_allclose(fit_positions(*problem, start).mean, expected, atol=1e-4)


def test_comparisons_that_are_none_are_rejected():
    with pytest.raises(InputError, match="itself"):
        Comparisons.from_rows([(1, 1, 0)])
    with pytest.raises(InputError, match="1, -1 or 0"):
        Comparisons.from_rows([(1, 2, 3)])
    with pytest.raises(InputError, match="weight of ties"):
        fit_positions(Comparisons.from_rows([(0, 1, 0)]), Prior(np.zeros(2), np.eye(2)), AnswerModel())


@given(problems(), st.integers(0, N - 1), st.integers(1, N - 1), st.sampled_from([-1, 0, 1]))
@settings(max_examples=25, deadline=None)
def test_one_more_answer_is_one_newton_step(problem, first, apart, outcome):
    second, before = (first + apart) % N, fit_positions(*problem)
    after = before.with_answer(first, second, outcome)
    s = before.answers.noise
    d = np.array([(before.mean[first] - before.mean[second]) / s])
    _, slope, curvature = log_likelihood(d, np.array([outcome]), before.answers.ties)
    row = (np.eye(N)[first] - np.eye(N)[second]) / s
    precision = np.linalg.inv(before.covariance) + curvature[0] * np.outer(row, row)
    np.testing.assert_allclose(after.covariance @ precision, np.eye(N), atol=1e-5)
    np.testing.assert_allclose(precision @ (after.mean - before.mean), slope[0] * row, atol=1e-4)


def exact_information(mu, v):
    """Entropy of the answer minus expected entropy if the difference was known, in bits, by quadrature."""

    def entropy(p):
        return -sum(q * np.log2(q) for q in (p, 1 - p) if q > 0)

    def expected(function):
        # the logistic function is steep at 0, the density at μ
        bounds = sorted({mu - 10 * v**0.5, *np.clip([-8, 0, 8], mu - 10 * v**0.5, mu + 10 * v**0.5), mu + 10 * v**0.5})
        density = norm(mu, v**0.5).pdf
        pieces = pairwise(bounds)
        return sum(quad(lambda x: density(x) * function(expit(x)), a, b, epsabs=1e-9)[0] for a, b in pieces)

    return entropy(expected(lambda p: p)) - expected(entropy)


@given(st.floats(-20, 20), st.floats(0.05, 400))
@settings(max_examples=60, deadline=None)
def test_expected_information_is_close_to_the_exact_one(mu, v):
    found = expected_information(np.array([mu]), np.array([v]))[0]
    assert found == pytest.approx(exact_information(mu, v), abs=0.05)
    assert expected_information(np.array([-mu]), np.array([v]))[0] == found


def test_the_chosen_pair_has_the_largest_information_and_is_not_an_answered_one():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    model = unscaled_model(12, X)
    rows = [(0, 1, 1), (1, 2, 1), (5, 6, -1)]
    positions = model.fit(Comparisons.from_rows(rows), model.start)
    answered, information = [], []
    while (pair := choose_pair(positions, answered)) is not None:
        i, j = pair
        variance = positions.covariance[i, i] + positions.covariance[j, j] - 2 * positions.covariance[i, j]
        s = positions.answers.noise
        found = expected_information(
            np.array([(positions.mean[i] - positions.mean[j]) / s]), np.array([variance / s**2])
        )
        information.append(found[0])
        answered.append((j, i))
    assert len({frozenset(pair) for pair in answered}) == len(answered) == 12 * 11 / 2
    assert (np.diff(information) <= 1e-12).all()


def test_of_many_samples_a_subset_by_the_seed_is_considered():
    positions = unscaled_model(1000).fit(Comparisons.from_rows([]), unscaled_model(1000).start)
    assert choose_pair(positions, seed=3) == choose_pair(positions, seed=3) != choose_pair(positions, seed=4)
    assert choose_pair(unscaled_model(1).fit(Comparisons.from_rows([]), unscaled_model(1).start)) is None


def simulated(t, pairs, rng, noise=0.0):
    rows = [(i, j, int(np.sign(t[i] - t[j] + noise * rng.logistic()))) for i, j in pairs]
    return Comparisons.from_rows(rows)


def random_pairs(n, count, rng):
    first = rng.integers(n, size=count)
    return np.column_stack([first, (first + rng.integers(1, n, size=count)) % n]).tolist()


def test_positions_of_known_order_follow_it_and_deviations_cover_the_error():
    rng = np.random.default_rng(1)
    t = rng.normal(size=60)
    model = unscaled_model(60)
    comparisons = simulated(t, random_pairs(60, 900, rng), rng, noise=0.3)
    hyperparameters = model.select(comparisons)
    found = model.fit(comparisons, hyperparameters)
    assert kendalltau(found.mean, t).statistic > 0.85
    assert 0.2 <= hyperparameters.noise <= 0.5
    z = (found.mean - t) / found.deviation
    assert 0.6 < np.sqrt(np.mean(z**2)) < 1.5


def test_features_that_explain_the_order_raise_the_correlation_and_others_are_ignored():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    t = X[:, 0] + 0.5 * X[:, 1] ** 2
    comparisons = simulated(t, random_pairs(80, 160, rng), rng)
    taus = {}
    for name, features in (("own", X), ("none", None), ("noise", rng.normal(size=(80, 2)))):
        model = unscaled_model(80, features)
        hyperparameters = model.select(comparisons)
        taus[name] = kendalltau(model.fit(comparisons, hyperparameters).mean, t).statistic
    assert taus["own"] > taus["none"] + 0.1
    assert taus["noise"] > taus["none"] - 0.05


def test_ties_are_learned_when_there_are_some():
    rng = np.random.default_rng(3)
    t = rng.normal(size=40)
    rows = [(i, j, 0 if abs(t[i] - t[j]) < 0.4 else int(np.sign(t[i] - t[j]))) for i, j in random_pairs(40, 400, rng)]
    model, comparisons = unscaled_model(40), Comparisons.from_rows(rows)
    hyperparameters = model.select(comparisons)
    assert hyperparameters.ties > 0
    assert model.select(simulated(t, random_pairs(40, 400, rng), rng)).ties == 0
    assert kendalltau(model.fit(comparisons, hyperparameters).mean, t).statistic > 0.8


def test_grades_put_positions_on_their_scale():
    rng = np.random.default_rng(4)
    t = rng.uniform(0.5, 5.5, size=50)
    grades = np.full(50, np.nan)
    grades[::5] = np.round(t[::5])
    labels = np.unique(grades[::5])
    model = graded_model(labels, np.full(50, np.nan))
    found = model.fit(simulated(t, random_pairs(50, 500, rng), rng, 0.1), model.start, given_grades(grades, labels))
    assert np.abs(found.mean - t).mean() < 0.6


def test_implied_grades_are_those_between_samples_of_one_grade():
    mean = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    grades = np.array([np.nan, 0, np.nan, 0, np.nan, 1, np.nan, np.nan])
    positions = unscaled_model(8).fit(Comparisons.from_rows([]), unscaled_model(8).start)
    certain = type(positions)(mean, 1e-4 * np.eye(8), positions.answers, 0.0)
    found = implied_grades(certain, grades, np.array([0.0, 1.0]))
    np.testing.assert_array_equal(found, [0, np.nan, 0, np.nan, np.nan, np.nan, 1, 1])
    open_ = type(positions)(mean, 100 * np.eye(8), positions.answers, 0.0)
    assert np.isnan(implied_grades(open_, grades, np.array([0.0, 1.0]))).all()
    assert np.isnan(implied_grades(certain, np.full(8, np.nan), np.array([0.0, 1.0]))).all()


def test_grades_against_the_order_imply_nothing_between_them():
    mean = np.arange(5.0)
    certain = type(unscaled_model(5).fit(Comparisons.from_rows([]), unscaled_model(5).start))(
        mean, 1e-4 * np.eye(5), AnswerModel(), 0.0
    )
    grades = np.array([np.nan, 1, np.nan, 0, np.nan])
    assert np.isnan(implied_grades(certain, grades, np.array([0.0, 1.0]))[2])


def test_fewer_than_two_grades_are_no_scale():
    with pytest.raises(InputError, match="two different grades"):
        graded_model(np.array([1.0]), np.full(3, np.nan))
