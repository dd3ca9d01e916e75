"""Sums over clients that are accurate to a few units in the last place, however many clients there are.

A sum of m numbers one after the other may lose m·u, u the unit of rounding: with a million clients in float32, four of seven
digits. Here the first half of the numbers is added to the second until few are left, so that each passes through log₂ m
additions, all of which the processor does side by side. Few clients are added one after the other. Where clients are shared
out over devices each adds up its own, and their sums are added.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import sharding

FEW = 16  # so many are added one after the other
LARGE = 2**20  # entries from which products are not written to memory before they are added


def total(rows: jax.Array) -> jax.Array:
    """Σ_i rows_i over the first axis.

    >>> total(jnp.ones((100, 2)))
    Array([100., 100.], dtype=float32)
    """
    shards = sharding.active()
    if shards is not None and rows.shape[0] == shards.clients:
        whole: jax.Array = shards.summed(lambda _, own: total(own), (), rows)
        return whole
    while rows.shape[0] > FEW:
        half = rows.shape[0] // 2
        rows = jnp.concatenate([rows[:half] + rows[half : 2 * half], rows[2 * half :]])
    return jnp.sum(rows, axis=0)


def weighted(weights: jax.Array, rows: Any) -> Any:
    """Σ_i w_i rows_i over the first axis of every leaf of rows. On a mesh every device knows all weights.

    >>> weighted(jnp.array([0.25, 0.75]), jnp.array([[4.0, 0.0], [0.0, 4.0]]))
    Array([1., 3.], dtype=float32)
    """
    shards = sharding.active()
    if shards is not None and weights.shape[0] == shards.clients:
        return shards.summed(weighted, weights, rows)
    return jax.tree.map(lambda leaf: _weighted(weights, leaf), rows)


def _weighted(weights: jax.Array, rows: jax.Array) -> jax.Array:
    weights = weights.astype(jnp.result_type(rows, weights))
    if rows.shape[0] <= FEW:
        return _one_after_the_other(weights, rows)
    if rows.size <= LARGE:
        return total(_product(weights, rows))
    cut = rows.shape[0] // FEW * FEW
    blocks = jnp.einsum("kb,kb...->k...", weights[:cut].reshape(-1, FEW), rows[:cut].reshape(-1, FEW, *rows.shape[1:]))
    return total(jnp.concatenate([blocks, _product(weights[cut:], rows[cut:])]))


@partial(jax.jit, inline=True)  # nodes call it outside of any program, and need not compile it each time
def _one_after_the_other(weights: jax.Array, rows: jax.Array) -> jax.Array:
    """Not as a product of a vector and a matrix: runs side by side would have all their rows turned around for it."""
    start = weights[0] * rows[0]
    return jax.lax.fori_loop(1, rows.shape[0], lambda k, so_far: so_far + weights[k] * rows[k], start)


def weighted_on_host(weights: Any, rows: Any) -> np.ndarray:
    """The same with NumPy, in double precision; a few rows at a time are converted.

    >>> weighted_on_host(np.full(10_000, 1e-4, np.float32), np.ones((10_000, 1), np.float32)).round(7)
    array([1.])
    """
    weights, rows = np.asarray(weights, np.float64), np.asarray(rows)
    step = max(FEW, LARGE * len(rows) // max(rows.size, 1))
    parts = [
        _halved(weights[k : k + step].reshape(-1, *(1,) * (rows.ndim - 1)) * np.asarray(rows[k : k + step], np.float64))
        for k in range(0, len(rows), step)
    ]
    return parts[0] if len(parts) == 1 else _halved(np.stack(parts))


def _halved(rows: np.ndarray) -> np.ndarray:
    while len(rows) > 1:
        half, alone = len(rows) // 2, rows[len(rows) // 2 * 2 :]
        rows = rows[:half] + rows[half : 2 * half]
        rows = np.concatenate([rows, alone]) if len(alone) else rows
    return rows[0]


def _product(weights: jax.Array, rows: jax.Array) -> jax.Array:
    return weights.reshape(weights.shape + (1,) * (rows.ndim - 1)) * rows
