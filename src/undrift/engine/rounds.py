"""The rounds of a run as one program: what is compiled, without what plays it.

`advance` plays a chunk of rounds on the device: a loop over rounds with the cohort vectorised and the local loops inside.
Everything that may differ between runs of one kind (data, numbers of the method, seed, plan, how many rounds) is an input, so
there is one compilation per kind of run. What all m clients do before the first round, the start program, is a small program
of its own (`opening`), so that nothing in a round costs more than its cohort; round 0 of the loop is only the record of it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import sharding
from ..plan import Draw
from ..protocol import Algorithm, Memory, Program
from .description import Run
from .interpret import Context, Info, Members, everyone, play
from .layout import lay_out, tell

compilations: Counter[str] = Counter()  # how often `advance` was traced, by method


class Carry(NamedTuple):
    """What one round hands to the next."""

    memory: Memory
    round: Any
    said: Any  # what the latest program that was played has to report (`Info`)
    x: Any  # the latest model
    last_finite: Any  # the latest model whose loss was seen to be finite
    diverged: Any  # first round whose loss was seen not to be finite, or −1
    suspect: Any  # the client to blame there, or −1
    stop: Any  # the state of the rule that may end the run, and whether it has


class Records(NamedTuple):
    columns: dict[str, Any]
    clients: dict[str, Any]  # name -> one number per client
    iterates: Any


def advance(capacity: int, run: Run, carry: Carry, plan: Draw, count: Any, rounds: Any) -> tuple[Carry, Records]:
    """`count` rounds from where the carry stands (fewer, if the run's rule stops it); the plan has one row for each."""
    compilations[run.recipe.name] += 1

    def body(k: jax.Array, state: tuple[Carry, Records]) -> tuple[Carry, Records]:
        carry, records = state
        members = Members(*jax.tree.map(lambda part: _row(part, k), tuple(plan)))
        carry, new = _round(run, carry, members, rounds)
        return carry, jax.tree.map(lambda column, row: _with_row(column, row, k), records, new)

    blank = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), record_shapes(run, carry.memory))
    if run.stop is None:
        return jax.lax.fori_loop(0, count, body, (carry, blank))

    def go_on(state: tuple[Any, tuple[Carry, Records]]) -> jax.Array:
        k, (carry, _) = state
        return (k < count) & ~carry.stop[1]

    return jax.lax.while_loop(go_on, lambda s: (s[0] + 1, body(*s)), (jnp.int32(0), (carry, blank)))[1]


def _row(table: jax.Array, k: jax.Array) -> jax.Array:
    """table[k] for k ≥ 0: what JAX adds for negative ones would be traced and lowered once more for every column."""
    return jax.lax.dynamic_index_in_dim(table, k, keepdims=False, allow_negative_indices=False)


def _with_row(table: jax.Array, row: jax.Array, k: jax.Array) -> jax.Array:
    """The table with this row at k ≥ 0."""
    return jax.lax.dynamic_update_index_in_dim(table, row, k, 0, allow_negative_indices=False)


def record_shapes(run: Run, memory: Memory) -> Records:
    """What is recorded of a round on the device."""
    problem = run.problem
    number, each, model = (jax.ShapeDtypeStruct(s, problem.dtype) for s in ((), (problem.clients,), (problem.dim,)))

    def measure(run: Run, memory: Memory, x: jax.Array) -> Any:
        return evaluate(run, run.algorithm_at(0), memory, x)

    columns, clients, _ = jax.eval_shape(measure, run, memory, model)
    return Records(
        columns | {"drift": number, "drift_worst": number},
        clients | ({"drift": each} if run.drift_of_each else {}),
        model if run.keep_iterates else (),
    )


def opening(run: Run) -> Carry:
    """What round 0 is the record of: memory laid out, and the start program played by everyone."""
    t = jnp.int32(0)
    algorithm, context = run.algorithm_at(t), Context(run, t, opening=True)
    memory = lay_out(algorithm, jnp.asarray(run.x0), run.problem)
    memory, said = play(algorithm.start, memory, everyone(run.problem.clients), context)
    tell(algorithm, context.said)
    return jax.tree.map(_strong, _carry(run, memory, said))


def _carry(run: Run, memory: Memory, said: Info) -> Carry:
    stop = () if run.stop is None else (run.stop.start(), jnp.asarray(False))
    x0, nobody = jnp.asarray(run.x0), jnp.int32(-1)
    return Carry(memory, jnp.int32(0), said, x0, x0, nobody, nobody, stop)


def _strong(leaf: Any) -> jax.Array:
    """With a type that does not give way to others: a chunk after this one hands such numbers to the next."""
    return jax.lax.convert_element_type(leaf, jnp.result_type(leaf))


def _round(run: Run, carry: Carry, members: Members, rounds: Any) -> tuple[Carry, Records]:
    """One round and its record."""
    t = carry.round
    algorithm, context = run.algorithm_at(t), Context(run, t)

    def played(memory: Memory, said: Info, program: Program, when: jax.Array) -> tuple[Memory, Info]:
        # A loop of one turn or none, where a conditional would be expected: that one copies the memory of all m clients.
        def turn(state: tuple[Any, Memory, Info]) -> tuple[Any, Memory, Info]:
            return (jnp.asarray(False), *play(program, state[1], members, context))

        return jax.lax.while_loop(lambda state: state[0], turn, (when, memory, said))[1:]

    memory, info, usual = carry.memory, carry.said, 1
    if algorithm.first is not None:
        memory, info = played(memory, info, algorithm.first, t == 1)
        usual = 2
    memory, info = played(memory, info, algorithm.round, t >= usual)
    tell(algorithm, context.said)
    x = algorithm.model(memory.server)
    due = jnp.asarray(True) if run.record_every == 1 else (t % run.record_every == 0) | (t == rounds)
    columns, clients, suspect = _measured(run, algorithm, memory, x, due)
    columns |= {"drift": info.drift, "drift_worst": info.drift_worst}
    clients |= {"drift": info.drifts} if run.drift_of_each else {}
    fine = jnp.all(jnp.isfinite(x)) & (~due | jnp.isfinite(columns["loss"]))
    newly = (carry.diverged < 0) & ~fine
    carry = Carry(
        memory,
        t + 1,
        info,
        x,
        jnp.where(fine & due, x, carry.last_finite),
        jnp.where(newly, t, carry.diverged),
        jnp.where(newly, jnp.where(info.suspect >= 0, info.suspect, suspect), carry.suspect),
        () if run.stop is None else run.stop.look(carry.stop[0], columns),
    )
    return carry, Records(columns, clients, x if run.keep_iterates else ())


def _measured(run: Run, algorithm: Algorithm, memory: Memory, x: jax.Array, due: jax.Array) -> Any:
    """(columns, per client, suspect) of this model where it is due; NaN elsewhere."""

    def measure() -> Any:
        return evaluate(run, algorithm, memory, x)

    if run.record_every == 1:
        return measure()
    columns, clients, suspect = jax.eval_shape(measure)
    empty = jax.tree.map(lambda s: jnp.full(s.shape, jnp.nan, s.dtype), (columns, clients))
    return jax.lax.cond(due, measure, lambda: (*empty, jnp.full(suspect.shape, -1, suspect.dtype)))


def evaluate(run: Run, algorithm: Algorithm, memory: Memory, x: jax.Array) -> tuple[Any, Any, Any]:
    """What is recorded of a model: the problem's columns and, where they were asked for, the method's own."""
    problem = run.problem
    columns, suspect, clients = problem.evaluate(x, run.reference, run.per_client)
    if run.diagnostics and algorithm.diagnostics is not None:
        diagnosis = algorithm.diagnostics
        shards = sharding.active()
        kept = memory.clients if shards is None else shards.shown(memory.clients)
        told = problem.each_with(lambda loss, own: diagnosis.client(own, x, loss), kept)
        columns = columns | diagnosis.server(memory.server, told, problem.weights)
    return dict(columns), dict(clients), suspect


def carry_shapes(run: Run) -> Carry:
    """What a carry of this run looks like."""
    shapes: Carry = jax.eval_shape(opening, run)
    return shapes
