"""FedLin and FedTrack past their papers, as naive NumPy: tables, one exchange a round, differences, compressed models."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from references import Vector, World, transmit

from undrift.randomness import tag


def fedlin(
    w: World,
    eta: float,
    up: Any = None,
    down: Any = None,
    table: bool = False,
    exchanges: int = 2,
    correction: str | None = None,
    up_model: Any = None,
    down_model: Any = None,
) -> Iterator[Vector]:
    """One round after the other, as the docstring of `ud.fedlin` has it."""
    x, m, d = w.x0, w.m, w.x0.size
    fresh = exchanges == 2 if correction is None else correction == "fresh"
    told = x  # what clients hold of x
    kept = np.stack([w.G(i, x, 0, "first gradient", 0) for i in range(m)])  # what the server holds of every G_i
    rho = kept.copy() if up is not None and up.memory == "difference" else np.zeros((m, d))
    g, e, withheld = w.w @ kept, np.zeros(d), np.zeros((m, d))
    seen = np.zeros(d)  # what clients hold of g, with differences
    by_difference = down is not None and down.memory == "difference"
    for t, cohort in w.rounds:
        if not cohort:
            yield x
            continue
        if by_difference:
            seen, _ = transmit(down, seen, g, partial(w.key, t, "local"))
        direction = seen if by_difference else g
        moves, heard = [], {}
        for i, tau in cohort:
            start = w.G(i, told, t, "local", 0)
            y = told
            for k in range(tau):
                step = w.G(i, y, t, "local", k) if k else start
                y = y - eta / tau * (step - (start if fresh else kept[i]) + direction)
            moves.append((i, y - told))
            if exchanges == 1:
                heard[i] = start
        sent = []
        for i, move in moves:
            if up_model is None:
                sent.append(move)
                continue
            key = partial(_folded, w, t, i)
            arrives, withheld[i] = transmit(up_model, withheld[i], move, key)
            sent.append(arrives)
        x = x + w.mean(cohort, sent)
        told = x if down_model is None else transmit(down_model, told, x, partial(w.key, t, "gradient"))[0]
        if exchanges == 2:
            heard = {i: w.G(i, told, t, "gradient", 0) for i, _ in cohort}
        name = "gradient" if exchanges == 2 else "local"
        arrived = {}
        for i, G in heard.items():
            arrived[i], rho[i] = transmit(up, rho[i], G, partial(w.key, t, name, i))
        for i, G in arrived.items():
            kept[i] = G
        mean = w.w @ kept if table else w.mean(cohort, [arrived[i] for i, _ in cohort])
        g, e = (mean, e) if by_difference else transmit(down, e, mean, partial(w.key, t, name))
        yield x


def _folded(w: World, t: int, i: int) -> jax.Array:
    return jax.random.fold_in(w.key(t, "local", i), tag("move"))


def fedtrack(w: World, eta: float, up: Any = None, down: Any = None, table: bool = False) -> Iterator[Vector]:
    """Cyclic, components are samples of a least-squares or logistic problem."""
    x, m, d = w.x0, w.m, w.x0.size
    kept = np.stack([w.full(i, x) for i in range(m)])
    rho = kept.copy() if up is not None and up.memory == "difference" else np.zeros((m, d))
    g, e = w.w @ kept, np.zeros(d)
    for t, cohort in w.rounds:
        if not cohort:
            yield x
            continue
        ends = []
        for i, tau in cohort:
            n = len(w.data.b[i])
            parts = [component(w, i, j, x) for j in range(n)]
            start, y = sum(parts), x - eta * g
            for k in range(1, tau):
                parts[(k - 1) % n] = component(w, i, (k - 1) % n, y)
                y = y - eta * (sum(parts) - start + g)
            ends.append(y)
        x = w.mean(cohort, ends, around=x)
        for i in {i for i, _ in cohort}:
            kept[i], rho[i] = transmit(up, rho[i], w.full(i, x), partial(w.key, t, "gradient", i))
        mean = w.w @ kept if table else w.mean(cohort, [kept[i] for i, _ in cohort])
        g, e = transmit(down, e, mean, partial(w.key, t, "gradient"))
        yield x


def component(w: World, i: int, j: int, x: Vector) -> Vector:
    """What sample j contributes to ∇f_i(x)."""
    a, b, n = w.data.A[i][j], w.data.b[i][j], len(w.data.b[i])
    if w.data.kind == "least_squares":
        return a * (a @ x - b)
    return -a * b / (1 + np.exp(b * (a @ x))) + w.data.l2 / n * x
