"""One function for many clients: all at once, or one after the other.

`vmap` merges small clients into large operations, but it pays for the slowest: with unequal τ_i it costs m·max τ_i. A loop
(`lax.map`) costs Σ τ_i and keeps one client's data in the cache, but has an overhead per operation. A problem says which it
prefers (`Problem.prefers_loop`). A cohort whose data and models leave the cache is merged in blocks of about fifty.
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

from . import sharding
from .errors import InputError
from .sharding import AXIS, from_all_devices

DEVICES = "jax_num_cpu_devices"  # JAX's name for how many devices the CPU is
BLOCK = 50  # members of a large cohort that are merged at a time
IN_CACHE = 2**25  # bytes of data and models of a cohort that are merged at one go
_on_all_devices: ContextVar[bool] = ContextVar("_on_all_devices", default=False)  # while such a program is traced


def over_clients(function: Callable[..., Any], stack: Any, *rows: Any, loop: bool) -> Any:
    """function(stack_i, row_i, …) for every index of the leading axis, results stacked; on a mesh where the rows lie."""
    shards = sharding.active()
    if shards is not None:
        return shards.at_owners(lambda _, *own: over_clients(function, *own, loop=loop), (), stack, *rows)
    if loop:
        return spread(lambda r: function(*r), (stack, *rows))
    return jax.vmap(function)(stack, *rows)


def over_members(
    function: Callable[..., Any],
    stack: Any,
    ids: jax.Array | None,
    *rows: Any,
    loop: bool,
    work: Any = None,
    model_bytes: int = 0,
) -> Any:
    """function(stack[id], …) for each id; `ids=None` means everyone in order. A loop copies one client's data at a time.

    `work`: how long each takes, in any unit, for devices that share the loop. `model_bytes`: what a member keeps besides
    its data while it is played.
    """
    everywhere = _on_all_devices.get()
    if ids is None and everywhere:
        ids = jnp.arange(jax.tree.leaves(stack)[0].shape[0])  # so that no device copies the data of its whole share
    if ids is None:
        return over_clients(function, stack, *rows, loop=loop)
    if loop:
        return spread(lambda r: function(take(stack, r[0]), *r[1]), (ids, rows), work=work)

    def merged(own: Any) -> Any:
        return _merged(function, stack, own[0], own[1], model_bytes)

    return _dealt_out(merged, (ids, rows)) if everywhere else merged((ids, rows))


def _merged(function: Callable[..., Any], stack: Any, ids: jax.Array, rows: Any, model_bytes: int) -> Any:
    """All at once, or in blocks where they would leave the cache."""
    count = ids.shape[0]
    if count <= 2 * BLOCK or count * (row_bytes(stack) + row_bytes(rows) + model_bytes) <= IN_CACHE:
        return jax.vmap(function)(take(stack, ids), *rows)
    return in_blocks(lambda id, *own: function(take(stack, id), *own), ids, *rows)


def in_blocks(function: Callable[..., Any], *rows: Any) -> Any:
    """function(row, …) for each row, about fifty of them merged at a time. The last row fills the last block up.

    >>> in_blocks(lambda x: 2 * x, jnp.arange(121))[-2:].tolist()
    [238, 240]
    """
    count = jax.tree.leaves(rows)[0].shape[0]
    blocks = -(-count // BLOCK)
    places = jnp.minimum(jnp.arange(blocks * -(-count // blocks)).reshape(blocks, -1), count - 1)
    found = jax.lax.map(lambda block: jax.vmap(function)(*take(rows, block)), places)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], found)


def spread(function: Callable[[Any], Any], rows: Any, block: int | None = None, work: Any = None) -> Any:
    """function(row) for each row, in a loop (of blocks); on several devices each takes its share of the rows.

    `work`: how long each row takes, in any unit; shares are made alike by it.
    """

    def play(own: Any) -> Any:
        return jax.lax.map(function, own, batch_size=block)

    return _dealt_out(play, rows, work) if _on_all_devices.get() else play(rows)


def _dealt_out(play: Callable[[Any], Any], rows: Any, work: Any = None) -> Any:
    """play(rows), with a share of the rows on each device."""
    count = jax.tree.leaves(rows)[0].shape[0]
    if count == 1:
        return play(rows)
    devices = jax.device_count()
    share = -(-count // devices)
    # The last device may be short of rows: it repeats the last one, and the copies are dropped.
    dealt = jnp.minimum(jnp.arange(devices * share), count - 1).reshape(devices, share)
    if work is not None:
        dealt = _by_work(work, dealt)
    everyone = from_all_devices(play(take(rows, dealt[jax.lax.axis_index(AXIS)])))
    if work is None:
        return jax.tree.map(lambda leaf: leaf[:count], everyone)
    return take(everyone, jnp.zeros(count, jnp.int32).at[dealt.ravel()].set(jnp.arange(dealt.size, dtype=jnp.int32)))


def _by_work(work: jax.Array, places: jax.Array) -> jax.Array:
    """Rows dealt out to devices (devices, share), the longest first and to and fro: 0 1 1 0 0 1 …"""
    devices, share = places.shape
    order = jnp.argsort(-work)[places.ravel()].reshape(share, devices)
    to_and_fro = jnp.where(jnp.arange(share)[:, None] % 2 == 0, order, order[:, ::-1])
    return to_and_fro.T


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

    Rounds of much work run up to twice as fast on two cores this way; short ones stay on one device.
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
