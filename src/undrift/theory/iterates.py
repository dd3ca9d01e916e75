"""The points that theorems speak of, made from the iterates that a run has kept."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from ..oracles import Full, Oracle
from ..problems.base import Problem
from .bound import Bound
from .constants import gaps_at

REPLAY_TOLERANCE = 1e-6  # how far a replayed round may end from the kept one, relative to the largest move


def running_means(iterates: np.ndarray) -> np.ndarray:
    """(1/T) Σ_{t<T} x_t for T = 1, 2, …; one row fewer than there are iterates (…, rounds + 1, d).

    >>> running_means(np.array([[1.0], [3.0], [5.0]])).ravel()
    array([1., 2.])
    """
    counts = np.arange(1, iterates.shape[-2])[:, None]
    return np.cumsum(np.asarray(iterates[..., :-1, :], np.float64), axis=-2) / counts


def weighted_means(iterates: np.ndarray, weights: Any) -> np.ndarray:
    """Σ_{r≤R} w_r x_r / W_R for R = 0, 1, … along (…, rounds + 1, d).

    weights(R) gives the weights of x_0 … x_R, summing to one. They grow geometrically (or not at all), so
    x̄_R = (1 − θ_R) x̄_{R−1} + θ_R x_R with θ_R = w_R/W_R.

    >>> weighted_means(np.array([[1.0], [3.0], [5.0]]), lambda R: np.full(R + 1, 1 / (R + 1))).ravel()
    array([1., 2., 3.])
    """
    means = np.array(iterates, np.float64)
    share = weights(means.shape[-2] - 1)
    total = np.cumsum(share)
    for r in range(1, len(share)):
        # At long runs the first weights underflow to zero, and so does what they weigh.
        part = share[r] / total[r] if total[r] > 0 else 1.0
        means[..., r, :] = means[..., r - 1, :] + part * (means[..., r, :] - means[..., r - 1, :])
    return means


class LocalPaths(NamedTuple):
    """Where clients go: x_i^{t,k} for every round t, client i and local step k = 1 … τ."""

    points: np.ndarray  # (rounds, m, τ, d)
    shadow: np.ndarray  # (rounds, τ, d): the mean over clients


def local_points(run: Any, problem: Problem, eta: float, steps: int, oracle: Oracle | None = None) -> LocalPaths:
    """FedAvg's local steps, replayed from the kept iterates with the run's own randomness.

    The run must be `ud.fedavg(eta=eta)` with τ = `steps` at every client, full participation and `keep_iterates=True`. Every
    replayed round is compared with the iterate that the run kept; another step size or oracle is refused.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedavg(eta=0.1), p, rounds=3, steps=4, keep_iterates=True)
    >>> paths = local_points(r, p, eta=0.1, steps=4)
    >>> paths.points.shape, bool(np.allclose(paths.shadow[:, -1], r.iterates[1:]))
    ((3, 2, 4, 1), True)
    """
    oracle = oracle or Full()
    iterates = kept(run)
    if str(oracle) != run.setting["oracle"]:
        raise InputError(f"the run asked {run.setting['oracle']} for gradients, the replay {oracle}: pass oracle=…")
    with precision.scope(problem.dtype):
        start, step = jnp.asarray(iterates[:-1]), jnp.asarray(eta, problem.dtype)
        points = np.asarray(_replay(problem, oracle, int(steps), start, jax.random.key(run.setting["seed"]), step))
    shadow = np.einsum("i,tikd->tkd", np.asarray(problem.weights, np.float64), points)
    wide = np.max(np.abs(shadow[:, -1] - iterates[1:]))
    if not wide <= REPLAY_TOLERANCE * max(float(np.max(np.abs(iterates))), np.finfo(float).tiny):
        raise InputError(
            f"the replayed local steps end {wide:.3g} away from the iterates of the run: it was not FedAvg with η = {eta:g}, "
            f"τ = {steps} and full participation"
        )
    return LocalPaths(points, shadow)


@partial(jax.jit, static_argnums=(1, 2))
def _replay(problem: Any, oracle: Oracle, steps: int, starts: jax.Array, seed: jax.Array, eta: jax.Array) -> jax.Array:
    from ..engine.interpret import LOCAL, exchange_key  # theory knows no engine, but keys are made there

    def client(x: jax.Array, key: jax.Array, i: jax.Array) -> jax.Array:
        loss = problem.loss_of(i)
        own = jax.random.fold_in(key, i)

        def step(y: jax.Array, k: jax.Array) -> tuple[jax.Array, jax.Array]:
            y = y - eta * oracle.gradient(loss, y, own, k)
            return y, y

        return jax.lax.scan(step, x, jnp.arange(steps))[1]

    def one_round(given: tuple[jax.Array, jax.Array]) -> jax.Array:
        x, t = given
        key = exchange_key(seed, t, LOCAL, 0)
        return jax.vmap(lambda i: client(x, key, i))(jnp.arange(problem.clients))

    return jax.lax.map(one_round, (starts, 1 + jnp.arange(starts.shape[0])))


def shadow_gaps(run: Any, problem: Problem, bound: Bound, oracle: Oracle | None) -> np.ndarray:
    """(1/(τT)) Σ_{t<T} Σ_{k≤τ} f(x̄^{t,k}) − f* for T = 1, 2, …"""
    assert bound.steps is not None
    paths = local_points(run, problem, float(bound.numbers["eta"]), bound.steps, oracle)
    rounds, tau, dim = paths.shadow.shape
    gaps = gaps_at(problem, paths.shadow.reshape(-1, dim)).reshape(rounds, tau).mean(axis=1)
    return np.cumsum(gaps) / np.arange(1, rounds + 1)


def kept(run: Any) -> np.ndarray:
    """The iterates of a run that kept them."""
    if run.iterates is None:
        raise InputError("this theorem speaks of averaged iterates: run with keep_iterates=True")
    return np.asarray(run.iterates)
