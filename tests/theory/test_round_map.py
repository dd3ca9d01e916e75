"""The affine map of a round is what the simulation does, to rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import undrift as ud
from everyday import share
from undrift.theory import round_map
from undrift.theory.quadratics import Quadratics, geometric_sum

STEPS = [3, 7, 1, 12]
ROUNDS = 25


def instance(seed=0, clients=4, dim=5, largest=10.0, smallest=0.5, spread=3.0, weighted=True):
    rng = np.random.default_rng(seed)
    bases, _ = np.linalg.qr(rng.standard_normal((clients, dim, dim)))
    eigenvalues = rng.uniform(smallest, largest, (clients, dim))
    A = (bases * eigenvalues[:, None, :]) @ np.swapaxes(bases, 1, 2)
    A = (A + np.swapaxes(A, 1, 2)) / 2
    centres = rng.standard_normal(dim) + spread * rng.standard_normal((clients, dim))
    weights = rng.uniform(1, 3, clients) if weighted else None
    return ud.problems.quadratic(A, np.einsum("mij,mj->mi", A, centres), weights=weights), rng.standard_normal(dim)


MAPS = {
    "fedsgd": (lambda: ud.fedsgd(eta=0.1), lambda p: round_map.fedsgd(p, 0.1)),
    "gd": (lambda: ud.gd(eta=0.03), lambda p: round_map.gd(p, 0.03, STEPS)),
    "fedavg": (lambda: ud.fedavg(eta=0.02, server_eta=1.3), lambda p: round_map.fedavg(p, 0.02, STEPS, 1.3)),
    "fedprox": (lambda: ud.fedprox(eta=0.02, beta=2.0), lambda p: round_map.fedprox(p, 0.02, STEPS, 2.0)),
    "fednova": (lambda: ud.fednova(eta=0.02), lambda p: round_map.fednova(p, 0.02, STEPS)),
    "fedlin": (lambda: ud.fedlin(eta=0.1), lambda p: round_map.fedlin(p, 0.1, STEPS)),
    "scaffold 2": (lambda: ud.scaffold(eta=0.01), lambda p: round_map.scaffold(p, 0.01, STEPS)),
    "scaffold 1": (
        lambda: ud.scaffold(eta=0.01, option=1, server_eta=0.9),
        lambda p: round_map.scaffold(p, 0.01, STEPS, 1, 0.9),
    ),
    "feddyn": (lambda: ud.feddyn(eta=0.02, alpha=3.0), lambda p: round_map.feddyn(p, 0.02, STEPS, 3.0)),
    "mimelite": (lambda: ud.mimelite(eta=0.02, beta=0.6), lambda p: round_map.mimelite(p, 0.02, STEPS, 0.6)),
    "mime": (
        lambda: ud.mimelite(eta=0.02, beta=0.6, server_eta=0.9, correction=True),
        lambda p: round_map.mimelite(p, 0.02, STEPS, 0.6, 0.9, True),
    ),
    "fedsplit": (lambda: ud.fedsplit(s=0.3), lambda p: round_map.fedsplit(p, 0.3)),
    "fedsplit from the model": (
        lambda: ud.fedsplit(s=0.3, inner_steps=4, inner_eta=0.05, start="model"),
        lambda p: round_map.fedsplit(p, 0.3, 4, 0.05, "model"),
    ),
    "fedsplit from the point": (
        lambda: ud.fedsplit(s=0.3, inner_steps=3, inner_eta=0.05),
        lambda p: round_map.fedsplit(p, 0.3, 3, 0.05),
    ),
}


@pytest.mark.parametrize("name", share(MAPS, 1, of=2))
def test_map_equals_simulation(name):
    method, made = MAPS[name]
    for seed in range(2):
        p, x0 = instance(seed)
        run = ud.run(method(), p, rounds=ROUNDS, steps=STEPS, x0=x0, keep_iterates=True)
        found = made(p)
        scale = np.abs(run.iterates).max()
        np.testing.assert_allclose(found.iterates(x0, ROUNDS), run.iterates, rtol=0, atol=1e-10 * scale)
        gaps = found.predict(x0, ROUNDS)
        np.testing.assert_allclose(gaps, run.history["gap"], rtol=1e-8, atol=1e-10 * gaps[0])
        state = np.random.default_rng(seed).standard_normal(found.size)
        np.testing.assert_allclose(found.step(state), found.matrix @ state + found.offset, rtol=1e-10, atol=1e-10)
        assert np.isclose(found.spectral_radius, np.abs(np.linalg.eigvals(found.matrix)).max(), rtol=1e-9)
        np.testing.assert_allclose(found.step(found.fixed_point), found.fixed_point, atol=1e-9)


@pytest.mark.parametrize("name", MAPS)
def test_predicted_rounds_are_the_first_that_stay_below(name):
    p, x0 = instance(7)
    found = MAPS[name][1](p)
    start = float(Quadratics.of(p).gap(x0))
    rest = float(found.family.gap(found.limit))
    for target in (rest + 0.1 * start, rest + 1e-3 * start, rest + 1e-5 * start):
        rounds = found.rounds_to(target, x0)
        gaps = found.predict(x0, rounds + 300)
        assert np.all(gaps[rounds:] <= target)
        assert rounds == 0 or gaps[rounds - 1] > target
    assert found.rounds_to(start * 1e-3, x0, at_most=0) is None


def test_prediction_far_out_needs_no_recursion():
    p, x0 = instance(1)
    found = round_map.fedlin(p, 1e-5, STEPS)
    start = found.predict(x0, 0)[0]
    rounds = found.rounds_to(1e-6 * start, x0)
    assert rounds > 100_000
    gaps = found.diagonal.gaps([rounds - 1, rounds], x0)
    assert gaps[1] <= 1e-6 * start < gaps[0]


def test_a_floor_above_the_target_is_never_reached():
    p, x0 = instance(2)
    found = round_map.fedavg(p, 0.02, STEPS)
    assert found.rounds_to(0.5 * float(found.family.gap(found.limit)), x0) is None
    assert round_map.fedsgd(p, 10.0).rounds_to(1.0, x0) is None  # and what diverges does not either


def test_sequential_map_in_the_order_of_the_run():
    p, x0 = instance(3)
    run = ud.run(ud.sequential_fl(eta=0.02), p, rounds=ROUNDS, steps=STEPS, x0=x0, keep_iterates=True)
    x, path = x0, [x0]
    for order in ud.plan.uniform(4).cohorts(0, range(1, ROUNDS + 1), 4):
        x = round_map.sequential_fl(p, 0.02, STEPS, order.tolist()).step(x)
        path.append(x)
    np.testing.assert_allclose(path, run.iterates, rtol=0, atol=1e-10 * np.abs(run.iterates).max())


def test_mean_sequential_map_is_the_mean_over_all_orders():
    p, x0 = instance(4)
    orders = list(itertools.permutations(range(4)))
    each = [round_map.sequential_fl(p, 0.02, STEPS, order).step(x0) for order in orders]
    mean = round_map.sequential_fl(p, 0.02, STEPS)
    np.testing.assert_allclose(mean.step(x0), np.mean(each, axis=0), rtol=1e-12)
    np.testing.assert_allclose(mean.step(mean.limit), mean.limit, rtol=1e-10)


def test_least_squares_with_fewer_samples_than_parameters():
    rng = np.random.default_rng(5)
    p = ud.problems.least_squares(rng.standard_normal((3, 4, 6)), rng.standard_normal((3, 4)))
    x0 = rng.standard_normal(6)
    run = ud.run(ud.fedlin(eta=0.1), p, rounds=20, steps=5, x0=x0, keep_iterates=True)
    found = round_map.fedlin(p, 0.1, 5)
    np.testing.assert_allclose(found.iterates(x0, 20), run.iterates, atol=1e-10)


def test_second_order_model_of_logistic_regression():
    rng = np.random.default_rng(6)
    A, y = rng.standard_normal((3, 30, 4)), np.sign(rng.standard_normal((3, 30)))
    p = ud.problems.logistic(A, y, l2=1.0)
    q = Quadratics.at(p)
    x = p.optimum.x
    p_j = 1 / (1 + np.exp(-(A @ x)))
    by_hand = np.einsum("mn,mni,mnj->mij", p_j * (1 - p_j), A, A) + np.eye(4)
    np.testing.assert_allclose(q.hessians, by_hand, rtol=1e-10)
    np.testing.assert_allclose(q.mean(q.gradients(x[:, None]))[:, 0], 0, atol=1e-9)
    near = x + 1e-4 * rng.standard_normal(4)
    assert np.isclose(q.gap(near), p.value(near) - p.optimum.value, rtol=1e-2)


@pytest.mark.parametrize("count", [1, 2, 3, 50, 100])
def test_geometric_sum(count):
    ratio = np.array([-1.3, -1.0, 0.0, 0.5, 1.0, 1 + 1e-13])
    np.testing.assert_allclose(geometric_sum(ratio, count), [np.sum(r ** np.arange(count)) for r in ratio], rtol=1e-12)


def test_refusals_name_the_rule():
    p, _ = instance()
    with pytest.raises(ud.InputError, match="one per client"):
        round_map.fedavg(p, 0.1, [1, 2])
    with pytest.raises(ud.InputError, match="whole numbers ≥ 1"):
        round_map.fedlin(p, 0.1, 0)
    with pytest.raises(ud.InputError, match="every client"):
        round_map.sequential_fl(p, 0.1, 1, [0, 0, 1, 2])
    logistic = ud.problems.logistic(np.ones((1, 2, 1)), np.array([[1.0, -1.0]]), l2=1.0)
    with pytest.raises(ud.InputError, match="constant Hessians"):
        round_map.fedavg(logistic, 0.1)
    with pytest.raises(ud.InputError, match="at most 12 clients"):
        round_map.sequential_fl(instance(0, clients=13)[0], 0.1)
