"""The compiled interpreter of programs: every exchange for its whole cohort at once."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local
from ..oracles import Oracle
from ..problems.base import Problem
from ..protocol import Algorithm, Cohort, Exchange, Memory, OneByOne, Program, Repeat
from ..randomness import tag
from ..vectorise import over_members, take


@dataclasses.dataclass(frozen=True)
class Context:
    """What stays the same while a program is played."""

    problem: Problem
    oracle: Oracle
    key: jax.Array  # of the run
    round: Any
    every_round: bool
    repeat: Any = 0


class Members(NamedTuple):
    """The cohort of this round."""

    ids: jax.Array | None  # None: everyone, in order
    steps: jax.Array
    answered: jax.Array | None  # None: everyone


class Info(NamedTuple):
    """For people, not for the next round."""

    drift: Any  # mean_i ‖y_i − mean y‖ where local paths ended
    suspect: Any  # a client that sent something that is not finite, or −1


def nothing_to_report(dtype: Any) -> Info:
    return Info(jnp.zeros((), dtype), jnp.asarray(-1, jnp.int32))


def lay_out(algorithm: Algorithm, x: jax.Array, problem: Problem) -> Memory:
    """The memory at the start, for all m clients."""

    def copies(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[None], (problem.clients, *leaf.shape)), tree)

    server, slots, client = algorithm.init(x)
    remember = algorithm.remember
    clients = copies(client) if remember is None else problem.each(lambda loss: remember(x, loss))
    return Memory(server, copies(slots), clients)


def everyone(clients: int) -> Members:
    return Members(None, jnp.ones((clients,), jnp.int32), None)


LOCAL = "local"  # the exchange in which methods take their local steps at one go


def exchange_key(key: jax.Array, round: Any, name: str, repeat: Any) -> jax.Array:
    """The randomness of one exchange of one round; fold in the client's number for the client's own."""
    key = jax.random.fold_in(jax.random.fold_in(key, round), tag(name))
    return jax.random.fold_in(key, repeat)


def play(program: Program, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    """All steps of a program, in order."""
    info = nothing_to_report(context.problem.dtype)
    for step in program:
        if isinstance(step, Exchange):
            memory, seen = _exchange(step, memory, members, context)
        elif isinstance(step, Repeat):
            memory, seen = _repeat(step, memory, members, context)
        else:
            memory, seen = _one_by_one(step, memory, members, context)
        info = _merge(info, seen)
    return memory, info


def _exchange(step: Exchange, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    problem = context.problem
    key = exchange_key(context.key, context.round, step.name, context.repeat)
    server = memory.server if step.prepare is None else step.prepare(memory.server, key)
    numbers = jnp.arange(problem.clients, dtype=jnp.int32) if members.ids is None else members.ids
    slots = memory.slots if members.ids is None else take(memory.slots, members.ids)
    before = memory.clients if members.ids is None else take(memory.clients, members.ids)

    def one(row: Any, slot: Any, mine: Any, number: Any, steps: Any) -> Any:
        down = step.send(server, slot)
        local = Local(
            problem.client(row),
            steps,
            jax.random.fold_in(key, number),
            context.round,
            number,
            context.oracle,
            context.every_round,
            context.repeat,
            jax.random.fold_in(exchange_key(context.key, context.round, LOCAL, 0), number),
        )
        mine, up = step.client(mine, down, local)
        end = () if step.endpoint is None else step.endpoint(down, up)
        return mine, up, end, _finite(up)

    after, ups, ends, finite = over_members(
        one,
        problem.stack,
        members.ids,
        slots,
        before,
        numbers,
        members.steps,
        loop=problem.prefers_loop(context.oracle.exact),
    )
    cohort = Cohort(
        numbers,
        members.steps,
        problem.weights if members.ids is None else problem.weights[members.ids],
        members.answered,
        problem.clients,
        key,
    )
    new_server, new_slots = step.receive(server, slots, ups, cohort)
    if members.answered is not None:
        after = _choose(members.answered, after, before)
        new_slots = _choose(members.answered, new_slots, slots)
        finite = finite | ~members.answered
    if members.answered is not None or members.ids is not None:
        new_server = _choose(cohort.heard, new_server, memory.server)
        new_slots = _choose(cohort.heard, new_slots, slots)
    if members.ids is not None:
        after = _put(memory.clients, members.ids, after)
        new_slots = _put(memory.slots, members.ids, new_slots)
    suspect = jnp.where(jnp.all(finite), -1, numbers[jnp.argmin(finite)]).astype(jnp.int32)
    drift = jnp.zeros((), problem.dtype) if step.endpoint is None else _drift(ends, cohort)
    return Memory(new_server, new_slots, after), Info(drift, suspect)


def _repeat(step: Repeat, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    counts = step.counts(members.steps)

    def again(r: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        taking_part = r < counts if members.answered is None else (r < counts) & members.answered
        now = dataclasses.replace(context, repeat=r)
        memory, info = play(step.program, carry[0], members._replace(answered=taking_part), now)
        return memory, _merge(carry[1], info)

    return jax.lax.fori_loop(0, jnp.max(counts), again, (memory, nothing_to_report(context.problem.dtype)))


def _one_by_one(step: OneByOne, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    ids = jnp.arange(context.problem.clients, dtype=jnp.int32) if members.ids is None else members.ids

    def turn(k: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        alone = Members(
            ids[k][None], members.steps[k][None], None if members.answered is None else members.answered[k][None]
        )
        memory, info = play(step.program, carry[0], alone, context)
        return memory, _merge(carry[1], info)

    return jax.lax.fori_loop(0, ids.shape[0], turn, (memory, nothing_to_report(context.problem.dtype)))


def _merge(earlier: Info, later: Info) -> Info:
    drift = jnp.maximum(earlier.drift, later.drift)
    return Info(drift, jnp.where(earlier.suspect >= 0, earlier.suspect, later.suspect))


def _drift(ends: jax.Array, cohort: Cohort) -> jax.Array:
    away = jnp.linalg.norm(ends - cohort.mean(ends)[None], axis=1)
    answered = jnp.ones(away.shape, bool) if cohort.answered is None else cohort.answered
    return jnp.where(cohort.heard, jnp.sum(jnp.where(answered, away, 0)) / jnp.maximum(jnp.sum(answered), 1), 0)


def _finite(tree: Any) -> jax.Array:
    flags = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.stack(flags)) if flags else jnp.asarray(True)


def _choose(mask: jax.Array, yes: Any, no: Any) -> Any:
    def leaf(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(leaf, yes, no)


def _put(whole: Any, ids: jax.Array, rows: Any) -> Any:
    return jax.tree.map(lambda target, row: target.at[ids].set(row), whole, rows)
