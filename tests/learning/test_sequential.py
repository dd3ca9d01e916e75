"""Clients in turn: sequential FL on the SSL paper's quadratics, and the two ways of partial participation."""

from __future__ import annotations

import numpy as np
import pytest

import undrift as ud
from everyday import only

STEP_SIZES = [0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 0.6]  # figure 4's grid
CURVATURES = {"moderate": (1.0, 1.0), "extreme": (4 / 3, 2 / 3), "degenerate": (2.0, 0.0)}


def group(curvature: str, tilt: float) -> ud.problems.Problem:
    """F_1 + F_2 with mean ½x²: groups 1–3 (moderate), 4–6 (extreme), 7–9 (degenerate), tilt 1, 10 or 100."""
    a_1, a_2 = CURVATURES[curvature]
    return ud.problems.quadratic(np.array([[[a_1]], [[a_2]]]), np.array([[-tilt], [tilt]]))


def best_distance(factory: object, problem: ud.problems.Problem) -> float:
    """The smallest distance to x* = 0 over the grid of step sizes, averaged over seeds and the last rounds."""
    sweep = ud.sweep(
        factory, problem, grid={"eta": STEP_SIZES}, seeds=5, rounds=500, steps=10, x0=np.array([1.0])
    )  # fmt: skip
    distance = np.sqrt(sweep.history["sq_distance"][:, :, -50:]).mean(axis=(1, 2))
    return float(np.min(np.where(np.isfinite(distance), distance, np.inf)))


@pytest.mark.parametrize("tilt", only([1.0, 10.0, 100.0], {10.0}))
@pytest.mark.parametrize("curvature", list(CURVATURES))
def test_who_wins_in_which_group(curvature: str, tilt: float) -> None:
    problem = group(curvature, tilt)
    fedavg, sequential = best_distance(ud.fedavg, problem), best_distance(ud.sequential_fl, problem)
    if curvature == "moderate":
        assert fedavg < 0.1 * sequential
    else:
        assert sequential < fedavg


def test_sequential_fl_equals_the_naive_loop() -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(4, 6, 3))
    b = rng.normal(size=(4, 6))
    problem = ud.problems.least_squares(A, b)
    plan = ud.plan.Plan(4, ud.plan.uniform(4), [1, 2, 3, 4], 0.0, 9).draw(1, 30)
    assert plan.ids is not None
    x = np.zeros(3)
    for ids, steps in zip(plan.ids, plan.steps, strict=True):
        assert sorted(ids.tolist()) == [0, 1, 2, 3]
        for i, tau in zip(ids, steps, strict=True):
            for _ in range(tau):
                x = x - 0.01 * A[i].T @ (A[i] @ x - b[i])
    result = ud.run(ud.sequential_fl(eta=0.01), problem, rounds=30, steps=[1, 2, 3, 4], seed=9)
    np.testing.assert_allclose(result.x, x, rtol=1e-9)


def test_one_permutation_is_spread_over_rounds() -> None:
    plan = ud.plan.Plan(12, ud.plan.permuted(3), 1, 0.0, 4)
    ids = plan.draw(1, 8).ids
    assert ids is not None
    assert sorted(ids[:4].ravel().tolist()) == list(range(12))
    assert sorted(ids[4:].ravel().tolist()) == list(range(12))
    assert ids[:4].tolist() != ids[4:].tolist()


def test_a_cohort_that_does_not_divide_the_clients_is_refused() -> None:
    with pytest.raises(ud.InputError, match="must divide 10"):
        ud.plan.Plan(10, ud.plan.permuted(3), 1, 0.0, 0)
