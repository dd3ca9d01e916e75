"""Scaffnew: the paper's algorithm iteration by iteration, and the coin that the plan tosses for it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import references as ref
import references_scaffnew as own
from core_cases import (
    CLIENTS,
    DIM,
    WEIGHTS,
    least_squares_data,
    logistic_data,
    problem_of,
    quadratic_data,
)

import undrift as ud
from everyday import share
from undrift.engine.sweep import sweep_identity

ROUNDS, GAMMA, P = 30, 0.05, 0.4


def same_iterates(reference, data, *, seed=0, p=P, participation=None, failures=0.0, oracle=None):
    who = (participation or ud.plan.full()).among(data.weights)
    plan = ud.plan.Plan(CLIENTS, who, ud.plan.geometric_steps(p), failures, seed)
    x0 = np.linspace(-1, 1, DIM)
    world = ref.World(data, plan, ROUNDS, oracle, x0)
    expected = ref.iterates(reference(world, GAMMA, p), x0)
    result = ud.run(
        ud.scaffnew(eta=GAMMA, p=p), problem_of(data), rounds=ROUNDS, seed=seed, x0=x0, participation=participation,
        failures=failures, oracle=oracle, keep_iterates=True,
    )  # fmt: skip
    scale = np.max(np.linalg.norm(expected, axis=1))
    assert np.max(np.linalg.norm(result.iterates - expected, axis=1)) <= 1e-9 * scale
    assert scale < 1e6, "a diverging example proves little"


@pytest.mark.parametrize("p", [0.2, P, 1.0])
def test_rounds_are_the_iterations_of_the_paper(p):
    for seed, data in enumerate((quadratic_data(0), quadratic_data(1, WEIGHTS), logistic_data(2, WEIGHTS))):
        same_iterates(own.scaffnew, data, seed=seed, p=p)


@pytest.mark.parametrize("oracle", [ud.oracles.noisy(0.5), ud.oracles.minibatch(3)], ids=str)
def test_stochastic_gradients_share_their_draws_with_the_reference(oracle):
    same_iterates(own.scaffnew, logistic_data(1), seed=4, oracle=oracle)


@pytest.mark.parametrize("who", [ud.plan.uniform(3), ud.plan.uniform(4, replace=True), ud.plan.weighted(3)], ids=str)
def test_cohorts_and_failures(who):
    same_iterates(own.with_absences, logistic_data(0, WEIGHTS), seed=1, participation=who, failures=0.3)


def test_with_everyone_there_both_forms_of_the_round_are_the_paper_s():
    """x told twice a round, or h_i finished when the next round begins: the same iterates."""
    data = quadratic_data(3, WEIGHTS)
    same_iterates(own.with_absences, data)
    same_iterates(own.scaffnew, data, failures=1e-300)  # nobody is silent, and the program cannot know it


def test_heads_after_every_step_is_gradient_descent():
    problem = problem_of(logistic_data(0, WEIGHTS))
    paths = [
        ud.run(m, problem, rounds=20, keep_iterates=True).iterates for m in (ud.scaffnew(0.1, 1.0), ud.fedsgd(0.1))
    ]
    np.testing.assert_allclose(*paths, rtol=0, atol=1e-13)


def test_equal_clients_need_no_correction():
    data = quadratic_data(0)
    twins = ud.problems.quadratic(np.repeat(data.A[:1], 3, 0), np.repeat(data.b[:1], 3, 0))
    result = ud.run(ud.scaffnew(0.1, 0.3), twins, rounds=10)
    alone = ud.run(ud.gd(0.1), twins, rounds=1, steps=int(result.history["gradients"][-1]) // 3)
    np.testing.assert_allclose(result.x, alone.x, rtol=1e-11)


def test_a_schedule_of_steps_corrects_each_round_by_its_own():
    """h_i ← h_i + (p/γ_t)(x − y_i) with the γ_t of the round in which y_i was made."""
    data, problem = quadratic_data(1), problem_of(quadratic_data(1))
    gammas = [0.1 / (1 + t / 4) for t in range(8)]
    result = ud.run(ud.scaffnew(eta=lambda count: 0.1 / (1 + count / 4), p=0.5), problem, rounds=8, diagnostics=True)
    world = ref.World(data, ud.plan.Plan(CLIENTS, ud.plan.full(), ud.plan.geometric_steps(0.5), 0.0, 0), 8)
    x, h = world.x0, np.zeros((CLIENTS, DIM))
    for (_, cohort), gamma in zip(world.rounds, gammas, strict=True):
        y = np.tile(x, (CLIENTS, 1))
        for i, tosses in cohort:
            for _ in range(tosses):
                y[i] = y[i] - gamma * (world.full(i, y[i]) - h[i])
        x = world.w @ y
        h += 0.5 / gamma * (x - y)
    np.testing.assert_allclose(result.x, x, rtol=1e-6)  # a schedule is computed in 32 bits
    assert result.history["variate_error"].max() < 1e-4


PLANS = {
    "everyone": {},
    "cohorts": {"participation": ud.plan.uniform(3)},
    "failures": {"failures": 0.3},
    "with replacement": {"participation": ud.plan.uniform(3, replace=True)},
}


@pytest.mark.parametrize("plan", share(PLANS, 1, of=2))
def test_it_is_exact_whoever_takes_part(plan):
    """Linear to rounding, unequal weights included: Σ w_i h_i = 0 always, so that x* is the only point of rest."""
    problem = problem_of(quadratic_data(0, WEIGHTS))
    method = ud.scaffnew(eta=1 / problem.constants.L, p=0.5)
    history = ud.run(method, problem, rounds=1500, diagnostics=True, **PLANS[plan]).history
    assert history["gap"][-1] < 1e-20 * history["gap"][0]
    assert history["variate_error"].max() < 1e-11


def test_cohorts_of_one_learn_nothing():
    """Alone a client is its own mean, h_i stays 0, and the method is FedAvg with cohorts of one: docs/participation.md."""
    problem = problem_of(quadratic_data(0))
    history = ud.run(ud.scaffnew(0.1, 0.5), problem, rounds=1000, participation=ud.plan.uniform(1)).history
    assert history["gap"][-100:].min() > 1e-6 * history["gap"][0]


# ----- the coin
def test_tosses_are_geometric_common_and_the_same_in_any_portion():
    for p in (0.05, 0.3, 0.9):
        drawn = ud.plan.Plan(3, ud.plan.full(), ud.plan.geometric_steps(p), 0.0, 11).draw(1, 20_000).steps
        assert np.all(drawn == drawn[:, :1])
        assert drawn.min() == 1
        for k in range(1, 6):
            chance = (1 - p) ** (k - 1) * p
            error = np.sqrt(chance * (1 - chance) / len(drawn))
            assert abs(np.mean(drawn[:, 0] == k) - chance) < 5 * error
        assert abs(drawn[:, 0].mean() - 1 / p) < 5 * np.sqrt(1 - p) / p / np.sqrt(len(drawn))
        again = ud.plan.Plan(3, ud.plan.uniform(2), ud.plan.geometric_steps(p), 0.0, 11).draw(7000, 5).steps
        np.testing.assert_array_equal(again, drawn[6999:7004, :2])


def test_anybody_may_toss_it():
    problem = problem_of(quadratic_data(0))
    arguments = {"rounds": 6, "steps": ud.plan.geometric_steps(0.3), "seed": 2}
    run, passed = (play(ud.fedavg(0.05), problem, **arguments) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(run.x, passed.x, rtol=1e-12)
    assert run.history["gradients"][-1] > 6 * CLIENTS


def test_a_sweep_over_p_gives_every_point_its_own_coins():
    problem = problem_of(logistic_data(0, WEIGHTS))
    grid = {"p": [0.3, 0.6], "eta": [0.02, 0.05]}
    swept = ud.sweep(ud.scaffnew, problem, grid=grid, seeds=[0, 4], rounds=12)
    for i, p in enumerate(grid["p"]):
        for j, eta in enumerate(grid["eta"]):
            for k, seed in enumerate((0, 4)):
                single = ud.run(ud.scaffnew(eta, p), problem, rounds=12, seed=seed)
                np.testing.assert_allclose(swept.x[i, j, k], single.x, rtol=1e-12, atol=1e-13)
                for column in ("gradients", "bytes_up", "loss"):
                    np.testing.assert_allclose(swept.history[column][i, j, k], single.history[column], rtol=1e-9)
    described = [ud.describe(ud.scaffnew(0.05, p), problem, rounds=3) for p in (0.3, 0.3 + 1e-12)]
    assert sweep_identity(described[:1], [0]) != sweep_identity(described[1:], [0])


def test_steps_are_refused_with_the_reason():
    problem = problem_of(quadratic_data(0))
    play = functools.partial(ud.run, ud.scaffnew(0.1, 0.25), problem, rounds=2)
    for given in (1, 4, ud.plan.random_steps(1, 3), ud.plan.geometric_steps(0.25)):
        with pytest.raises(
            ud.InputError, match=r"draws its local steps itself, geometric_steps\(0.25\).*leave steps out"
        ):
            play(steps=given)
    with pytest.raises(ud.InputError, match="leave steps out"):
        ud.sweep(ud.scaffnew, problem, grid={"eta": [0.1], "p": [0.5]}, rounds=2, steps=3)
    with pytest.raises(ud.InputError, match="leave steps out"):
        ud.run(ud.compressed(ud.scaffnew(0.1, 0.25), up=ud.top_k(2)), problem, rounds=2, steps=3)


@pytest.mark.parametrize("bad", [0, -0.5, 1.5, float("nan"), float("inf"), lambda count: 0.5])
def test_a_probability_is_one_number_between_0_and_1(bad):
    with pytest.raises(ud.InputError, match=r"p, the probability.*must be a number in \(0, 1\]"):
        ud.scaffnew(0.1, bad)
    with pytest.raises(ud.InputError, match=r"must be a number in \(0, 1\]"):
        ud.plan.geometric_steps(bad)


def test_rounds_that_are_too_long_to_count_are_refused():
    problem = problem_of(least_squares_data(0))
    with pytest.raises(ud.InputError, match="the most that can be counted"):
        ud.run(ud.scaffnew(0.1, 1e-12), problem, rounds=1)


def test_the_theorem_s_p_decides_the_coins_of_the_run():
    problem = problem_of(quadratic_data(0))
    c = problem.constants
    run = ud.describe(ud.scaffnew("theorem", "theorem"), problem, rounds=1)
    assert run.method.numbers == pytest.approx({"eta": 1 / c.L, "p": np.sqrt(c.mu / c.L)})
    assert run.steps == ud.plan.geometric_steps(run.method.numbers["p"])
