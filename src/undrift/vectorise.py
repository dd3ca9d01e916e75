"""One function for many clients: all at once, or one after the other.

`vmap` merges small clients into large operations, but it pays for the slowest: with unequal τ_i it costs m·max τ_i. A loop
(`lax.map`) costs Σ τ_i and keeps one client's data in the cache, but has an overhead per operation. A problem says which it
prefers (`Problem.prefers_loop`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from .errors import InputError

AXIS = "clients"
DEVICES = "jax_num_cpu_devices"  # JAX's name for how many devices the CPU is
_on_all_devices: ContextVar[bool] = ContextVar("_on_all_devices", default=False)  # while such a program is traced


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
    """function(row) for each row, in a loop (of blocks); on several devices each takes its share of the rows."""
    count = jax.tree.leaves(rows)[0].shape[0]
    if not _on_all_devices.get() or count == 1:
        return jax.lax.map(function, rows, batch_size=block)
    share = -(-count // jax.device_count())
    # The last device may be short of rows: it repeats the last one, and the copies are dropped.
    places = jnp.minimum(jax.lax.axis_index(AXIS) * share + jnp.arange(share), count - 1)
    mine = jax.lax.map(function, take(rows, places), batch_size=block)
    return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, tiled=True)[:count], mine)


def on_all_devices(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as one program that every device runs, sharing out the loops over clients (`spread`).

    Everything else is done by all of them alike, in the same order as on one device: the draws are the same, the numbers equal
    to rounding (a matrix product may share its sums out to threads in another way).
    """

    @functools.wraps(function)
    def everywhere(*arguments: Any) -> Any:
        def body(*parts: Any) -> Any:
            token = _on_all_devices.set(True)
            try:
                return function(*parts)
            finally:
                _on_all_devices.reset(token)

        spec = PartitionSpec()
        return jax.shard_map(body, mesh=_mesh(), in_specs=spec, out_specs=spec, check_vma=False)(*arguments)

    return everywhere


def replicated(tree: Any) -> Any:
    """A copy on every device, made once."""
    return jax.device_put(tree, NamedSharding(_mesh(), PartitionSpec()))


def _mesh() -> Mesh:
    return jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=(AxisType.Auto,))


def use_devices(count: int) -> None:
    """Deal clients out to `count` devices of the CPU (one per core is best); call it before any computation.

    Networks run about twice as fast on two cores this way; problems that are not looped over are not affected.
    """
    try:
        jax.config.update(DEVICES, count)
    except RuntimeError as error:
        raise InputError(f"use_devices({count}) must be called before JAX computes anything: {error}") from None


def take(tree: Any, ids: Any) -> Any:
    """Rows of every leaf."""
    return jax.tree.map(lambda leaf: leaf[ids], tree)


def row_bytes(stack: Any) -> int:
    """How much data one client has."""
    rows = (int(np.prod(leaf.shape[1:], dtype=np.int64)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(stack))
    return sum(rows)
