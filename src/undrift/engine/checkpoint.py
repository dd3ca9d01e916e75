"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file (see `stored`) with the method's memory, the records so far and a fingerprint of the run. It is written
beside the old one and moved into place, so that a crash while writing leaves the old one whole. What is saved is what the
recorder keeps, which is replaced as a whole when a chunk of rounds is complete: no interrupt can tear it. What is read is
checked as a whole before any of it is used.
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
from .identity import plan_digest_after
from .recorder import Kept, Recorder
from .stored import Stored, write

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


class Checkpoint:
    """The checkpoint of one run in one directory."""

    def __init__(self, directory: Path, seconds: float, identify: Callable[[], str]) -> None:
        self.path, self.seconds, self.identify = directory / FILE, seconds, identify
        self.saved = time.monotonic()

    @classmethod
    def at(cls, directory: str | Path | None, seconds: float, identify: Callable[[], str]) -> Checkpoint | None:
        """`identify`: the identity of the run, which takes a trace of its program to find out."""
        if directory is None:
            return None
        return cls(Path(directory), seconds, identify)

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
        arrays: dict[str, Any] = {f"carry_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(kept.carry))}
        arrays |= {f"column_{name}": rows[: kept.length] for name, rows in recorder.columns.items()}
        arrays |= {f"clients_{name}": rows[: kept.length] for name, rows in recorder.clients.items()}
        arrays |= {"iterates": recorder.iterates[: kept.length]} if recorder.run.keep_iterates else {}
        write(self.path, State(self.identity, kept.drawn.hexdigest(), kept.length, kept.diverged, FORMAT), arrays)
        self.saved = time.monotonic()

    def load(self, recorder: Recorder, records: Any) -> None:
        """Put the saved run into the recorder, which holds the beginning of it; `records`: shapes of one round's record."""
        stored = Stored(self.path, REMEDY)
        state = stored.state(State)
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
        columns, clients, iterates = _records(stored, state.length, recorder, records)
        leaves, structure = jax.tree.flatten(recorder.kept.carry)
        saved = [stored.take(f"carry_{i}", np.shape(leaf), leaf.dtype) for i, leaf in enumerate(leaves)]
        stored.finish()
        carry = jax.tree.unflatten(structure, saved)
        if carry.round != state.length:
            stored.refuse(f"its memory is of round {carry.round}, its records end before round {state.length}")
        recorder.restore(Kept(state.length, state.diverged, carry, drawn), columns, clients, iterates)

    def _of_another_run(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} belongs to another run (its program, numbers, problem, plan or seed differ, or it was written "
            "with other versions of undrift or JAX): resume with the original setting, or choose another directory"
        )


def _records(stored: Stored, length: int, recorder: Recorder, records: Any) -> tuple[Any, Any, Any]:
    """The records so far, in the order of the recorder's own."""
    order = stored.names("column_")
    found = {name: stored.take(f"column_{name}", (length,), np.float64) for name in records.columns}
    found |= {name: stored.take(f"column_{name}", (length,), None) for name in recorder.ledger.columns}
    columns = {name: found[name] for name in order if name in found}
    clients = {
        name: stored.take(f"clients_{name}", (length, *shape.shape), np.float64)
        for name, shape in records.clients.items()
    }
    if not recorder.run.keep_iterates:
        return columns, clients, None
    model = records.iterates
    return columns, clients, stored.take("iterates", (length, *model.shape), model.dtype)
