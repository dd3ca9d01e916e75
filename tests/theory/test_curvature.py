"""Lanczos iteration against dense Hessians."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from undrift.theory import curvature


def small_network(model):
    d = ud.data.load("digits")
    pooled = d.train.x.reshape(len(d.train.y), 4, 2, 4, 2, -1).mean(axis=(2, 4))  # 4×4 pixels
    parts = ud.data.exdir(d.train.y, clients=3, classes=4, alpha=10.0, seed=0)
    parts = [np.asarray(part)[:60] for part in parts]
    return ud.problems.network(model, (pooled.astype(np.float32), d.train.y), parts)


@pytest.mark.parametrize(
    "model",
    [ud.models.mlp((6,), input=(4, 4, 1)), ud.models.softmax_regression(input=(4, 4, 1))],
    ids=["mlp", "softmax"],
)
def test_networks_against_dense_hessians(model):
    p = small_network(model)
    assert p.dim <= 400
    x = p.initial(0)
    hessian = jax.jit(lambda x, i: jax.jacfwd(p.client(jax.tree.map(lambda leaf: leaf[i], p.stack)).gradient)(x))
    cost = 0
    for client in range(p.clients):
        dense = np.asarray(hessian(jnp.asarray(x), client), np.float64)
        values = np.linalg.eigvalsh((dense + dense.T) / 2)
        found = curvature.of_client(p, x, client)
        scale = np.max(np.abs(values))
        assert abs(found.largest - values[-1]) <= 1e-4 * scale
        assert abs(found.smallest - values[0]) <= 1e-4 * scale
        assert found.error_largest <= 1e-4 * scale
        cost += found.products
    assert cost < p.clients * p.dim  # fewer products than the dense Hessian has columns


@pytest.mark.slow
def test_constants_of_a_network_are_measured_along_its_path():
    p = small_network(ud.models.softmax_regression(input=(4, 4, 1)))
    path = np.stack([p.initial(seed) for seed in range(3)])
    c = ud.theory.constants(p, path=path, curvature_points=2)
    single = max(curvature.of_client(p, x, i).magnitude for x in (path[0], path[-1]) for i in range(3))
    assert float(c.L) == pytest.approx(single, rel=1e-12)
    assert c.L.how == "measured"
    assert "Lanczos" in c.L.where
    assert c.gradients > 2 * 3 * 2  # products are counted
    assert c.sigma_sq > 0  # of the mini-batches that are the network's default
    assert c.L_mean <= c.L * (1 + 1e-5)


def test_both_ends_of_random_spectra():
    rng = np.random.default_rng(0)
    for dim in (1, 2, 30, 200):
        B = rng.normal(size=(dim, dim))
        M = B + B.T
        values = np.linalg.eigvalsh(M)
        found = curvature.lanczos(lambda v, M=M: M @ v, dim, tolerance=1e-8)
        np.testing.assert_allclose([found.largest, found.smallest], values[[-1, 0]], rtol=1e-7)
        assert found.products <= dim


def test_the_residual_bounds_the_error_when_stopped_early():
    values = np.concatenate([np.linspace(0, 1, 500), [1.01]])
    found = curvature.lanczos(lambda v: values * v, len(values), most=8)
    nearest = np.min(np.abs(values - found.largest))
    assert nearest <= found.error_largest
    assert found.products == 8


def test_the_mean_and_matrices_of_low_rank():
    p = ud.problems.quadratic(np.array([np.diag([4.0, 0.0, 0.0]), np.diag([0.0, 2.0, 0.0])]), np.zeros((2, 3)))
    mean = curvature.of_mean(p, np.zeros(3))
    np.testing.assert_allclose([mean.largest, mean.smallest], [2.0, 0.0], atol=1e-12)


def test_what_is_not_finite_is_refused():
    with pytest.raises(ud.InputError, match="not finite"):
        curvature.lanczos(lambda v: v * np.nan, 3)
