"""Simulation: whole runs as one compiled program.

`advance` plays a chunk of rounds on the device: a loop over rounds with the cohort vectorised and the local loops inside.
Everything that may differ between runs of one kind (data, numbers of the method, seed, plan, how many rounds) is an input, so
there is one compilation per kind of run. Python touches a chunk at a time, to be observed and to write checkpoints.
Round 0 is the start program: its record is the state before the first round.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import DivergenceError, InputError, Interrupted, StorageError
from ..ownership import Owned, owned
from ..plan import Draw
from ..problems.base import Problem
from ..protocol import Algorithm, Memory
from ..vectorise import on_all_devices, replicated
from .checkpoint import Checkpoint
from .description import Run
from .history import History, Result
from .identity import identity
from .interpret import Context, Members, everyone, play
from .interrupt import SIGNALS, Stop
from .layout import lay_out
from .programs import Programs
from .recorder import Recorder

CAPACITY = 256  # most rounds in one chunk
PLAN_ENTRIES = 4_000_000  # most (round, member) pairs in one chunk
FIRST_CHUNK = 2  # nobody knows yet how long a round takes
CHUNK_SECONDS = 0.5  # how long a chunk should take, so that progress is seen and Ctrl-C is heard

compilations: Counter[str] = Counter()  # how often `advance` was traced, by method
Observer = Callable[[History], Any]  # all columns so far -> True to stop


class Carry(NamedTuple):
    """What one round hands to the next."""

    memory: Memory
    round: Any
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
        members = Members(*jax.tree.map(lambda part: part[k], tuple(plan)))
        carry, new = _round(run, carry, members, rounds)
        return carry, jax.tree.map(lambda column, value: column.at[k].set(value), records, new)

    blank = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), record_shapes(run, carry.memory))
    if run.stop is None:
        return jax.lax.fori_loop(0, count, body, (carry, blank))

    def go_on(state: tuple[Any, tuple[Carry, Records]]) -> jax.Array:
        k, (carry, _) = state
        return (k < count) & ~carry.stop[1]

    return jax.lax.while_loop(go_on, lambda s: (s[0] + 1, body(*s)), (jnp.int32(0), (carry, blank)))[1]


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


def _round(run: Run, carry: Carry, members: Members, rounds: Any) -> tuple[Carry, Records]:
    """One round and its record."""
    problem, t = run.problem, carry.round
    algorithm, context = run.algorithm_at(t), Context(run, t)

    def opening(memory: Memory) -> Any:
        del memory  # what came in is only a placeholder of the right shape
        memory = lay_out(algorithm, jnp.asarray(run.x0), problem)
        return play(algorithm.start, memory, everyone(problem.clients), Context(run, t, opening=True))

    branches = [opening, lambda memory: play(algorithm.round, memory, members, context)]
    if algorithm.first is not None:
        special = algorithm.first
        branches.insert(1, lambda memory: play(special, memory, members, context))
    memory, info = jax.lax.switch(jnp.minimum(t, len(branches) - 1), branches, carry.memory)
    x = algorithm.model(memory.server)
    due = (t % run.record_every == 0) | (t == rounds)
    columns, clients, suspect = _measured(run, algorithm, memory, x, due)
    columns |= {"drift": info.drift, "drift_worst": info.drift_worst}
    clients |= {"drift": info.drifts} if run.drift_of_each else {}
    fine = jnp.all(jnp.isfinite(x)) & (~due | jnp.isfinite(columns["loss"]))
    newly = (carry.diverged < 0) & ~fine
    carry = Carry(
        memory,
        t + 1,
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
        told = problem.each_with(lambda loss, own: diagnosis.client(own, x, loss), memory.clients)
        columns = columns | diagnosis.server(memory.server, told, problem.weights)
    return dict(columns), dict(clients), suspect


def _spread_advance(capacity: int, spread: bool, run: Run, *arguments: Any) -> Any:
    play_rounds = partial(advance, capacity)
    return (on_all_devices(play_rounds) if spread else play_rounds)(run, *arguments)


compiled_advance = Programs(_spread_advance, static=2, donate=3)  # on all devices where that helps
_program = compiled_advance  # what it is called for is also what is identified


def capacity_of(run: Run) -> int:
    """How many rounds a chunk has at most."""
    return max(1, min(CAPACITY, PLAN_ENTRIES // run.plan.cohort_size))


def is_spread(run: Run) -> bool:
    """Whether clients are looped over and there are several devices to share the loop."""
    return jax.device_count() > 1 and run.problem.prefers_loop(run.oracle.exact)


def fresh_carry(run: Run) -> Carry:
    """Zeros of the right shape: round 0 fills them in on the device."""

    def shape(x: jax.Array, problem: Problem) -> Memory:
        return lay_out(run.algorithm, x, problem)

    memory = jax.eval_shape(shape, jax.ShapeDtypeStruct((run.population.dim,), run.population.dtype), run.problem)
    memory = jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), memory)
    minus, x0 = np.asarray(-1, np.int32), np.array(run.x0)
    stop = () if run.stop is None else (run.stop.start(), np.asarray(False))
    return Carry(memory, np.asarray(0, np.int32), x0, x0.copy(), minus, minus.copy(), stop)


def padded_plan(run: Run, first: int, count: int, capacity: int) -> Draw:
    """The plan of these rounds (round 0 has none), filled up to the capacity of a chunk."""
    ahead = max(first, 1)
    draw = run.plan.draw(ahead, max(1, first + count - ahead))

    def pad(part: Any, dtype: Any) -> Any:
        if part is None:
            return None
        rows = np.zeros((capacity, part.shape[1]), dtype)
        rows[ahead - first : ahead - first + len(part)] = part[: capacity - (ahead - first)]
        return rows

    return Draw(pad(draw.ids, np.int32), pad(draw.steps, np.int32), pad(draw.answered, bool))


def simulate(
    run: Run,
    *,
    observe: Observer | None = None,
    checkpoint: str | Path | Owned | None = None,
    checkpoint_seconds: float = 10.0,
    resume: bool = False,
) -> Result:
    """Play a run as compiled chunks of rounds; see `undrift.run`."""
    if observe is not None and not callable(observe):
        raise InputError(f"observe is a function of the history so far, got {observe!r}")
    run = run.to_play()
    if run.absences is not None and run.absences.resets:
        raise InputError("in this trace a site lost its memory (--reset): play it by message passing, ud.loopback(…)")
    with precision.scope(run.population.dtype), _own(checkpoint) as folder:
        simulation = _Simulation(run, observe)
        try:
            return simulation.play(folder, checkpoint_seconds, resume)
        except StorageError as error:
            error.result = simulation.so_far()
            raise


@contextmanager
def _own(checkpoint: str | Path | Owned | None) -> Iterator[Path | None]:
    """The directory of the checkpoint, which no other process may touch meanwhile."""
    if checkpoint is None:
        yield None
        return
    with owned(checkpoint) as mine:
        yield mine.path


class _Simulation:
    """A run on its way. What is certain of it is `recorder.kept`: only that is saved, shown and returned."""

    def __init__(self, run: Run, observe: Observer | None) -> None:
        self.run, self.observe = run, observe
        self.capacity, self.spread = capacity_of(run), is_spread(run)
        self.recorder = Recorder(run, carry=fresh_carry(run))
        self.inputs = run.but(data=replicated(run.data)) if self.spread else run
        self.began = time.perf_counter()
        if run.stop is not None:
            run.stop.check(record_shapes(run, self.carry.memory).columns)

    @property
    def carry(self) -> Carry:
        carry: Carry = self.recorder.kept.carry
        return carry

    def so_far(self) -> Result | None:
        """What has been computed, if anything has."""
        return self._result() if self.recorder.length else None

    def play(self, directory: Path | None, seconds: float, resume: bool) -> Result:
        checkpoint = Checkpoint.at(directory, seconds, self._identity)
        if resume and checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
            self._heed_rule()
        signals = SIGNALS if checkpoint is not None else SIGNALS[:1]  # where nothing is saved SIGTERM may just end it
        with Stop(signals) as stop:
            try:
                self._chunks(checkpoint, stop)
                self._save(checkpoint)
                stop.heard()
            except KeyboardInterrupt:
                raise self._interrupted(checkpoint) from None
        result = self._result()
        if self._diverged():
            raise divergence(result)
        return result

    def _chunks(self, checkpoint: Checkpoint | None, stop: Stop) -> None:
        size, rounds = min(FIRST_CHUNK, self.capacity), self.run.rounds
        while not self._over():
            tick, done = time.perf_counter(), self.recorder.length
            count = min(size, rounds + 1 - done, self.capacity)
            if checkpoint is not None and rounds % self.run.record_every:
                if done == rounds:
                    self._save(checkpoint)  # a longer run goes on from here, see `_save`
                else:
                    count = min(count, rounds - done)
            self._chunk(done, count)
            self._heed_rule()
            self._ask_observer()
            if checkpoint is not None and checkpoint.is_due():
                self._save(checkpoint)
            size = int(np.clip(count * CHUNK_SECONDS / max(time.perf_counter() - tick, 1e-9), 1, self.capacity))
            stop.heard()

    def _chunk(self, done: int, count: int) -> None:
        plan = padded_plan(self.run, done, count, self.capacity)
        carry, records = compiled_advance(*self._arguments(plan, count))  # the memory that went in is no more
        played, diverged, suspect = (int(number) for number in (carry.round - done, carry.diverged, carry.suspect))
        self.recorder.add(jax.device_get(records), plan, done, played, diverged, suspect, carry)

    def _load(self, checkpoint: Checkpoint) -> None:
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), self.carry.memory)
        checkpoint.load(self.recorder, record_shapes(self.run, shapes))

    def _save(self, checkpoint: Checkpoint | None) -> None:
        """Save what is kept, unless it ends with a round that is evaluated only because it is the last.

        A longer run would not have looked at that round, so it continues from the round before, which was saved.
        """
        played = self.recorder.length - 1
        if checkpoint is not None and not (played == self.run.rounds and played % self.run.record_every):
            checkpoint.save(self.recorder)

    def _interrupted(self, checkpoint: Checkpoint | None) -> BaseException:
        """What an interrupt leaves: all that was played, or, if it struck inside a chunk, what was saved last."""
        if not self._spent() and self.recorder.length > 0:
            self._save(checkpoint)
            said = f"stopped after {self.recorder.length - 1} of {self.run.rounds} rounds"
        elif checkpoint is not None and checkpoint.exists() and self.recorder.length > 0:
            self._load(checkpoint)
            said = f"stopped at once: the last saved state is round {self.recorder.length - 1} of {self.run.rounds}"
        else:
            return KeyboardInterrupt()  # nothing was played, or nothing of it is left
        return Interrupted(said, result=self._result())

    def _spent(self) -> bool:
        """Whether the memory was handed to a chunk that did not come to its end."""
        return any(isinstance(leaf, jax.Array) and leaf.is_deleted() for leaf in jax.tree.leaves(self.carry))

    def _over(self) -> bool:
        return self.recorder.length > self.run.rounds or self._diverged() or self.recorder.stopped is not None

    def _diverged(self) -> bool:
        return self.recorder.diverged is not None and self.run.on_divergence == "stop"

    def _heed_rule(self) -> None:
        if self.run.stop is not None and bool(self.carry.stop[1]) and not self._diverged():
            self.recorder.stopped = f"{self.run.stop} in round {self.recorder.length - 1}"

    def _ask_observer(self) -> None:
        if self.observe is not None and self.observe(self.recorder.history()) and self.recorder.stopped is None:
            self.recorder.stopped = f"the observer asked for it after round {self.recorder.length - 1}"

    def _arguments(self, plan: Draw, count: int) -> tuple[Any, ...]:
        return self.capacity, self.spread, self.inputs, self.carry, plan, count, self.run.rounds

    def _identity(self) -> str:
        program = _program.identity(*self._arguments(padded_plan(self.run, 0, 1, self.capacity), 1))
        return identity(self.run, program)

    def _result(self) -> Result:
        """With the model as it is, or where it diverged the last one whose loss was seen to be finite."""
        x = self.carry.last_finite if self._diverged() else self.carry.x
        return self.recorder.result(np.asarray(x), time.perf_counter() - self.began)


def divergence(result: Result) -> DivergenceError:
    """The error that ends a run whose loss stopped being finite."""
    assert result.diverged is not None
    assert result.diverged_between is not None
    (first, t), client = result.diverged_between, result.diverged[1]
    who = "in the mean of all clients" if client is None else f"first at client {client}"
    when = f"in round {t}" if first == t else f"in round {t}; it stopped being so between rounds {first} and {t}"
    return DivergenceError(
        f"{result.setting['method']} diverged: the loss is not finite {when}, {who}. Everything before is kept in .result; "
        "take a smaller step size, or on_divergence='continue' to study it",
        round=t,
        client=client,
        result=result,
    )
