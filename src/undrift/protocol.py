"""The language: a round is a small program of exchanges.

An *exchange* is one message from the server to each client of the cohort and one message back. A method is a memory layout
and a program of exchanges; everything else (simulation, counting, checkpoints, diagrams, deployment) interprets that program
and knows no method by name.

                    server                                  client i
    prepare  server ─▶ server
    send     (server, slot_i) ─────────── down_i ──────────▶
                                                    client   (memory_i, down_i, local) ─▶ memory_i
    receive  (server, slots, ups, cohort) ◀── up_i ─────────

The model is one flat vector x ∈ R^d, as the papers write it. Messages are trees of arrays; a compressed vector is a tree of
its own kind (see `compression`). All functions are pure and traceable by JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

Tree: TypeAlias = Any


class Memory(NamedTuple):
    """Where a method keeps what it needs for the next round.

    `init` describes `slots` and `clients` for one client; interpreters lay them out for all m.
    """

    server: Tree
    slots: Tree = ()  # one per client, kept at the server
    clients: Tree = ()  # one per client, kept at that client


class Cohort(NamedTuple):
    """What the server knows of those it spoke to; every array has one row per member of the cohort."""

    ids: jax.Array
    steps: jax.Array  # τ_i
    weights: jax.Array  # w_i, normalised over all m clients
    answered: jax.Array | None  # None: everyone did
    population: int  # m
    key: jax.Array  # the server's randomness in this exchange

    @property
    def heard(self) -> jax.Array:
        """Whether anyone with a positive weight answered; if not, interpreters leave the server's memory as it is."""
        return jnp.sum(self._present(self.weights)) > 0

    def mean(self, ups: Tree) -> Tree:
        """Σ w_i u_i / Σ w_i over the members that answered."""
        share = self._present(self.weights)
        share = share / jnp.sum(share)
        return jax.tree.map(lambda u: _weighted_sum(share, self._present(u)), ups)

    def total(self, ups: Tree) -> Tree:
        """Σ w_i u_i over the members that answered, a client that was drawn twice counted once.

        With full participation this is the mean; SCAFFOLD's (|S|/m)·mean is this sum.
        """
        once = jnp.where(self._is_first_draw(), self._present(self.weights), 0)
        return jax.tree.map(lambda u: _weighted_sum(once, self._present(u)), ups)

    def _present(self, rows: jax.Array) -> jax.Array:
        if self.answered is None:
            return rows
        return jnp.where(_column(self.answered, rows), rows, jnp.zeros_like(rows))

    def _is_first_draw(self) -> jax.Array:
        same = self.ids[:, None] == self.ids[None, :]
        return ~jnp.any(jnp.tril(same, k=-1), axis=1)


def no_work(steps: Any) -> Any:
    """An exchange without gradients."""
    return 0 * steps


class Exchange(NamedTuple):
    """One message down and one message up, for every member of the cohort."""

    name: str
    send: Callable[[Tree, Tree], Tree]  # (server, slot_i) -> down_i
    client: Callable[
        [Tree, Tree, Any], tuple[Tree, Tree]
    ]  # (client_i, down_i, local) -> (client_i, up_i); runs at the data
    receive: Callable[[Tree, Tree, Tree, Cohort], tuple[Tree, Tree]]  # (server, slots, ups, cohort) -> (server, slots)
    prepare: Callable[[Tree, jax.Array], Tree] | None = None  # (server, key) -> server, once, before anything is sent
    work: Callable[[Any], Any] = no_work  # τ_i -> gradients that the client evaluates
    work_if_absent: Callable[[Any], Any] | None = None  # the same where clients may miss rounds, if that changes it
    # (τ_i, n_i, nobody misses rounds) -> (gradients, component gradients): in place of `work` where n_i matters
    cost: Callable[[Any, Any, bool], tuple[Any, Any]] | None = None
    endpoint: Callable[[Tree, Tree], jax.Array] | None = None  # (down_i, up_i) -> end of its local path, for the drift
    on_wire: bool = True  # False: nothing leaves the machine (centralised baselines)
    down_link: str = (
        "down"  # over which link the messages are counted: "down" (server → client), "up" (client → server),
    )
    up_link: str = "up"  # "peer" (client → client) or "none" (already there)


class Repeat(NamedTuple):
    """A dialogue: the program again and again, client i taking part in the first counts(τ_i) repeats."""

    program: Program
    counts: Callable[[Any], Any] = lambda steps: steps


class OneByOne(NamedTuple):
    """The program on cohorts of one, in the cohort's order; each client finds the memory its predecessor left."""

    program: Program


Step: TypeAlias = Exchange | Repeat | OneByOne
Program: TypeAlias = tuple[Step, ...]


class Algorithm(NamedTuple):
    """A method: what it remembers and what a round is."""

    init: Callable[[jax.Array], Memory]  # x0 -> memory for one client
    round: Program
    model: Callable[[Tree], jax.Array]  # server memory -> x
    start: Program = ()  # played once by all m clients before round 1
    remember: Callable[[jax.Array, Any], Tree] | None = (
        None  # (x0, f_i) -> client memory whose shape depends on its data
    )
    first: Program | None = None  # the program of round 1 where it differs from the others


def exchanges(program: Program) -> list[Exchange]:
    """All exchanges of a program, in order, each once."""
    found: list[Exchange] = []
    for step in program:
        found.extend([step] if isinstance(step, Exchange) else exchanges(step.program))
    return found


def _column(mask: jax.Array, rows: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (rows.ndim - 1))


def _weighted_sum(weights: jax.Array, rows: jax.Array) -> jax.Array:
    return jnp.tensordot(weights.astype(jnp.result_type(rows, weights)), rows, axes=1)
