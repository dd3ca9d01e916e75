"""Methods that must coincide: different code paths, the same iterates."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import CLIENTS, DIM, UNEQUAL, WEIGHTS, least_squares_data, logistic_data, problem_of, quadratic_data
from references import full_gradient

import undrift as ud


def path(method, problem, **arguments):
    return ud.run(method, problem, keep_iterates=True, **{"rounds": 30, "steps": 4, **arguments}).iterates


def same(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


def test_averaging_methods_coincide_where_they_should():
    problem = problem_of(logistic_data())
    fedavg = path(ud.fedavg(eta=0.05), problem)
    same(path(ud.fedprox(eta=0.05, beta=0.0), problem), fedavg)
    same(path(ud.fednova(eta=0.05), problem), fedavg)
    same(path(ud.fedsgd(eta=0.05), problem), path(ud.fedavg(eta=0.05), problem, steps=1))
    assert np.abs(path(ud.fednova(eta=0.05), problem, steps=UNEQUAL) - fedavg).max() > 1e-3


def test_top_d_is_no_compression():
    problem = problem_of(quadratic_data(1))
    plain = path(ud.fedlin(eta=0.05), problem, steps=UNEQUAL)
    method = ud.fedlin(eta=0.05, up=ud.top_k(DIM), down=ud.top_k(DIM, memory=False))
    same(path(method, problem, steps=UNEQUAL), plain)


def test_top_d_is_no_compression_even_if_nobody_answers_in_round_1():
    problem = problem_of(quadratic_data(1))
    arguments = {"steps": 2, "failures": 0.7, "rounds": 10}
    draws = {s: ud.plan.Plan(CLIENTS, ud.plan.full(), 2, 0.7, s).draw(1, 2).answered.any(axis=1) for s in range(200)}
    seed = next(s for s, (first, second) in draws.items() if second and not first)
    plain = path(ud.fedlin(eta=0.05), problem, seed=seed, **arguments)
    same(path(ud.fedlin(eta=0.05, down=ud.top_k(DIM)), problem, seed=seed, **arguments), plain)


def test_compressed_with_top_d_is_the_method_itself():
    problem = problem_of(logistic_data(1))
    wrapped = ud.compressed(ud.scaffold(eta=0.05), up=ud.top_k(DIM), down=ud.top_k(DIM))
    same(path(wrapped, problem), path(ud.scaffold(eta=0.05), problem))


def test_fedlin_with_one_client_is_gradient_descent():
    data = quadratic_data(2)
    alone = ud.problems.quadratic(data.A[:1], data.b[:1])
    # With one client g = ∇f(x), so the local direction is ∇f(y) and the step η̄/τ.
    same(path(ud.fedlin(eta=0.4), alone, steps=4), path(ud.gd(eta=0.1), alone, steps=4))


def test_fedlin_on_equal_clients_is_gradient_descent_with_more_steps():
    data, tau, rounds = logistic_data(3), 4, 10
    twins = ud.problems.logistic(np.repeat(data.A[:1], 3, axis=0), np.repeat(data.b[:1], 3, axis=0), l2=0.1)
    fedlin = path(ud.fedlin(eta=0.05 * tau), twins, steps=tau, rounds=rounds)
    same(fedlin, path(ud.gd(eta=0.05), twins, steps=1, rounds=tau * rounds)[::tau])


@pytest.mark.parametrize(
    ("method", "data"),
    [
        (ud.fedprox(eta=0.05, beta=0.5), quadratic_data(4)),
        (ud.fedlin(eta=0.05), least_squares_data(4)),
        (ud.fedsplit(s=0.3, inner_steps=4, inner_eta=0.05), quadratic_data(4)),
        (ud.gd(eta=0.05), least_squares_data(4)),
    ],
    ids=["fedprox", "fedlin", "fedsplit", "gd"],
)
def test_the_closed_form_of_local_steps_changes_nothing(method, data):
    arguments = {"steps": UNEQUAL, "rounds": 20}
    fast, slow = (path(method, problem_of(data, spectral=s), **arguments) for s in (True, False))
    same(fast, slow, tolerance=1e-11)


def test_fedsplit_with_many_inner_steps_reaches_the_exact_prox():
    problem = problem_of(quadratic_data(5))
    exact = path(ud.fedsplit(s=0.3), problem, rounds=10)
    same(path(ud.fedsplit(s=0.3, inner_steps=2000, inner_eta=0.1), problem, rounds=10), exact)


def test_equal_weights_are_the_default():
    data = quadratic_data(6)
    unweighted = ud.problems.quadratic(data.A, data.b)
    same(path(ud.fedlin(eta=0.05), unweighted), path(ud.fedlin(eta=0.05), problem_of(data)))
    assert unweighted.clients == CLIENTS


def test_mimelite_without_momentum_is_fedavg_and_mime_is_fedlin():
    for problem in (problem_of(logistic_data(2)), problem_of(quadratic_data(2, WEIGHTS))):
        same(
            path(ud.mimelite(eta=0.05, beta=0.0), problem, steps=UNEQUAL),
            path(ud.fedavg(eta=0.05), problem, steps=UNEQUAL),
        )
        # FedLin's clients step with η̄/τ
        same(path(ud.mimelite(eta=0.05, beta=0.0, correction=True), problem), path(ud.fedlin(eta=0.2), problem))


def test_mime_with_one_local_step_is_gradient_descent_with_momentum():
    data, eta, beta = logistic_data(2, WEIGHTS), 0.1, 0.8
    x, s, expected = np.zeros(DIM), np.zeros(DIM), [np.zeros(DIM)]
    for _ in range(30):
        s = (1 - beta) * sum(w * full_gradient(data, i, x) for i, w in enumerate(data.weights)) + beta * s
        x = x - eta * s
        expected.append(x)
    for correction in (False, True):
        method = ud.mimelite(eta=eta, beta=beta, correction=correction)
        same(path(method, problem_of(data), steps=1), np.stack(expected))


def test_fedexp_is_fedavg_where_clients_agree_or_epsilon_is_large():
    problem, data = problem_of(logistic_data(1)), logistic_data(3)
    fedavg = path(ud.fedavg(eta=0.05), problem)
    same(path(ud.fedexp(eta=0.05, epsilon=1e9), problem), fedavg)
    assert np.abs(path(ud.fedexp(eta=0.05), problem) - fedavg).max() > 1e-3
    twins = ud.problems.logistic(np.repeat(data.A[:1], 3, axis=0), np.repeat(data.b[:1], 3, axis=0), l2=0.1)
    same(path(ud.fedexp(eta=0.05, epsilon=0.0), twins), path(ud.fedavg(eta=0.05), twins))


def test_feddyn_with_one_local_step_is_gradient_descent():
    problem = problem_of(logistic_data(2, WEIGHTS))
    same(path(ud.feddyn(eta=0.05, alpha=10.0), problem, steps=1), path(ud.fedsgd(eta=0.1), problem))
