"""Verdicts: when they say yes, when no, where, and on which iterate."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from instances import CLIENTS, DIM, hard_quadratic

import undrift as ud
from undrift.theory.verdict import fitted_rate


@pytest.fixture(scope="module")
def problem():
    return hard_quadratic(np.random.default_rng(0), 5.0)


@pytest.fixture(scope="module")
def constants(problem):
    return ud.theory.constants(problem)


@pytest.fixture(scope="module")
def run(problem, constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    return ud.run(ud.fedlin(**bound.numbers), problem, rounds=60, steps=4, keep_iterates=True)


def test_tightness_is_the_ratio_of_logarithms(run, constants):
    verdict = ud.theory.check(run, ud.theory.fedlin.strongly_convex(constants, 4))
    assert verdict.holds
    assert verdict.tightness == pytest.approx(np.log(verdict.rate) / np.log(verdict.promised_rate))
    assert verdict.tightness > 1
    assert "holds at every round" in str(verdict)


def test_gradient_descent_in_one_dimension_is_exactly_as_fast_as_a_tight_bound():
    """f = x²/2 with η = 0.1: the gap falls by 0.81 a step, and a bound that promises 0.81 has tightness 1."""
    p = ud.problems.quadratic(np.ones((1, 1, 1)), np.ones((1, 1)))
    run = ud.run(ud.gd(eta=0.1), p, rounds=50)
    bound = ud.theory.centralised.gd(ud.theory.constants(p))
    tight = dataclasses.replace(bound, rate=0.81, values=lambda t, s: 0.81**t * s)
    verdict = ud.theory.check(run, tight)
    assert verdict.holds
    assert verdict.tightness == pytest.approx(1.0)
    assert verdict.slack == pytest.approx(1.0)


def test_the_first_failing_round_and_both_values_are_told(run, constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    from_ten = dataclasses.replace(bound, values=lambda t, s: np.where(t < 10, bound.values(t, s), 1e-300))
    verdict = ud.theory.check(run, from_ten)
    assert (verdict.holds, verdict.round) == (False, 10)
    assert verdict.values == (run.history["gap"][10], 1e-300)
    assert "fails first at round 10" in str(verdict)


def test_rounding_level_does_not_count_as_a_violation(problem, constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    long = ud.run(ud.fedlin(**bound.numbers), problem, rounds=3000, steps=4)
    assert bound.curve(3000, long.history["gap"][0])[-1] < 1e-30 * long.history["gap"][0]
    assert ud.theory.check(long, bound).holds
    # … but what is well above rounding does.
    early = dataclasses.replace(bound, values=lambda t, s: bound.values(10 * t, s))
    assert not ud.theory.check(long, early).holds


def test_a_run_that_diverges_fails(problem, constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    with np.errstate(all="ignore"):
        run = ud.run(ud.fedlin(eta=1e6), problem, rounds=60, steps=4, on_divergence="continue")
        assert ud.theory.check(run, bound).round == 1


def test_averaged_iterates_need_the_iterates_and_the_problem(problem, constants, run):
    bound = ud.theory.fedlin.convex(constants, 4)
    with pytest.raises(ud.InputError, match="pass problem="):
        ud.theory.check(run, bound)
    bare = ud.run(ud.fedlin(**bound.numbers), problem, rounds=3, steps=4)
    with pytest.raises(ud.InputError, match="keep_iterates=True"):
        ud.theory.check(bare, bound, problem)


def test_running_and_weighted_means_by_hand():
    X = np.random.default_rng(1).normal(size=(6, 2))
    np.testing.assert_allclose(ud.theory.running_means(X)[3], X[:4].mean(axis=0))
    p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    bound = ud.theory.ssl.strongly_convex(ud.theory.constants(p))
    q = 1 - 0.5 * bound.numbers["eta"] * 2  # 1 − μη̃/2, η̃ = 2η
    for R in (0, 3, 5):
        w = q ** -(np.arange(R + 1) + 1.0)
        np.testing.assert_allclose(bound.weights(R), w / w.sum())
        np.testing.assert_allclose(ud.theory.weighted_means(X, bound.weights)[R], w @ X[: R + 1] / w.sum())


def test_weights_of_long_runs_do_not_overflow():
    X = np.ones((20_001, 1))
    p = ud.problems.quadratic(np.ones((2, 1, 1)), np.array([[1.0], [3.0]]))
    bound = ud.theory.fedavg.strongly_convex(ud.theory.constants(p))
    np.testing.assert_allclose(ud.theory.weighted_means(X, bound.weights), 1.0)


@pytest.mark.parametrize("oracle", [ud.oracles.full(), ud.oracles.noisy(1.0)], ids=str)
def test_replayed_local_steps_end_where_the_run_did(problem, constants, oracle):
    eta = float(1 / (4 * constants.L))
    run = ud.run(ud.fedavg(eta=eta), problem, rounds=5, steps=6, keep_iterates=True, oracle=oracle, seed=3)
    paths = ud.theory.local_points(run, problem, eta, 6, oracle)
    assert paths.points.shape == (5, CLIENTS, 6, DIM)
    np.testing.assert_allclose(paths.shadow[:, -1], run.iterates[1:], rtol=1e-9, atol=1e-9)


def test_a_replay_of_another_run_is_refused(problem, constants):
    eta = float(1 / (4 * constants.L))
    run = ud.run(ud.fedavg(eta=eta), problem, rounds=5, steps=6, keep_iterates=True)
    with pytest.raises(ud.InputError, match="not FedAvg with"):
        ud.theory.local_points(run, problem, eta / 2, 6)
    with pytest.raises(ud.InputError, match="noisy"):
        ud.theory.local_points(run, problem, eta, 6, ud.oracles.noisy(1.0))


def test_minima_over_rounds(problem, constants):
    """FedLin counts x_0 … x_{T−1}, SSL x_0 … x_R."""
    run = ud.run(ud.fedlin(eta=1e-3), problem, rounds=5, steps=4)
    squares = run.history["grad_norm"] ** 2
    first = ud.theory.check(run, ud.theory.fedlin.nonconvex(constants, 4))
    np.testing.assert_allclose(first.measured[1:], np.minimum.accumulate(squares)[:-1])
    second = ud.theory.check(run, ud.theory.ssl.nonconvex(constants, 4))
    np.testing.assert_allclose(second.measured, np.minimum.accumulate(squares))
    assert "in expectation" in second.note


@pytest.mark.slow
def test_seeds_as_a_list_and_as_a_sweep_agree(problem):
    oracle = ud.oracles.noisy(10.0)
    bound = ud.theory.fedlin.noisy(ud.theory.constants(problem, oracle=oracle), 4)
    eta = bound.numbers["eta"]
    swept = ud.sweep(ud.fedlin, problem, grid={"eta": [eta]}, seeds=3, rounds=20, steps=4, oracle=oracle)
    runs = [ud.run(ud.fedlin(eta=eta), problem, rounds=20, steps=4, oracle=oracle, seed=s) for s in range(3)]
    one, other = ud.theory.check(swept, bound), ud.theory.check(runs, bound)
    np.testing.assert_allclose(one.measured, other.measured, rtol=1e-9)
    assert one.runs == other.runs == 3
    np.testing.assert_allclose(one.error, other.error, rtol=1e-6)
    with pytest.raises(ud.InputError, match="one grid point"):
        ud.theory.check(dataclasses.replace(swept, grid={"eta": [eta, 2 * eta]}), bound)


def test_runs_of_different_length_and_other_things_are_refused(problem, run, constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    short = ud.run(ud.fedlin(**bound.numbers), problem, rounds=3, steps=4)
    with pytest.raises(ud.InputError, match="same length"):
        ud.theory.check([run, short], bound)
    with pytest.raises(ud.InputError, match="a run, a list of runs or a sweep"):
        ud.theory.check("fedlin", bound)
    gaps = ud.run(ud.fedlin(**bound.numbers), problem, rounds=4, steps=4, record_every=2)
    with pytest.raises(ud.InputError, match="record_every=1"):
        ud.theory.check(gaps, bound)


def test_lower_bounds_fail_from_below(run):
    bound = ud.theory.fedlin.lower_bound(2)
    assert ud.theory.check(run, bound).holds
    high = dataclasses.replace(bound, values=lambda t, s: np.full_like(t, s))
    assert not ud.theory.check(run, high).holds


def test_rates_are_fitted_before_the_floor():
    t = np.arange(200.0)
    assert fitted_rate(0.8**t) == pytest.approx(0.8)
    assert fitted_rate(0.8**t + 1e-6, floor=1e-6) == pytest.approx(0.8, rel=1e-2)
    assert fitted_rate(np.zeros(5)) is None


def test_curves_start_where_the_run_starts_and_find_their_round(constants):
    bound = ud.theory.fedlin.strongly_convex(constants, 4)
    curve = bound.curve(5, 3.0)
    assert curve[0] == 3.0
    T = bound.rounds_to(1e-3, 3.0)
    assert bound.curve(T, 3.0)[-1] <= 1e-3 < bound.curve(T - 1, 3.0)[-1]
    noisy = ud.theory.fedlin.noisy(dataclasses.replace(constants, sigma_sq=ud.theory.exact(1.0)), 4)
    assert noisy.rounds_to(noisy.floor / 2, 1.0) is None or noisy.floor > 2
    with pytest.raises(ud.InputError, match="finite number"):
        bound.curve(5, np.nan)
