"""Scaffnew as the paper writes it: iteration by iteration, a coin after each, x and h of every client.

The coins are those of the library's plan: heads at the end of each of its rounds, tails before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from references import Vector, World


class State(NamedTuple):
    """After an iteration."""

    x: np.ndarray  # (m, d): x_{i,t}
    h: np.ndarray  # (m, d)
    heads: bool


def iterations(world: World, gamma: float, p: float) -> Iterator[State]:
    """x̂_i = x_i − γ(g_i − h_i); heads: x_i = Σ w_j (x̂_j − (γ/p) h_j), tails: x_i = x̂_i; h_i ← h_i + (p/γ)(x_i − x̂_i)."""
    x = np.tile(world.x0, (world.m, 1))
    h = np.zeros_like(x)
    yield State(x, h, True)
    for t, cohort in world.rounds:
        assert len(cohort) == world.m, "the paper's algorithm is one of full participation"
        tosses = int(cohort[0][1])
        for step in range(tosses):
            heads = step == tosses - 1
            hat = np.stack([x[i] - gamma * (world.G(i, x[i], t, "local", step) - h[i]) for i in range(world.m)])
            x = np.tile(world.w @ (hat - gamma / p * h), (world.m, 1)) if heads else hat
            h = h + p / gamma * (x - hat)
            yield State(x, h, heads)


def scaffnew(world: World, gamma: float, p: float) -> Iterator[Vector]:
    """x after each round."""
    found = iterations(world, gamma, p)
    next(found)
    for state in found:
        if state.heads:
            yield state.x[0]


def with_absences(world: World, gamma: float, p: float) -> Iterator[Vector]:
    """The library's rounds where clients may be missing: those that answered share a mean, and correct their h_i by it."""
    x, h = world.x0, np.zeros((world.m, len(world.x0)))
    for t, cohort in world.rounds:
        y = {}
        for i, tosses in cohort:
            y[i] = x
            for step in range(tosses):
                y[i] = y[i] - gamma * (world.G(i, y[i], t, "local", step) - h[i])
        if y:
            share = np.array([world.w[i] for i in y])
            x = share / share.sum() @ np.stack(list(y.values()))
            for i, end in y.items():
                h[i] = h[i] + p / gamma * (x - end)
        yield x
