"""Simulation equals message passing: iterates, histories, and bytes that really travelled."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import CASES, PARTIAL, UNEQUAL, WEIGHTS, logistic_data, problem_of, told

import undrift as ud
from everyday import only, share

ROUNDS = 4


def agree(method, problem, **arguments):
    arguments = told(method, **{"rounds": ROUNDS, "seed": 3, "keep_iterates": True, **arguments})
    simulated, passed = ud.run(method, problem, **arguments), ud.loopback(method, problem, **arguments)
    np.testing.assert_allclose(passed.iterates, simulated.iterates, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(passed.x, passed.iterates[-1])
    assert set(passed.history) == set(simulated.history)
    for name, column in simulated.history.items():
        exact = name.startswith("bytes") or name.endswith("gradients")
        np.testing.assert_allclose(
            passed.history[name], column, rtol=0 if exact else 1e-8, atol=0 if exact else 1e-10, err_msg=name
        )
    assert passed.rounds == simulated.rounds == arguments["rounds"]
    assert passed.setting == simulated.setting


OTHERS = ["fedlin", "fedlin compressed", "fedtrack", "scaffnew", "gd", "sgd", "iag"]


@pytest.mark.parametrize("name", only(OTHERS, {"iag"}))
def test_everyone_in_every_round_where_that_is_another_program(name):
    agree(CASES[name].make(0.05), problem_of(logistic_data(0, WEIGHTS)), steps=UNEQUAL)


FEDERATED = [name for name, case in CASES.items() if case.federated and name in ud.METHODS]


@pytest.mark.parametrize("name", share(FEDERATED, 0, of=2))
def test_every_method_with_partial_participation_and_failures(name):
    agree(CASES[name].make(0.05), problem_of(logistic_data(0, WEIGHTS)), **PARTIAL)


STOCHASTIC = [("fedlin", ud.oracles.noisy(0.3)), ("scaffold", ud.oracles.minibatch(3))]


@pytest.mark.parametrize("played", share(STOCHASTIC, 1, of=2), ids=lambda played: "{}-{}".format(*played))
def test_stochastic_gradients_and_replacement(played):
    name, oracle = played
    replacement = ud.plan.uniform(4, replace=True)
    agree(CASES[name].make(0.05), problem_of(logistic_data(1)), steps=2, oracle=oracle, participation=replacement)


@pytest.mark.slow
def test_random_compressors_draw_the_same_numbers():
    method = ud.fedlin(eta=0.05, up=ud.quantise(3), down=ud.random_k(2))
    agree(method, problem_of(logistic_data(2)), **PARTIAL)


def test_compressed_downlink():
    method = ud.compressed(ud.scaffold(eta=0.05), up=ud.scaled_sign(), down=ud.random_k(3))
    agree(method, problem_of(logistic_data(2)), **PARTIAL)


def test_records_every_second_round():
    agree(ud.fedavg(eta=0.05), problem_of(logistic_data(2)), steps=2, record_every=2)


def test_divergence_is_reported_alike():
    quadratic = ud.problems.quadratic(np.full((2, 1, 1), 1e150), np.ones((2, 1)))
    told = []
    for interpreter in (ud.run, ud.loopback):
        with pytest.raises(ud.DivergenceError) as caught:
            interpreter(ud.fedsgd(eta=1.0), quadratic, rounds=10)
        told.append((caught.value.round, caught.value.client, str(caught.value), caught.value.result.rounds))
    assert told[0] == told[1]


def test_a_cohort_without_weight_leaves_the_server_alone():
    data = logistic_data(2, (0.0, 1.0, 1.0, 1.0, 1.0))
    arguments = {"steps": 2, "participation": ud.plan.uniform(1), "rounds": 12}
    agree(ud.fedavg(eta=0.05), problem_of(data), **arguments)
    ids = ud.plan.Plan(5, arguments["participation"], 2, 0.0, 3).draw(1, 12).ids[:, 0]
    moved = np.any(
        np.diff(
            ud.run(ud.fedavg(eta=0.05), problem_of(data), seed=3, keep_iterates=True, **arguments).iterates, axis=0
        ),
        axis=1,
    )
    assert 0 in ids
    np.testing.assert_array_equal(moved, ids != 0)
