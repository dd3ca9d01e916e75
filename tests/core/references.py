"""Every method once more, as naive NumPy: about ten lines each, one client after the other.

A reference steps through the same random choices as the library: the plan's public draw says who takes part and answers with
how many steps, and the keys of an exchange say which noise, batch or coordinate is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from core_cases import Data

import undrift as ud
from undrift.compression import RandomK, ScaledSign, TopK
from undrift.engine.interpret import exchange_key

Vector = np.ndarray


class World:
    """Clients' gradients, weights and the plan, for a reference to walk through."""

    def __init__(self, data: Data, plan: ud.plan.Plan, rounds: int, oracle: Any = None, x0: Any = None) -> None:
        self.data, self.plan, self.oracle, self.seed = data, plan, oracle, plan.seed
        self.x0 = np.zeros(data.A.shape[-1]) if x0 is None else np.asarray(x0)
        self.m, self.w = len(data.weights), data.weights
        draw = plan.draw(1, rounds)
        ids = np.tile(np.arange(self.m), (rounds, 1)) if draw.ids is None else draw.ids
        there = np.ones(ids.shape, bool) if draw.answered is None else draw.answered
        self.rounds = [
            (t + 1, list(zip(ids[t][there[t]], draw.steps[t][there[t]], strict=True))) for t in range(rounds)
        ]

    def key(self, t: int, exchange: str, client: int | None = None) -> jax.Array:
        return _key(self.seed, t, exchange, client)

    def full(self, i: int, x: Vector) -> Vector:
        return full_gradient(self.data, i, x)

    def G(self, i: int, x: Vector, t: int, exchange: str, step: int) -> Vector:
        """The oracle's answer."""
        if self.oracle is None:
            return self.full(i, x)
        key = self.key(t, exchange, i)
        if isinstance(self.oracle, ud.oracles.Noisy):
            return self.full(i, x) + np.sqrt(self.oracle.variance / x.size) * np.asarray(_noise(key, step, x.size))
        n = len(self.data.b[i])
        batch = np.asarray(_batch(self.oracle, n, key, step))
        sample = self.data._replace(A={i: self.data.A[i][batch]}, b={i: self.data.b[i][batch]}, l2=0.0)
        return n / len(batch) * full_gradient(sample, i, x) + self.data.l2 * x

    def mean(self, cohort: list[tuple[int, int]], rows: list[Any], around: Any = 0.0) -> Any:
        """m·w_i/|S| each: unbiased, but the shares of a cohort do not sum to one; models are averaged around x."""
        if self.plan.renormalise:  # everyone is there
            return self.average(cohort, rows)
        total = around
        for (i, _), row in zip(cohort, rows, strict=True):
            total = total + self.m * self.w[i] / len(cohort) * (row - around)
        return total

    def average(self, cohort: list[tuple[int, int]], numbers: list[Any]) -> Any:
        share = np.array([self.w[i] for i, _ in cohort])
        return share / share.sum() @ np.stack(numbers)


@partial(jax.jit, static_argnums=2)
def _key(seed: Any, t: Any, exchange: str, client: Any) -> jax.Array:
    key = exchange_key(jax.random.key(seed), t, exchange, 0)
    return key if client is None else jax.random.fold_in(key, client)


@partial(jax.jit, static_argnums=(0, 1))
def _batch(oracle: Any, n: int, key: jax.Array, step: Any) -> jax.Array:
    return oracle.indices(n, key, step)


def _noise(key: jax.Array, step: int, dim: int) -> jax.Array:
    with jax.enable_x64(True):
        return jax.random.normal(jax.random.fold_in(key, step), (dim,), np.float64)


def full_gradient(data: Data, i: int, x: Vector) -> Vector:
    A, b = data.A[i], data.b[i]
    if data.kind == "quadratic":
        return A @ x - b
    if data.kind == "least_squares":
        return A.T @ (A @ x - b)
    return -A.T @ (b / (1 + np.exp(b * (A @ x)))) + data.l2 * x


def iterates(reference: Iterator[Vector], x0: Vector) -> np.ndarray:
    return np.stack([x0, *reference])


def fedsgd(w: World, eta: float) -> Iterator[Vector]:
    x = w.x0
    for t, cohort in w.rounds:
        if cohort:
            x = x - eta * w.mean(cohort, [w.G(i, x, t, "gradient", 0) for i, _ in cohort])
        yield x


def ef21(w: World, eta: float, up: Any) -> Iterator[Vector]:
    x, h = w.x0, np.zeros((w.m, w.x0.size))
    for t, cohort in w.rounds:
        for i in {i for i, _ in cohort}:
            h[i], _ = transmit(up, h[i], w.G(i, x, t, "gradient", 0), partial(w.key, t, "gradient", i))
        if cohort:
            x = x - eta * (w.w @ h)
        yield x


def fedavg(w: World, eta: float, beta: float = 0.0, server_eta: float = 1.0, momentum: float = 0.0) -> Iterator[Vector]:
    x = w.x0
    for t, cohort in w.rounds:
        moves = []
        for i, tau in cohort:
            y, v = x, np.zeros_like(x)
            for k in range(tau):
                v = momentum * v + w.G(i, y, t, "local", k) + beta * (y - x)
                y = y - eta * v
            moves.append(y - x)
        if cohort:
            x = x + server_eta * w.mean(cohort, moves)
        yield x


def fedadam(
    w: World, eta: float, rate: float, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Iterator[Vector]:
    """FedAvg with Adam at the server."""
    x, m, v, count = w.x0, 0.0, 0.0, 0
    for t, cohort in w.rounds:
        if cohort:
            alone = fedavg(_one_round(w, x, t, cohort), eta)
            g, count = x - next(alone), count + 1
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
            x = x - rate * (m / (1 - b1**count)) / (np.sqrt(v / (1 - b2**count)) + eps)
        yield x


def _one_round(w: World, x: Vector, t: int, cohort: list[Any]) -> World:
    alone = object.__new__(World)
    alone.__dict__.update(w.__dict__, x0=x, rounds=[(t, cohort)])
    return alone


def fednova(w: World, eta: float) -> Iterator[Vector]:
    x = w.x0
    for t, cohort in w.rounds:
        gradients = []
        for i, tau in cohort:
            y, total = x, np.zeros_like(x)
            for k in range(tau):
                g = w.G(i, y, t, "local", k)
                y, total = y - eta * g, total + g
            gradients.append(total / tau)
        if cohort:
            effective = w.average(cohort, [np.float64(tau) for _, tau in cohort])
            x = x - eta * effective * w.mean(cohort, gradients)
        yield x


def fedsplit(w: World, s: float, e: int | None, alpha: float, start: str) -> Iterator[Vector]:
    x, z = w.x0, [w.x0] * w.m
    for t, cohort in w.rounds:
        new = dict.fromkeys(i for i, _ in cohort)
        for i in new:
            u = 2 * x - z[i]
            if e is None:  # the exact prox of a quadratic
                y = np.linalg.solve(np.eye(x.size) + s * w.data.A[i], u + s * w.data.b[i])
            else:
                y = u if start == "prox-point" else x
                for k in range(e):
                    y = y - alpha * (w.G(i, y, t, "split", k) + (y - u) / s)
            new[i] = z[i] + 2 * (y - x)
        for i, z_i in new.items():
            z[i] = z_i
        if cohort:
            x = w.mean(cohort, [z[i] for i, _ in cohort], around=x)
        yield x


def scaffold(w: World, eta: float, option: int, server_eta: float = 1.0) -> Iterator[Vector]:
    x, c, c_i = w.x0, np.zeros_like(w.x0), np.zeros((w.m, w.x0.size))
    for t, cohort in w.rounds:
        moves, change, new = [], np.zeros_like(c), {}
        for i, tau in cohort:
            y = x
            for k in range(tau):
                y = y - eta * (w.G(i, y, t, "local", k) - c_i[i] + c)
            moves.append(y - x)
            new[i] = w.G(i, x, t, "local", 0) if option == 1 else c_i[i] - c + (x - y) / (tau * eta)
        for i, fresh in new.items():
            change = change + w.w[i] * (fresh - c_i[i])
            c_i[i] = fresh
        if cohort:
            x, c = x + server_eta * w.mean(cohort, moves), c + change
        yield x


def fedlin(w: World, eta: float, up: Any = None, down: Any = None) -> Iterator[Vector]:
    x, rho, e = w.x0, np.zeros((w.m, w.x0.size)), np.zeros_like(w.x0)
    every = w.plan.everyone_every_round
    G = [w.G(i, x, 0, "first gradient", 0) for i in range(w.m)]
    g = w.w @ np.stack(G)
    for t, cohort in w.rounds:
        ends, h = [], {}
        for i, tau in cohort:
            first = G[i] if every else w.G(i, x, t, "local", 0)
            y = x - eta / tau * g
            for k in range(1, tau):
                y = y - eta / tau * (w.G(i, y, t, "local", k) - first + g)
            ends.append(y)
        if cohort:
            x = w.mean(cohort, ends, around=x)
            for i in {i for i, _ in cohort}:
                G[i] = w.G(i, x, t, "gradient", 0)
                h[i], rho[i] = transmit(up, rho[i], G[i], partial(w.key, t, "gradient", i))
            g, e = transmit(down, e, w.mean(cohort, [h[i] for i, _ in cohort]), partial(w.key, t, "gradient"))
        yield x


def centralised(w: World, eta: float) -> Iterator[Vector]:
    """GD and SGD on the pooled data."""
    x = w.x0
    for t, [(_, tau)] in w.rounds:
        for k in range(tau):
            x = x - eta * w.G(0, x, t, "steps", k)
        yield x


def transmit(compressor: Any, error: Vector, v: Vector, key: Callable[[], jax.Array]) -> tuple[Vector, Vector]:
    """(what arrives, what was withheld)."""
    if compressor is None:
        return v, error
    if not compressor.memory:
        return squeeze(compressor, v, key), error
    if compressor.memory == "difference":  # what arrives is what both ends hold
        held = error + squeeze(compressor, v - error, key)
        return held, held
    sent = squeeze(compressor, error + v, key)
    return sent, error + v - sent


def squeeze(compressor: Any, v: Vector, key: Callable[[], jax.Array]) -> Vector:
    """C(v), with the library's draws."""
    out = np.zeros_like(v)
    if isinstance(compressor, TopK):
        keep = np.argsort(-np.abs(v), kind="stable")[: compressor.k]
        out[keep] = v[keep]
    elif isinstance(compressor, RandomK):
        with jax.enable_x64(True):
            keep = np.argsort(np.asarray(jax.random.bits(key(), v.shape)))[-compressor.k :]
        out[keep] = v[keep] * (1 if compressor.memory else v.size / compressor.k)
    elif isinstance(compressor, ScaledSign):
        out = np.where(v >= 0, 1, -1) * np.mean(np.abs(v))
    else:
        with jax.enable_x64(True):
            chance = np.asarray(jax.random.uniform(key(), v.shape, np.float64))
        norm, s = np.linalg.norm(v), compressor.levels
        low = np.floor(s * np.abs(v) / norm)
        out = np.sign(v) * (low + (chance < s * np.abs(v) / norm - low)) * norm / s
    return out
