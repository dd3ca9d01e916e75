"""Compression of one direction of one exchange, for any method, against a NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest
import references as ref
from core_cases import CLIENTS, DIM, UNEQUAL, logistic_data, problem_of

import undrift as ud

ROUNDS = 15
KEEP = ud.top_k(2)


def world(data, **arguments):
    plan = ud.plan.Plan(
        CLIENTS, arguments.get("participation", ud.plan.full()), UNEQUAL, arguments.get("failures", 0.0), 0
    )
    return ref.World(data, plan, ROUNDS)


def fedavg_reference(w, eta, up, down):
    x, rho, e = w.x0, np.zeros((w.m, DIM)), np.zeros(DIM)
    for t, cohort in w.rounds:
        if cohort:
            told, e = ref.transmit(down, e, x, None)
            moves = []
            for i, tau in cohort:
                y = told
                for k in range(tau):
                    y = y - eta * w.G(i, y, t, "local", k)
                sent, rho[i] = ref.transmit(up, rho[i], y - told, None)
                moves.append(sent)
            x = x + w.mean(cohort, moves)
        yield x


@pytest.mark.parametrize(
    ("up", "down"),
    [
        pytest.param(KEEP, None, marks=pytest.mark.slow),
        pytest.param(ud.top_k(2, memory=False), None, marks=pytest.mark.slow),
        (ud.scaled_sign(), ud.top_k(5)),
    ],
    ids=["up", "up without memory", "both"],
)
def test_fedavg(up, down):
    data = logistic_data(0)
    method = ud.compressed(ud.fedavg(eta=0.05), up=up, down=down)
    for arguments in ({}, {"participation": ud.plan.uniform(3), "failures": 0.3}):
        expected = ref.iterates(fedavg_reference(world(data, **arguments), 0.05, up, down), np.zeros(DIM))
        result = ud.run(method, problem_of(data), rounds=ROUNDS, steps=UNEQUAL, keep_iterates=True, **arguments)
        np.testing.assert_allclose(result.iterates, expected, rtol=1e-9, atol=1e-12)


def test_scaffold_compresses_each_vector_on_its_own():
    problem = problem_of(logistic_data(0))
    result = ud.run(ud.compressed(ud.scaffold(eta=0.05), up=KEEP), problem, rounds=3, steps=2)
    each = 2 * 8 + 1
    np.testing.assert_array_equal(result.history["bytes_up"], np.arange(4) * CLIENTS * 2 * each)
    np.testing.assert_array_equal(result.history["bytes_down"], np.arange(4) * CLIENTS * 2 * 8 * DIM)


def test_fednova_sends_its_number_of_steps_as_it_is():
    problem = problem_of(logistic_data(0))
    result = ud.run(ud.compressed(ud.fednova(eta=0.05), up=KEEP), problem, rounds=1, steps=UNEQUAL)
    assert result.history["bytes_up"][-1] == CLIENTS * (2 * 8 + 1 + 4)


def test_one_exchange_of_several():
    data = logistic_data(0)
    by_wrapper = ud.compressed(ud.fedlin(eta=0.05), up=ud.top_k(3), exchange="gradient")
    built_in = ud.fedlin(eta=0.05, up=ud.top_k(3))
    a, b = (ud.run(m, problem_of(data), rounds=ROUNDS, steps=UNEQUAL) for m in (by_wrapper, built_in))
    np.testing.assert_allclose(a.x, b.x, rtol=1e-12)
    np.testing.assert_array_equal(a.history["bytes_up"], b.history["bytes_up"])


def test_names_say_what_is_compressed():
    method = ud.compressed(ud.fedavg(eta=0.1), up=ud.top_k(2), down=ud.quantise(3))
    assert str(method) == "fedavg(eta=0.1, server_eta=1) + up top_k(2), down quantise(3)"
    assert method.with_numbers(eta=0.2).numbers["eta"] == 0.2
