"""The server's memory on its disk: the trace, one line a round, and a checkpoint of constant size.

After a round its line is appended to the trace, then the checkpoint is replaced. A server that dies in between plays the round
again, with the same result, and its later line counts. What was recorded of a round stands in its line, so that nothing that
grows with the number of rounds is written twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from msgspec import Struct

from .. import tracefile
from ..engine.identity import plan_digest
from ..engine.recorder import Kept
from ..engine.stored import Stored, write
from ..errors import CheckpointError
from ..tracefile import Row, read_rows
from .contract import Contract
from .coordinator import State
from .memory import NEVER

CHECKPOINT, TRACE = "checkpoint.npz", "trace.jsonl"
REMEDY = "bring it back from a copy, or begin the run anew in another directory (--out)"
Records = dict[str, dict[str, Any]]  # "columns" and "clients" of a round


class Head(Struct, forbid_unknown_fields=True):
    """What the checkpoint says besides its arrays."""

    contract: str
    facts: dict[str, bytes]  # what each site told of its data
    terms: bytes  # what all were told
    states: dict[str, str]  # site -> the name of its state directory
    base: list[int]  # the last round of each site that counts
    round: int = NEVER  # the last that was finished
    opening: dict[str, dict[str, Any]] | None = None  # what was recorded of round 0
    diverged: tuple[int, int | None] | None = None
    stopped: str | None = None
    resets: list[int] = []  # those that lost their memory after that round
    travelled: dict[str, int] = {}


class Book:
    """The files of a deployed run in its directory."""

    def __init__(self, folder: Path, contract: Contract) -> None:
        self.folder, self.contract = folder, contract
        self.began = time.monotonic()  # for people: rounds say in the trace how many seconds this server has served
        self.head = self._read_head()

    @property
    def begun(self) -> bool:
        """Whether all sites have been there once."""
        return self.head is not None

    def begin(
        self, facts: Mapping[str, bytes], terms: bytes, states: Mapping[str, str], deadline: float | None
    ) -> None:
        """Write down what the run begins with."""
        bases = [NEVER] * len(self.contract.sites)
        self.head = Head(self.contract.hash, dict(facts), terms, dict(states), bases)
        tracefile.begin(self.folder / TRACE, deadline, contract=self.contract.hash, sites=self.contract.sites)
        write(self.folder / CHECKPOINT, self.head, {})

    def keep(self, state: State, states: Mapping[str, str]) -> None:
        """Bring the state after a round to the disk."""
        assert self.head is not None
        recorder, t = state.chronicle.recorder, state.chronicle.recorder.length - 1
        recorded: Records = {
            "columns": {name: _written(rows[t]) for name, rows in recorder.columns.items()},
            "clients": {name: [_written(one) for one in rows[t]] for name, rows in recorder.clients.items()},
        }
        if state.trace.last is not None:
            state.trace.last.update(recorded, seconds=round(time.monotonic() - self.began, 6))
            state.trace.append(self.folder / TRACE)
        memory, slots, travelled = state.server.state
        arrays = {f"memory_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(memory))}
        arrays |= {f"slot_{i}": leaf for i, leaf in enumerate(_stacked(slots))}
        self.head.base, self.head.round = list(state.conversation.base), t
        self.head.resets = sorted(state.conversation.resets)
        self.head.opening = recorded if t == 0 else self.head.opening
        self.head.states, self.head.travelled = dict(states), dict(travelled)
        self.head.diverged, self.head.stopped = recorder.diverged, recorder.stopped
        write(self.folder / CHECKPOINT, self.head, arrays)

    def restore(self, state: State) -> None:
        """Put what was kept into the state of a server that begins."""
        assert self.head is not None
        stored = Stored(self.folder / CHECKPOINT, REMEDY)
        head = stored.state(Head)
        if head.round == NEVER:
            return
        memory, slots, _ = state.server.state
        state.server.state = (_taken(stored, "memory", memory), _taken_slots(stored, slots), head.travelled)
        stored.finish()
        state.conversation.base, state.conversation.resets = list(head.base), set(head.resets)
        rows: list[Any] = [
            head.opening,
            *({"columns": row.columns, "clients": row.clients} for row in self._rows(head.round)),
        ]
        _restore_records(state, rows, head)

    def _rows(self, last: int) -> list[Row]:
        rows = read_rows(self.folder / TRACE)[1]
        if len(rows) < last:
            raise CheckpointError(
                f"{self.folder / TRACE} ends with round {len(rows)}, the checkpoint beside it with round {last}: {REMEDY}"
            )
        return rows[:last]

    def _read_head(self) -> Head | None:
        path = self.folder / CHECKPOINT
        if not path.exists():
            self._check_empty()
            return None
        head = Stored(path, REMEDY).state(Head)
        if head.contract != self.contract.hash:
            raise CheckpointError(
                f"{path} belongs to the contract {head.contract}, the study now makes {self.contract.hash}: continue with the "
                "study, the method's file and the undrift that it was begun with, or choose another directory (--out)"
            )
        if set(head.facts) != set(self.contract.sites) or len(head.base) != len(self.contract.sites):
            raise CheckpointError(f"{path} names other sites than its contract: {REMEDY}")
        return head

    def _check_empty(self) -> None:
        """Refuse to begin anew where rounds have been played: the sites have gone on from there."""
        trace = self.folder / TRACE
        if trace.exists() and (rows := read_rows(trace)[1]):
            raise CheckpointError(
                f"{trace} holds {len(rows)} rounds, but {CHECKPOINT} beside it is gone: bring it back to continue, or begin "
                "another run in another directory (--out)"
            )


def _written(value: Any) -> int | float | None:
    """A recorded number as JSON has it."""
    number = value.item()
    return number if math.isfinite(number) else None


def _read(column: list[Any]) -> np.ndarray:
    return np.asarray([math.nan if one is None else one for one in column])


def _stacked(slots: list[Any]) -> list[np.ndarray]:
    rows = [jax.tree.leaves(slot) for slot in slots]
    return [np.stack([np.asarray(leaf) for leaf in leaves]) for leaves in zip(*rows, strict=True)]


def _taken(stored: Stored, name: str, like: Any) -> Any:
    leaves, structure = jax.tree.flatten(like)
    found = [stored.take(f"{name}_{i}", np.shape(leaf), np.asarray(leaf).dtype) for i, leaf in enumerate(leaves)]
    return jax.tree.unflatten(structure, [jax.numpy.asarray(leaf) for leaf in found])


def _taken_slots(stored: Stored, slots: list[Any]) -> list[Any]:
    leaves, structure = jax.tree.flatten(slots[0])
    tables = [
        stored.take(f"slot_{i}", (len(slots), *np.shape(leaf)), np.asarray(leaf).dtype) for i, leaf in enumerate(leaves)
    ]
    return [jax.tree.unflatten(structure, [jax.numpy.asarray(table[i]) for table in tables]) for i in range(len(slots))]


def _restore_records(state: State, rows: list[Any], head: Head) -> None:
    chronicle = state.chronicle
    try:
        columns = {name: _read([row["columns"][name] for row in rows]) for name in rows[0]["columns"]}
        clients = {name: np.stack([_read(row["clients"][name]) for row in rows]) for name in rows[0]["clients"]}
        if any(column.dtype.kind not in "if" for column in (*columns.values(), *clients.values())):
            raise ValueError("a record is no number")
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"the records in the trace are damaged ({error}): {REMEDY}") from error
    kept = Kept(len(rows), head.diverged, None, plan_digest(chronicle.run.plan))
    tables = {name: chronicle.recorder.table(rows.shape[1:], rows.dtype, rows) for name, rows in clients.items()}
    chronicle.recorder.restore(kept, columns, tables, None)
    chronicle.recorder.stopped = head.stopped
    chronicle.x_good = np.asarray(state.server.x)
    if chronicle.run.stop is not None:
        for t in range(len(rows)):
            records = {name: column[t] for name, column in columns.items()}
            chronicle.rule, _ = chronicle.run.stop.look(chronicle.rule, records)
