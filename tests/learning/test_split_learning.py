"""Split dialogues equal local steps on the uncut model, wherever the cut is."""

from __future__ import annotations

import numpy as np
import optax
import pytest

import undrift as ud

CLIENTS = 3
UNEQUAL = [1, 3, 2]
CUTS = range(len(ud.models.lenet5().layers) + 1)


def decayed_sgd(eta: float) -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(1e-2), optax.sgd(eta))


def lenet_problem(dtype: str, cut: int | None, batch: int = 2) -> ud.problems.Problem:
    rng = np.random.default_rng(5)
    images = rng.uniform(size=(12, 16, 16, 1)).astype(dtype)
    labels = rng.integers(0, 10, 12)
    model = ud.models.lenet5(input=(16, 16, 1), dtype=dtype)
    parts = [np.arange(0, 3), np.arange(3, 8), np.arange(8, 12)]
    return ud.problems.network(model, (images, labels), parts, batch=batch, cut=cut)


def play(method: ud.Method, problem: ud.problems.Problem, **arguments: object) -> ud.Result:
    return ud.run(method, problem, rounds=2, seed=3, **{"steps": UNEQUAL, **arguments})


@pytest.fixture(scope="module")
def uncut() -> dict[tuple[str, str], np.ndarray]:
    """Models of FedAvg and sequential FL on the uncut LeNet-5."""
    found = {}
    for dtype in ("float32", "float64"):
        problem = lenet_problem(dtype, None)
        found["fedavg", dtype] = play(ud.fedavg(eta=0.1, solver=decayed_sgd), problem).x
        found["sequential_fl", dtype] = play(ud.sequential_fl(eta=0.1, solver=decayed_sgd), problem).x
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-10)])
@pytest.mark.parametrize("cut", CUTS)
def test_sflv1_is_fedavg_and_ssl_is_sequential_fl_at_every_cut(
    cut: int, dtype: str, tolerance: float, uncut: dict[tuple[str, str], np.ndarray]
) -> None:
    problem = lenet_problem(dtype, cut)
    parallel = play(ud.sflv1(eta=0.1, solver=decayed_sgd), problem).x
    in_turn = play(ud.ssl(eta=0.1, solver=decayed_sgd), problem).x
    assert parallel.dtype == dtype
    np.testing.assert_allclose(parallel, uncut["fedavg", dtype], rtol=0, atol=tolerance)
    np.testing.assert_allclose(in_turn, uncut["sequential_fl", dtype], rtol=0, atol=tolerance)
    assert np.abs(parallel - in_turn).max() > 1e-4  # the two are not the same method
