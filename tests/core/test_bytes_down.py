"""What FedLin and FedTrack send, FedLin's arbitrary first direction, FedTrack's random order, global steps in turn."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from twins import both, linear_layers, network_problem

import undrift as ud
from everyday import only
from undrift.algorithms.tracking import component_at
from undrift.local import Local

M, N, DIM, TAU = 3, 4, 5, 3
VECTOR = 8 * DIM
RNG = np.random.default_rng(8)
A, B = RNG.normal(size=(M, N + 3, DIM)), RNG.normal(size=(M, N + 3))
WEIGHTS = np.array([0.5, 0.3, 0.2])


def problem():
    return ud.problems.least_squares(A, B, weights=WEIGHTS)


def slope(i, x):
    return A[i].T @ (A[i] @ x - B[i])


def per_round(column):
    """What the start and every round cost one client."""
    each = np.diff(column, prepend=0) / M
    return each[0], each[1:]


# ----- bytes
TOP = ud.top_k(2)
TOP_BYTES = TOP.wire_size(DIM)
FEDTRACK = ud.fedtrack(eta=0.01)


TWO, WITH_TOP = 2 * VECTOR, VECTOR + TOP_BYTES


@pytest.mark.parametrize(
    ("method", "down", "up"),
    [
        (ud.fedlin(eta=0.02), [TWO, TWO, TWO], TWO),
        (FEDTRACK, [TWO, TWO, TWO], TWO),
        (ud.fedlin(eta=0.02, up=TOP), [TWO, TWO, TWO], WITH_TOP),
        (ud.fedlin(eta=0.02, down=TOP), [TWO, WITH_TOP, WITH_TOP], TWO),  # g_1 is sent as it is
        (ud.compressed(FEDTRACK, down=TOP, exchange="local"), [WITH_TOP, WITH_TOP, WITH_TOP], TWO),
        (ud.compressed(FEDTRACK, up=TOP, exchange="gradient"), [TWO, TWO, TWO], WITH_TOP),
    ],
    ids=["fedlin", "fedtrack", "fedlin up", "fedlin down", "fedtrack down", "fedtrack up"],
)
def test_two_vectors_down_where_nobody_misses_a_round(method, down, up):
    """By message passing, where the bytes that travel are compared with those that are counted."""
    r = ud.loopback(method, problem(), rounds=3, steps=2)
    opening, rounds = per_round(r.history["bytes_down"])
    assert opening == VECTOR
    np.testing.assert_array_equal(rounds, down)
    opening, rounds = per_round(r.history["bytes_up"])
    assert opening == VECTOR
    np.testing.assert_array_equal(rounds, [up] * 3)


@pytest.mark.parametrize("who", [ud.plan.uniform(M), ud.plan.permuted(M)], ids=str)
def test_another_order_of_all_clients_is_full_participation(who):
    r = ud.loopback(ud.fedlin(eta=0.02), problem(), rounds=2, participation=who)
    np.testing.assert_array_equal(per_round(r.history["bytes_down"])[1], [2 * VECTOR] * 2)


@pytest.mark.parametrize(
    ("method", "what"),
    [(ud.fedlin(eta=0.02), "cohorts"), (ud.fedlin(eta=0.02), "failures"), (FEDTRACK, "cohorts by weight")],
    ids=["fedlin cohorts", "fedlin failures", "fedtrack cohorts by weight"],
)
def test_three_vectors_down_where_a_client_may_have_missed_one(method, what):
    """The first of a round's two messages tells (x, g); those that stay silent hear only that one."""
    who = {"cohorts": ud.plan.uniform(2), "cohorts by weight": ud.plan.weighted(M)}.get(what, ud.plan.full())
    failures = 0.4 if what == "failures" else 0.0
    r = ud.loopback(method, problem(), rounds=3, participation=who, failures=failures, seed=1)
    members = who.size(M)
    draw = ud.plan.Plan(M, who.among(WEIGHTS), 1, failures, 1).draw(1, 3)
    answered = np.full(3, members) if draw.answered is None else draw.answered.sum(axis=1)
    assert failures == 0 or answered.min() < members
    cost = np.diff(r.history["bytes_down"])
    np.testing.assert_array_equal(cost, (2 * members + answered) * VECTOR)
    assert r.history["bytes_down"][0] == M * VECTOR


# ----- FedLin's first direction
def fedlin(g, rounds, eta, compressed=None):
    """From the direction g, in NumPy."""
    x, e, found = np.zeros(DIM), np.zeros(DIM), [np.zeros(DIM)]
    for _ in range(rounds):
        ends = []
        for i in range(M):
            y, own = x, slope(i, x)
            for _ in range(TAU):
                y = y - eta / TAU * (slope(i, y) - own + g)
            ends.append(y)
        x = WEIGHTS @ np.stack(ends)
        g = e + WEIGHTS @ np.stack([slope(i, x) for i in range(M)])
        if compressed is not None:
            keep = np.argsort(-np.abs(g), kind="stable")[:compressed]
            sent = np.zeros_like(g)
            sent[keep] = g[keep]
            g, e = sent, g - sent
        found.append(x)
    return np.stack(found)


@pytest.mark.parametrize("down", only([None, ud.top_k(2)], [None]), ids=str)
@pytest.mark.parametrize("kind", [list, np.asarray, jax.numpy.asarray], ids=["list", "NumPy", "JAX"])
def test_the_first_direction_may_be_any(kind, down):
    g_1 = np.arange(DIM) - 1.5
    method = ud.fedlin(eta=0.05, first_direction=kind(g_1), down=down)
    interpreter = both if kind is list else ud.run
    r = interpreter(method, problem(), rounds=3, steps=TAU, keep_iterates=True)
    expected = fedlin(g_1, 3, 0.05, None if down is None else 2)
    np.testing.assert_allclose(r.iterates, expected, rtol=1e-9, atol=1e-12)
    assert r.history["bytes_up"][0] == 0  # nobody was asked
    assert r.history["bytes_down"][0] == M * VECTOR


def test_whatever_the_first_direction_is_it_converges():
    method = ud.fedlin(eta=0.1, first_direction=np.full(DIM, 10.0))
    r = ud.run(method, problem(), rounds=400, steps=TAU)
    np.testing.assert_allclose(r.x, problem().optimum.x, rtol=1e-6)


def test_a_first_direction_of_another_length_is_refused():
    for interpreter in (ud.run, ud.loopback):
        with pytest.raises(ud.InputError, match=r"first_direction must have shape \(d,\)"):
            interpreter(ud.fedlin(eta=0.1, first_direction=[1.0, 2.0]), problem(), rounds=1)


# ----- FedTrack's order
def test_uniform_order_is_decided_by_the_seed():
    method = ud.fedtrack(eta=0.01, order="uniform")
    one, same, other = (ud.run(method, problem(), rounds=2, steps=12, seed=seed).x for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


def test_uniform_order_draws_every_component_independently():
    """All are met, about equally often, and one in five is the same as the one before."""
    key = jax.random.key(3)
    local = Local(None, 1, key, 1, 0, None, key)
    draws = np.asarray(jax.vmap(lambda k: component_at("uniform", k, 5, local))(np.arange(1000)))
    counts = np.bincount(draws, minlength=5)
    assert len(counts) == 5
    assert counts.min() > 140
    assert counts.max() < 260
    again = np.mean(draws[1:] == draws[:-1])
    assert 0.14 < again < 0.26  # 1/5 expected


def test_fedtrack_and_iag_converge_in_uniform_order():
    for method in (ud.fedtrack(eta=0.004, order="uniform"), ud.iag(eta=0.004, order="uniform")):
        r = ud.run(method, problem(), rounds=400, steps=10)
        assert r.history["gap"][-1] < 1e-6 * r.history["gap"][0], method.name


# ----- global steps after turns
def in_turn(server_eta, rounds, seed):
    """In NumPy."""
    ids = ud.plan.Plan(M, ud.plan.uniform(M), 1, 0.0, seed).draw(1, rounds).ids
    x, found = np.zeros(DIM), [np.zeros(DIM)]
    for cohort in ids:
        y = x
        for i in cohort:
            for _ in range(TAU):
                y = y - 0.01 * M * WEIGHTS[i] * slope(i, y)
        x = x + server_eta * (y - x)
        found.append(x)
    return np.stack(found)


def test_sequential_fl_with_a_global_step():
    arguments = {"rounds": 3, "steps": TAU, "seed": 2, "keep_iterates": True}
    r = both(ud.sequential_fl(eta=0.01, server_eta=1.7), problem(), **arguments)
    np.testing.assert_allclose(r.iterates, in_turn(1.7, 3, 2), rtol=1e-9, atol=1e-12)
    one = ud.run(ud.sequential_fl(eta=0.01, server_eta=1.0), problem(), **arguments)
    none = ud.run(ud.sequential_fl(eta=0.01), problem(), **arguments)
    np.testing.assert_allclose(one.iterates, none.iterates, rtol=1e-12, atol=1e-14)
    for name in ("bytes_up", "bytes_down", "gradients"):  # it is the server's own step
        np.testing.assert_array_equal(r.history[name], none.history[name])


@pytest.mark.slow
def test_ssl_with_a_global_step_is_sequential_fl_with_one():
    model, arguments = linear_layers(2, 1), {"rounds": 1, "steps": 2, "seed": 3, "keep_iterates": True}
    cut, uncut = network_problem(model, 2, WEIGHTS), network_problem(model, None, WEIGHTS)
    split = ud.loopback(ud.ssl(eta=0.1, server_eta=0.6), cut, **arguments)
    whole = ud.run(ud.sequential_fl(eta=0.1, server_eta=0.6), uncut, **arguments)
    np.testing.assert_allclose(split.iterates, whole.iterates, rtol=1e-9, atol=1e-12)


def test_a_global_step_is_one_that_the_server_can_take():
    with pytest.raises(ud.InputError, match="mode='central'"):
        ud.ssl(eta=0.1, mode="peer", server_eta=0.5)
    for factory in (ud.ssl, ud.sequential_fl):
        with pytest.raises(ud.InputError, match="server_eta must be a finite number > 0"):
            factory(eta=0.1, server_eta=0.0)


def test_a_global_step_with_failures_and_where_nobody_answers():
    arguments = {"rounds": 6, "steps": 2, "participation": ud.plan.uniform(1), "failures": 0.5, "seed": 4}
    r = both(ud.sequential_fl(eta=0.01, server_eta=0.5), problem(), keep_iterates=True, **arguments)
    answered = ud.plan.Plan(M, ud.plan.uniform(1), 2, 0.5, 4).draw(1, 6).answered[:, 0]
    assert set(answered) == {True, False}
    np.testing.assert_array_equal(np.any(np.diff(r.iterates, axis=0) != 0, axis=1), answered)


@pytest.mark.parametrize("factory", [ud.ssl, ud.sflv1, ud.sflv2], ids=lambda factory: factory.__name__)
def test_there_is_nothing_to_compress_in_a_split_dialogue(factory):
    with pytest.raises(ud.InputError, match="nothing would be compressed"):
        ud.compressed(factory(eta=0.1), up=TOP, exchange="end")
