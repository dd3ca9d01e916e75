"""Virtual seconds of a run: who takes part, who computes how fast, and how fast the links are."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud

DIM, CLIENTS = 3, 6
VECTOR = 8 * DIM
LINK = {"up": 10.0, "down": 20.0, "latency": 0.5}


@pytest.fixture(scope="module")
def problem() -> ud.problems.Problem:
    rng = np.random.default_rng(0)
    return ud.problems.quadratic(np.stack([np.eye(DIM)] * CLIENTS), rng.normal(size=(CLIENTS, DIM)))


def seconds(result: ud.Result) -> np.ndarray:
    """Computing, latency, transfer: what each round took."""
    parts = [result.history[f"seconds_{cause}"] for cause in ("computing", "latency", "transfer")]
    return np.diff(parts, axis=1)


def test_a_round_waits_for_the_slowest_of_its_cohort(problem):
    speeds = 2.0 ** np.arange(CLIENTS)
    means = ud.Resources.of(CLIENTS, speeds, LINK)
    cohorts = np.array([[0, 3], [4, 5], [1, 2], [3, 5]])
    who = ud.plan.rule(lambda round, key: cohorts[round - 1], 2)
    spent = seconds(ud.run(ud.fedavg(eta=0.1), problem, rounds=4, steps=4, participation=who, resources=means))
    assert np.allclose(spent[0], 4 / speeds[cohorts].min(axis=1))
    assert np.allclose(spent[1], 0.5)
    assert np.allclose(spent[2], VECTOR / 10 + VECTOR / 20)
    in_turn = seconds(ud.run(ud.sequential_fl(eta=0.1), problem, rounds=4, steps=4, participation=who, resources=means))
    assert np.allclose(in_turn[0], (4 / speeds[cohorts]).sum(axis=1))
    assert np.allclose(in_turn[1], 2 * 0.5)


def test_silent_clients_compute_nothing(problem):
    means = ud.Resources.of(CLIENTS, 1.0, LINK)
    run = ud.run(ud.fedavg(eta=0.1), problem, rounds=20, steps=3, failures=0.9, seed=1, resources=means)
    computing, latency, transfer = seconds(run)
    silent = np.diff(run.history["gradients"]) == 0
    assert silent.any()
    assert not silent.all()
    assert np.array_equal(computing, np.where(silent, 0.0, 3.0))
    assert np.allclose(latency, 0.5)
    assert np.allclose(transfer, VECTOR / 20 + np.where(silent, 0.0, VECTOR / 10))


def test_a_sweep_and_real_messages_count_the_same(problem):
    means = ud.Resources.of(CLIENTS, "1..100", LINK)
    arguments = {"rounds": 5, "steps": 4, "resources": means}
    alone = ud.run(ud.fedlin(eta=0.1, up=ud.top_k(1)), problem, **arguments)
    sent = ud.loopback(ud.fedlin(eta=0.1, up=ud.top_k(1)), problem, **arguments)
    swept = ud.sweep(lambda eta: ud.fedlin(eta=eta, up=ud.top_k(1)), problem, grid={"eta": [0.1]}, **arguments)
    for cause in ("computing", "latency", "transfer"):
        name = f"seconds_{cause}"
        assert alone.history[name][-1] > 0
        assert np.array_equal(alone.history[name], sent.history[name])
        assert np.array_equal(alone.history[name], swept.history[name][0, 0])


def test_bad_resources_are_refused(problem):
    with pytest.raises(ud.InputError, match="speeds of 2 clients, the problem has 6"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=1, resources=ud.Resources.of(2))
    with pytest.raises(ud.InputError, match=r"ud\.Resources\.of"):
        ud.run(ud.fedavg(eta=0.1), problem, rounds=1, resources=100)
