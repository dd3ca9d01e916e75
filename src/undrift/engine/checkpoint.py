"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file (see `stored`) with the method's memory, the records so far and a fingerprint of the run. It is written
beside the old one and moved into place, so that a crash while writing leaves the old one whole. Where several processes keep
the rows of clients, each writes its own into a file beside it (`rowfiles`), and any number of processes can go on from there.
What is saved is what the recorder keeps, which is replaced as a whole when a chunk of rounds is complete: no interrupt can tear
it. What is read is checked as a whole before any of it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import jax
import msgspec
import numpy as np

from ..errors import CheckpointError
from ..sharding import Shards
from . import hosts
from .identity import plan_digest_after
from .mesh import Piece, carry_at_owners, is_row, needed_rows
from .recorder import Kept, Recorder
from .rowfiles import Block, read_rows, sweep_up, write_blocks
from .rows import RowFile
from .stored import Stored, write
from .table import OnDisk, Table, remove_others

FILE = "checkpoint.npz"
FORMAT = 2  # costs are running totals; the plan is known by the rounds that were played
REMEDY = "delete it to start this run again; history.csv and model.npy beside it are not touched"


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What a checkpoint says besides its arrays."""

    identity: str
    plan: str
    length: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    diverged: tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)] | None] | None
    format: int = 1
    blocks: tuple[Block, ...] = ()  # where the rows of clients are, if not here
    tables: dict[str, str] = {}  # large tables and the files that they are in, beside this one
    rows: str | None = None  # the file that the clients' rows are in, if they are in one


class Checkpoint:
    """The checkpoint of one run in one directory."""

    def __init__(
        self, directory: Path, seconds: float, identify: Callable[[], str], shards: Shards | None = None
    ) -> None:
        self.path, self.seconds, self.identify, self.shards = directory / FILE, seconds, identify, shards
        self.saved = time.monotonic()
        self.rows: RowFile | None = None  # where the clients' memories are, if they are not part of the carry

    @classmethod
    def at(
        cls,
        directory: str | Path | None,
        seconds: float,
        identify: Callable[[], str],
        shards: Shards | None = None,
    ) -> Checkpoint | None:
        """`identify`: the identity of the run, which takes a trace of its program to find out. `shards`: who keeps which."""
        if directory is None:
            return None
        return cls(Path(directory), seconds, identify, shards)

    @cached_property
    def identity(self) -> str:
        return self.identify()

    def exists(self) -> bool:
        return self.path.exists()

    def is_due(self) -> bool:
        """Whether the last time is long enough ago."""
        return time.monotonic() - self.saved >= self.seconds

    def save(self, recorder: Recorder) -> None:
        """What is kept of the run, whole or not at all."""
        kept = recorder.kept
        arrays, blocks = self._memory(kept)
        arrays |= {f"column_{name}": rows[: kept.length] for name, rows in recorder.columns.items()}
        arrays |= {f"clients_{name}": rows[: kept.length] for name, rows in recorder.clients.items()}
        arrays |= {"iterates": recorder.iterates[: kept.length]} if recorder.run.keep_iterates else {}
        tables: dict[str, str] = {}
        for name, table in recorder.large.items():  # they are on the disk before anything speaks of them
            table.settle()
            del arrays[name]
            tables[name] = str(table.name)
        arrays |= {} if self.rows is None else self.rows.settle()
        rows = None if self.rows is None else self.rows.name
        drawn = kept.drawn.hexdigest()
        state = State(self.identity, drawn, kept.length, kept.diverged, FORMAT, blocks, tables, rows)
        if hosts.is_first() or self.shards is None:
            write(self.path, state, arrays)
            sweep_up(self.path.parent, blocks)
            remove_others(self.path.parent, set(tables.values()))
            if self.rows is not None:
                self.rows.settled()
        self.saved = time.monotonic()

    def _memory(self, kept: Kept) -> tuple[dict[str, Any], tuple[Block, ...]]:
        """What goes into the checkpoint, and where the rest is: rows that several processes keep."""
        named = {f"carry_{i}": leaf for i, leaf in enumerate(jax.tree.leaves(kept.carry))}
        if self.shards is None:
            return {name: np.asarray(leaf) for name, leaf in named.items()}, ()
        rows = jax.tree.leaves(is_row(kept.carry))
        clients, apart = self.shards.clients, hosts.count() > 1
        by_row = {name: leaf for (name, leaf), row in zip(named.items(), rows, strict=True) if row}
        here = {name: np.asarray(leaf) for name, leaf in named.items() if name not in by_row}
        if not apart or not by_row:
            return here | {name: np.asarray(leaf)[:clients] for name, leaf in by_row.items()}, ()
        return here, write_blocks(self.path.parent, self.identity, kept.length, by_row, clients)

    def load(
        self, recorder: Recorder, carry: Any, records: Any, open_rows: Callable[[str], RowFile] | None = None
    ) -> None:
        """Put the saved run into the recorder; `carry`, `records`: shapes of what a round hands on, and of its record.

        `open_rows`: opens the file with the clients' rows, by its name, where the run keeps them in one.
        """
        stored = Stored(self.path, REMEDY)
        state = stored.state(State)
        if (state.rows is None) != (open_rows is None):
            kept, now = ("in memory", "with") if state.rows is None else ("in a file", "without")
            raise CheckpointError(
                f"{self.path} is of a run that keeps its clients' rows {kept}, and it is resumed {now} a store: resume it as "
                "it was begun (store=, --store), or choose another directory"
            )
        if state.format != FORMAT or state.identity != self.identity:
            raise self._of_another_run()
        run, played = recorder.run, state.length - 1
        if played > run.rounds:
            raise CheckpointError(
                f"{self.path} holds {played} rounds already, more than the {run.rounds} asked for: ask for at least as many, "
                "or choose another directory"
            )
        if played == run.rounds and played % run.record_every:
            raise CheckpointError(
                f"{self.path} holds {played} rounds of a longer run, of which round {played} was not evaluated: ask for more "
                "than that, or choose another directory"
            )
        drawn = plan_digest_after(run.plan, played)
        if state.plan != drawn.hexdigest():
            raise self._of_another_run()
        columns, clients, iterates = _records(self.path.parent, stored, state, recorder, records)
        carry = self._carry(stored, state, carry)
        if open_rows is not None and state.rows is not None:
            places = [stored.take(name, (None,), np.int32) for name in ("rows_ids", "rows_places")]
            if not RowFile.is_name(state.rows):
                stored.refuse(f"{state.rows!r} is no name of a file of rows")
            self.rows = open_rows(state.rows)
            self.rows.restore(*places)
        stored.finish()
        if carry.round != state.length:
            stored.refuse(f"its memory is of round {carry.round}, its records end before round {state.length}")
        recorder.restore(Kept(state.length, state.diverged, carry, drawn), columns, clients, iterates)

    def _carry(self, stored: Stored, state: State, shapes: Any) -> Any:
        """What the next round starts from; of rows that are in files of their own those that this process needs."""
        leaves, structure = jax.tree.flatten(shapes)
        named = {f"carry_{i}": leaf for i, leaf in enumerate(leaves)}
        apart: dict[str, Any] = {}
        if state.blocks:
            flags = zip(named.items(), jax.tree.leaves(is_row(shapes)), strict=True)
            by_row = {name: leaf for (name, leaf), row in flags if row}
            first, last = (0, next(iter(by_row.values())).shape[0]) if self.shards is None else needed_rows(self.shards)
            folder = self.path.parent
            apart = read_rows(folder, state.blocks, by_row, self.identity, first, last, REMEDY)
        saved = [
            apart[name] if name in apart else stored.take(name, leaf.shape, leaf.dtype) for name, leaf in named.items()
        ]
        carry = jax.tree.unflatten(structure, saved)
        if self.shards is not None:
            return carry_at_owners(carry, self.shards)
        return jax.tree.map(lambda leaf: leaf.rows if isinstance(leaf, Piece) else leaf, carry)

    def _of_another_run(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} belongs to another run (its program, numbers, problem, plan or seed differ, or it was written "
            "with other versions of undrift or JAX): resume with the original setting, or choose another directory"
        )


def _records(folder: Path, stored: Stored, state: State, recorder: Recorder, records: Any) -> tuple[Any, Any, Any]:
    """The records so far, in the order of the recorder's own."""
    length = state.length
    order = stored.names("column_")
    found = {name: stored.take(f"column_{name}", (length,), np.float64) for name in records.columns}
    found |= {name: stored.take(f"column_{name}", (length,), None) for name in recorder.counted}
    columns = {name: found[name] for name in order if name in found}

    def table(name: str, shape: tuple[int, ...], dtype: Any) -> Table:
        if name in state.tables:
            held = OnDisk(folder, shape, dtype, state.tables[name]).check(length)
            return held if recorder.folder is not None else recorder.table(shape, dtype, held[:length])
        return recorder.table(shape, dtype, stored.take(name, (length, *shape), dtype))

    clients = {name: table(f"clients_{name}", shape.shape, np.float64) for name, shape in records.clients.items()}
    if not recorder.run.keep_iterates:
        return columns, clients, None
    return columns, clients, table("iterates", records.iterates.shape, records.iterates.dtype)
