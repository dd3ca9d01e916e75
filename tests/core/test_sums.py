"""Sums over clients are accurate to a few units in the last place, whatever their number."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from undrift import precision, sums
from undrift.engine.parts import Parts
from undrift.protocol import Cohort

MILLION = 1_000_000
UNITS = 8  # in the last place of Σ|w_i v_i|


def off(found: Any, weights: np.ndarray, rows: np.ndarray) -> float:
    """The error of Σ w_i v_i in units in the last place of Σ|w_i v_i|, the worst entry; the truth comes from exact sums."""
    found, dtype = np.atleast_1d(np.asarray(found)), np.asarray(found).dtype
    assert dtype == rows.dtype
    products = (weights.astype(np.longdouble)[:, None] * rows.reshape(len(rows), -1)).astype(np.float64)
    worst = 0.0
    for value, column in zip(found.ravel(), products.T, strict=True):
        unit = np.spacing(np.asarray(math.fsum(np.abs(column)), dtype))
        worst = max(worst, abs(float(value) - math.fsum(column)) / float(unit))
    return worst


def summands(kind: str, m: int, dtype: Any) -> np.ndarray:
    rng = np.random.default_rng(m)
    made = {
        "equal": lambda: np.full((m, 1), 0.1),
        "uniform": lambda: rng.uniform(0.5, 1.5, (m, 2)),
        "signed": lambda: rng.normal(size=(m, 2)),
        "cancelling": lambda: (1e6 * np.where(np.arange(m) % 2, 1.0, -1.0) + rng.random(m))[:, None],
        "falling": lambda: (1.0 / (1 + np.arange(m)))[:, None],
        "one large": lambda: np.where(np.arange(m) == 0, 1e7, 1.0)[:, None],
    }
    return made[kind]().astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [1, 16, 17, 1000, 40_001])
@pytest.mark.parametrize("kind", ["equal", "uniform", "signed", "cancelling", "falling", "one large"])
def test_weighted_sums(kind, m, dtype):
    rows, weights = summands(kind, m, dtype), np.full(m, 1 / m, dtype)
    with precision.scope(dtype):
        assert off(jax.jit(sums.weighted)(weights, rows), weights, rows) <= UNITS
        assert off(jax.jit(sums.total)(rows), np.ones(m, dtype), rows) <= UNITS
    assert off(sums.weighted_on_host(weights, rows).astype(dtype), weights, rows) <= UNITS


@pytest.mark.parametrize("kind", ["equal", "uniform"])
def test_a_million_summands(kind):
    rows, weights = summands(kind, MILLION, np.float32), np.full(MILLION, 1 / MILLION, np.float32)
    assert off(jax.jit(sums.weighted)(weights, rows), weights, rows) <= UNITS
    assert off(sums.weighted_on_host(weights, rows).astype(np.float32), weights, rows) <= UNITS


def cohort(m: int, **fields: Any) -> Cohort:
    weights = np.random.default_rng(1).uniform(0.5, 1.5, m)
    weights = (weights / weights.sum()).astype(np.float32)
    given = {"importance": None, "answered": None, **fields}
    return Cohort(jnp.arange(m), jnp.ones(m, jnp.int32), jnp.asarray(weights), key=jax.random.key(0), **given)


def test_means_of_a_cohort():
    m = 60_000
    rng = np.random.default_rng(2)
    rows, answered = rng.normal(size=(m, 2)).astype(np.float32) + 1, rng.random(m) < 0.5
    everyone, some = cohort(m), cohort(m, answered=jnp.asarray(answered))
    weights = np.asarray(everyone.weights)
    assert off(jax.jit(everyone.average)(rows), weights / weights.sum(dtype=np.float64), rows) <= UNITS
    heard = np.where(answered, weights, 0).astype(np.float64)
    assert off(jax.jit(some.average)(rows), heard / heard.sum(), rows) <= UNITS
    importance = (m * weights).astype(np.float32)
    counted = cohort(m, importance=jnp.asarray(importance))
    assert off(jax.jit(counted.mean)(rows), importance.astype(np.float64) / m, rows) <= UNITS


@pytest.fixture(scope="module")
def million() -> tuple[Any, np.ndarray, np.ndarray]:
    """f_i(x) = ½ a_i x² − b_i x in float32."""
    rng = np.random.default_rng(0)
    a, b = (rng.uniform(0.5, 1.5, MILLION).astype(np.float32) for _ in range(2))
    return ud.problems.quadratic(a[:, None, None], b[:, None]), a.astype(np.float64), b.astype(np.float64)


def units(found: Any, truth: float) -> float:
    return abs(float(found) - truth) / float(np.spacing(np.float32(abs(truth))))


@pytest.mark.slow
def test_a_run_with_a_million_clients(million):
    problem, a, b = million
    result = ud.run(ud.fedsgd(eta=0.5), problem, rounds=2, x0=[0.25], keep_iterates=True)
    mean_a, mean_b = math.fsum(a) / MILLION, math.fsum(b) / MILLION
    x = 0.25
    for t in range(3):
        assert units(result.iterates[t, 0], x) <= UNITS
        x = float(result.iterates[t, 0])
        assert units(result.history["loss"][t], 0.5 * mean_a * x * x - mean_b * x) <= UNITS
        assert abs(result.history["grad_norm"][t] - abs(mean_a * x - mean_b)) <= UNITS * np.spacing(np.float32(mean_b))
        x -= 0.5 * (mean_a * x - mean_b)
    best = mean_b / mean_a
    assert units(problem.optimum.x[0], best) <= UNITS
    assert units(problem.optimum.value, -0.5 * mean_b * best) <= UNITS
    assert units(problem.value([1.0]), 0.5 * mean_a - mean_b) <= UNITS
    assert abs(problem.gradient([0.0])[0] + mean_b) <= UNITS * np.spacing(np.float32(mean_b))


@pytest.mark.slow
def test_equal_clients_have_the_loss_of_one():
    """What was recorded as −0.49992: the mean Hessian of a million clients was summed up in single precision."""
    problem = ud.problems.quadratic(np.ones((MILLION, 1, 1), np.float32), np.ones((MILLION, 1), np.float32))
    history = ud.run(ud.fedsgd(eta=1.0), problem, rounds=1).history
    assert units(history["loss"][-1], -0.5) <= UNITS
    assert abs(problem.optimum.x[0] - 1) <= UNITS * np.finfo(np.float32).eps


def test_spread_and_drift_of_many():
    m = 60_000
    rng = np.random.default_rng(3)
    b = rng.uniform(0.5, 1.5, m).astype(np.float32)
    problem = ud.problems.quadratic(np.ones((m, 1, 1), np.float32), b[:, None])
    result = ud.run(ud.fedavg(eta=0.5), problem, rounds=1, steps=2, x0=[1.0])
    losses = (0.5 - b).astype(np.float64)
    mean = math.fsum(losses) / m
    spread = math.sqrt(math.fsum((losses - mean) ** 2) / m)
    assert units(result.history["loss_spread"][0], spread) <= 2 * UNITS
    ends = 1 - 0.75 * (1 - b.astype(np.float64))  # two steps of size ½ towards b
    drift = math.fsum(np.abs(ends - math.fsum(ends) / m)) / m
    assert abs(result.history["drift"][1] - drift) <= UNITS * np.spacing(np.float32(1))


def test_the_servers_sum_in_message_passing():
    m = 20_000
    rng = np.random.default_rng(4)
    b = rng.uniform(0.5, 1.5, (m, 1)).astype(np.float32)
    problem = ud.problems.quadratic(np.ones((m, 1, 1), np.float32), b)
    parts = Parts(ud.describe(ud.fedsgd(eta=1.0), problem, rounds=1).contract)
    with precision.scope("float32"):
        ids, ones = np.arange(m, dtype=np.int32), np.ones(m, np.int32)
        x, _, _ = parts.receive(0)(jnp.zeros(1), (), (), jnp.asarray(-b), ids, ones, 1, 0)
    assert off(x, np.full(m, 1 / m), b) <= UNITS


SCRIPT = """
import numpy as np, undrift as ud
ud.use_devices(2)
m = 20_000
b = np.random.default_rng(4).uniform(0.5, 1.5, (m, 1)).astype(np.float32)
problem = ud.problems.custom(lambda x, t: 0.5 * ((x - t) ** 2).sum(), b, dim=1)
print(repr(float(ud.run(ud.fedsgd(eta=1.0), problem, rounds=1).history["grad_norm"][0])))
"""


def test_two_devices():
    told = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=300)
    b = np.random.default_rng(4).uniform(0.5, 1.5, (20_000, 1)).astype(np.float32)
    assert units(float(told.stdout.split()[-1]), math.fsum(b.astype(np.float64).ravel()) / len(b)) <= UNITS
