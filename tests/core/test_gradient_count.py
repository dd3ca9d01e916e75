"""The history's `gradients` are those that were really evaluated: every call is counted by a callback."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import CASES, CLIENTS, DIM, SAMPLES, UNEQUAL, told

import undrift as ud
from counts import costs
from everyday import share

ROUNDS = 5
calls: list[float] = []


@jax.custom_vjp
def counted(x, target):
    return 0.5 * jnp.sum((x - target) ** 2)


def _forward(x, target):
    return counted(x, target), x - target


def _backward(off, slope):
    # The argument differs by client, so that a vectorised call is one call per client.
    jax.debug.callback(lambda value: calls.append(float(value)), off[0])
    return slope * off, None


counted.defvjp(_forward, _backward)


def whole(x, targets):
    return counted(x, jnp.mean(targets, axis=0))


def make_problem(per_sample: bool) -> ud.problems.Problem:
    data = np.random.default_rng(0).normal(size=(CLIENTS, SAMPLES, DIM))
    return ud.problems.custom(counted if per_sample else whole, data, DIM, per_sample=per_sample)


def count(interpreter, method, problem, rounds, **arguments) -> tuple[int, np.ndarray]:
    """Gradients that clients evaluated, those of the records taken off."""
    calls.clear()
    history = interpreter(method, problem, rounds=rounds, **arguments).history
    jax.effects_barrier()
    seen = len(calls)
    calls.clear()
    return seen, history["gradients"]


COUNTABLE = [name for name in CASES if name not in ("sgd", "iag", "fedtrack")]  # those take gradients of samples
SOME = {"participation": ud.plan.uniform(3), "failures": 0.3}


PLAYED = [(name, "everyone") for name in COUNTABLE]
PLAYED += [(name, "some") for name in ("fedavg", "scaffold", "scaffnew", "fedlin", "fedlin compressed")]


@pytest.mark.parametrize("played", share(PLAYED, 0, of=6), ids="-".join)
def test_message_passing_evaluates_what_the_history_counts(played):
    name, who = played
    plan = SOME if who == "some" else {}
    case, rounds = CASES[name], 3
    problem = make_problem(per_sample=False)
    method = case.make(0.05)
    seen, counted_there = count(ud.loopback, method, problem, rounds, **told(method, steps=UNEQUAL, **plan))
    recorded = CLIENTS * (rounds + 1)  # each record needs every client's gradient once
    per_step = 1 if case.federated else CLIENTS  # a gradient of the pooled problem is one of every client
    assert seen - recorded == per_step * counted_there[-1]


@pytest.mark.parametrize("name", share(["fedavg", "scaffold option 1", "fedlin", "fedsplit"], 0, of=2))
def test_the_compiled_program_evaluates_no_more(name):
    """With equal τ_i nothing is masked, so the compiled program does exactly the work that is counted."""
    rounds = 4
    problem = make_problem(per_sample=False)
    seen, counted_there = count(ud.run, CASES[name].make(0.05), problem, rounds, steps=3, record_every=rounds)
    assert seen - 2 * CLIENTS == counted_there[-1]


def gradients_of(method, **arguments) -> tuple[np.ndarray, np.ndarray]:
    found = costs(method, make_problem(per_sample=True), ROUNDS, **told(method, steps=UNEQUAL, **arguments))
    return found["gradients"], found["component_gradients"]


@pytest.mark.parametrize("name", CASES)
def test_gradients_by_hand(name):
    case, tau, t = CASES[name], np.array(UNEQUAL), np.arange(ROUNDS + 1)
    method = case.make(0.01)
    gradients, components = gradients_of(method)
    if method.recipe.draws is not None:
        drawn = ud.plan.Plan(CLIENTS, ud.plan.full(), method.drawn_steps, 0.0, 0).draw(1, ROUNDS).steps
        np.testing.assert_array_equal(np.diff(gradients), case.gradients(drawn).sum(axis=1))
        return
    if not case.federated:
        start = CLIENTS * SAMPLES if name == "iag" else 0
        np.testing.assert_array_equal(gradients, start + np.round(tau.mean()) * t)
        return
    np.testing.assert_array_equal(gradients, case.start_gradients * CLIENTS + case.gradients(tau).sum() * t)
    np.testing.assert_array_equal(components, gradients if name == "fedtrack" else SAMPLES * gradients)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.federated])
def test_gradients_by_hand_where_clients_miss_rounds(name):
    case = CASES[name]
    method = case.make(0.01)
    steps = UNEQUAL if method.drawn_steps is None else method.drawn_steps
    draw = ud.plan.Plan(CLIENTS, SOME["participation"], steps, 0.3, 0).draw(1, ROUNDS)
    gradients, _ = gradients_of(method, **SOME)
    work = case.gradients_absent or case.gradients
    expected = np.sum(np.where(draw.answered, work(draw.steps), 0), axis=1)
    np.testing.assert_array_equal(np.diff(gradients), expected)
