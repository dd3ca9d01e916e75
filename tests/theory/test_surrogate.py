"""FedAvg, FedProx and FedNova end at the minimiser of their surrogate (FedLin, Propositions 1 and 2)."""

from __future__ import annotations

import numpy as np
import pytest
from test_round_map import instance

import undrift as ud
from everyday import share
from undrift.theory import round_map, surrogate

INSTANCES = 200
SIMULATED = 40  # of them, per method; each until it has settled


def cases():
    """Unequal τ_i up to 60, ill and well conditioned, near and far minimisers, equal and unequal weights."""
    rng = np.random.default_rng(11)
    for k in range(INSTANCES):
        largest = float(10 ** rng.uniform(0, 2))
        p, x0 = instance(100 + k, 4, 5, largest, largest / rng.uniform(2, 50), rng.uniform(0.1, 10), bool(k % 2))
        steps = rng.integers(1, 61, 4)
        yield k, p, x0, steps, float(rng.uniform(0.02, 0.9)) / largest, float(rng.uniform(0, largest))


METHODS = {
    "fedavg": (
        lambda p, eta, steps, beta: surrogate.fedavg(p, eta, steps),
        lambda eta, beta: ud.fedavg(eta=eta),
    ),
    "fedprox": (
        lambda p, eta, steps, beta: surrogate.fedprox(p, eta, steps, beta),
        lambda eta, beta: ud.fedprox(eta=eta, beta=beta),
    ),
    "fednova": (
        lambda p, eta, steps, beta: surrogate.fednova(p, eta, steps),
        lambda eta, beta: ud.fednova(eta=eta),
    ),
}


@pytest.mark.parametrize("name", share(METHODS, 0))
def test_limit_of_the_run_is_the_minimiser_of_the_surrogate(name):
    predicted, method = METHODS[name]
    settled = simulated = 0
    for _, p, x0, steps, eta, beta in cases():
        if name == "fedprox":
            eta = eta / 2  # η(L + β) < 2 with β ≤ L
        found = predicted(p, eta, steps, beta)
        # It is the minimiser: of the surrogate as printed, built here straight from its sum.
        K, k = printed(p, eta, steps, beta if name == "fedprox" else 0.0, name == "fednova")
        np.testing.assert_allclose(K @ found.x, k, atol=1e-9 * np.abs(k).max())
        assert np.isclose(found.rate, np.abs(np.linalg.eigvals(np.eye(5) - eta * K)).max(), rtol=1e-8)
        if not found.settles:
            continue
        settled += 1
        rounds = int(np.ceil(np.log(1e-12) / np.log(max(found.rate, 1e-3))))
        if simulated < SIMULATED and rounds <= 1500:
            run = ud.run(method(eta, beta), p, rounds=rounds, steps=steps, x0=x0)
            scale = np.abs(found.x).max()
            np.testing.assert_allclose(run.x, found.x, rtol=0, atol=1e-8 * scale)
            assert np.isclose(run.history["gap"][-1], found.gap, rtol=1e-6, atol=1e-12 * p.value(x0))
            simulated += 1
    assert settled >= 150
    assert simulated == SIMULATED


def printed(p, eta, steps, beta, normalised):
    """K and k of (3) and (5), by the sum over ℓ."""
    A, b = np.asarray(p.stack["hessian"]), np.asarray(p.stack["linear"])
    weights = np.asarray(p.weights)
    tau_eff = weights @ steps
    K, k = np.zeros((5, 5)), np.zeros(5)
    for w, H, c, tau in zip(weights, A, b, steps, strict=True):
        power, total = np.eye(5), np.zeros((5, 5))
        for _ in range(tau):
            total += power
            power = power @ (np.eye(5) - eta * (H + beta * np.eye(5)))
        scale = w * (tau_eff / tau if normalised else 1.0)
        K, k = K + scale * total @ H, k + scale * total @ c
    return K, k


def test_wrong_point_is_seen_as_wrong():
    """The limits differ from x*, so that the test above could not pass with x* in place of the surrogate."""
    far = 0
    for k, p, _, steps, eta, _ in cases():
        found = surrogate.fedavg(p, eta, steps)
        far += found.distance > 1e-4 * np.linalg.norm(p.optimum.x)
        assert np.isclose(found.gap, p.value(found.x) - p.optimum.value, rtol=1e-5, atol=1e-9 * abs(p.optimum.value))
        if k == 40:
            break
    assert far >= 35


def test_small_steps_and_equal_minimisers_leave_no_error():
    p, _ = instance(3, weighted=False)
    distances = [surrogate.fednova(p, eta, [3, 7, 1, 12]).distance for eta in (1e-3, 1e-4, 1e-5)]
    assert distances[0] > 8 * distances[1] > 60 * distances[2]  # of first order in η
    same = ud.problems.quadratic(np.asarray(p.stack["hessian"]), np.asarray(p.stack["hessian"]) @ np.ones(5))
    assert surrogate.fedavg(same, 0.05, [3, 7, 1, 12]).distance < 1e-12


def test_fedavg_with_unequal_steps_is_inconsistent_even_for_tiny_steps():
    p, _ = instance(3, weighted=False)
    few, many = (surrogate.fedavg(p, eta, [1, 1, 1, 20]).distance for eta in (1e-7, 1e-8))
    assert few > 0.1
    assert np.isclose(few, many, rtol=1e-3)
    assert surrogate.fednova(p, 1e-8, [1, 1, 1, 20]).distance < 1e-4


def test_surrogate_and_round_map_agree():
    p, _ = instance(5)
    for made, whole in ((surrogate.fedavg, round_map.fedavg), (surrogate.fednova, round_map.fednova)):
        found = made(p, 0.03, [3, 7, 1, 12])
        np.testing.assert_allclose(found.x, whole(p, 0.03, [3, 7, 1, 12]).fixed_point, rtol=1e-9)
    assert surrogate.fedavg(p, 1.0, 50).rate > 1
    assert not surrogate.fedavg(p, 1.0, 50).settles


def test_bad_numbers_are_refused():
    p, _ = instance()
    with pytest.raises(ud.InputError, match="eta must be a finite number > 0"):
        surrogate.fedavg(p, 0.0, 3)
    with pytest.raises(ud.InputError, match="beta must be a finite number ≥ 0"):
        surrogate.fedprox(p, 0.1, 3, -1.0)
