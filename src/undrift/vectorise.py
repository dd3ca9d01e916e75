"""One function for many clients: all at once, or one after the other.

`vmap` merges small clients into large operations, but it pays for the slowest: with unequal τ_i it costs m·max τ_i. A loop
(`lax.map`) costs Σ τ_i and keeps one client's data in the cache, but has an overhead per operation. A problem says which it
prefers (`Problem.prefers_loop`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .errors import InputError


def over_clients(function: Callable[..., Any], stack: Any, *rows: Any, loop: bool) -> Any:
    """function(stack_i, row_i, …) for every index of the leading axis, results stacked."""
    if loop:
        return spread(lambda r: function(*r), (stack, *rows))
    return jax.vmap(function)(stack, *rows)


def over_members(function: Callable[..., Any], stack: Any, ids: jax.Array | None, *rows: Any, loop: bool) -> Any:
    """function(stack[id], …) for each id; `ids=None` means everyone in order. A loop copies one client's data at a time."""
    if ids is None:
        return over_clients(function, stack, *rows, loop=loop)
    if loop:
        return spread(lambda r: function(take(stack, r[0]), *r[1]), (ids, rows))
    return jax.vmap(function)(take(stack, ids), *rows)


def spread(function: Callable[[Any], Any], rows: Any, block: int | None = None) -> Any:
    """function(row) for each row, in a loop (of blocks) on every device; the rows are dealt out to the devices."""
    count = jax.tree.leaves(rows)[0].shape[0]
    devices = jax.device_count()
    if devices == 1 or count == 1:
        return jax.lax.map(function, rows, batch_size=block)
    share = -(-count // devices)
    # The last device may be short of rows: it repeats the last one, and the copies are dropped.
    places = jnp.minimum(jnp.arange(share * devices), count - 1)
    dealt = jax.shard_map(
        lambda part: jax.lax.map(function, part, batch_size=block),
        mesh=client_mesh(),
        in_specs=PartitionSpec("clients"),
        out_specs=PartitionSpec("clients"),
        check_vma=False,
    )
    return jax.tree.map(lambda leaf: leaf[:count], dealt(take(rows, places)))


def client_mesh() -> Mesh:
    """All devices, in one row over which clients are dealt out."""
    return jax.make_mesh((jax.device_count(),), ("clients",), axis_types=(AxisType.Auto,))


def replicated(tree: Any) -> Any:
    """A copy on every device, made once."""
    return jax.device_put(tree, NamedSharding(client_mesh(), PartitionSpec()))


def use_devices(count: int) -> None:
    """Deal clients out to `count` devices of the CPU (one per core is best); call it before any computation.

    Networks run about twice as fast on two cores this way; problems that are not looped over are not affected.
    """
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError as error:
        raise InputError(f"use_devices({count}) must be called before JAX computes anything: {error}") from None


def take(tree: Any, ids: Any) -> Any:
    """Rows of every leaf."""
    return jax.tree.map(lambda leaf: leaf[ids], tree)


def row_bytes(stack: Any) -> int:
    """How much data one client has."""
    rows = (int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(stack))
    return sum(rows)
