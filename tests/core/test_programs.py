"""The language itself: one by one, repeated dialogues, silence; in both interpreters."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import references as ref
from core_cases import CLIENTS, DIM, UNEQUAL, WEIGHTS, logistic_data, problem_of

import undrift as ud
from undrift.protocol import exchanges, once

ROUNDS = 6
PLANS = {
    "everyone": {"steps": UNEQUAL},
    "some, with failures": {
        "steps": ud.plan.random_steps(1, 3),
        "participation": ud.plan.uniform(3),
        "failures": 0.4,
    },
}


def one_by_one(algorithm: ud.Algorithm) -> ud.Algorithm:
    """Sequential learning is the same program on cohorts of one."""
    return algorithm._replace(round=(ud.OneByOne(algorithm.round),))


@ud.method
def dialogue(eta: float) -> ud.Algorithm:
    """τ_i times: the server sends x, the client answers with a gradient and counts, the server moves by a mean."""

    def client(count: Any, x: Any, local: Any) -> tuple[Any, Any]:
        return count + 1, local.gradient(x, count.astype(int)) * (1 + 0.1 * count)

    def receive(x: Any, slots: Any, gradients: Any, cohort: ud.Cohort) -> tuple[Any, Any]:
        return x - eta * cohort.mean(gradients), slots + 1

    talk = ud.Exchange("talk", lambda x, slot: x + 0.01 * slot, client, receive, ud.Account(once))
    return ud.Algorithm(
        round=(ud.Repeat((talk,)),),
        server=lambda x: (x, jnp.zeros((), x.dtype)),
        client=lambda x, loss: jnp.zeros((), x.dtype),
    )


def world_of(data, plan) -> ref.World:
    arguments = {"participation": ud.plan.full(), "failures": 0.0, **plan}
    return ref.World(
        data, ud.plan.Plan(CLIENTS, arguments["participation"], arguments["steps"], arguments["failures"], 2), ROUNDS
    )


def sequential_reference(w: ref.World, eta: float):
    x = w.x0
    for t, cohort in w.rounds:
        for i, tau in cohort:
            for k in range(tau):
                x = x - w.m * w.w[i] * eta * w.G(i, x, t, "local", k)
        yield x


def dialogue_reference(w: ref.World, eta: float):
    x, slot, count = w.x0, np.zeros(w.m), np.zeros(w.m)
    for _, cohort in w.rounds:
        for r in range(max((tau for _, tau in cohort), default=0)):
            present = [(i, tau) for i, tau in cohort if r < tau]
            answers = [w.full(i, x + 0.01 * slot[i]) * (1 + 0.1 * count[i]) for i, _ in present]
            x = x - eta * w.mean(present, answers)
            for i, _ in present:
                slot[i] += 1
                count[i] += 1
        yield x


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_fedavg_one_by_one_is_sequential_learning(plan, interpreter):
    data = logistic_data(0, WEIGHTS)
    expected = ref.iterates(sequential_reference(world_of(data, PLANS[plan]), 0.05), np.zeros(DIM))
    method = ud.fedavg(eta=0.05).wrapped(one_by_one)
    result = interpreter(method, problem_of(data), rounds=ROUNDS, seed=2, keep_iterates=True, **PLANS[plan])
    np.testing.assert_allclose(result.iterates, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("interpreter", [ud.run, ud.loopback])
def test_a_repeated_dialogue(plan, interpreter):
    data = logistic_data(1, WEIGHTS)
    world = world_of(data, PLANS[plan])
    expected = ref.iterates(dialogue_reference(world, 0.05), np.zeros(DIM))
    result = interpreter(dialogue(eta=0.05), problem_of(data), rounds=ROUNDS, seed=2, keep_iterates=True, **PLANS[plan])
    np.testing.assert_allclose(result.iterates, expected, rtol=1e-9, atol=1e-12)
    spoken = np.cumsum([0] + [sum(tau for _, tau in cohort) for _, cohort in world.rounds])
    np.testing.assert_array_equal(result.history["gradients"], spoken)
    np.testing.assert_array_equal(result.history["bytes_up"], 8 * DIM * spoken)


def test_a_bare_algorithm_is_a_method():
    problem = problem_of(logistic_data(0))
    own = ud.run(ud.fedavg(eta=0.05).build(), problem, rounds=3, steps=2)
    np.testing.assert_allclose(own.x, ud.run(ud.fedavg(eta=0.05), problem, rounds=3, steps=2).x, rtol=0, atol=1e-14)


def test_exchanges_are_found_inside_repeat_and_one_by_one():
    algorithm = ud.fedlin(eta=0.1).build()
    nested = (ud.OneByOne((ud.Repeat(algorithm.round),)), *algorithm.round)
    assert [e.name for e in exchanges(nested)] == ["local", "gradient", "local", "gradient"]
