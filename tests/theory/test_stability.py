"""Theorem 5 of FedLin on its own instance, and where it does not hold."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from test_round_map import instance

import undrift as ud
from undrift.theory import stability

GRID = [(L, H) for L in (14.0, 30.0, 1e3) for H in (2, 3, 10, 51)]


@functools.cache
def limit_of(L, H):
    return stability.largest_stable_eta(stability.theorem5_instance(L), H)


@pytest.mark.parametrize("L", [14.0, 100.0])
def test_map_of_the_instance_equals_the_paper_and_the_run(L):
    p = stability.theorem5_instance(L, b=(3.0, -2.0))
    x0 = np.array([0.7, -1.3])
    for H in (2, 3, 10, 40):
        for eta in (0.5 / (L * H), 1.0 / (L * H)):
            found = stability.fedlin_round_map(p, H * eta, H)
            first, second = stability.theorem5_eigenvalues(eta, H, L)
            np.testing.assert_allclose(found.matrix, np.diag([first, second]), atol=1e-12)
            run = ud.run(ud.fedlin(eta=H * eta), p, rounds=30, steps=H, x0=x0, keep_iterates=True)
            np.testing.assert_allclose(found.iterates(x0, 30), run.iterates, rtol=0, atol=1e-10)


def test_stability_limit_lies_below_one_over_H():
    for L, H in GRID:
        limit = limit_of(L, H)
        assert limit / H < 1 / H, (L, H)
        first, second = stability.theorem5_eigenvalues(np.array([0.999, 1.001]) * limit / H, H, L)
        radius = np.maximum(np.abs(first), np.abs(second))
        assert radius[0] < 1 < radius[1], (L, H)


def test_lower_bound_for_every_stable_step_below_the_first_crossing_and_for_odd_H():
    for L, H in GRID:
        p = stability.theorem5_instance(L)
        limit = limit_of(L, H) / H
        for eta in np.concatenate([np.geomspace(1e-3, 0.99, 8) * limit, np.linspace(1, 60, 400) * limit]):
            first, second = stability.theorem5_eigenvalues(eta, H, L)
            stable = max(abs(first), abs(second)) < 1
            if stable and (eta < limit or H % 2 == 1):
                assert eta < 1 / H
                found = stability.fedlin_round_map(p, H * eta, H)
                x = found.iterates(np.array([0.0, 2.5]), 10)
                bound = np.exp(-4.0 * np.arange(11)) * 2.5**2
                assert np.all(np.sum(x**2, axis=1) >= bound * (1 - 1e-12))


def test_theorem_5_fails_for_even_H_in_a_second_interval():
    """Stable steps beyond 1/H exist, and there the error falls faster than the theorem allows."""
    L, H = 14.0, 20
    p = stability.theorem5_instance(L)
    intervals = stability.stable_intervals(p, H)
    assert len(intervals) == 2
    eta_bar = float(np.mean(intervals[1]))
    assert eta_bar / H > 1 / H
    assert stability.fedlin_round_map(p, eta_bar, H).spectral_radius < 1
    run = ud.run(ud.fedlin(eta=eta_bar), p, rounds=400, steps=H, x0=np.array([1.0, 1.0]))
    assert run.history["sq_distance"][-1] < 1e-12  # it settles at x* from everywhere
    run = ud.run(ud.fedlin(eta=eta_bar), p, rounds=3, steps=H, x0=np.array([0.0, 1.0]))
    assert np.all(run.history["sq_distance"][1:] < 0.1 * np.exp(-4.0 * np.arange(1, 4)))
    # The paper's chain of implications breaks where (1 − ηL)^H > (1 − η)^H, that is for η > 2/(L + 1).
    assert eta_bar / H > 2 / (L + 1)


@pytest.mark.parametrize("method", ["fedsgd", "scaffold", "fedlin"])
def test_limit_separates_runs_that_settle_from_runs_that_do_not(method):
    p, x0 = instance(8, weighted=False)
    steps = [3, 7, 1, 12]
    limit = stability.largest_stable_eta(p, steps, method)
    made = ud.METHODS[method]
    below = ud.run(made(eta=0.97 * limit), p, rounds=800, steps=steps, x0=x0)
    above = ud.run(made(eta=1.03 * limit), p, rounds=800, steps=steps, x0=x0, on_divergence="continue")
    assert below.history["loss"][-1] - p.optimum.value < p.value(x0) - p.optimum.value
    assert not above.history["loss"][-1] - p.optimum.value < 1e3 * (p.value(x0) - p.optimum.value)
    if method == "fedsgd":
        assert np.isclose(limit, 2 / np.linalg.eigvalsh(p.shared["hessian"]).max(), rtol=1e-9)


def test_radii_over_a_grid():
    p = stability.theorem5_instance(14.0)
    radii = stability.spectral_radii(p, [0.01, 0.1, 0.3], [2, 10, 30])
    assert radii.shape == (3, 3)
    first, second = stability.theorem5_eigenvalues(0.3 / 30, 30, 14.0)
    assert np.isclose(radii[2, 2], max(abs(first), abs(second)))


def test_refusals():
    with pytest.raises(ud.InputError, match="did you mean"):
        stability.spectral_radii(stability.theorem5_instance(), [0.1], [2], "fedlim")
    with pytest.raises(ud.InputError, match="L ≥ 1"):
        stability.theorem5_instance(0.5)
