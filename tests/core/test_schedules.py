"""Numbers of a method that change by round, and local solvers that go on across rounds."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from twins import both

import undrift as ud
from undrift.engine.rounds import compilations

A = np.array([1.0, 2.0, 0.5])
B = np.array([3.0, -1.0, 2.0])
WEIGHTS = np.array([0.5, 0.25, 0.25])
TAU = np.array([1, 3, 2])


def problem():
    return ud.problems.quadratic(A[:, None, None], B[:, None], weights=WEIGHTS)


def halving(count):
    return 0.4 * 0.5**count


def warm_up(count):
    """0 in round 1, then up to 0.2."""
    return jnp.minimum(0.1 * count, 0.2)


def slope(i, x):
    return A[i] * x - B[i]


def fedavg(etas, server_etas=(1.0,) * 9, betas=(0.0,) * 9):
    """FedAvg and FedProx with numbers of their own in every round, in NumPy."""
    x, found = 0.0, [0.0]
    for eta, server_eta, beta in zip(etas, server_etas, betas, strict=False):
        moves = []
        for i in range(3):
            y = x
            for _ in range(TAU[i]):
                y = y - eta * (slope(i, y) + beta * (y - x))
            moves.append(y - x)
        x = x + server_eta * WEIGHTS @ moves
        found.append(x)
    return np.array(found)


def test_an_optax_schedule_counts_rounds_from_zero_and_interpreters_agree():
    schedule = optax.exponential_decay(0.4, 2, 0.25)
    r = both(ud.fedavg(eta=schedule), problem(), rounds=4, steps=TAU, keep_iterates=True)
    np.testing.assert_allclose(r.iterates[:, 0], fedavg(0.4 * 0.25 ** (np.arange(4) / 2)), rtol=1e-9)


def test_every_number_of_a_method_may_be_a_schedule():
    method = ud.fedprox(eta=halving, beta=lambda count: 1.0 * count, server_eta=lambda count: 1 / (1 + count))
    r = ud.loopback(method, problem(), rounds=4, steps=TAU, keep_iterates=True)
    rounds = np.arange(4)
    np.testing.assert_allclose(r.iterates[:, 0], fedavg(halving(rounds), 1 / (1 + rounds), 1.0 * rounds), rtol=1e-9)


def test_schedules_and_numbers_can_be_swept():
    server_etas, etas = [0.5, 1.0], {halving: halving(np.arange(4)), 0.1: [0.1] * 4}
    s = ud.sweep(ud.fedavg, problem(), grid={"eta": list(etas), "server_eta": server_etas}, rounds=4, steps=TAU)
    for row, numbers in enumerate(etas.values()):
        for column, server_eta in enumerate(server_etas):
            expected = fedavg(numbers, (server_eta,) * 4)[-1]
            np.testing.assert_allclose(s.x[row, column, 0, 0], expected, rtol=1e-9)
    single = ud.run(ud.fedavg(eta=halving, server_eta=0.5), problem(), rounds=4, steps=TAU)
    np.testing.assert_allclose(s.history["gap"][0, 0, 0], single.history["gap"], rtol=1e-9)


def test_a_schedule_is_compiled_once_however_many_rounds():
    def gentle(count):
        return 0.1 / (1 + count)

    before = compilations["fedsgd"]
    for rounds in (1, 5, 300):
        ud.run(ud.fedsgd(eta=gentle), problem(), rounds=rounds)
    assert compilations["fedsgd"] == before + 1


@pytest.mark.parametrize(
    "method",
    [ud.fedlin(eta=warm_up), ud.sequential_fl(eta=warm_up, server_eta=warm_up)],
    ids=lambda method: method.name,
)
def test_a_warm_up_may_begin_with_steps_of_zero(method):
    """In every interpreter: nothing moves in round 1, and nothing breaks in the others."""
    r = both(method, problem(), rounds=3, steps=TAU, x0=[1.0], keep_iterates=True)
    assert np.all(np.isfinite(r.iterates))
    np.testing.assert_allclose(r.iterates[1], r.iterates[0], rtol=1e-15)
    assert abs(r.iterates[3, 0] - r.iterates[1, 0]) > 1e-3


def test_scaffold_through_a_step_of_zero_against_numpy():
    """A round without steps says nothing about gradients: c_i stay."""
    r = both(ud.scaffold(eta=warm_up), problem(), rounds=4, steps=TAU, keep_iterates=True)
    x, c, c_i, expected = 0.0, 0.0, np.zeros(3), [0.0]
    for eta in (0.0, 0.1, 0.2, 0.2):
        moves, new = np.zeros(3), c_i.copy()
        for i in range(3):
            y = x
            for _ in range(TAU[i]):
                y = y - eta * (slope(i, y) - c_i[i] + c)
            moves[i] = y - x
            new[i] = c_i[i] - c + (x - y) / (TAU[i] * eta) if eta else c_i[i]
        x, c, c_i = x + WEIGHTS @ moves, c + WEIGHTS @ (new - c_i), new
        expected.append(x)
    np.testing.assert_allclose(r.iterates[:, 0], expected, rtol=1e-9, atol=1e-15)


@dataclasses.dataclass
class Unhashable:
    """A schedule that may change its mind."""

    rate: float = 0.1

    def __call__(self, count):
        return self.rate / (count + 1)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        (lambda count: jnp.ones(2) * count, r"returns one number.*\(2,\)"),
        (lambda count: count > 3, "returns one number.*bool"),
        (lambda count: 1j * count, "returns one number.*complex"),
        (lambda count: 0.1 if count > 3 else 0.2, "this one fails"),
        (lambda: 0.1, "this one fails"),
        (lambda count: None, "this one fails|returns one number"),
        (lambda count: {}["rate"], "this one fails.*rate"),
        (Unhashable(), "must be hashable.*frozen=True"),
    ],
    ids=["array", "bool", "complex", "python branch", "no argument", "None", "error", "unhashable"],
)
def test_what_is_not_a_schedule_is_refused_when_the_method_is_made(schedule, said):
    with pytest.raises(ud.InputError, match=said) as caught:
        ud.fedlin(eta=schedule)
    assert "fedlin" in str(caught.value)
    assert "eta" in str(caught.value)


def test_a_function_in_place_of_a_setting_is_no_schedule():
    with pytest.raises(ud.InputError, match="option"):
        ud.scaffold(eta=0.1, option=lambda count: 1)


def test_the_method_shows_its_schedule():
    shown = str(ud.fedavg(eta=optax.exponential_decay(0.1, 10, 0.9)))
    assert shown == "fedavg(server_eta=1, eta=schedule exponential_decay)"
    assert "halving" in str(ud.fedlin(eta=halving))
    r = ud.run(ud.fedsgd(eta=halving), problem(), rounds=1)
    assert "halving" in r.setting["method"]


def test_single_precision_stays_single():
    data = A[:, None, None].astype(np.float32), B[:, None].astype(np.float32)
    schedule = optax.cosine_decay_schedule(0.3, 5)
    for interpreter in (ud.run, ud.loopback):
        r = interpreter(ud.fedsgd(eta=schedule), ud.problems.quadratic(*data), rounds=2)
        assert r.x.dtype == np.float32


@pytest.mark.slow
def test_theorem_4_needs_steps_that_fall_like_one_over_t():
    """FedLin with noise: a constant step stalls at a gap ∝ η̄σ², η̄_t = O(1/t) has a gap that falls like 1/T."""
    noisy = {"oracle": ud.oracles.noisy(4.0), "steps": 2, "rounds": 800}

    def one_over_t(count):
        return 4.0 / (count + 20.0)

    falling = ud.sweep(ud.fedlin, problem(), grid={"eta": [one_over_t]}, seeds=32, **noisy)
    constant = ud.sweep(ud.fedlin, problem(), grid={"eta": [0.2]}, seeds=32, **noisy)

    def gap(s, t):  # seeds averaged, and some rounds around t
        return s.history["gap"][0, :, t // 2 : t + 1].mean()

    assert gap(constant, 800) > 0.5 * gap(constant, 100)  # it stalls
    assert gap(falling, 800) < 0.4 * gap(falling, 100)  # 1/8 would be exact
    assert gap(falling, 800) < 0.2 * gap(constant, 800)


# ----- an Optax solver's own schedule
def by_hand(rates, momentum, answered):
    """FedAvg with SGD whose k-th step of all its life has the size rates(k), in NumPy."""
    x, count, v, found = 0.0, np.zeros(3, int), np.zeros(3), [0.0]
    for t in range(4):
        moves, share = np.zeros(3), np.zeros(3)
        for i in range(3):
            if not answered[t, i]:
                continue
            y = x
            for _ in range(TAU[i]):
                v[i] = momentum * v[i] + slope(i, y)
                y = y - rates(count[i]) * v[i]
                count[i] += 1
            moves[i], share[i] = y - x, WEIGHTS[i]
        x = x + 3 * share @ moves / max(answered[t].sum(), 1)
        found.append(x)
    return np.array(found)


def test_a_local_schedule_goes_on_across_rounds_where_asked():
    """Clients count their own steps: those that stay silent in a round count none."""
    failures = 0.4
    solver = optax.sgd(lambda count: 0.3 * 0.8**count, momentum=0.5)
    arguments = {"rounds": 4, "steps": TAU, "keep_iterates": True, "failures": failures, "seed": 2}
    kept = both(ud.fedavg(eta=1.0, solver=solver, keep_solver=True), problem(), **arguments)
    answered = ud.plan.Plan(3, ud.plan.full(), 1, failures, 2).draw(1, 4).answered
    expected = by_hand(lambda k: 0.3 * 0.8**k, 0.5, answered)
    np.testing.assert_allclose(kept.iterates[:, 0], expected, rtol=1e-9)


def test_without_being_asked_it_starts_afresh_in_every_round():
    solver = optax.sgd(lambda count: 0.3 * 0.8**count)
    r = ud.run(ud.fedavg(eta=1.0, solver=solver), problem(), rounds=1, steps=TAU)
    again = ud.run(ud.fedavg(eta=1.0, solver=solver), problem(), rounds=2, steps=TAU, x0=r.x, keep_iterates=True)
    twice = ud.run(ud.fedavg(eta=1.0, solver=solver), problem(), rounds=2, steps=TAU)
    np.testing.assert_allclose(again.iterates[1], twice.x, rtol=1e-12)
    kept = ud.run(ud.fedavg(eta=1.0, solver=solver, keep_solver=True), problem(), rounds=2, steps=TAU)
    assert abs(kept.x[0] - twice.x[0]) > 1e-3


@pytest.mark.parametrize("factory", [ud.fedavg, ud.fednova, ud.sequential_fl], ids=lambda f: f.__name__)
def test_keeping_no_solver_is_refused(factory):
    with pytest.raises(ud.InputError, match="keep_solver=True needs a solver"):
        factory(eta=0.1, keep_solver=True)


def test_a_solver_made_from_a_scheduled_eta():
    """`solver=optax.sgd` is called with the η of the round."""
    r = ud.run(ud.fedavg(eta=halving, solver=optax.sgd), problem(), rounds=3, steps=TAU, keep_iterates=True)
    np.testing.assert_allclose(r.iterates[:, 0], fedavg(halving(np.arange(3))), rtol=1e-9)
