"""Every method of the library on a small problem, as a federation that the tests of this room play."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optax
from chaos import Federation

import undrift as ud
from undrift.models.layers import Dense, Flatten
from undrift.models.model import Model

ROUNDS, SEED = 5, 3


@functools.cache
def logistic(dtype: str = "float64") -> ud.problems.Problem:
    rng = np.random.default_rng(1)
    A = rng.normal(size=(4, 6, 3)).astype(dtype)
    return ud.problems.logistic(A, np.where(rng.normal(size=(4, 6)) > 0, 1, -1), l2=0.1, weights=(0.4, 0.3, 0.2, 0.1))


@functools.cache
def least_squares() -> ud.problems.Problem:
    rng = np.random.default_rng(2)
    sizes = (4, 3, 5, 4)
    return ud.problems.least_squares([rng.normal(size=(n, 3)) for n in sizes], [rng.normal(size=n) for n in sizes])


@functools.cache
def network(dtype: str = "float64") -> ud.problems.Problem:
    rng = np.random.default_rng(3)
    layers = (Flatten(images=True), Dense("one", 2, relu=True), Dense("two", 1, relu=False))
    model = Model("tiny", layers, (2,), dtype=dtype)
    data = rng.normal(size=(12, 2)).astype(dtype), rng.normal(size=12).astype(dtype)
    parts = np.split(np.arange(12), 3)
    return ud.problems.network(model, data, parts, loss="squared", batch=2, cut=2, train_sample=None)


class Case(NamedTuple):
    """A run; `tolerance`: to the simulation."""

    method: Callable[[], Any]
    problem: Callable[[], ud.problems.Problem]
    arguments: dict[str, Any]
    tolerance: float = 1e-12


UNEQUAL = {"steps": (1, 3, 2, 4)}
COHORTS = {"steps": 2, "participation": ud.plan.uniform(2)}
HARD = {"steps": ud.plan.random_steps(1, 3), "participation": ud.plan.uniform(3), "failures": 0.3}
BOTH_WAYS = {"up": ud.top_k(2), "down": ud.top_k(2)}

CASES: dict[str, Case] = {
    "fedsgd": Case(lambda: ud.fedsgd(eta=0.1), least_squares, {}),
    "ef21": Case(lambda: ud.ef21(eta=0.05, up=ud.top_k(1)), logistic, HARD),
    "fedavg": Case(lambda: ud.fedavg(eta=0.05), logistic, HARD),
    "fedavg, Adam at the server": Case(lambda: ud.fedavg(eta=0.05, server=optax.adam(0.1)), logistic, UNEQUAL),
    "fedprox": Case(lambda: ud.fedprox(eta=0.05, beta=0.5), least_squares, UNEQUAL),
    "fednova": Case(lambda: ud.fednova(eta=0.05), logistic, HARD),
    "fedsplit": Case(lambda: ud.fedsplit(s=0.3, inner_steps=3, inner_eta=0.05), least_squares, {}),
    "scaffold, cohorts": Case(lambda: ud.scaffold(eta=0.05), logistic, COHORTS),
    "scaffold, minibatches": Case(
        lambda: ud.scaffold(eta=0.05), least_squares, {**HARD, "oracle": ud.oracles.minibatch(2)}
    ),
    "scaffnew": Case(lambda: ud.scaffnew(eta=0.05, p=0.4), logistic, {}),
    "scaffnew, cohorts": Case(
        lambda: ud.scaffnew(eta=0.05, p=0.4), least_squares, {"participation": ud.plan.uniform(3), "failures": 0.3}
    ),
    "feddyn": Case(lambda: ud.feddyn(eta=0.05, alpha=1.0), logistic, HARD),
    "fedexp": Case(lambda: ud.fedexp(eta=0.05, average=True), logistic, HARD),
    "mimelite": Case(lambda: ud.mimelite(eta=0.05), least_squares, {**HARD, "oracle": ud.oracles.minibatch(2)}),
    "mime": Case(lambda: ud.mimelite(eta=0.05, correction=True), logistic, COHORTS),
    "fedlin": Case(lambda: ud.fedlin(eta=0.05, **BOTH_WAYS), logistic, UNEQUAL),
    "fedlin, hard": Case(lambda: ud.fedlin(eta=0.05, up=ud.random_k(2), down=ud.quantise(3)), least_squares, HARD),
    "fedlin, 32 bits": Case(lambda: ud.fedlin(eta=0.05, **BOTH_WAYS), lambda: logistic("float32"), UNEQUAL, 1e-6),
    "fedlin, table": Case(
        lambda: ud.fedlin(eta=0.05, table=True, up=ud.top_k(1, memory="difference")), least_squares, HARD
    ),
    "fedlin, one exchange": Case(
        lambda: ud.fedlin(eta=0.05, table=True, exchanges=1, up_model=ud.random_k(2)), logistic, HARD
    ),
    "fedlin, models": Case(
        lambda: ud.fedlin(eta=0.05, up_model=ud.top_k(2), down_model=ud.top_k(1, memory="difference")),
        logistic,
        UNEQUAL,
    ),
    "fedtrack": Case(lambda: ud.fedtrack(eta=0.02, order="uniform"), least_squares, UNEQUAL),
    "fedavg, compressed": Case(
        lambda: ud.compressed(ud.fedavg(eta=0.05), up=ud.top_k(2), down=ud.top_k(2)), logistic, HARD
    ),
    "sequential_fl": Case(lambda: ud.sequential_fl(eta=0.05, server_eta=0.8), logistic, {"steps": 2}),
    "sequential_fl, corrected": Case(lambda: ud.sequential_fl(eta=0.05, corrected=True), logistic, HARD),
    "ssl, central": Case(lambda: ud.ssl(eta=0.05), network, {"steps": 3}),
    "ssl, peer": Case(lambda: ud.ssl(eta=0.05, mode="peer"), network, {"steps": 3}),
    "ssl, corrected": Case(lambda: ud.ssl(eta=0.05, mode="peer", corrected=True), network, {"steps": 3}),
    "sflv1": Case(lambda: ud.sflv1(eta=0.05), network, {"steps": 3}),
    "sflv2": Case(lambda: ud.sflv2(eta=0.05), lambda: network("float32"), {"steps": 3}, 1e-6),
    "gd": Case(lambda: ud.gd(eta=0.1), least_squares, {}),
    "sgd": Case(lambda: ud.sgd(eta=0.05, batch=2), least_squares, {}),
    "iag": Case(lambda: ud.iag(eta=0.02), least_squares, {}),
}


@functools.cache
def federation(name: str) -> Federation:
    case = CASES[name]
    return Federation(case.method(), case.problem(), rounds=ROUNDS, seed=SEED, **case.arguments)


@functools.cache
def simulated(name: str) -> ud.Result:
    return federation(name).simulated()


@functools.cache
def passed(name: str) -> ud.Result:
    """By message passing without any trouble."""
    return federation(name).passed()


def equal(one: ud.Result, other: ud.Result, tolerance: float) -> None:
    """The model, and everything that was recorded; costs to the byte."""
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=tolerance)
    assert set(one.history) == set(other.history)
    for name, column in other.history.items():
        exact = name.startswith("bytes") or name.endswith("gradients")
        np.testing.assert_allclose(
            one.history[name],
            column,
            rtol=0 if exact else 1e3 * tolerance,
            atol=0 if exact else tolerance,
            err_msg=name,
        )
    assert (one.rounds, one.stopped) == (other.rounds, other.stopped)


def same_bits(one: ud.Result, other: ud.Result) -> None:
    """Not one bit differs."""
    np.testing.assert_array_equal(one.x, other.x)
    for name, column in other.history.items():
        np.testing.assert_array_equal(one.history[name], column, err_msg=name)
