"""A run on a mesh of devices, which may belong to several processes on several hosts.

Rows of clients (data, slots, memories) are shared out over the devices, block after block; every process reads and keeps the
rows of its own devices and no others. Everything else has a copy on every device. How the program plays such rows is in
`sharding`.

The numbers are those of one device to rounding: draws go by coordinates, messages of a cohort reach the server's part in the
same order, and only sums over all m clients are added up in another order. Checkpoints and identities do not depend on the
mesh.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding

from ..errors import InputError
from ..plan import Draw
from ..problems.arrays import aligned_zeros
from ..protocol import Memory
from ..sharding import AXIS, Shards, sharded, without_mesh
from . import hosts
from .description import Run
from .identity import row_blocks, row_digests

GROWTH = 1.25  # from one number of seats to the next: few programs, little padding
DIGEST = hashlib.sha256().digest_size
LOOK_AHEAD = 256  # rounds that are drawn to see how many seats are needed


def mesh_of(wish: Any) -> Mesh | None:
    """The mesh that is meant: None or False for none, True or "all" for all devices of all processes, or a mesh of JAX's."""
    if wish is None or wish is False:
        return None
    if isinstance(wish, Mesh):
        return Mesh(wish.devices.reshape(-1), (AXIS,), axis_types=(AxisType.Auto,))
    if wish is True or wish == "all":
        return Mesh(np.asarray(jax.devices()), (AXIS,), axis_types=(AxisType.Auto,))
    raise InputError(f"mesh is True (all devices of all processes), or a jax.sharding.Mesh; got {wish!r}")


def shards_of(run: Run, mesh: Mesh, most_rounds: int) -> Shards | None:
    """Who owns which rows; None where one client holds all data, which every device then does alike."""
    if run.problem.is_pooled:
        return None
    clients = run.population.clients
    block = row_blocks(clients)
    rows = math.ceil(math.ceil(clients / mesh.size) / block) * block  # whole blocks: each is hashed by one process
    shards = Shards(mesh, clients, rows, 1)
    return with_seats(shards, run.plan.draw(1, max(1, min(most_rounds, LOOK_AHEAD, run.rounds))))


def with_seats(shards: Shards, draw: Draw) -> Shards:
    """The same with seats enough for these rounds."""
    if draw.ids is None:
        return shards
    needed, seats = most_on_one(shards, draw.ids), shards.seats
    if needed <= seats:
        return shards
    members = draw.ids.shape[1]
    seats = math.ceil(members / shards.devices)
    while seats < needed:
        seats = math.ceil(seats * GROWTH)
    return dataclasses.replace(shards, seats=min(seats, members))


def most_on_one(shards: Shards, ids: np.ndarray) -> int:
    """The most members of one round that one device owns."""
    owners = np.asarray(ids) // shards.rows + shards.devices * np.arange(len(ids))[:, None]
    return int(np.bincount(owners.ravel()).max(initial=1))


def words(shards: Shards, cohort: int | None) -> str:
    """What is shared out, and what padding costs: phantoms where everyone plays, empty seats where a cohort does."""
    said = f"{shards.devices} devices of {hosts.count()} processes, {shards.rows} clients each"
    if shards.total > shards.clients:
        said += f", the last {shards.total - shards.clients} of them phantoms"
    played, members = shards.total, shards.clients
    if cohort is not None:
        played, members = shards.devices * shards.seats, cohort
        said += f"; {shards.seats} seats each for cohorts of {cohort}"
    return f"{said}; {100 * (played - members) / played:.0f} % of what is played is dropped"


def on_mesh(function: Callable[..., Any], shards: Shards) -> Callable[..., Any]:
    """The function as a program whose rows are shared out; where what it makes lies is settled."""

    @functools.wraps(function)
    def everywhere(*arguments: Any) -> Any:
        with sharded(shards):
            return _settled(function(*without_mesh(arguments)), shards)

    return everywhere


def _settled(tree: Any, shards: Shards) -> Any:
    def settle(part: Any) -> Any:
        if isinstance(part, Memory):
            return Memory(shards.alike(part.server), shards.kept(part.slots), shards.kept(part.clients))
        return shards.alike(part)

    return jax.tree.map(settle, tree, is_leaf=lambda part: isinstance(part, Memory))


def placed(run: Run, shards: Shards) -> Run:
    """The run as the compiled program takes it: rows at their owners, everything else everywhere."""
    (data, *others), static = run.tree_flatten()
    (stack, *known), kind = data.tree_flatten()
    stack = jax.tree.map(lambda leaf: rows_at_owners(leaf, shards), stack)
    data = type(data).tree_unflatten(kind, (stack, *everywhere(known, shards)))
    placed: Run = Run.tree_unflatten(static, (data, *everywhere(others, shards)))
    return placed


def outline(run: Run) -> Run:
    """The run as one device would see it, in shapes: what it records, keeps and is known by does not depend on the mesh."""
    shapes: Run = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), run)
    data = shapes.problem
    data.stack = jax.tree.map(
        lambda s: jax.ShapeDtypeStruct((run.population.clients, *s.shape[1:]), s.dtype), data.stack
    )
    return shapes


@dataclasses.dataclass(frozen=True)
class Piece:
    """Some of the rows of all m clients, asked for by the numbers that they have among all."""

    first: int
    rows: np.ndarray
    clients: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.clients, *self.rows.shape[1:])

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    def __getitem__(self, numbers: slice) -> np.ndarray:
        return self.rows[numbers.start - self.first : numbers.stop - self.first]


def rows_at_owners(leaf: Any, shards: Shards) -> jax.Array:
    """One row per client, read where it is needed and nowhere else; phantoms are copies of the last row."""
    if isinstance(leaf, jax.Array) and leaf.shape[0] == shards.total and leaf.sharding == shards.by_row:
        return leaf
    host = np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf  # a mapped file stays one

    def own(index: Any) -> np.ndarray:
        first, last, _ = index[0].indices(shards.total)
        rows = aligned_zeros((last - first, *leaf.shape[1:]), leaf.dtype)  # which JAX uses where it lies
        real = host[min(first, shards.clients - 1) : min(last, shards.clients)]
        rows[: len(real)], rows[len(real) :] = real, real[-1:]
        return rows

    return jax.make_array_from_callback((shards.total, *leaf.shape[1:]), shards.by_row, own, dtype=leaf.dtype)


def needed_rows(shards: Shards) -> tuple[int, int]:
    """The first row that this process needs (for phantoms the last of all), and the one behind the last."""
    spans = [index[0].indices(shards.total) for index in _own_indices(shards)]
    last = shards.clients
    return min(min(span[0] for span in spans), last - 1), min(max(span[1] for span in spans), last)


def _own_indices(shards: Shards) -> list[tuple[slice, ...]]:
    return list(shards.by_row.addressable_devices_indices_map((shards.total,)).values())  # type: ignore[arg-type]


def everywhere(tree: Any, shards: Shards) -> Any:
    """A copy of every array on every device."""
    return jax.tree.map(lambda leaf: _copied(leaf, shards.everywhere), tree)


def _copied(leaf: Any, sharding: NamedSharding) -> jax.Array:
    if isinstance(leaf, jax.Array) and leaf.sharding == sharding:
        return leaf
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        data = _copied(np.asarray(jax.random.key_data(leaf)), sharding)
        return jax.jit(jax.random.wrap_key_data, out_shardings=sharding)(data)
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index], dtype=host.dtype)


def is_row(carry: Any) -> Any:
    """Of every leaf of what rounds hand on: whether it has one row per client."""
    flags = jax.tree.map(lambda _: False, carry)
    rows = Memory(*(jax.tree.map(lambda _, part=k: part > 0, tree) for k, tree in enumerate(carry.memory)))
    return flags._replace(memory=rows)


def carry_at_owners(carry: Any, shards: Shards) -> Any:
    """What was read from a checkpoint, where the program wants it."""

    def place(leaf: Any, row: bool) -> jax.Array:
        return rows_at_owners(leaf, shards) if row else _copied(leaf, shards.everywhere)

    return jax.tree.map(place, carry, is_row(carry))


def own_rows(leaf: jax.Array, clients: int) -> list[tuple[int, np.ndarray]]:
    """The rows that this process keeps, block by block with the number of the first; without phantoms."""
    blocks = {shard.index[0].indices(leaf.shape[0])[0]: shard.data for shard in leaf.addressable_shards}
    return [(first, np.asarray(blocks[first])[: clients - first]) for first in sorted(blocks) if first < clients]


def sharded_digests(rows: jax.Array, clients: int) -> bytes:
    """`row_digests` of all rows, of which each process hashes its own."""
    digests = np.zeros((-(-clients // row_blocks(clients)), DIGEST), np.uint8)
    for first, own in own_rows(rows, clients):
        found = np.frombuffer(row_digests(own, clients), np.uint8).reshape(-1, DIGEST)
        digests[first // row_blocks(clients) :][: len(found)] = found
    return hosts.gathered(digests).max(axis=0).tobytes()
