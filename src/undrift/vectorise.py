"""One function for many clients: all at once, or one after the other.

`vmap` merges small clients into large operations, but it pays for the slowest: with unequal τ_i it costs m·max τ_i. A loop
(`lax.map`) costs Σ τ_i and keeps one client's data in the cache, but has an overhead per operation. A problem says which it
prefers (`Problem.prefers_loop`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def over_clients(function: Callable[..., Any], stack: Any, *rows: Any, loop: bool) -> Any:
    """function(stack_i, row_i, …) for every index of the leading axis, results stacked."""
    if loop:
        return jax.lax.map(lambda r: function(*r), (stack, *rows))
    return jax.vmap(function)(stack, *rows)


def over_members(function: Callable[..., Any], stack: Any, ids: jax.Array | None, *rows: Any, loop: bool) -> Any:
    """function(stack[id], …) for each id; `ids=None` means everyone in order. A loop copies one client's data at a time."""
    if ids is None:
        return over_clients(function, stack, *rows, loop=loop)
    if loop:
        return jax.lax.map(lambda r: function(take(stack, r[0]), *r[1]), (ids, rows))
    return jax.vmap(function)(take(stack, ids), *rows)


def take(tree: Any, ids: Any) -> Any:
    """Rows of every leaf."""
    return jax.tree.map(lambda leaf: leaf[ids], tree)


def row_bytes(stack: Any) -> int:
    """How much data one client has."""
    rows = (int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(stack))
    return sum(rows)
