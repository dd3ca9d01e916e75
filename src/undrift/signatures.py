"""The functions that a method is made of: what they are given and what they return. `protocol` puts them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import jax

if TYPE_CHECKING:
    from .local import Local
    from .problems.client import ClientLoss
    from .protocol import Cohort, Gradients

Tree: TypeAlias = Any  # of arrays


class Send(Protocol):
    def __call__(self, server: Tree, slot: Tree, /) -> Tree:
        """down_i"""


class AtClient(Protocol):
    def __call__(self, memory: Tree, down: Tree, local: Local, /) -> tuple[Tree, Tree]:
        """(memory_i, up_i); runs at the data."""


class Receive(Protocol):
    def __call__(self, server: Tree, slots: Tree, ups: Tree, cohort: Cohort, /) -> tuple[Tree, Tree]:
        """(server, slots)"""


class Prepare(Protocol):
    def __call__(self, server: Tree, key: jax.Array, /) -> Tree:
        """The server's memory, once, before anything is sent."""


class Work(Protocol):
    def __call__(self, steps: Any, sizes: Any, /) -> Gradients:
        """From τ_i and the number n_i of components."""


class Endpoint(Protocol):
    def __call__(self, down: Tree, up: Tree, /) -> jax.Array:
        """Where the client's local path ended."""


class Centre(Protocol):
    def __call__(self, memory: Tree, down: Tree, /) -> Tree:
        """What the message up lies around, as the client knows it: for a model, the model that it started from."""


class Counts(Protocol):
    def __call__(self, steps: Any, /) -> Any:
        """How often, from τ_i."""


class ServerMemory(Protocol):
    def __call__(self, x: jax.Array, /) -> tuple[Tree, Tree]:
        """(server, slot): the server's own memory, and what it keeps for one client.

        A method may say its own memory alone, as long as that is no bare pair: see `protocol.with_slots`.
        """


class ClientMemory(Protocol):
    def __call__(self, x: jax.Array, loss: ClientLoss, /) -> Tree:
        """What client i keeps; it may depend on its data."""


class Model(Protocol):
    def __call__(self, server: Tree, /) -> jax.Array:
        """x, from the server's memory."""


class ClientDiagnosis(Protocol):
    def __call__(self, memory: Tree, x: jax.Array, loss: ClientLoss, /) -> Tree:
        """What a client tells."""


class ServerDiagnosis(Protocol):
    def __call__(self, server: Tree, told: Tree, weights: jax.Array, /) -> dict[str, jax.Array]:
        """Column -> number, from what all clients told (one row each)."""
