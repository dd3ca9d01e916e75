"""Problems: gradients, minimisers, constants, weights, unequal sizes, the pooled problem."""

from __future__ import annotations

import importlib

import jax.numpy as jnp
import numpy as np
import pytest
from core_cases import (
    CLIENTS,
    DIM,
    WEIGHTS,
    hessians,
    least_squares_data,
    logistic_data,
    problem_of,
    quadratic_data,
    squared_distance,
)

import undrift as ud
from undrift import precision

LOGISTIC = importlib.import_module("undrift.problems.logistic")  # a function has taken its name
W = np.array(WEIGHTS) / np.sum(WEIGHTS)
SIZES = (3, 8, 1, 5, 9)
UNEQUAL_SIZES = ("least squares", "logistic", "custom mean", "custom sum")


def blocks(seed=0):
    """Clients of unequal size."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, DIM)) for n in SIZES], [rng.normal(size=n) for n in SIZES]


def softplus(z):
    return np.logaddexp(0, z)


def logistic_value(A, y, l2, w, x):
    return sum(wi * np.sum(softplus(-yi * (Ai @ x))) for wi, Ai, yi in zip(w, A, y, strict=True)) + l2 / 2 * x @ x


def unequal_problems():
    A, b = blocks()
    y = [np.where(r > 0, 1, -1) for r in b]
    sum_squares = [np.column_stack([Ai, bi]) for Ai, bi in zip(A, b, strict=True)]
    return {
        "least squares": (
            ud.problems.least_squares(A, b, weights=WEIGHTS),
            lambda x: sum(w * 0.5 * np.sum((Ai @ x - bi) ** 2) for w, Ai, bi in zip(W, A, b, strict=True)),
        ),
        "logistic": (ud.problems.logistic(A, y, l2=0.3, weights=WEIGHTS), lambda x: logistic_value(A, y, 0.3, W, x)),
        "custom mean": (
            ud.problems.custom(_sample_loss, sum_squares, DIM, per_sample=True, weights=WEIGHTS),
            lambda x: sum(w * np.mean(0.5 * (Ai @ x - bi) ** 2) for w, Ai, bi in zip(W, A, b, strict=True)),
        ),
        "custom sum": (
            ud.problems.custom(_sample_loss, sum_squares, DIM, per_sample=True, average=False, weights=WEIGHTS),
            lambda x: sum(w * np.sum(0.5 * (Ai @ x - bi) ** 2) for w, Ai, bi in zip(W, A, b, strict=True)),
        ),
    }


def _sample_loss(x, row):
    return 0.5 * (row[:-1] @ x - row[-1]) ** 2


def finite_differences(value, x, h=1e-5):
    return np.array([(value(x + h * e) - value(x - h * e)) / (2 * h) for e in np.eye(len(x))])


@pytest.mark.parametrize("name", UNEQUAL_SIZES)
def test_values_and_gradients_with_unequal_sizes_and_weights(name):
    problem, value = unequal_problems()[name]
    x = np.linspace(-0.5, 1, DIM)
    assert problem.value(x) == pytest.approx(value(x), rel=1e-12)
    np.testing.assert_allclose(problem.gradient(x), finite_differences(value, x), rtol=1e-7, atol=1e-7)
    np.testing.assert_array_equal(problem.sizes, SIZES)
    np.testing.assert_allclose(np.asarray(problem.weights), W, rtol=1e-15)


@pytest.mark.parametrize("name", UNEQUAL_SIZES)
def test_the_pooled_problem_is_the_same_function(name):
    problem, value = unequal_problems()[name]
    pooled, x = problem.pooled(), np.linspace(-0.5, 1, DIM)
    assert pooled.clients == 1
    assert pooled.value(x) == pytest.approx(value(x), rel=1e-12)
    np.testing.assert_allclose(pooled.gradient(x), problem.gradient(x), rtol=1e-12)
    np.testing.assert_array_equal(pooled.sizes, [sum(SIZES)])
    with precision.scope("float64"):
        every = pooled.client({"dummy": jnp.zeros(())}).batch_gradient(jnp.asarray(x), jnp.arange(sum(SIZES)))
    np.testing.assert_allclose(every, problem.gradient(x), rtol=1e-11)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_minimisers_against_scipy(weights):
    A, b = blocks(1)
    y = [np.where(r > 0, 1, -1) for r in b]
    w = np.full(CLIENTS, 1 / CLIENTS) if weights is None else W
    problem = ud.problems.logistic(A, y, l2=0.3, weights=weights)
    import scipy.optimize

    found = scipy.optimize.minimize(lambda x: logistic_value(A, y, 0.3, w, x), np.zeros(DIM), tol=1e-12)
    np.testing.assert_allclose(problem.optimum.x, found.x, atol=1e-6)
    assert problem.optimum.value <= found.fun + 1e-14
    assert np.linalg.norm(problem.gradient(problem.optimum.x)) < 1e-13

    squares = ud.problems.least_squares(A, b, weights=weights)
    root = [np.sqrt(wi) for wi in w]
    stacked = np.concatenate([r * Ai for r, Ai in zip(root, A, strict=True)])
    target = np.concatenate([r * bi for r, bi in zip(root, b, strict=True)])
    x, residual, *_ = np.linalg.lstsq(stacked, target, rcond=None)
    np.testing.assert_allclose(squares.optimum.x, x, rtol=1e-10)
    assert squares.optimum.value == pytest.approx(0.5 * residual[0], rel=1e-10)


def test_quadratic_minimiser_and_constants():
    data = quadratic_data(2, WEIGHTS)
    problem = problem_of(data)
    H, c = np.tensordot(W, data.A, 1), W @ data.b
    np.testing.assert_allclose(problem.optimum.x, np.linalg.solve(H, c), rtol=1e-12)
    assert problem.optimum.value == pytest.approx(-0.5 * c @ np.linalg.solve(H, c), rel=1e-12)
    spectra = np.linalg.eigvalsh(data.A)
    for form in (problem, problem_of(data, spectral=False)):
        constants = form.constants
        np.testing.assert_allclose(constants.L, spectra.max(), rtol=1e-12)
        assert constants.mu == pytest.approx(spectra.min(), rel=1e-12)
        assert constants.kappa == pytest.approx(spectra.max() / spectra.min(), rel=1e-11)
        np.testing.assert_allclose(constants.per_client_L, spectra[:, -1], rtol=1e-12)
        np.testing.assert_allclose(constants.per_client_mu, spectra[:, 0], rtol=1e-12)


def test_singular_and_indefinite_clients():
    """F_1 = x², F_2 = −x: one client alone is unbounded, their mean is not."""
    problem = ud.problems.quadratic(np.array([[[2.0]], [[0.0]]]), np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(problem.optimum.x, [0.5])
    assert (problem.constants.L, problem.constants.mu) == (2.0, 0.0)
    assert problem.constants.kappa == np.inf
    flat = ud.problems.quadratic(np.array([[[1.0, 0], [0, 0]]]), np.array([[3.0, 0.0]]))
    np.testing.assert_allclose(flat.optimum.x, [3.0, 0.0], atol=1e-15)  # the shortest of many
    bent = ud.problems.quadratic(np.array([[[3.0]], [[-1.0]]]), np.array([[1.0], [1.0]]))
    assert (bent.constants.L, bent.constants.mu) == (3.0, -1.0)


@pytest.mark.parametrize("samples", [4, 8])
def test_least_squares_constants_against_dense_eigenvalues(samples):
    data = least_squares_data(1, samples=samples)
    spectra = np.linalg.eigvalsh(np.swapaxes(data.A, 1, 2) @ data.A)
    constants = problem_of(data).constants
    np.testing.assert_allclose(constants.L, spectra.max(), rtol=1e-12)
    assert constants.mu == pytest.approx(max(spectra.min(), 0) if samples >= DIM else 0.0, rel=1e-9)


def test_logistic_constants_against_dense_eigenvalues():
    data = logistic_data(1)
    dense = np.linalg.eigvalsh(np.swapaxes(data.A, 1, 2) @ data.A / 4) + data.l2
    constants = problem_of(data).constants
    np.testing.assert_allclose(constants.L, dense.max(), rtol=1e-12)
    assert constants.mu == data.l2
    np.testing.assert_allclose(constants.per_client_L, dense[:, -1], rtol=1e-12)


def test_custom_problems_per_client():
    rng = np.random.default_rng(3)
    H, c = hessians(rng, 3, 4), rng.normal(size=(3, 4))
    trees = [{"H": Hi, "c": ci} for Hi, ci in zip(H, c, strict=True)]
    x = rng.normal(size=4)
    expected = ud.problems.quadratic(H, c)
    for data in (trees, {"H": H, "c": c}):
        problem = ud.problems.custom(lambda x, d: 0.5 * x @ d["H"] @ x - d["c"] @ x, data, 4)
        assert problem.value(x) == pytest.approx(expected.value(x), rel=1e-13)
        np.testing.assert_allclose(problem.gradient(x), expected.gradient(x), rtol=1e-12)
    pair = ud.problems.custom(lambda x, d: 0.5 * x @ d[0] @ x - d[1] @ x, (H, c), 4)
    assert pair.clients == 3
    assert pair.value(x) == pytest.approx(expected.value(x), rel=1e-13)


def test_a_custom_problem_reports_what_is_known_of_it():
    targets = np.array([[1.0, 2.0], [3.0, 6.0]])
    known = ud.problems.custom(squared_distance, targets, 2, optimum=([2.0, 4.0], 2.5), constants=(1.0, 1.0))
    history = ud.run(ud.fedsgd(eta=0.5), known, rounds=60).history
    assert history["gap"][-1] == pytest.approx(0, abs=1e-15)
    assert history["sq_distance"][-1] < 1e-30
    assert known.constants.kappa == 1
    unknown = ud.run(ud.fedsgd(eta=0.5), ud.problems.custom(squared_distance, targets, 2), rounds=1).history
    assert "gap" not in unknown
    assert "sq_distance" not in unknown


def test_integers_and_narrow_floats():
    assert ud.problems.quadratic([[[2]]], [[3]]).dtype == np.float64
    assert ud.problems.quadratic(np.ones((1, 1, 1), np.float32), np.ones((1, 1), np.float32)).dtype == np.float32
    assert ud.problems.logistic(np.ones((1, 2, 1), np.float32), [[1, -1]]).dtype == np.float32
    assert ud.problems.quadratic([[[2]]], [[3]]).optimum.x[0] == 1.5


def test_the_minimiser_of_a_small_logistic_problem_is_looked_for_unasked():
    problem = problem_of(logistic_data(1))
    history = ud.run(ud.fedavg(eta=0.01), problem, rounds=1).history
    np.testing.assert_allclose(history["gap"], history["loss"] - problem.optimum.value, rtol=1e-12)


@pytest.mark.parametrize("limit", ["UNASKED_COST", "UNASKED_SAMPLES"])
def test_the_minimiser_of_a_large_logistic_problem_is_looked_for_where_it_is_asked_for(limit, monkeypatch):
    monkeypatch.setattr(LOGISTIC, limit, 1)
    problem = problem_of(logistic_data(1))
    method = ud.fedavg(eta=0.01)
    unasked = ud.run(method, problem, rounds=1)
    assert not {"gap", "sq_distance"} & unasked.history.keys()
    with pytest.raises(KeyError, match=r"unknown column 'gap'.*look at problem\.optimum once before the run"):
        unasked.history["gap"]
    stopped = ud.run(method, problem, rounds=1, stop=ud.stop.at(gap=1e9))
    assert stopped.stopped == "gap ≤ 1e+09 in round 0"


def test_the_minimiser_of_a_huge_logistic_problem_is_left_out_unless_the_user_takes_it(monkeypatch):
    monkeypatch.setattr(LOGISTIC, "NEWTON_COST_LIMIT", 1)
    problem = problem_of(logistic_data(1))
    method = ud.fedavg(eta=0.01)
    with pytest.raises(ud.InputError, match="unknown column that a rule can stop at 'gap'"):
        ud.run(method, problem, rounds=1, stop=ud.stop.at(gap=1e9))
    assert np.linalg.norm(problem.gradients(problem.optimum.x).T @ np.asarray(problem.weights)) < 1e-12
    assert "gap" in ud.run(method, problem, rounds=1).history


def test_labels_of_a_problem_of_ones_own_are_kept_without_a_warning():
    data = {"x": np.ones((2, 3, 2), np.float32), "y": np.zeros((2, 3), np.int64)}
    problem = ud.problems.custom(lambda x, own: ((own["x"] @ x - own["y"]) ** 2).sum(), data, dim=2)
    assert problem.dtype == np.float32
