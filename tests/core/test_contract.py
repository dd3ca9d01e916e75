"""What every method must keep, driven by the one table of all methods."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import CASES, CLIENTS, DIM, PARTIAL, UNEQUAL, WEIGHTS, logistic_data, problem_of, told
from references import full_gradient

import undrift as ud
from everyday import only, share
from undrift import precision
from undrift.engine.interpret import Context, Members, everyone, play
from undrift.engine.layout import lay_out
from undrift.engine.rounds import compilations

ETA = 0.05
FEDERATED = [name for name, case in CASES.items() if case.federated]


NOT_OF_THIS_TABLE = {"ssl", "sflv1", "sflv2"}  # they need a model that is cut in two, and are tested with networks


def test_the_table_covers_every_method():
    covered = {case.make(ETA).name for case in CASES.values()}
    assert set(ud.METHODS) <= covered | NOT_OF_THIS_TABLE, "a new method needs a row in core_cases.CASES"


BY_NAME = [name for name in CASES if name in ud.METHODS]


@pytest.mark.parametrize("name", only(BY_NAME, {"fedlin", "sequential_fl"}))
def test_float32_is_kept(name):
    method = CASES[name].make(ETA)
    result = ud.run(method, problem_of(logistic_data(0), np.float32), rounds=3, **told(method, steps=2))
    assert result.x.dtype == np.float32
    assert all(column.dtype in (np.float64, np.int64) for column in result.history.values())
    assert np.all(np.isfinite(result.x))


@pytest.mark.parametrize("name", share(CASES, 0, of=5))
def test_history_and_bytes(name):
    """rounds + 1 values, index 0 before round 1, costs as running totals of sizes computed by hand."""
    case, problem, rounds = CASES[name], problem_of(logistic_data(0, WEIGHTS)), 5
    start = np.full(DIM, 0.2)
    method = case.make(ETA)
    result = ud.run(method, problem, rounds=rounds, x0=start, keep_iterates=True, **told(method, steps=UNEQUAL))
    history = result.history
    assert result.x.dtype == result.iterates.dtype == np.float64
    assert np.any(result.x != result.x.astype(np.float32)), "these are not 64-bit results"
    assert all(column.shape == (rounds + 1,) for column in history.values())
    np.testing.assert_array_equal(result.iterates[0], start)
    for t in (0, rounds):
        x = result.iterates[t]
        assert history["loss"][t] == pytest.approx(problem.value(x), rel=1e-12)
        assert history["gap"][t] == pytest.approx(problem.value(x) - problem.optimum.value, rel=1e-9)
        assert history["sq_distance"][t] == pytest.approx(np.sum((x - problem.optimum.x) ** 2), rel=1e-9)
        assert history["grad_norm"][t] == pytest.approx(np.linalg.norm(problem.gradient(x)), rel=1e-9)
    t, m = np.arange(rounds + 1), CLIENTS if case.federated else 0
    np.testing.assert_array_equal(history["bytes_up"], m * (case.start_up + t * case.up))
    first_down = case.first_down - case.down if case.first_down else 0
    np.testing.assert_array_equal(history["bytes_down"], m * (case.start_down + t * case.down + (t > 0) * first_down))
    assert history["drift"][0] == 0
    if case.federated:
        drift_is_zero_for_equal_clients_alone(case, history["drift"])


def drift_is_zero_for_equal_clients_alone(case, drift):
    if case.parallel is None:
        assert np.all(np.isnan(drift[1:]))
        return
    data = logistic_data(0)
    twins = ud.problems.logistic(np.repeat(data.A[:1], CLIENTS, 0), np.repeat(data.b[:1], CLIENTS, 0), l2=0.1)
    method = case.make(ETA)
    steps = lambda t, key: 3  # noqa: E731 (a function: the program of unequal steps plays these)
    apart = ud.run(method, twins, rounds=4, keep_iterates=True, **told(method, steps=steps)).history["drift"]
    np.testing.assert_allclose(apart, 0, atol=1e-13)
    assert np.all(drift[1:] > 1e-4) == case.parallel


@pytest.mark.parametrize("name", share(CASES, 1, of=5))
def test_one_compilation_for_all_numbers_seeds_rounds_and_data(name):
    make = CASES[name].make
    plan = told(make(ETA), **PARTIAL)
    history = ud.run(make(ETA), problem_of(logistic_data(0)), rounds=8, keep_iterates=True, **plan).history
    before = dict(compilations)
    for seed, eta, rounds in ((1, ETA, 7), (2, 0.01, 600)):
        problem = problem_of(logistic_data(seed, WEIGHTS))
        ud.run(make(eta), problem, rounds=rounds, seed=seed, x0=np.full(DIM, 0.1), keep_iterates=True, **plan)
    assert dict(compilations) == before
    if CASES[name].federated:
        silent_members_cost_one_message_down(CASES[name], history)


def silent_members_cost_one_message_down(case, history):
    answers = ud.plan.Plan(CLIENTS, PARTIAL["participation"], 1, PARTIAL["failures"], 0).draw(1, 8).answered.sum(axis=1)
    np.testing.assert_array_equal(np.diff(history["bytes_up"]), case.up * answers)
    first = (case.down if case.opening_down is None else case.opening_down) + case.absent_down
    down = case.down + case.absent_down
    expected = down * answers + first * (3 - answers)
    if case.first_down:
        longer = case.first_down - case.down
        expected[0] = (down + longer) * answers[0] + (first + longer) * (3 - answers[0])
    np.testing.assert_array_equal(np.diff(history["bytes_down"]), expected)
    assert answers.min() < 3, "nobody was silent here"


def round_and_memory(name: str, problem: ud.problems.Problem) -> tuple[Any, Any]:
    run = ud.describe(CASES[name].make(ETA), problem, rounds=1, participation=ud.plan.uniform(3))
    algorithm, context = run.algorithm, Context(run, jnp.asarray(1))
    memory = lay_out(algorithm, jnp.linspace(-1.0, 1.0, DIM), problem)
    if algorithm.start:
        memory = jax.jit(lambda memory: play(algorithm.start, memory, everyone(CLIENTS), context)[0])(memory)
    one_round = jax.jit(lambda memory, members: play(algorithm.round, memory, members, context)[0])
    return one_round, memory


def members(*answered: bool) -> Members:
    return Members(jnp.array([3, 0, 4]), jnp.array([2, 1, 3]), jnp.array(answered))


@pytest.mark.parametrize("name", share(FEDERATED, 2))
def test_nothing_of_a_silent_client_changes(name):
    problem = problem_of(logistic_data(0, WEIGHTS))
    with precision.scope("float64"):
        one_round, memory = round_and_memory(name, problem)
        before = one_round(memory, members(True, True, True))  # so that memories are not zero
        after = one_round(before, members(True, False, True))
        nobody = one_round(before, members(False, False, False))
    silent = np.array([0, 1, 2])  # 0 did not answer, 1 and 2 were not asked
    for part in ("slots", "clients"):
        for a, b in zip(jax.tree.leaves(getattr(after, part)), jax.tree.leaves(getattr(before, part)), strict=True):
            np.testing.assert_array_equal(a[silent], b[silent])
    moved = [
        not np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(after.server), jax.tree.leaves(before.server), strict=True)
    ]
    assert any(moved)
    for a, b in zip(jax.tree.leaves(nobody), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(a, b)


def test_drift_and_dissimilarity_by_hand():
    """FedAvg's drift is mean_i ‖y_i − mean y‖, by hand."""
    data = logistic_data(0)
    problem = problem_of(data)
    history = ud.run(ud.fedsgd(eta=ETA), problem, rounds=1, steps=UNEQUAL, keep_iterates=True).history
    drift = ud.run(ud.fedavg(eta=ETA), problem, rounds=1, steps=1).history["drift"][1]
    gradients = np.array([full_gradient(data, i, np.zeros(DIM)) for i in range(CLIENTS)])
    off = gradients - gradients.mean(axis=0)
    assert drift == pytest.approx(ETA * np.mean(np.linalg.norm(off, axis=1)), rel=1e-12)
    assert history["dissimilarity"][0] == pytest.approx(np.max(np.linalg.norm(off, axis=1)), rel=1e-12)
