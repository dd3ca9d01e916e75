"""Split dialogues equal local steps on the uncut model, wherever the cut is."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import optax
import pytest

import undrift as ud
from everyday import only
from undrift.studies.method import StudyMethod
from undrift.studies.solver import solver_from

CLIENTS = 3
UNEQUAL = [1, 3, 2]
PARTS = [np.arange(0, 3), np.arange(3, 8), np.arange(8, 12)]
CUTS = range(len(ud.models.lenet5().layers) + 1)
PAPER_CUT = ud.models.lenet5().paper_cut


def decayed_sgd(eta: float) -> optax.GradientTransformation:
    return optax.chain(optax.add_decayed_weights(1e-2), optax.sgd(eta))


def lenet_problem(dtype: str, cut: int | None, batch: int = 2) -> ud.problems.Problem:
    rng = np.random.default_rng(5)
    images = rng.uniform(size=(12, 16, 16, 1)).astype(dtype)
    labels = rng.integers(0, 10, 12)
    model = ud.models.lenet5(input=(16, 16, 1), dtype=dtype)
    return ud.problems.network(model, (images, labels), PARTS, batch=batch, cut=cut)


def play(method: ud.Method, problem: ud.problems.Problem, **arguments: object) -> ud.Result:
    return ud.run(method, problem, rounds=2, seed=3, **{"steps": UNEQUAL, **arguments})


@functools.cache
def uncut(factory: str, dtype: str, oracle: ud.oracles.Oracle | None = None) -> np.ndarray:
    """The model that FedAvg or sequential FL ends with on the uncut LeNet-5."""
    method = {"fedavg": ud.fedavg, "sequential_fl": ud.sequential_fl}[factory]
    return play(method(eta=0.1, solver=decayed_sgd), lenet_problem(dtype, None), oracle=oracle).x


INDEPENDENT = ud.oracles.minibatch(2, replace=True)  # compiles faster than a walk through shuffled data


@pytest.mark.parametrize("cut", only(CUTS, {PAPER_CUT}))
def test_ssl_is_sequential_fl_at_every_cut(cut: int) -> None:
    in_turn = play(ud.ssl(eta=0.1, solver=decayed_sgd), lenet_problem("float64", cut), oracle=INDEPENDENT).x
    assert in_turn.dtype == np.float64
    np.testing.assert_allclose(in_turn, uncut("sequential_fl", "float64", INDEPENDENT), rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
def test_sflv1_is_fedavg_at_every_cut(cut: int) -> None:
    parallel = play(ud.sflv1(eta=0.1, solver=decayed_sgd), lenet_problem("float64", cut), oracle=INDEPENDENT).x
    np.testing.assert_allclose(parallel, uncut("fedavg", "float64", INDEPENDENT), rtol=0, atol=1e-10)
    assert np.abs(parallel - uncut("sequential_fl", "float64", INDEPENDENT)).max() > 1e-4  # it is not the other method


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("method", "twin"), [(ud.ssl, "sequential_fl"), (ud.sflv1, "fedavg")])
def test_the_same_in_single_precision(method: Any, twin: str, cut: int) -> None:
    """Here with a walk through shuffled data."""
    split = play(method(eta=0.1, solver=decayed_sgd), lenet_problem("float32", cut)).x
    assert split.dtype == np.float32
    np.testing.assert_allclose(split, uncut(twin, "float32"), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_clipping_by_halves_is_what_a_cut_model_does() -> None:
    """SSL clips each half by itself; so does sequential FL on the uncut model with `clip_cut` where the cut is."""
    model = ud.models.mlp((5,), classes=3, input=(6,), dtype="float64")
    boundary = model.split(2)[0].parameter_count
    rng = np.random.default_rng(5)
    data = rng.normal(size=(12, 6)), rng.integers(0, 3, 12)

    def problem(cut: int | None) -> ud.problems.Problem:
        return ud.problems.network(model, data, PARTS, batch=2, cut=cut)

    given = {"oracle": INDEPENDENT}
    cut = play(ud.ssl(eta=0.1, solver=solver_from(clip=0.05)), problem(2), **given).x
    halves, whole = (
        play(ud.sequential_fl(eta=0.1, solver=solver), problem(None), **given).x
        for solver in (solver_from(clip=0.05, clip_cut=boundary), solver_from(clip=0.05))
    )
    np.testing.assert_allclose(halves, cut, rtol=0, atol=1e-10)
    assert np.abs(whole - cut).max() > 1e-4


def test_a_cut_of_clipping_needs_clipping() -> None:
    with pytest.raises(ud.InputError, match="stands beside clip"):
        solver_from(1e-4, clip_cut=10)
    with pytest.raises(ud.InputError, match="clips each half of the model by itself already"):
        StudyMethod.of({"name": "ssl", "eta": 0.1, "clip": 1.0, "clip_cut": 10}).make()
    assert str(solver_from(1e-4, 10, 2572)) == "sgd(weight_decay=0.0001, clip=10, clip_cut=2572)"
