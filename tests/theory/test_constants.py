"""Constants against their definitions, and what they say about themselves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from instances import CLIENTS, DIM, hard_least_squares, hard_quadratic

import undrift as ud
from undrift.theory.constants import line_above


@pytest.fixture(scope="module")
def quadratic():
    return hard_quadratic(np.random.default_rng(0), 100.0)


def gradients(problem, x):
    A, b = np.asarray(problem.stack["hessian"]), np.asarray(problem.stack["linear"])
    return np.einsum("ijk,k->ij", A, x) - b


def test_quadratics_are_exact(quadratic):
    c = ud.theory.constants(quadratic)
    A = np.asarray(quadratic.stack["hessian"])
    mean = np.linalg.eigvalsh(A.mean(axis=0))
    np.testing.assert_allclose([c.L, c.mu], [np.linalg.eigvalsh(A).max(), np.linalg.eigvalsh(A).min()])
    np.testing.assert_allclose([c.L_mean, c.mu_mean, c.pl], [mean[-1], mean[0], mean[0]])
    star = gradients(quadratic, quadratic.optimum.x)
    np.testing.assert_allclose(c.zeta_star_sq, np.mean(np.sum(star**2, axis=1)))
    np.testing.assert_allclose(c.distance, np.linalg.norm(quadratic.optimum.x))
    np.testing.assert_allclose(c.start_gap, quadratic.value(np.zeros(DIM)) - quadratic.optimum.value)
    exact = (
        "L",
        "mu",
        "L_mean",
        "mu_mean",
        "pl",
        "zeta_star_sq",
        "distance",
        "start_gap",
        "sigma_sq",
        "B_sq",
        "C",
        "D",
    )
    assert all(c.quantities[name].how == "exact" for name in exact)
    assert c.zeta.how == "measured"
    assert "from x_0 to x*" in c.zeta.where


def test_exact_dissimilarity_of_quadratics_holds_far_from_any_path():
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = hard_quadratic(rng, 100.0)
        c = ud.theory.constants(p)
        for scale in (1e-2, 1.0, 1e2, 1e6):
            G = gradients(p, p.optimum.x + scale * rng.normal(size=DIM))
            g = G.mean(axis=0)
            assert np.mean(np.sum((G - g) ** 2, axis=1)) <= (c.B_sq * (g @ g) + c.zeta_sq) * (1 + 1e-9)
            assert np.mean(np.sum(G**2, axis=1)) <= (c.C * (g @ g) + c.D) * (1 + 1e-9)


def test_measured_dissimilarity_is_the_largest_along_the_path():
    rng = np.random.default_rng(2)
    A, y = rng.normal(size=(CLIENTS, 8, DIM)), np.sign(rng.normal(size=(CLIENTS, 8)))
    p = ud.problems.logistic(A, y, l2=0.1)
    path = rng.normal(size=(7, DIM))
    c = ud.theory.constants(p, path=path)
    margins = y * np.einsum("ijk,tk->tij", A, path)
    slopes = -y / (1 + np.exp(margins))
    G = np.einsum("tij,ijk->tik", slopes, A) + 0.1 * path[:, None]
    g = G.mean(axis=1)
    off = np.sum((G - g[:, None]) ** 2, axis=2)
    np.testing.assert_allclose(c.zeta, np.sqrt(off.max()))
    assert c.zeta.how == c.B_sq.how == "measured"
    assert "7 iterates" in c.zeta.where
    slack = c.B_sq * np.sum(g**2, axis=1) + c.zeta_sq - off.mean(axis=1)
    assert slack.min() > -1e-9
    assert slack.min() < 1e-9  # and the line touches


def test_line_above_is_the_best_among_many():
    rng = np.random.default_rng(3)
    for _ in range(20):
        x, y = rng.exponential(size=15), rng.exponential(size=15)
        slope, intercept = line_above(x, y)
        assert np.all(slope * x + intercept >= y - 1e-12)
        tried = [(s, max(0.0, np.max(y - s * x))) for s in np.linspace(0, 20, 2001)]
        assert np.sum(slope * x + intercept) <= min(np.sum(s * x + i) for s, i in tried) + 1e-9


def test_variance_of_minibatches_is_the_true_one():
    p = hard_least_squares(np.random.default_rng(4))
    x = np.random.default_rng(5).normal(size=(1, DIM))
    A, b = np.asarray(p.stack["A"]), np.asarray(p.stack["b"])
    rows = (np.einsum("ijk,k->ij", A, x[0]) - b)[..., None] * A
    n = A.shape[1]
    spread = np.sum((rows - rows.mean(axis=1, keepdims=True)) ** 2, axis=(1, 2)) / n
    with_replacement = ud.theory.constants(p, path=x, oracle=ud.oracles.minibatch(2, replace=True)).sigma_sq
    without = ud.theory.constants(p, path=x, oracle=ud.oracles.minibatch(2)).sigma_sq
    np.testing.assert_allclose(with_replacement, np.max(n**2 / 2 * spread))
    np.testing.assert_allclose(without, np.max(n**2 / 2 * (n - 2) / (n - 1) * spread))
    assert without.how == "measured"
    assert ud.theory.constants(p, path=x, oracle=ud.oracles.minibatch(n)).sigma_sq == 0


def test_variance_of_the_other_oracles_is_exact(quadratic):
    assert ud.theory.constants(quadratic).sigma_sq == 0
    noisy = ud.theory.constants(quadratic, oracle=ud.oracles.noisy(0.25)).sigma_sq
    assert (float(noisy), noisy.how) == (0.25, "exact")


def test_equal_hessians_make_zeta_exact():
    p = ud.problems.quadratic(np.stack([np.eye(2)] * 3), np.array([[0.0, 3.0], [3.0, 0.0], [-3.0, -3.0]]))
    c = ud.theory.constants(p)
    assert (c.zeta.how, float(c.B_sq), float(c.zeta_sq)) == ("exact", 0.0, 12.0)
    np.testing.assert_allclose(c.zeta, np.sqrt(18))


def test_least_squares_with_fewer_samples_than_parameters_has_a_pl_constant():
    A = np.random.default_rng(6).normal(size=(2, 2, 6))
    c = ud.theory.constants(ud.problems.least_squares(A, np.ones((2, 2))))
    singular = np.linalg.svd(A.reshape(4, 6) / np.sqrt(2), compute_uv=False)
    np.testing.assert_allclose([c.L_mean, c.pl], [singular[0] ** 2, singular[-1] ** 2])
    assert (float(c.mu), float(c.mu_mean)) == (0.0, 0.0)


def test_custom_problems_say_what_was_given_and_what_was_measured():
    import jax.numpy as jnp

    targets = np.array([[1.0, 2.0], [3.0, 6.0]])

    def loss(x, t):
        return jnp.sum((x - t) ** 2)

    given = ud.theory.constants(ud.problems.custom(loss, targets, dim=2, constants=(2.0, 2.0)))
    assert (float(given.L), given.L.how) == (2.0, "given")
    found = ud.theory.constants(ud.problems.custom(loss, targets, dim=2))
    assert found.L.how == "measured"
    np.testing.assert_allclose([found.L, found.mu], [2.0, 2.0])
    assert found.distance is None
    assert found.zeta_star_sq is None
    with pytest.raises(ud.InputError, match="minimiser"):
        ud.theory.ssl.strongly_convex(found)


def test_the_cost_is_told(quadratic):
    c = ud.theory.constants(quadratic)
    assert c.seconds > 0
    assert c.gradients == 11 * CLIENTS + CLIENTS
    assert "found in" in str(c)
    assert "zeta_star_sq" in c.table()


def test_bad_paths_are_refused(quadratic):
    with pytest.raises(ud.InputError, match=f"d = {DIM}"):
        ud.theory.constants(quadratic, path=np.zeros((3, DIM + 1)))
    with pytest.raises(ud.InputError, match="finite"):
        ud.theory.constants(quadratic, path=np.full((3, DIM), np.nan))


def test_bounds_say_which_constants_were_only_measured(quadratic):
    c = ud.theory.constants(quadratic)
    measured = dataclasses.replace(c, L=ud.theory.measured(2 * c.L, "along 3 iterates"))
    bound = ud.theory.fedlin.strongly_convex(measured)
    assert not bound.holds_here
    assert "measured along 3 iterates" in str(bound.assumptions[0])
