"""Where the papers say methods end: at the wrong point in closed form, or at x*."""

from __future__ import annotations

import numpy as np
import pytest
from core_cases import CLIENTS, UNEQUAL, quadratic_data

import undrift as ud

pytestmark = pytest.mark.slow  # an account of its own; every day tests/papers and tests/theory hold the same facts


def powers(H, eta, tau):
    """Σ_{ℓ<τ} (I − ηH)^ℓ"""
    step = np.eye(len(H)) - eta * H
    return sum(np.linalg.matrix_power(step, k) for k in range(tau))


def surrogate_minimiser(A, b, eta, steps, beta=0.0, scale=None):
    """argmin Σ_i ½‖(s_i Σ_ℓ [I − η(A_i + βI)]^ℓ A_i)^{1/2}(x − c_i)‖² with A_i c_i = b_i (FedLin, eqs 3 and 5)."""
    scale = np.ones(len(A)) if scale is None else scale
    P = [s * powers(H + beta * np.eye(len(H)), eta, tau) for s, H, tau in zip(scale, A, steps, strict=True)]
    return np.linalg.solve(sum(p @ H for p, H in zip(P, A, strict=True)), sum(p @ c for p, c in zip(P, b, strict=True)))


def test_propositions_1_and_2_on_random_quadratics():
    for seed in range(3):
        check_surrogates(quadratic_data(seed))


def check_surrogates(data):
    problem = ud.problems.quadratic(data.A, data.b)
    eta, tau_eff = 0.5 / problem.constants.L, np.mean(UNEQUAL)
    equal = [4] * CLIENTS
    cases = {
        "fedavg": (ud.fedavg(eta=eta), equal, surrogate_minimiser(data.A, data.b, eta, equal)),
        "fedprox": (ud.fedprox(eta=eta, beta=0.7), equal, surrogate_minimiser(data.A, data.b, eta, equal, beta=0.7)),
        "fednova": (
            ud.fednova(eta=eta),
            UNEQUAL,
            surrogate_minimiser(data.A, data.b, eta, UNEQUAL, scale=tau_eff / np.array(UNEQUAL)),
        ),
    }
    for name, (method, steps, expected) in cases.items():
        x = ud.run(method, problem, rounds=2000, steps=steps).x
        np.testing.assert_allclose(x, expected, rtol=0, atol=1e-8 * np.abs(expected).max(), err_msg=name)
        assert np.linalg.norm(x - problem.optimum.x) > 1e-3, f"{name} must not find x* here"


def test_fedlin_and_scaffold_end_at_the_true_minimiser():
    for seed in range(3):
        check_exactness(quadratic_data(seed))


def check_exactness(data):
    problem = ud.problems.quadratic(data.A, data.b)
    L, scale = problem.constants.L, np.abs(problem.optimum.x).max()
    fedlin = ud.run(ud.fedlin(eta=1 / (2 * L)), problem, rounds=2500, steps=UNEQUAL)
    scaffold = ud.run(ud.scaffold(eta=1 / (10 * L)), problem, rounds=2500, steps=4)
    for result in (fedlin, scaffold):
        assert np.abs(result.x - problem.optimum.x).max() <= 50 * np.finfo(float).eps * scale
        assert result.history["gap"][-1] <= 1e-28 * result.history["gap"][0]


def test_fedlin_contracts_as_theorem_1_promises():
    data = quadratic_data(1)
    problem = ud.problems.quadratic(data.A, data.b)
    result = ud.run(ud.fedlin(eta=1 / (6 * problem.constants.L)), problem, rounds=100, steps=UNEQUAL)
    gap, kappa = result.history["gap"], problem.constants.kappa
    assert np.all(gap[1:] <= (1 - 1 / (6 * kappa)) * gap[:-1] + 1e-28)


def test_figure_1():
    """f_1 = ½(x − 3)², f_2 = (x − 50)²: x* = 103/3 is found by FedLin alone."""
    problem = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    assert problem.optimum.x[0] == pytest.approx(103 / 3, rel=1e-15)
    eta = 0.01
    fedprox = ud.run(ud.fedprox(eta=eta, beta=5.0), problem, rounds=3000, steps=50).x[0]
    fednova = ud.run(ud.fednova(eta=eta), problem, rounds=3000, steps=[50, 30]).x[0]
    fedlin = ud.run(ud.fedlin(eta=0.1), problem, rounds=500, steps=[50, 30])
    equal = ud.run(ud.fedlin(eta=0.1), problem, rounds=500, steps=50)
    assert fedlin.x[0] == pytest.approx(103 / 3, rel=1e-14)
    assert equal.x[0] == pytest.approx(103 / 3, rel=1e-14)
    A, b = np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]])
    assert fedprox == pytest.approx(surrogate_minimiser(A, b, eta, [50, 50], beta=5.0)[0], rel=1e-10)
    expected = surrogate_minimiser(A, b, eta, [50, 30], scale=[40 / 50, 40 / 30])[0]
    assert fednova == pytest.approx(expected, rel=1e-10)
    assert abs(fedprox - 103 / 3) > 0.1
    assert abs(fednova - 103 / 3) > 0.1


@pytest.fixture(scope="module")
def appendix_j():
    L, mu = 1000.0, 1.0
    A = np.array([[[L, 0.0], [0.0, mu]], [[mu, 0.0], [0.0, mu]]])
    problem = ud.problems.quadratic(A, np.array([[1.0, 1.0], [-1.0, 2.0]]))
    s = 1 / np.sqrt(L * mu)
    return problem, s, 2 / (L + mu + 2 / s)


def fedsplit_on(appendix_j, e, start, rounds=1500):
    problem, s, alpha = appendix_j
    method = ud.fedsplit(s=s, inner_steps=e, inner_eta=alpha, start=start)
    return ud.run(method, problem, rounds=rounds, on_divergence="continue", record_every=rounds).history["sq_distance"]


def test_fedsplit_of_appendix_j_diverges_for_odd_e_and_settles_for_even_e(appendix_j):
    for e in (1, 9, 41):  # each e is a program of its own, so not all of them here
        distance = fedsplit_on(appendix_j, e, "prox-point")
        assert not distance[-1] < 1e3 * distance[0], f"e = {e} should diverge"
    for e in (2, 40):
        distance = fedsplit_on(appendix_j, e, "prox-point")
        assert distance[-1] < distance[0], f"e = {e} should settle near x*"


def test_fedsplit_of_appendix_j_for_every_e():
    """All e from 1 to 41 at once, by the linear map of a round: its spectral radius decides."""
    L, mu = 1000.0, 1.0
    s = 1 / np.sqrt(L * mu)
    alpha = 2 / (L + mu + 2 / s)
    for e in range(1, 42):
        assert (_radius(L, mu, s, alpha, e, "prox-point") > 1) == (e % 2 == 1), e
        assert _radius(L, mu, s, alpha, e, "model") < 1, e


def _radius(L, mu, s, alpha, e, start):
    """Of z ↦ z⁺ in the first coordinate (curvatures L and μ), x = mean z, without the constant part."""
    step = np.zeros((2, 2))
    x = np.array([0.5, 0.5])
    for i, curvature in enumerate((L, mu)):
        own = np.eye(2)[i]
        u = 2 * x - own
        r = 1 - alpha * (curvature + 1 / s)
        fixed = u / (1 + s * curvature)
        begin = u if start == "prox-point" else x
        y = fixed + r**e * (begin - fixed)
        step[i] = own + 2 * (y - x)
    return np.max(np.abs(np.linalg.eigvals(step)))


def test_fedsplit_started_at_the_model_finds_the_minimiser(appendix_j):
    for e in (1, 2):
        distance = fedsplit_on(appendix_j, e, "model", rounds=30000)
        assert distance[-1] < 1e-20 * distance[0], f"e = {e}"
