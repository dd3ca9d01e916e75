"""The compiled interpreter of programs: every exchange for its whole cohort at once."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local
from ..problems.base import Problem
from ..protocol import AtServer, Cohort, Exchange, Memory, OneByOne, Program, Repeat
from ..randomness import tag
from ..sums import total
from ..vectorise import over_members, take
from .description import Run


@dataclasses.dataclass(frozen=True)
class Context:
    """What stays the same while a program is played."""

    run: Run
    round: Any
    repeat: Any = 0
    opening: bool = False  # the start program, which all m clients play whatever the plan says
    in_turn: bool = False  # clients play one after the other

    @property
    def problem(self) -> Problem:
        return self.run.problem


class Members(NamedTuple):
    """The cohort of this round."""

    ids: jax.Array | None  # None: everyone, in order
    steps: jax.Array
    answered: jax.Array | None  # None: everyone


class Info(NamedTuple):
    """For people, not for the next round."""

    drift: Any  # mean_i ‖y_i − mean y‖ where local paths ended
    drift_worst: Any  # … and the largest
    suspect: Any  # a client that sent something that is not finite, or −1
    drifts: Any  # of every client (NaN: did not take part), if somebody asked


def nothing_to_report(context: Context) -> Info:
    zero = jnp.zeros((), context.problem.dtype)
    drifts = jnp.full((context.problem.clients,), jnp.nan, zero.dtype) if context.run.drift_of_each else ()
    return Info(zero, zero, jnp.asarray(-1, jnp.int32), drifts)


def everyone(clients: int) -> Members:
    return Members(None, jnp.ones((clients,), jnp.int32), None)


LOCAL = "local"  # the exchange in which methods take their local steps at one go


def exchange_key(key: jax.Array, round: Any, name: str, repeat: Any) -> jax.Array:
    """The randomness of one exchange of one round; fold in the client's number for the client's own."""
    key = jax.random.fold_in(jax.random.fold_in(key, round), tag(name))
    return jax.random.fold_in(key, repeat)


def play(program: Program, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    """All steps of a program, in order."""
    info = nothing_to_report(context)
    for step in program:
        if isinstance(step, Exchange):
            memory, seen = _exchange(step, memory, members, context)
            info = _merge(info, seen)
        elif isinstance(step, AtServer):
            memory = _at_server(step, memory, members, context)
        elif isinstance(step, Repeat):
            memory, info = _repeat(step, memory, info, members, context)
        else:
            memory, info = _one_by_one(step, memory, info, members, context)
    return memory, info


def _exchange(step: Exchange, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    problem, run = context.problem, context.run
    key = exchange_key(run.key, context.round, step.name, context.repeat)
    server = memory.server if step.prepare is None else step.prepare(memory.server, key)
    cohort = _cohort(members, context, key)
    slots, before = _rows(memory.slots, members), _rows(memory.clients, members)
    steps_key = exchange_key(run.key, context.round, LOCAL, 0)

    def one(row: Any, slot: Any, mine: Any, number: Any, steps: Any, stride: Any) -> Any:
        down = step.send(server, slot)
        own_key, own_steps_key = (jax.random.fold_in(k, number) for k in (key, steps_key))
        local = Local(problem.client(row), steps, own_key, context.round, number, run.oracle, own_steps_key, stride)
        mine, up = step.client(mine, down, local)
        end = () if step.account.endpoint is None else step.account.endpoint(down, up)
        return mine, up, end, _finite(up)

    after, ups, ends, finite = over_members(
        one,
        problem.stack,
        members.ids,
        slots,
        before,
        cohort.ids,
        members.steps,
        cohort.stride,
        loop=problem.prefers_loop(run.oracle.exact),
    )
    new_server, new_slots = step.receive(server, slots, ups, cohort)
    if members.answered is not None:
        after = _choose(members.answered, after, before)
        finite = finite | ~members.answered
    if members.ids is not None:
        after = _put(memory.clients, members.ids, after)
    suspect = jnp.where(jnp.all(finite), -1, cohort.ids[jnp.argmin(finite)]).astype(jnp.int32)
    info = nothing_to_report(context)._replace(suspect=suspect)
    if step.account.endpoint is not None:
        info = _drift(info, ends, cohort)
    return _settled(memory._replace(clients=after), new_server, new_slots, slots, members, cohort), info


def _at_server(step: AtServer, memory: Memory, members: Members, context: Context) -> Memory:
    cohort = _cohort(members, context, exchange_key(context.run.key, context.round, "server", context.repeat))
    slots = _rows(memory.slots, members)
    server, new_slots = step.step(memory.server, slots, (), cohort)
    return _settled(memory, server, new_slots, slots, members, cohort)


def _settled(memory: Memory, server: Any, new: Any, old: Any, members: Members, cohort: Cohort) -> Memory:
    """The memory after the server has received; what nobody answered leaves no trace."""
    if members.answered is not None:
        new = _choose(members.answered, new, old)
    if members.answered is not None or members.ids is not None:
        server, new = _choose(cohort.heard, (server, new), (memory.server, old))
    slots = new if members.ids is None else _put(memory.slots, members.ids, new)
    return Memory(server, slots, memory.clients)


def _cohort(members: Members, context: Context, key: jax.Array) -> Cohort:
    weights, importance = context.problem.weights, jnp.asarray(context.run.importance)
    if members.ids is None:
        ids = jnp.arange(context.problem.clients, dtype=jnp.int32)
    else:
        ids, weights, importance = members.ids, weights[members.ids], importance[members.ids]
    counts = None if context.run.renormalise or context.opening else importance
    if context.in_turn:
        return Cohort(ids, members.steps, weights, None, members.answered, key, stride=importance)
    return Cohort(ids, members.steps, weights, counts, members.answered, key)


def _repeat(step: Repeat, memory: Memory, info: Info, members: Members, context: Context) -> tuple[Memory, Info]:
    counts = step.counts(members.steps)

    def again(r: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        taking_part = r < counts if members.answered is None else (r < counts) & members.answered
        now = dataclasses.replace(context, repeat=r)
        memory, info = play(step.program, carry[0], members._replace(answered=taking_part), now)
        return memory, _merge(carry[1], info)

    return jax.lax.fori_loop(0, jnp.max(counts), again, (memory, info))


def _one_by_one(step: OneByOne, memory: Memory, info: Info, members: Members, context: Context) -> tuple[Memory, Info]:
    ids = jnp.arange(context.problem.clients, dtype=jnp.int32) if members.ids is None else members.ids

    def turn(k: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        answered = None if members.answered is None else members.answered[k][None]
        alone = Members(ids[k][None], members.steps[k][None], answered)
        memory, info = play(step.program, carry[0], alone, dataclasses.replace(context, in_turn=True))
        return memory, _merge(carry[1], info)

    return jax.lax.fori_loop(0, ids.shape[0], turn, (memory, info))


def _merge(earlier: Info, later: Info) -> Info:
    return Info(
        jnp.maximum(earlier.drift, later.drift),
        jnp.maximum(earlier.drift_worst, later.drift_worst),
        jnp.where(earlier.suspect >= 0, earlier.suspect, later.suspect),
        jax.tree.map(jnp.fmax, earlier.drifts, later.drifts),
    )


def _drift(info: Info, ends: jax.Array, cohort: Cohort) -> Info:
    away = jnp.linalg.norm(ends - cohort.average(ends)[None], axis=1)
    answered = jnp.ones(away.shape, bool) if cohort.answered is None else cohort.answered
    away = jnp.where(answered & cohort.heard, away, 0)
    own = jnp.where(answered & cohort.heard, away, jnp.nan)
    drifts = jax.tree.map(lambda all_: all_.at[cohort.ids].set(own), info.drifts)
    return info._replace(
        drift=total(away) / jnp.maximum(jnp.sum(answered), 1), drift_worst=jnp.max(away), drifts=drifts
    )


def _finite(tree: Any) -> jax.Array:
    flags = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    return jnp.all(jnp.stack(flags)) if flags else jnp.asarray(True)


def _rows(tree: Any, members: Members) -> Any:
    return tree if members.ids is None else take(tree, members.ids)


def _choose(mask: jax.Array, yes: Any, no: Any) -> Any:
    def leaf(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(leaf, yes, no)


def _put(whole: Any, ids: jax.Array, rows: Any) -> Any:
    return jax.tree.map(lambda target, row: target.at[ids].set(row), whole, rows)
