"""The compiled interpreter of programs: every exchange for its whole cohort at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from .. import sharding
from ..local import Local
from ..problems.base import Problem
from ..protocol import (
    AtServer,
    Cohort,
    Exchange,
    HearThenSpeak,
    Memory,
    OneByOne,
    Program,
    Repeat,
    ResetThenAnswer,
    all_but_one,
    drawn_again,
)  # fmt: skip
from ..randomness import tag
from ..sums import total
from ..vectorise import over_members, take
from .description import Run
from .layout import Shapes


@dataclasses.dataclass(frozen=True)
class Context:
    """What stays the same while a program is played."""

    run: Run
    round: Any
    repeat: Any = 0
    opening: bool = False  # the start program, which all m clients play whatever the plan says
    in_turn: bool = False  # clients play one after the other
    in_hand: bool = False  # the memory holds the rows of the members alone, in their order
    said: dict[int, Shapes] = dataclasses.field(default_factory=dict)  # by the exchange's `id`, see `layout.tell`

    @property
    def problem(self) -> Problem:
        return self.run.problem


class Members(NamedTuple):
    """The cohort of this round."""

    ids: jax.Array | None  # None: everyone, in order
    steps: jax.Array
    answered: jax.Array | None  # None: everyone
    places: jax.Array | None = None  # where their rows are, if these are not the rows of all m clients in order

    @property
    def rows(self) -> jax.Array | None:
        """Where their rows are; None: all of them, in order."""
        return self.ids if self.places is None else self.places


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
    if context.in_hand and context.in_turn and _is_dialogue(program):
        return _converse(program, memory, members, context)
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


class Asked(NamedTuple):
    """An exchange up to the answers: what the server then receives."""

    server: Any
    slots: Any
    clients: Any  # the memory of all clients, after they answered
    ups: Any
    ends: Any  # of local paths
    finite: jax.Array  # whether a client's answer is
    cohort: Cohort


def ask(step: Exchange, memory: Memory, members: Members, context: Context) -> Asked:
    """Send to every member, and let it answer."""
    problem, run = context.problem, context.run
    key = exchange_key(run.key, context.round, step.name, context.repeat)
    server = memory.server if step.prepare is None else step.prepare(memory.server, key)
    cohort = _cohort(members, context, key)
    slots = _rows(memory.slots, members, context)
    steps_key = exchange_key(run.key, context.round, LOCAL, 0)

    even = None if context.opening else run.even_steps

    def one(row: Any, slot: Any, mine: Any, number: Any, steps: Any, stride: Any) -> Any:
        steps = steps if even is None else even
        down = step.send(server, slot)
        own_key, own_steps_key = (jax.random.fold_in(k, number) for k in (key, steps_key))
        local = Local(problem.client(row), steps, own_key, context.round, number, run.oracle, own_steps_key, stride)
        mine, up = step.client(mine, down, local)
        context.said[id(step)] = Shapes.of(down, up)
        end = () if step.account.endpoint is None else step.account.endpoint(down, up)
        return mine, up, end, _finite(up)

    told = (slots, cohort.ids, members.steps, cohort.stride, members.answered)
    return Asked(server, slots, *_at_clients(one, memory.clients, members, context, told), cohort)


def _at_clients(
    one: Callable[..., Any], clients: Any, members: Members, context: Context, told: tuple[Any, ...]
) -> tuple[Any, Any, Any, Any]:
    """(the memory of all clients, ups, ends, finite) after `one` was played by the cohort, where its rows lie."""
    stack, shards = context.problem.stack, sharding.active()
    loop = context.problem.prefers_loop(context.run.oracle.exact)
    model = 4 * context.problem.dim * context.problem.dtype.itemsize  # where it began, where it is, gradient, answer

    def here(stack: Any, places: Any, before: Any, told: tuple[Any, ...]) -> tuple[Any, Any]:
        *given, answered = told
        after, *said = over_members(
            one, stack, places, given[0], before, *given[1:], loop=loop, work=given[2], model_bytes=model
        )
        return after if answered is None else _choose(answered, after, before), tuple(said)

    if shards is None:
        after, said = here(stack, members.rows, _rows(clients, members, context), told)
        return _put(clients, members, after, context), *said
    if members.ids is None:
        slots, *known = told

        def block(known: Any, stack: Any, own: Any, slots: Any) -> Any:
            return here(stack, None, own, (slots, *known))

        after, said = shards.at_owners(block, known, stack, clients, slots)
        return shards.kept(after), *said

    def own(stack: Any, clients: Any, places: jax.Array, *told: Any) -> Any:
        after, said = here(stack, places, take(clients, places), told)
        return scatter(clients, places, after), said

    after, said = shards.seated(own, (stack, clients), members.ids, *told)
    return after, *said


def _exchange(step: Exchange, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    server, slots, clients, ups, ends, finite, cohort = ask(step, memory, members, context)
    new_server, new_slots = step.receive(server, slots, ups, cohort)
    info = _seen(nothing_to_report(context), ends, finite, cohort, members)
    return _settled(memory._replace(clients=clients), new_server, new_slots, slots, members, cohort, context), info


def _at_server(step: AtServer, memory: Memory, members: Members, context: Context) -> Memory:
    cohort = _cohort(members, context, exchange_key(context.run.key, context.round, "server", context.repeat))
    slots = _rows(memory.slots, members, context)
    server, new_slots = step.step(memory.server, slots, (), cohort)
    return _settled(memory, server, new_slots, slots, members, cohort, context)


def _settled(
    memory: Memory, server: Any, new: Any, old: Any, members: Members, cohort: Cohort, context: Context
) -> Memory:
    """The memory after the server has received; what nobody answered leaves no trace."""
    if members.answered is not None:
        new = _choose(members.answered, new, old)
    if members.answered is not None or members.ids is not None:
        server, new = _choose(cohort.heard, (server, new), (memory.server, old))
    return Memory(server, _put(memory.slots, members, new, context), memory.clients)


def _cohort(members: Members, context: Context, key: jax.Array) -> Cohort:
    weights, importance = context.problem.weights, jnp.asarray(context.run.importance)
    if members.ids is None:
        ids = jnp.arange(context.problem.clients, dtype=jnp.int32)
    else:
        ids, weights, importance = members.ids, weights[members.rows], importance[members.rows]
    counts = None if context.run.renormalise or context.opening else importance
    again = None if members.ids is None or context.run.distinct else drawn_again(ids)
    if context.in_turn:
        return Cohort(ids, members.steps, weights, None, members.answered, key, stride=importance)
    return Cohort(ids, members.steps, weights, counts, members.answered, key, again=again)


def _repeat(step: Repeat, memory: Memory, info: Info, members: Members, context: Context) -> tuple[Memory, Info]:
    counts = step.counts(members.steps)

    def again(r: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        taking_part = r < counts if members.answered is None else (r < counts) & members.answered
        now = dataclasses.replace(context, repeat=r)
        memory, info = play(step.program, carry[0], members._replace(answered=taking_part), now)
        return memory, _merge(carry[1], info)

    return jax.lax.fori_loop(0, jnp.max(counts), again, (memory, info))


def _one_by_one(step: OneByOne, memory: Memory, info: Info, members: Members, context: Context) -> tuple[Memory, Info]:
    if sharding.active() is None:
        return _in_hand(step.program, memory, info, members, context)
    numbered = _numbered(members, context)

    def turn(k: jax.Array, carry: tuple[Memory, Info]) -> tuple[Memory, Info]:
        now = dataclasses.replace(context, in_turn=True)
        memory, seen = play(step.program, carry[0], _only(numbered, k), now)
        return memory, _merge(carry[1], seen)

    return jax.lax.fori_loop(0, members.steps.shape[0], turn, (memory, info))


def _numbered(members: Members, context: Context) -> Members:
    """With the numbers of everyone written out."""
    if members.ids is not None:
        return members
    return members._replace(ids=jnp.arange(context.problem.clients, dtype=jnp.int32))


def _only(members: Members, k: jax.Array) -> Members:
    """One member, as a cohort of its own."""
    alone: Members = jax.tree.map(lambda part: part[k][None], members)
    return alone


def _in_hand(program: Program, memory: Memory, info: Info, members: Members, context: Context) -> tuple[Memory, Info]:
    """Turns on rows that are taken in hand once for all of them.

    Who was drawn twice finds in the later turn what the earlier one left.
    """
    numbered = _numbered(members, context)
    ids: Any = numbered.ids
    if members.ids is None or context.run.distinct:
        place = jnp.arange(ids.shape[0], dtype=ids.dtype)
    else:
        place = jnp.argmax(ids[:, None] == ids[None, :], axis=1)
    rows = _rows(memory.slots, members, context), _rows(memory.clients, members, context)

    def turn(k: jax.Array, carry: tuple[Any, Any, Info]) -> tuple[Any, Any, Info]:
        server, rows, info = carry
        own = Memory(server, *take(rows, place[k][None]))
        now = dataclasses.replace(context, in_turn=True, in_hand=True)
        own, seen = play(program, own, _only(numbered, k), now)
        rows = jax.tree.map(lambda all_, row: all_.at[place[k]].set(row[0]), rows, (own.slots, own.clients))
        return own.server, rows, _merge(info, seen)

    server, rows, info = jax.lax.fori_loop(0, place.shape[0], turn, (memory.server, rows, info))
    rows = rows if members.ids is None or context.run.distinct else take(rows, place)
    slots, clients = (_put(old, members, new, context) for old, new in zip(memory[1:], rows, strict=True))
    return Memory(server, slots, clients), info


def _is_dialogue(program: Program) -> bool:
    """Whether this is begin, step, …, step, end, in which whoever is spoken to only goes on from what it remembers."""
    if len(program) != 3 or not isinstance(program[1], Repeat) or program[1].counts is not all_but_one:
        return False
    exchanges = [program[0], *program[1].program, program[2]]
    if len(exchanges) != 3 or not all(
        isinstance(e, Exchange) and isinstance(e.client, HearThenSpeak) for e in exchanges
    ):
        return False
    begin, step, end = cast("list[Any]", exchanges)
    alike = begin.client.speak == step.client.speak and step.client.hear == end.client.hear and step.send == end.send
    answers = isinstance(begin.receive, ResetThenAnswer) and begin.receive.answer == step.receive
    return alike and answers and all(e.prepare is None and e.account.endpoint is None for e in (begin, step, end))


def _converse(program: Program, memory: Memory, members: Members, context: Context) -> tuple[Memory, Info]:
    """A dialogue with one client, whose rows are in hand, as steps of both ends: it speaks, is answered, and hears.

    So what a client computes in order to speak is still there when it hears, and the compiler does not compute it twice.
    """
    begin, (step, _), end = cast(Any, (program[0], (*cast(Repeat, program[1]).program, None), program[2]))
    run, cohort = context.run, _cohort(members, context, cast(Any, None))
    number, before = cohort.ids[0], take(memory.clients, 0)
    key = jax.random.fold_in(exchange_key(run.key, context.round, LOCAL, 0), number)
    stride = None if cohort.stride is None else cohort.stride[0]
    loss = context.problem.client(take(context.problem.stack, cast(Any, members.rows)[0]))
    local = Local(loss, members.steps[0], cast(Any, None), context.round, number, run.oracle, key, stride)

    def speak(client: HearThenSpeak, mine: Any, fine: Any) -> Any:
        up = client.speak(mine, local)
        return jax.tree.map(lambda leaf: leaf[None], up), fine & _finite(up)

    def one(_: Any, state: Any) -> Any:
        server, slots, mine, fine = state
        up, fine = speak(step.client, mine, fine)
        server, slots = step.receive(server, slots, up, cohort)
        return server, slots, step.client.hear(mine, step.send(server, take(slots, 0)), local), fine

    mine = begin.client.hear(before, begin.send(memory.server, take(memory.slots, 0)), local)
    state = memory.server, begin.receive.reset(memory.server, memory.slots), mine, jnp.asarray(True)
    times = jnp.where(cohort.heard, members.steps[0], 0)
    server, slots, mine, fine = jax.lax.fori_loop(0, times, one, state)
    up, fine = speak(end.client, mine, fine)
    server, slots = end.receive(server, slots, up, cohort)
    # Who stays silent, or has no weight, leaves no trace.
    after = jax.tree.map(lambda leaf: leaf[None], mine)
    memory = Memory(*_choose(cohort.heard, (server, slots, after), tuple(memory)))
    suspect = jnp.where(fine | ~cohort.heard, -1, number).astype(jnp.int32)
    return memory, nothing_to_report(context)._replace(suspect=suspect)


def _merge(earlier: Info, later: Info) -> Info:
    return Info(
        jnp.maximum(earlier.drift, later.drift),
        jnp.maximum(earlier.drift_worst, later.drift_worst),
        jnp.where(earlier.suspect >= 0, earlier.suspect, later.suspect),
        jax.tree.map(jnp.fmax, earlier.drifts, later.drifts),
    )


def _seen(info: Info, ends: Any, finite: jax.Array, cohort: Cohort, members: Members) -> Info:
    """Who sent something that is not finite, and how far clients were apart where local paths ended, if they did."""
    away: Any = () if isinstance(ends, tuple) else jnp.linalg.norm(ends - cohort.average(ends)[None], axis=1)
    if members.ids is None:
        away, finite = sharding.to_all((away, finite))
    seen: Info = sharding.by_all(_summary, info, away, finite, cohort, members)
    return seen


def _summary(info: Info, away: Any, finite: jax.Array, cohort: Cohort, members: Members) -> Info:
    answered = jnp.ones(finite.shape, bool) if cohort.answered is None else cohort.answered
    finite = finite | ~answered
    info = info._replace(suspect=jnp.where(jnp.all(finite), -1, cohort.ids[jnp.argmin(finite)]).astype(jnp.int32))
    if isinstance(away, tuple):
        return info
    counts = answered & cohort.heard
    away, own = jnp.where(counts, away, 0), jnp.where(counts, away, jnp.nan)
    rows: Any = cohort.ids if members.rows is None else members.rows
    drifts = jax.tree.map(lambda all_: all_.at[rows].set(own), info.drifts)
    return info._replace(
        drift=total(away) / jnp.maximum(jnp.sum(answered), 1), drift_worst=jnp.max(away), drifts=drifts
    )


def _finite(tree: Any) -> jax.Array:
    """Whether all numbers are: then, and only then, their product with zeros is zero (and a product is quick)."""
    numbers = [leaf.ravel() for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    flags = [jnp.vdot(own, jnp.zeros_like(own)) == 0 for own in numbers]
    return jnp.all(jnp.stack(flags)) if flags else jnp.asarray(True)


def _rows(tree: Any, members: Members, context: Context) -> Any:
    """The rows of the cohort."""
    shards = sharding.active()
    if context.in_hand:
        return tree
    if members.ids is None:
        return tree if shards is None else shards.shown(tree)
    return take(tree, members.rows) if shards is None else shards.gathered(tree, members.ids)


def _choose(mask: jax.Array, yes: Any, no: Any) -> Any:
    def leaf(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (a.ndim - mask.ndim)), a, b)

    return jax.tree.map(leaf, yes, no)


def _put(tree: Any, members: Members, rows: Any, context: Context) -> Any:
    """All rows, with those of the cohort replaced."""
    shards = sharding.active()
    if context.in_hand:
        return rows
    if members.ids is None:
        return rows if shards is None else shards.kept(rows)
    return scatter(tree, members.rows, rows) if shards is None else shards.put(tree, members.ids, rows)


def scatter(tree: Any, places: Any, rows: Any) -> Any:
    """The tree with these rows at these places."""
    return jax.tree.map(lambda leaf, row: leaf.at[places].set(row), tree, rows)
