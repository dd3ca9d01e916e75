"""Rows of clients shared out over the devices of a mesh, as the compiled program sees them.

Every device holds the rows (data, slots, memories) of a block of clients, one block after the other; the last blocks may end in
phantom rows, copies of the last client's, so that all have the same length. What a client does is done where its rows lie:
`Shards.at_owners` for everyone, `Shards.seated` for a cohort. Everything else, the server's part, is written for all rows as on
one device: every device computes it alike, and where it adds up rows that lie on several devices the compiler puts in the sums
across them.

*Seats.* A device plays as many members in every round, `seats`; where it owns fewer of the cohort, it plays a row of its own
once more for nothing. Answers of a cohort are gathered by all devices, in the cohort's order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "clients"
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

    def at_owners(self, function: Callable[..., Any], *rows: Any) -> Any:
        """function(rows of a block, …) on every device, for all m clients; a row of the result for each."""
        return self.shown(self._local(function, _OWN, _OWN)(*map(self._padded, rows)))

    def sums(self, function: Callable[..., Any], *rows: Any) -> Any:
        """function(rows of a block, …) of every device, one after the other along a new first axis, on all devices."""
        parts = self._local(lambda *own: jax.tree.map(lambda leaf: leaf[None], function(*own)), _OWN, _OWN)
        return self.alike(parts(*(self._padded(tree, zeros=True) for tree in rows)))

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

    def _padded(self, tree: Any, zeros: bool = False) -> Any:
        def pad(leaf: Any) -> Any:
            missing = self.total - leaf.shape[0]
            if not missing:
                return leaf
            widths = ((0, missing),) + ((0, 0),) * (leaf.ndim - 1)
            return jnp.pad(leaf, widths) if zeros else jnp.pad(leaf, widths, mode="edge")

        return jax.tree.map(pad, tree)

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
        return jax.tree.map(lambda leaf: jax.lax.all_gather(leaf, AXIS, tiled=True)[self.seat_of], answers)


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
