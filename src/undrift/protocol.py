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

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from . import signatures, sums
from .sharding import by_all
from .signatures import Tree

if TYPE_CHECKING:
    from .local import Local
    from .problems.client import ClientLoss


class Memory(NamedTuple):
    """Where a method keeps what it needs for the next round."""

    server: Tree
    slots: Tree = ()  # one row per client, kept at the server
    clients: Tree = ()  # one row per client, kept at that client


class Cohort(NamedTuple):
    """What the server knows of those it spoke to; every array has one row per member of the cohort."""

    ids: jax.Array
    steps: jax.Array  # τ_i
    weights: jax.Array  # w_i, normalised over all m clients
    importance: jax.Array | None  # a_i with mean = Σ a_i u_i / |S| unbiased; None: shares in proportion to w_i
    answered: jax.Array | None  # None: everyone did
    key: jax.Array  # the server's randomness in this exchange
    stride: jax.Array | None = None  # in turn: by how much the steps of each client are scaled, see `Local.stride`
    again: jax.Array | None = None  # whether a member stands earlier in the cohort already; None: nobody is drawn twice

    @property
    def heard(self) -> jax.Array:
        """Whether anyone with a positive weight answered; if not, interpreters leave the server's memory as it is."""
        heard: jax.Array = by_all(_weigh_anything, self.weights, self.answered)
        return heard

    def mean(self, ups: Tree, around: Tree | None = None) -> Tree:
        """An unbiased estimate of Σ_i w_i u_i from those that answered: Σ c_i u_i, c_i = a_i/|S| (all m: c_i = w_i).

        The c_i of a cohort need not sum to one. Where u_i are models rather than differences, say `around` which point x:
        then it is x + Σ c_i (u_i − x), as unbiased and near the models.
        """
        if self.importance is None:
            return self.average(ups)
        share = by_all(shares_of_count, self.importance, self.answered)
        total = sums.weighted(share, self._present(ups))
        if around is None:
            return total
        rest = 1 - by_all(sums.total, share)
        return jax.tree.map(lambda part, x: part + rest.astype(part.dtype) * x, total, around)

    def average(self, ups: Tree) -> Tree:
        """Σ w_i u_i / Σ w_i over the members that answered: between the smallest and the largest, but biased for a cohort."""
        return sums.weighted(by_all(shares_of_weight, self.weights, self.answered), self._present(ups))

    def total(self, ups: Tree) -> Tree:
        """Σ w_i u_i over the members that answered, a client that was drawn twice counted once.

        With full participation this is the mean; SCAFFOLD's (|S|/m)·mean is this sum.
        """
        once = self._present(self.weights)
        if self.again is not None:
            once = jnp.where(self.again, 0, once)
        return sums.weighted(once, self._present(ups))

    def _present(self, rows: Tree) -> Tree:
        return jax.tree.map(lambda leaf: _of_those(self.answered, leaf), rows)


def _weigh_anything(weights: jax.Array, answered: jax.Array | None) -> jax.Array:
    return jnp.sum(_of_those(answered, weights)) > 0


def shares_of_count(importance: jax.Array, answered: jax.Array | None) -> jax.Array:
    """a_i / |S|, zero for those that did not answer."""
    return _of_those(answered, importance) / jnp.maximum(sums.total(_of_those(answered, jnp.ones_like(importance))), 1)


def shares_of_weight(weights: jax.Array, answered: jax.Array | None) -> jax.Array:
    """w_i / Σ w_j over those that answered, zero for the others."""
    present = _of_those(answered, weights)
    return present / sums.total(present)


def _of_those(answered: jax.Array | None, rows: jax.Array) -> jax.Array:
    """The rows, with zeros for whoever did not answer."""
    return rows if answered is None else jnp.where(_column(answered, rows), rows, jnp.zeros_like(rows))


class Gradients(NamedTuple):
    """What a client evaluates in an exchange."""

    calls: Any  # of its oracle, or of components
    components: Any = None  # single f_ij among them; None: as many as so many calls of the oracle cost


def no_work(steps: Any, sizes: Any) -> Gradients:
    """An exchange without gradients."""
    return Gradients(0 * steps)


def every_step(steps: Any, sizes: Any) -> Gradients:
    """A gradient for each local step."""
    return Gradients(steps)


def once(steps: Any, sizes: Any) -> Gradients:
    """A single gradient."""
    return Gradients(0 * steps + 1)


def unseen(down: Any, up: Any) -> jax.Array:
    """The end of a local path that messages do not tell (they are differences to what their receiver holds): not a number."""
    real = next(leaf.dtype for leaf in jax.tree.leaves(up) if jnp.issubdtype(leaf.dtype, jnp.inexact))
    return jnp.full((1,), jnp.nan, real)


class Account(NamedTuple):
    """What is only counted or shown of an exchange."""

    work: signatures.Work = every_step
    endpoint: signatures.Endpoint | None = (
        None  # for the drift, up to a shift that all share; None: there is no local path
    )
    on_wire: bool = True  # False: nothing leaves the machine (centralised baselines)
    # Over which link messages are counted: "down" (server → client), "up" (client → server), "peer" (client → client) or
    # "none" (already there)
    down_link: str = "down"
    up_link: str = "up"


class Exchange(NamedTuple):
    """One message down and one message up, for every member of the cohort."""

    name: str
    send: signatures.Send
    client: signatures.AtClient
    receive: signatures.Receive
    account: Account = Account()
    prepare: signatures.Prepare | None = None
    centre: signatures.Centre | None = None  # None: messages up lie around zero, as differences and gradients do


class HearThenSpeak(NamedTuple):
    """The client of an exchange in a dialogue: what it hears changes its memory, and from its memory it speaks.

    Neither may ask for `local.key`, which belongs to one exchange: whoever plays the dialogue may join what is said in one
    exchange to what is heard in the next, so that a forward pass need not be repeated. `local.steps_key` is at hand.
    """

    hear: Callable[[Tree, Tree, Local], Tree]  # (memory, down, local) -> memory
    speak: Callable[[Tree, Local], Tree]  # (memory, local) -> up

    def __call__(self, memory: Tree, down: Tree, local: Local, /) -> tuple[Tree, Tree]:
        memory = self.hear(memory, down, local)
        return memory, self.speak(memory, local)


class ResetThenAnswer(NamedTuple):
    """The `receive` that opens a dialogue: the slots are made ready, and then it answers as it always does.

    Neither draws anything: a dialogue with one client is played as steps of both ends, where `cohort.key` is None.
    """

    reset: Callable[[Tree, Tree], Tree]  # (server, slots) -> slots
    answer: signatures.Receive

    def __call__(self, server: Tree, slots: Tree, ups: Tree, cohort: Cohort, /) -> tuple[Tree, Tree]:
        return self.answer(server, self.reset(server, slots), ups, cohort)


class AtServer(NamedTuple):
    """A step that the server takes by itself: `receive` without messages."""

    step: signatures.Receive


class Repeat(NamedTuple):
    """A dialogue: the program again and again, client i taking part in the first counts(τ_i) repeats."""

    program: Program
    counts: signatures.Counts = lambda steps: steps


def all_but_one(steps: Any) -> Any:
    """How often the middle of a dialogue is repeated, whose first and last exchange make one step together."""
    return steps - 1


class OneByOne(NamedTuple):
    """The program on cohorts of one, in the cohort's order; each client finds the memory its predecessor left."""

    program: Program


Step: TypeAlias = Exchange | AtServer | Repeat | OneByOne
Program: TypeAlias = tuple[Step, ...]


def just_x(x: jax.Array) -> tuple[jax.Array, tuple[()]]:
    """A server that keeps the model and nothing else."""
    return x, ()


def nothing(x: jax.Array, loss: ClientLoss) -> tuple[()]:
    """A client that keeps nothing."""
    return ()


def itself(server: Tree) -> jax.Array:
    """The model of a server that keeps nothing else."""
    return server


class Diagnostics(NamedTuple):
    """Numbers that tell how a method is doing, as columns of the history; played after a round, where somebody asks."""

    client: signatures.ClientDiagnosis
    server: signatures.ServerDiagnosis


class Algorithm(NamedTuple):
    """A method: what it remembers and what a round is."""

    round: Program
    server: signatures.ServerMemory = just_x
    client: signatures.ClientMemory = nothing
    model: signatures.Model = itself
    start: Program = ()  # played once by all m clients before round 1
    first: Program | None = None  # the program of round 1 where it differs from the others
    diagnostics: Diagnostics | None = None

    @property
    def exchanges(self) -> list[Exchange]:
        """All of them, known by their place in this list: those of the start, of the first round, of every other round."""
        return [e for program in (self.start, self.first or (), self.round) for e in exchanges(program)]


@dataclasses.dataclass(frozen=True)
class Paired:
    """The server's memory of a method as a pair, for one that may have said its own memory alone."""

    server: Callable[[jax.Array], Tree]

    def __call__(self, x: jax.Array, /) -> tuple[Tree, Tree]:
        made = self.server(x)
        # A NamedTuple of two fields is a memory, as records of methods are; only a bare pair is (memory, slot).
        return made if type(made) is tuple and len(made) == 2 else (made, ())


def with_slots(algorithm: Algorithm) -> Algorithm:
    """The algorithm, its server's memory a pair (memory, slot) whether it keeps slots or not.

    >>> alone = Algorithm((), server=lambda x: {"x": x}, model=lambda server: server["x"])
    >>> with_slots(alone).server(jnp.zeros(1))
    ({'x': Array([0.], dtype=float32)}, ())
    """
    if isinstance(algorithm.server, Paired) or algorithm.server is just_x:
        return algorithm
    return algorithm._replace(server=Paired(algorithm.server))


def exchanges(program: Program) -> list[Exchange]:
    """All exchanges of a program, in order, each once."""
    found: list[Exchange] = []
    for step in program:
        if isinstance(step, Exchange):
            found.append(step)
        elif not isinstance(step, AtServer):
            found.extend(exchanges(step.program))
    return found


def placed(program: Program, place: int) -> list[tuple[int, Step]]:
    """The steps of a program whose first exchange has this place, each with the place of its first exchange."""
    steps = []
    for step in program:
        steps.append((place, step))
        place += len(exchanges((step,)))
    return steps


def drawn_again(ids: jax.Array) -> jax.Array:
    """Whether a number stands earlier in the list already.

    >>> drawn_again(jnp.array([7, 2, 7, 7])).tolist()
    [False, False, True, True]
    """
    order = jnp.argsort(ids)  # stable: of equal numbers the first comes first
    ordered = ids[order]
    repeated = jnp.concatenate([jnp.zeros((1,), bool), ordered[1:] == ordered[:-1]])
    return jnp.zeros(ids.shape, bool).at[order].set(repeated)


def _column(mask: jax.Array, rows: jax.Array) -> jax.Array:
    return mask.reshape(mask.shape + (1,) * (rows.ndim - 1))
