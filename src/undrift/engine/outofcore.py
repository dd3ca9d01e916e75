"""Runs whose clients do not fit into memory: a chunk of rounds is played on the rows of those that take part in it.

Plans are drawn on the host, so it is known beforehand which clients a chunk needs. Their memories are brought from a file
(`rows`) and their data from where they lie, the very same interpreter plays the rounds on these few rows, and the memories go
back. A client that was never seen has no record: its row is made when it is first needed. So a round costs its cohort, whatever
m is. Models are evaluated by blocks of clients (`Problem.evaluator`), so a chunk ends where an evaluation is due. While a chunk
is played a thread draws the plan of the next one and reads the data for it.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import memory, precision
from ..errors import InputError
from ..plan import Draw
from ..problems.arrays import aligned_zeros
from ..protocol import Memory
from ..vectorise import on_all_devices
from .beginning import check_start, depends, played_start
from .checkpoint import Checkpoint
from .description import Run
from .identity import identity
from .interpret import Context, Members, play
from .layout import lay_out, memory_shapes
from .programs import Programs
from .recorder import Recorder
from .rounds import Records, record_shapes
from .rows import Layout, RowFile, adopted, owner_of
from .simulate import _Simulation, capacity_of, is_spread, padded_plan

ROWS_AT_ONCE = 2**24  # bytes of clients' rows that a chunk brings to the device: beyond, new memory costs more
EVERY_ROUND = ("drift", "drift_worst")  # what is recorded of rounds that are not evaluated, too


class Stand(NamedTuple):
    """What one chunk hands to the next, besides the clients' rows."""

    server: Any
    round: Any
    x: Any  # the latest model
    last_finite: Any  # the latest model whose loss was seen to be finite
    stop: Any  # the state of the rule that may end the run, and whether it has


class Chunk(NamedTuple):
    """Some rounds, and what is needed to play them."""

    first: int
    length: int
    plan: Draw
    ids: np.ndarray  # of all that take part, each once
    places: np.ndarray | None  # of the plan's members among them; None: everyone, in order
    inputs: Run  # with these clients' data alone


class Seen(NamedTuple):
    """What is seen of a round on the device."""

    drift: Any
    drift_worst: Any
    drifts: Any
    suspect: Any
    finite: Any  # whether the model is
    iterate: Any


def entered(run: Run, ids: jax.Array, records: Any, known: jax.Array) -> Any:
    """The rows of these clients: their records, or, of those that have none, what they hold before round 1."""
    algorithm = run.algorithm_at(jnp.int32(0))
    memory = lay_out(algorithm, jnp.asarray(run.x0), run.problem)
    if algorithm.start:
        members = Members(ids, jnp.ones(ids.shape, jnp.int32), None, jnp.arange(ids.shape[0], dtype=jnp.int32))
        memory, _ = play(algorithm.start, memory, members, Context(run, jnp.int32(0), opening=True))

    def either(record: jax.Array, fresh: jax.Array) -> jax.Array:
        return jnp.where(known.reshape(known.shape + (1,) * (record.ndim - 1)), record, fresh)

    return jax.tree.map(either, records, (memory.slots, memory.clients))


def advance(
    capacity: int, special: bool, run: Run, memory: Memory, first: Any, plan: Draw, places: Any, count: Any
) -> tuple[Memory, Any, Seen]:
    """`count` rounds from the first on, on the rows that are there; `special`: with the program of round 1."""

    def one(t: Any, memory: Memory, members: Members) -> tuple[Memory, Any, Seen]:
        algorithm = run.algorithm_at(t)
        program = algorithm.first if special and algorithm.first is not None else algorithm.round
        memory, info = play(program, memory, members, Context(run, t))
        x = algorithm.model(memory.server)
        seen = Seen(
            info.drift, info.drift_worst, info.drifts, info.suspect, jnp.all(jnp.isfinite(x)),
            x if run.keep_iterates else (),
        )  # fmt: skip
        return memory, x, seen

    def body(k: jax.Array, state: Any) -> Any:
        memory, _, records = state
        members = Members(*jax.tree.map(lambda part: part[k], (*plan, places)))
        memory, x, seen = one(first + k, memory, members)
        return memory, x, jax.tree.map(lambda column, value: column.at[k].set(value), records, seen)

    members = Members(*jax.tree.map(lambda part: part[0], (*plan, places)))
    shapes = jax.eval_shape(one, first, memory, members)
    blank = jax.tree.map(lambda s: jnp.zeros((capacity, *s.shape), s.dtype), shapes[2])
    state = memory, jnp.zeros(shapes[1].shape, shapes[1].dtype), blank
    return jax.lax.fori_loop(0, count, body, state)


def _spread_advance(capacity: int, special: bool, spread: bool, *arguments: Any) -> Any:
    rounds = partial(advance, capacity, special)
    return (on_all_devices(rounds) if spread else rounds)(*arguments)


def _spread_entered(spread: bool, *arguments: Any) -> Any:
    return (on_all_devices(entered) if spread else entered)(*arguments)


compiled_advance = Programs(_spread_advance, static=3, donate=4)
compiled_entered = Programs(_spread_entered, static=1, donate=3)


class OutOfCore(_Simulation):
    """A run on its way, with its clients' rows in a file of this folder."""

    def __init__(self, run: Run, observe: Any, folder: Path) -> None:
        check(run)
        self.run, self.observe, self.folder = run, observe, folder
        self.began, self.spread = time.perf_counter(), is_spread(run)
        self.shards, self.alone, self.agreed = None, True, True
        self.recorder = Recorder(run, carry=self._start())
        if run.stop is not None:
            run.stop.check(self._shapes.columns)
        shapes = memory_shapes(run.algorithm, run.population)
        self.layout = Layout((shapes.slots, shapes.clients))
        self.capacity, self.rows_at_once = sizes(run, self.layout.bytes)
        self.file: RowFile | None = None
        self.torn = False  # rows are being written that what is kept does not know of yet
        self.evaluate = run.problem.evaluator(run.reference, run.per_client)
        self.look = None if run.stop is None else jax.jit(run.stop.look)
        self._ahead: tuple[int, Future[Chunk]] | None = None
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="undrift-reads-ahead")

    def close(self, remove: bool) -> None:
        """`remove`: nobody continues from the rows."""
        self._reader.shutdown(cancel_futures=True)
        if self.file is not None:
            self.file.close(remove)

    @property
    def stand(self) -> Stand:
        stand: Stand = self.recorder.kept.carry
        return stand

    # ----- what a simulation does otherwise
    def _load(self, checkpoint: Checkpoint) -> None:
        if self.file is not None:
            self.file.close(remove=False)
        checkpoint.load(self.recorder, jax.eval_shape(self._start), self._shapes, self._open_rows)
        self.torn, self._ahead = False, None

    def _open_rows(self, name: str) -> RowFile:
        mine = adopted(self.folder, name, self._owner)
        self.file = RowFile(self.folder, self.run.population.clients, self.layout.bytes, mine)
        return self.file

    def _spent(self) -> bool:
        return self.torn or super()._spent()

    def _identity(self) -> str:
        """That of the run on one device, as everywhere."""
        run, rows = self.run, self.rows_at_once
        chunk = self._prepare(1, 1, rows)
        nothing = self.layout.unpack(np.zeros((rows, self.layout.bytes), np.uint8))
        programs = [compiled_entered.identity(*self._entering(chunk, nothing, np.zeros(rows, bool), spread=False))]
        server = jax.eval_shape(lambda x: run.algorithm_at(0).server(x)[0], jnp.asarray(run.x0))
        for special in (False, True) if run.algorithm.first is not None else (False,):
            held = Memory(jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), server), *nothing)
            programs.append(compiled_advance.identity(*self._arguments_of(chunk, held, special, spread=False)))
        return identity(run, " ".join(programs))

    # ----- a chunk
    def _chunk(self, done: int, count: int) -> None:
        if done == 0:
            return self._round_0()
        chunk = self._prepared(done, count)
        self._read_ahead(chunk.first + chunk.length, count)
        special = done == 1 and self.run.algorithm.first is not None
        held = Memory(self.stand.server, *self._entered(chunk))
        held, x, seen = compiled_advance(*self._arguments_of(chunk, held, special))
        server = held.server
        seen = jax.tree.map(lambda rows: np.asarray(rows)[: chunk.length], seen)
        records, stand, diverged, suspect = self._recorded(chunk, server, np.asarray(x), seen)
        self.torn = True
        rows = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(chunk.ids)], (held.slots, held.clients))
        if self.layout.bytes:
            self._rows().write(chunk.ids, self.layout.pack(rows))
        self.recorder.add(records, chunk.plan, chunk.first, chunk.length, diverged, suspect, stand)
        self.torn = False

    def _round_0(self) -> None:
        """The start program and the record of the state before the first round."""
        self._rows()  # a checkpoint of round 0 speaks of the file already
        server, suspect = played_start(self.run)
        x = np.asarray(self.run.algorithm_at(0).model(server))
        seen = Seen(np.zeros(1), np.zeros(1), self._nobody(1), np.full(1, suspect), np.isfinite(x).all()[None], x[None])
        everyone = np.arange(self.run.population.clients)
        plan = padded_plan(self.run, 0, 1, self.capacity)
        chunk = Chunk(0, 1, plan, everyone, None, self.run)
        records, stand, diverged, suspect = self._recorded(chunk, server, x, seen)
        self.recorder.add(records, plan, 0, 1, diverged, suspect, stand)

    def _start(self) -> Stand:
        server = jax.jit(lambda x: self.run.algorithm_at(0).server(x)[0])(jnp.asarray(self.run.x0))
        x0 = np.array(self.run.x0)
        stop = () if self.run.stop is None else (self.run.stop.start(), np.asarray(False))
        return Stand(server, np.asarray(0, np.int32), x0, x0, stop)

    @property
    def _owner(self) -> str:
        return owner_of(None if self.checkpoint is None else self.checkpoint.path.parent)

    def _rows(self) -> RowFile:
        if self.file is None:
            self.file = RowFile(self.folder, self.run.population.clients, self.layout.bytes, owner=self._owner)
            if self.checkpoint is not None:
                self.checkpoint.rows = self.file
        return self.file

    def _entered(self, chunk: Chunk) -> Any:
        """The rows of the chunk's clients, on the device."""
        known = np.zeros(self.rows_at_once, bool)
        records = self.staged
        if self.layout.bytes:
            known[: len(chunk.ids)] = self._rows().known(chunk.ids)
            there = np.flatnonzero(known)
            if len(there) == len(chunk.ids):
                self._rows().read(chunk.ids, records[: len(there)])
            else:
                found = np.empty((len(there), self.layout.bytes), np.uint8)
                self._rows().read(chunk.ids[there], found)
                records[there] = found
        if self.unseen is not None:
            records[np.flatnonzero(~known[: len(chunk.ids)])] = self.unseen
            known[: len(chunk.ids)] = True
        if known[: len(chunk.ids)].all():
            # Memory of the device's own: rounds are played in place, which what only borrows NumPy's does not allow
            rows = jax.tree.map(lambda leaf: jnp.array(leaf, copy=True), self.layout.unpack(records))
        else:
            rows = compiled_entered(*self._entering(chunk, self.layout.unpack(records), known))
        return jax.block_until_ready(rows)  # then the next chunk may write over the records

    @cached_property
    def staged(self) -> np.ndarray:
        """Where every chunk's records come by; behind those of its clients are some of earlier chunks, which nobody reads."""
        return aligned_zeros((self.rows_at_once, self.layout.bytes), np.uint8)

    @cached_property
    def unseen(self) -> np.ndarray | None:
        """The record of a client that was never seen, where it is the same for all: neither data nor a start say it."""
        if not self.layout.bytes:
            return np.zeros(0, np.uint8)
        run = self.run
        population, algorithm = run.population, run.algorithm_at(0)

        def rows(x: Any, shared: Any, row: Any) -> Any:
            return algorithm.server(x)[1], algorithm.client(x, population.view(shared, row))

        given = population.shared, population.row
        if algorithm.start or depends(jax.make_jaxpr(rows)(run.x0, *given).jaxpr, 1):
            return None
        made = jax.jit(rows)(run.x0, *jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), given))
        record: np.ndarray = self.layout.pack(jax.tree.map(lambda leaf: np.asarray(leaf)[None], made))[0]
        return record

    def _entering(self, chunk: Chunk, records: Any, known: np.ndarray, spread: bool | None = None) -> tuple[Any, ...]:
        ids = np.concatenate([chunk.ids, np.full(self.rows_at_once - len(chunk.ids), chunk.ids[-1])]).astype(np.int32)
        return self.spread if spread is None else spread, chunk.inputs, ids, records, known

    def _arguments_of(self, chunk: Chunk, held: Memory, special: bool, spread: bool | None = None) -> tuple[Any, ...]:
        first, count = np.asarray(chunk.first, np.int32), np.asarray(chunk.length, np.int32)
        spread = bool(self.spread) if spread is None else spread
        return self.capacity, special, spread, chunk.inputs, held, first, chunk.plan, chunk.places, count

    # ----- prepared ahead
    def _prepared(self, done: int, count: int) -> Chunk:
        if self._ahead is not None and self._ahead[0] == done:
            (_, coming), self._ahead = self._ahead, None
            return coming.result()
        self._ahead = None
        return self._prepare(done, self._length(done, count), self.rows_at_once)

    def _read_ahead(self, first: int, count: int) -> None:
        if first <= self.run.rounds:
            length = self._length(first, count)
            self._ahead = first, self._reader.submit(self._prepare, first, length, self.rows_at_once)

    def _length(self, first: int, count: int) -> int:
        """How many rounds a chunk has that begins here: to the next evaluation, and where a longer run goes on from."""
        run = self.run
        every_one = run.stop is not None and not set(run.stop.columns).isdisjoint(EVERY_ROUND)
        if every_one or (first == 1 and run.algorithm.first is not None):
            return 1
        due = -(-first // run.record_every) * run.record_every
        last = run.rounds if first == run.rounds or run.rounds % run.record_every == 0 else run.rounds - 1
        return min(count, self.capacity, due - first + 1, last - first + 1)

    def _prepare(self, first: int, count: int, rows: int) -> Chunk:
        """The plan of these rounds, and the data of those that take part."""
        with precision.scope(self.run.population.dtype):
            plan = padded_plan(self.run, first, count, self.capacity)
            if plan.ids is None:
                ids, places = np.arange(self.run.population.clients), None
            else:
                ids = np.unique(plan.ids[:count])
                places = np.minimum(np.searchsorted(ids, plan.ids), len(ids) - 1).astype(np.int32)
            data = jax.device_put(self.run.problem.among(ids, rows))
            inputs = self.run.but(data=data)
            importance = np.zeros(rows, self.run.importance.dtype)
            importance[: len(ids)] = self.run.importance[ids]
            inputs.__dict__.update(reference=None, importance=importance, every_round=self.run.every_round)
            return Chunk(first, count, plan, ids, places, inputs)

    # ----- what is recorded
    def _recorded(self, chunk: Chunk, server: Any, x: np.ndarray, seen: Seen) -> tuple[Records, Stand, int, int]:
        """The records of a chunk, where the run stands after it, the first round that is not finite, and whom to suspect."""
        run, last, before = self.run, chunk.first + chunk.length - 1, self.stand
        due = last % run.record_every == 0 or last == run.rounds
        columns = {name: np.full(chunk.length, np.nan) for name in self._shapes.columns if name not in EVERY_ROUND}
        clients = {name: self._nobody(chunk.length) for name in self._shapes.clients if name != "drift"}
        fine, suspect = np.array(seen.finite, bool), np.array(seen.suspect)
        if due:
            found = self.evaluate(x)
            for name, value in found.columns.items():
                columns[name][-1] = value
            for name, value in found.clients.items():
                clients[name][-1] = value
            fine[-1] &= bool(np.isfinite(columns["loss"][-1]))
            suspect[-1] = suspect[-1] if suspect[-1] >= 0 else int(found.suspect)
        columns |= {"drift": np.asarray(seen.drift), "drift_worst": np.asarray(seen.drift_worst)}
        if run.drift_of_each:
            clients["drift"] = self._spread_out(chunk, seen.drifts)
        bad = -1 if fine.all() else int(np.argmin(fine))
        stand = Stand(
            server,
            np.asarray(last + 1, np.int32),
            x,
            x if due and fine[-1] else before.last_finite,
            self._looked(before.stop, columns),
        )
        # In the order in which a compiled program returns them
        records = Records(dict(sorted(columns.items())), clients, seen.iterate if run.keep_iterates else ())
        return records, stand, -1 if bad < 0 else chunk.first + bad, -1 if bad < 0 else int(suspect[bad])

    def _looked(self, state: Any, columns: dict[str, np.ndarray]) -> Any:
        """What the rule that may end the run makes of these rounds."""
        if self.look is None:
            return ()
        inside, met = state
        dtype = self.run.population.dtype
        for k in range(len(columns["loss"])):
            inside, met = self.look(inside, {name: np.asarray(values[k], dtype) for name, values in columns.items()})
        return jax.tree.map(np.asarray, (inside, met))

    @cached_property
    def _shapes(self) -> Records:
        return record_shapes(self.run, Memory(()))

    def _nobody(self, count: int) -> Any:
        return np.full((count, self.run.population.clients), np.nan) if self.run.per_client else ()

    def _spread_out(self, chunk: Chunk, drifts: np.ndarray) -> np.ndarray:
        everyone = self._nobody(chunk.length)
        everyone[:, chunk.ids] = drifts[:, : len(chunk.ids)]
        return everyone


def sizes(run: Run, record: int) -> tuple[int, int]:
    """(rounds of the longest chunk, clients whose rows it can hold)."""
    cohort, problem = run.plan.cohort_size, run.problem
    each = record + problem.client_bytes
    memory.require(
        3 * cohort * each,
        f"the rows of a cohort of {cohort} clients ({memory.words(each)} each)",
        "take smaller cohorts",
    )
    most = min(capacity_of(run), run.record_every, ROWS_AT_ONCE // max(cohort * each, 1))
    capacity = max(1, most)
    return capacity, min(problem.clients, capacity * cohort)


def check(run: Run) -> None:
    """Refuse what needs all clients' rows at once."""
    if run.recipe.centralised:
        raise InputError(
            f"{run.method.name} holds all data in one place, so no rows of clients can be kept on disk: leave store out, and "
            "read memory-mapped data with np.array"
        )
    if run.diagnostics and run.algorithm.diagnostics is not None:
        raise InputError(
            f"diagnostics of {run.method.name} look at the memories of all clients, which are on disk: leave diagnostics out"
        )
    check_start(run)


def row_bytes(run: Run) -> int:
    """What a run keeps for each client besides its data."""
    shapes = memory_shapes(run.algorithm, run.population)
    return Layout((shapes.slots, shapes.clients)).bytes
