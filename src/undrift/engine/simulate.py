"""Simulation: whole runs as compiled chunks of rounds (`rounds`), which Python touches a chunk at a time: to draw plans, to be
observed and to write checkpoints."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import Mesh

from .. import precision
from ..errors import DivergenceError, InputError, Interrupted, StorageError
from ..ownership import Owned, owned
from ..plan import Draw
from ..problems.base import Problem
from ..sharding import Shards
from ..vectorise import on_all_devices, replicated
from . import hosts
from .checkpoint import Checkpoint
from .description import Run
from .history import History, Result
from .hosts import Wishes
from .identity import identity
from .interrupt import SIGNALS, Stop
from .layout import overhearing
from .mesh import mesh_of, on_mesh, outline, placed, sharded_digests, shards_of, with_seats, words
from .programs import Programs
from .recorder import Recorder
from .rounds import Carry, advance, carry_shapes, opening, record_shapes

CAPACITY = 256  # most rounds in one chunk
RECORD_BYTES = 2**26  # most bytes of iterates and clients' columns that one chunk brings back
SHARED_ABOVE = 2e5  # numbers that local steps change in a round, below which to meet takes longer than to step
PLAN_ENTRIES = 4_000_000  # most (round, member) pairs in one chunk
FIRST_CHUNK = 2  # nobody knows yet how long a round takes
CHUNK_SECONDS = 0.5  # how long a chunk should take, so that progress is seen and Ctrl-C is heard

Observer = Callable[[History], Any]  # all columns so far -> True to stop


def _spread_advance(capacity: int, spread: bool | Shards, run: Run, *arguments: Any) -> Any:
    return _spread(partial(advance, capacity), spread)(run, *arguments)


def _spread_opening(spread: bool | Shards, run: Run) -> Any:
    return _spread(opening, spread)(run)


def _spread(function: Callable[..., Any], spread: bool | Shards) -> Callable[..., Any]:
    """On one device, on all devices of this process (True), or on a mesh."""
    if isinstance(spread, Shards):
        return on_mesh(function, spread)
    return on_all_devices(function) if spread else function


compiled_opening = Programs(_spread_opening, static=1)
compiled_advance = Programs(_spread_advance, static=2, donate=3)  # on all devices where that helps
_programs = compiled_opening, compiled_advance  # what they are called for is also what is identified


def capacity_of(run: Run) -> int:
    """How many rounds a chunk has at most."""
    recorded = run.population.dim * run.population.dtype.itemsize if run.keep_iterates else 0
    recorded += 64 * run.population.clients if run.per_client else 0
    return max(1, min(CAPACITY, PLAN_ENTRIES // run.plan.cohort_size, RECORD_BYTES // max(recorded, 1)))


def is_spread(run: Run) -> bool:
    """Whether there are several devices, and clients to share out that take longer than the devices' meetings."""
    if jax.process_count() > 1 or jax.device_count() == 1:
        return False
    return run.problem.prefers_loop(run.oracle.exact) or _numbers_stepped(run) > SHARED_ABOVE


def _numbers_stepped(run: Run) -> int:
    """How many numbers the local steps of a round change: the first one stands for all."""
    return int(run.plan.draw(1, 1).steps.sum()) * run.population.dim


def check_stop(run: Run) -> None:
    """Refuse a rule that looks at a column which this run does not record."""
    if run.stop is not None:
        run.stop.check(record_shapes(run, carry_shapes(run).memory).columns)


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
    store: str | Path | Owned | None = None,
    mesh: Any = None,
) -> Result:
    """Play a run as compiled chunks of rounds; see `undrift.run`."""
    if observe is not None and not callable(observe):
        raise InputError(f"observe is a function of the history so far, got {observe!r}")
    run = run.to_play()
    if run.absences is not None and run.absences.resets:
        raise InputError("in this trace a site lost its memory (--reset): play it by message passing, ud.loopback(…)")
    from .players import player  # some of them are made of what is here

    where = mesh_of(mesh)
    shared = where is not None
    with (
        precision.scope(run.population.dtype),
        hosts.together(shared),
        _own(checkpoint, shared) as folder,
        player(run, observe, where, store, folder) as simulation,
    ):
        try:
            result = simulation.play(folder, checkpoint_seconds, resume)
        except StorageError as error:
            error.result = simulation.so_far()
            raise
    return _with_best_model(run, result, lambda shorter: simulate(shorter, mesh=mesh, store=store))


def _with_best_model(run: Run, result: Result, play: Callable[[Run], Result]) -> Result:
    """The result with the model of the best round, where the run's rule asks for it.

    Runs have the same bits whether they end sooner or later, so the rounds up to the best one are simply played again: that
    takes no memory, and no more time than the run itself.
    """
    watched, best = None if run.stop is None else run.stop.watched, result.best
    if watched is None or watched.keep != "best" or best is None or best.kept:
        return result
    again = play(run.but(rounds=best.round, keep_iterates=False))
    return dataclasses.replace(result, x=again.x, best=best._replace(kept=True), seconds=result.seconds + again.seconds)


@contextmanager
def _own(checkpoint: str | Path | Owned | None, shared: bool) -> Iterator[Path | None]:
    """The directory of the checkpoint, which no other process may touch meanwhile but those that play the same run."""
    if checkpoint is None:
        yield None
    elif shared and not hosts.is_first():
        hosts.gathered(np.zeros(1))  # until process 0 has made it
        yield checkpoint.path if isinstance(checkpoint, Owned) else Path(checkpoint)
    else:
        with owned(checkpoint) as mine:
            if shared:
                hosts.gathered(np.zeros(1))
            yield mine.path


_copies: WeakKeyDictionary[Problem, Problem] = WeakKeyDictionary()


def _copied(run: Run) -> Run:
    """The run's inputs on every device; the data are copied there once, for all runs on them."""
    (problem, *others), static = run.tree_flatten()
    if problem not in _copies:
        _copies[problem] = replicated(problem)
    return Run.tree_unflatten(static, (_copies[problem], *replicated(others)))


class _Simulation:
    """A run on its way. What is certain of it is `recorder.kept`: only that is saved, shown and returned."""

    def __init__(self, run: Run, observe: Observer | None, mesh: Mesh | None = None) -> None:
        self.run, self.capacity = run, capacity_of(run)
        self.shards = None if mesh is None else shards_of(run, mesh, self.capacity)
        self.observe = observe if mesh is None or hosts.is_first() else None
        self.alone = mesh is None or hosts.count() == 1  # no other process has a say
        self.agreed = self.alone  # whether an interrupt is one of all processes
        self.spread: bool | Shards = self.shards or (mesh is None and is_spread(run))
        self.recorder = Recorder(run)
        # On the device once: what NumPy holds of all m clients would go there again with every chunk.
        if self.shards is not None:
            self.inputs = placed(run, self.shards)
        else:
            self.inputs = _copied(run) if self.spread else jax.device_put(run)
        self.outline = run if self.shards is None else outline(run)
        self.began = time.perf_counter()
        check_stop(self.outline)

    @property
    def carry(self) -> Carry:
        carry: Carry = self.recorder.kept.carry
        return carry

    def so_far(self) -> Result | None:
        """What has been computed, if anything has."""
        return self._result() if self.recorder.length else None

    def play(self, directory: Path | None, seconds: float, resume: bool) -> Result:
        checkpoint = self.checkpoint = Checkpoint.at(directory, seconds, self._identity, self.shards)
        self.recorder.folder = directory if self.alone or hosts.is_first() else None
        if resume and checkpoint is not None and checkpoint.exists():
            self._load(checkpoint)
            self._heed_rule()
        signals = SIGNALS if checkpoint is not None else SIGNALS[:1]  # where nothing is saved SIGTERM may just end it
        with Stop(signals) as stop:
            try:
                self._chunks(checkpoint, stop)
                self._save(checkpoint)
                if self.alone:
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
            enough, interrupted = self._ask_observer()
            played = self.recorder.length - done
            size = int(np.clip(played * CHUNK_SECONDS / max(time.perf_counter() - tick, 1e-9), 1, self.capacity))
            wishes = Wishes(
                size, enough, checkpoint is not None and checkpoint.is_due(), interrupted or stop.asked is not None
            )
            size, enough, due, end = wishes if self.alone else hosts.agree(wishes)
            if enough and self.recorder.stopped is None:
                self.recorder.stopped = f"the observer asked for it after round {self.recorder.length - 1}"
            if due:
                self._save(checkpoint)
            self.agreed = self.alone or end
            stop.heard()
            if end:  # another process was asked to
                raise KeyboardInterrupt

    def _chunk(self, done: int, count: int) -> None:
        plan = padded_plan(self.run, done, count, self.capacity)
        before = 1 if done == 0 else 0  # round 0 has no plan
        if self.shards is not None and count > before:
            self.spread = self.shards = with_seats(self.shards, plan.rows(before, count))
        with overhearing() as shapes:
            carry = self.carry if done else compiled_opening(self.spread, self.inputs)
            carry, records = compiled_advance(
                *self._arguments(carry, plan, count)
            )  # the memory that went in is no more
        self.run.learn_shapes(shapes)
        ended, diverged, suspect = (int(number) for number in (carry.round, carry.diverged, carry.suspect))
        self.recorder.add(jax.device_get(records), plan, done, ended - done, diverged, suspect, carry)

    def _load(self, checkpoint: Checkpoint) -> None:
        carry = carry_shapes(self.outline)
        checkpoint.load(self.recorder, carry, record_shapes(self.outline, carry.memory))

    def _save(self, checkpoint: Checkpoint | None) -> None:
        """Save what is kept, unless it ends with a round that is evaluated only because it is the last.

        A longer run would not have looked at that round, so it continues from the round before, which was saved.
        """
        played = self.recorder.length - 1
        if checkpoint is not None and not (played == self.run.rounds and played % self.run.record_every):
            checkpoint.save(self.recorder)

    def _interrupted(self, checkpoint: Checkpoint | None) -> BaseException:
        """What an interrupt leaves: all that was played, or, if it struck inside a chunk, what was saved last."""
        if not self.agreed:
            return KeyboardInterrupt()  # the others play on, and will miss this process
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

    def _ask_observer(self) -> tuple[bool, bool]:
        """Whether it has seen enough, and whether it was interrupted (which the other processes must hear first)."""
        if self.observe is None:
            return False, False
        try:
            return bool(self.observe(self.recorder.history())), False
        except KeyboardInterrupt:
            if self.alone:
                raise
            return False, True

    def _arguments(self, carry: Carry, plan: Draw, count: int) -> tuple[Any, ...]:
        return self.capacity, self.spread, self.inputs, carry, plan, count, self.run.rounds

    def _identity(self) -> str:
        """That of the run on one device: another number of them can go on with it."""
        opens, plays = _programs
        plan = padded_plan(self.run, 0, 1, self.capacity)
        whole = self.outline
        program = plays.identity(self.capacity, False, whole, carry_shapes(whole), plan, 1, self.run.rounds)
        if self.shards is None:
            return identity(self.run, opens.identity(False, whole) + program)
        stack = self.inputs.problem.stack
        return identity(self.run, opens.identity(False, whole) + program, stack=stack, digests=sharded_digests)

    def _result(self) -> Result:
        """With the model as it is, or where it diverged the last one whose loss was seen to be finite."""
        x = self.carry.last_finite if self._diverged() else self.carry.x
        result = self.recorder.result(np.asarray(x), time.perf_counter() - self.began)
        if self.shards is not None:
            result.setting["mesh"] = words(self.shards, None if self.run.every_round else self.run.plan.cohort_size)
        return result


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
