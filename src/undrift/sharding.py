"""Rows of clients shared out over the devices of a mesh, as the compiled program sees them.

Every device holds the rows (data, slots, memories) of a block of clients, one block after the other; the last blocks may end in
phantom rows (copies of the last client's data, memories of zeros), so that all have the same length. What a client does is done
where its rows lie: `Shards.at_owners` for everyone, `Shards.seated` for a cohort. Everything else, the server's part, is
written for all rows as on one device, and computed by every device alike.

*Meetings.* To meet costs devices about as much as to send half a megabyte, so they meet seldom. Sums over clients are sums of
the devices' sums, of which one meeting brings all that are small (`Shards.summed`); numbers that the server looks at one by one
come together (`to_all`); what every device knows already, such as weights and who answered, each works out for itself
(`by_all`). Where a method does anything else with rows that lie on several devices, the compiler puts in what it takes.

*Seats.* A device plays as many members in every round, `seats`; where it owns fewer of the cohort, it plays a row of its own
once more for nothing. Answers of a cohort are gathered by all devices, in the cohort's order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "clients"
SMALL_BYTES = 2**19  # of a device's part: below, one meeting of the devices for several of them is quicker
_OWN, _ALL = PartitionSpec(AXIS), PartitionSpec()


@dataclasses.dataclass(frozen=True)
class Shards:
    """Who owns which rows."""

    mesh: Mesh
    clients: int  # m
    rows: int  # of every device, phantoms included
    seats: int  # members of a cohort that a device plays

    @property
    def devices(self) -> int:
        return int(self.mesh.size)

    @property
    def total(self) -> int:
        """Rows of all devices."""
        return self.devices * self.rows

    @property
    def by_row(self) -> NamedSharding:
        """How rows of clients lie."""
        return NamedSharding(self.mesh, _OWN)

    @property
    def everywhere(self) -> NamedSharding:
        """How everything else lies: a copy on every device."""
        return NamedSharding(self.mesh, _ALL)

    # ----- inside the compiled program
    def kept(self, tree: Any) -> Any:
        """One row per client, as it is kept: at its owner, with the phantoms."""
        return self._laid(self._padded(tree), self.by_row)

    def shown(self, tree: Any) -> Any:
        """What is kept, without the phantoms."""
        return tree if self.total == self.clients else jax.tree.map(lambda leaf: leaf[: self.clients], tree)

    def alike(self, tree: Any) -> Any:
        """The same on every device."""
        return self._laid(tree, self.everywhere)

    def at_owners(self, function: Callable[..., Any], known: Any, *rows: Any) -> Any:
        """function(known of a block, rows of a block, …) on every device, for all m clients; a row of the result for each.

        `known`: rows that every device has of all clients.
        """

        def own(known: Any, *rows: Any) -> Any:
            return function(self._own(known), *rows)

        return self.shown(self._local(own, (_ALL, *(_OWN for _ in rows)), _OWN)(known, *map(self._padded, rows)))

    def summed(self, function: Callable[..., Any], known: Any, rows: Any) -> Any:
        """Σ over devices of function(known of a block, rows of a block), where phantoms' rows are zeros."""

        def own(known: Any, rows: Any) -> Any:
            return _sums_of_devices(function(self._own(known), rows))

        return self._local(own, (_ALL, _OWN), _ALL)(known, self._padded(rows))

    def to_all(self, rows: Any) -> Any:
        """Rows of all m clients, on all devices."""
        return self.shown(self._local(from_all_devices, _OWN, _ALL)(self._padded(rows)))

    def by_all(self, function: Callable[..., Any], *known: Any) -> Any:
        """function(…) of what every device knows, worked out by each for itself."""
        return self._local(function, _ALL, _ALL)(*known)

    def gathered(self, tree: Any, ids: jax.Array) -> Any:
        """The kept rows of these clients, in this order, on all devices."""

        def own(tree: Any, ids: jax.Array) -> Any:
            seats = self._seats(ids)
            return seats.in_order(_rows_at(tree, seats.places))

        return self._local(own, (_OWN, _ALL), _ALL)(tree, ids)

    def put(self, tree: Any, ids: jax.Array, rows: Any) -> Any:
        """What is kept with these clients' rows replaced."""

        def own(tree: Any, ids: jax.Array, rows: Any) -> Any:
            places = self._places(ids)
            return jax.tree.map(lambda leaf, row: leaf.at[places].set(row, mode="drop"), tree, rows)

        return self._local(own, (_OWN, _ALL, _ALL), _OWN)(tree, ids, rows)

    def seated(self, function: Callable[..., Any], kept: Any, ids: jax.Array, *told: Any) -> tuple[Any, Any]:
        """function(own rows of what is kept, places of own members there, what each is told) -> (own rows anew, answers).

        `kept` is a tuple of which function returns the last entry anew, `told` has one row per member. The answers of all
        members come in the order of the cohort. An empty seat has a place behind the last row: what is put there is dropped.
        """

        def own(kept: Any, ids: jax.Array, told: Any) -> Any:
            seats = self._seats(ids)
            new, answers = function(*kept, seats.places, *_rows_at(told, seats.members))
            return new, seats.in_order(answers)

        return self._local(own, (_OWN, _ALL, _ALL), (_OWN, _ALL))(kept, ids, told)

    def _local(self, function: Callable[..., Any], given: Any, made: Any) -> Callable[..., Any]:
        def body(*parts: Any) -> Any:
            with sharded(None):
                return function(*parts)

        mapped = jax.shard_map(body, mesh=self.mesh, in_specs=given, out_specs=made, check_vma=False)
        return lambda *parts: without_mesh(mapped(*parts))

    def _laid(self, tree: Any, how: NamedSharding) -> Any:
        return without_mesh(jax.tree.map(lambda leaf: jax.lax.with_sharding_constraint(leaf, how), tree))

    def _padded(self, tree: Any, mode: str = "constant") -> Any:
        """With phantoms behind: zeros, for which no device has to ask another, or copies of the last row (mode "edge")."""

        def pad(leaf: Any) -> Any:
            missing = self.total - leaf.shape[0]
            return jnp.pad(leaf, ((0, missing),) + ((0, 0),) * (leaf.ndim - 1), mode=mode) if missing else leaf

        return jax.tree.map(pad, tree)

    def _own(self, known: Any) -> Any:
        """Of rows that every device has of all clients: those of its block."""
        first = jax.lax.axis_index(AXIS) * self.rows
        return jax.tree.map(
            lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, self.rows), self._padded(known, "edge")
        )

    def _places(self, ids: jax.Array) -> jax.Array:
        """Among the own rows; behind them for clients of other devices."""
        first = jax.lax.axis_index(AXIS) * self.rows
        return jnp.where(ids // self.rows == jax.lax.axis_index(AXIS), ids - first, self.rows)

    def _seats(self, ids: jax.Array) -> _Seats:
        count, n = min(self.seats, ids.shape[0]), ids.shape[0]
        places = self._places(ids)
        (members,) = jnp.nonzero(places < self.rows, size=count, fill_value=n)
        owners = ids // self.rows
        earlier = jnp.cumsum(owners[:, None] == jnp.arange(self.devices)[None, :], axis=0)
        rank = jnp.take_along_axis(earlier, owners[:, None], axis=1)[:, 0] - 1
        own = jnp.where(members < n, places[jnp.minimum(members, n - 1)], self.rows)
        return _Seats(members, own, owners * count + rank)


@dataclasses.dataclass(frozen=True)
class _Seats:
    """On one device: which members of the cohort sit where."""

    members: jax.Array  # numbers in the cohort of those that play here; behind the last for an empty seat
    places: jax.Array  # their rows here
    seat_of: jax.Array  # of every member of the cohort, among the seats of all devices

    def in_order(self, answers: Any) -> Any:
        """What is here for each seat, of all devices, in the order of the cohort."""
        return jax.tree.map(lambda leaf: leaf[self.seat_of], from_all_devices(answers))


def from_all_devices(rows: Any) -> Any:
    """The rows of all devices, one device after the other, on each of them. Small leaves travel together."""
    leaves, structure = jax.tree.flatten(rows)
    sent = _with_flags_as_numbers(leaves)
    together: dict[Any, list[int]] = {}
    for number, leaf in enumerate(sent):
        together.setdefault(leaf.dtype if leaf.nbytes <= SMALL_BYTES else number, []).append(number)
    for numbers in together.values():
        flat = [sent[k].reshape(sent[k].shape[0], math.prod(sent[k].shape[1:])) for k in numbers]
        found = jax.lax.all_gather(jnp.concatenate(flat, axis=1) if len(flat) > 1 else flat[0], AXIS, tiled=True)
        ends = np.cumsum([part.shape[1] for part in flat])[:-1]
        for k, part in zip(numbers, jnp.split(found, ends, axis=1), strict=True):
            leaves[k] = part.reshape(found.shape[0], *leaves[k].shape[1:]).astype(leaves[k].dtype)
    return jax.tree.unflatten(structure, leaves)


def _with_flags_as_numbers(leaves: list[jax.Array]) -> list[jax.Array]:
    """Flags as numbers of a kind that travels anyway."""
    kind = next((leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.number)), jnp.bool_)
    return [leaf.astype(kind) if leaf.dtype == jnp.bool_ else leaf for leaf in leaves]


def _sums_of_devices(parts: Any) -> Any:
    """Σ over devices of every leaf: of small ones all parts come in one meeting; a large one is summed on its way."""
    leaves, structure = jax.tree.flatten(parts)
    small = [leaf for leaf in leaves if leaf.nbytes <= SMALL_BYTES]
    sums = iter([jnp.sum(part, axis=0) for part in from_all_devices([leaf[None] for leaf in small])])
    return jax.tree.unflatten(
        structure, [next(sums) if leaf.nbytes <= SMALL_BYTES else jax.lax.psum(leaf, AXIS) for leaf in leaves]
    )


# JAX notes the mesh of an array in its type, and refuses `zeros_like(x)` at the owners for an x from outside. What is written
# for one device must not see the mesh: this takes the note off, and leaves the array where it is.
_without_mesh = Primitive("without_mesh")
_without_mesh.def_impl(lambda array: array)
_without_mesh.def_abstract_eval(lambda kind: jax.core.ShapedArray(kind.shape, kind.dtype, weak_type=kind.weak_type))
mlir.register_lowering(_without_mesh, lambda _, array: [array])


def without_mesh(tree: Any) -> Any:
    """The same arrays, as if they were on one device: for what comes into a program whose rows are shared out."""
    return jax.tree.map(_without_mesh.bind, tree)


def _rows_at(tree: Any, places: jax.Array) -> Any:
    return jax.tree.map(lambda leaf: leaf.at[places].get(mode="clip"), tree)


_active: ContextVar[Shards | None] = ContextVar("_active", default=None)


def active() -> Shards | None:
    """The shards of the program that is being traced; None: all rows are here."""
    return _active.get()


@contextmanager
def sharded(shards: Shards | None) -> Iterator[None]:
    """While a program is traced whose rows are shared out."""
    token = _active.set(shards)
    try:
        yield
    finally:
        _active.reset(token)


def to_all(rows: Any) -> Any:
    """Rows of all m clients, wherever they lie, on all devices."""
    shards = active()
    return rows if shards is None else shards.to_all(rows)


def by_all(function: Callable[..., Any], *known: Any) -> Any:
    """function(…) of what every device knows: on a mesh each works it out for itself, and nobody meets."""
    shards = active()
    return function(*known) if shards is None else shards.by_all(function, *known)
