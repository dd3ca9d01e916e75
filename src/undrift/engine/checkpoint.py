"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file (see `stored`) with the method's memory, the records so far and a fingerprint of the run. It is written
beside the old one and moved into place, so that a crash while writing leaves the old one whole. What is read is checked as a
whole before any of it is used.
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
from .identity import plan_identity
from .recorder import Recorder, joined
from .stored import Stored, write

FILE = "checkpoint.npz"
REMEDY = "delete it to start this run again; history.csv and model.npy beside it are not touched"


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What a checkpoint says besides its arrays."""

    identity: str
    plan: str
    length: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    diverged: tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[int, msgspec.Meta(ge=0)] | None] | None


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
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, seconds, identify)

    @cached_property
    def identity(self) -> str:
        return self.identify()

    def exists(self) -> bool:
        return self.path.exists()

    def maybe_save(self, carry: Any, recorder: Recorder) -> None:
        """Save if the last time is long enough ago."""
        if time.monotonic() - self.saved >= self.seconds:
            self.save(carry, recorder)

    def save(self, carry: Any, recorder: Recorder) -> None:
        arrays: dict[str, Any] = {f"carry_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(carry))}
        arrays |= {f"column_{name}": joined(parts) for name, parts in recorder.columns.items()}
        arrays |= {f"clients_{name}": joined(parts) for name, parts in recorder.clients.items()}
        arrays |= {"iterates": joined(recorder.iterates)} if recorder.iterates else {}
        plan = plan_identity(recorder.run.plan, recorder.length)
        write(self.path, State(self.identity, plan, recorder.length, recorder.diverged), arrays)
        self.saved = time.monotonic()

    def load(self, carry: Any, recorder: Recorder, records: Any) -> Any:
        """The carry of the saved run, its records put into the recorder; `records`: the shapes of one round's record."""
        stored = Stored(self.path, REMEDY)
        state = stored.state(State)
        same_plan = state.plan == plan_identity(recorder.run.plan, state.length)
        if state.identity != self.identity or not same_plan:
            raise CheckpointError(
                f"{self.path} belongs to another run (its program, numbers, problem, plan or seed differ, or it was written "
                "with other versions of undrift or JAX): resume with the original setting, or choose another directory"
            )
        columns, clients, iterates = _records(stored, state.length, recorder, records)
        leaves, structure = jax.tree.flatten(carry)
        saved = [stored.take(f"carry_{i}", np.shape(leaf), np.asarray(leaf).dtype) for i, leaf in enumerate(leaves)]
        stored.finish()
        carry = jax.tree.unflatten(structure, saved)
        if carry.round != state.length:
            stored.refuse(f"its memory is of round {carry.round}, its records end before round {state.length}")
        recorder.length, recorder.diverged = state.length, state.diverged
        recorder.columns, recorder.clients, recorder.iterates = columns, clients, iterates
        return carry


def _records(stored: Stored, length: int, recorder: Recorder, records: Any) -> tuple[Any, Any, Any]:
    """The records so far, in the form of the recorder's own."""
    order = stored.names("column_")
    found = {name: [stored.take(f"column_{name}", (length,), np.float64)] for name in records.columns}
    found |= {name: [stored.take(f"column_{name}", (length,), None)] for name in recorder.ledger.columns}
    columns = {name: found[name] for name in order if name in found}
    clients = {
        name: [stored.take(f"clients_{name}", (length, *shape.shape), np.float64)]
        for name, shape in records.clients.items()
    }
    if not recorder.run.keep_iterates:
        return columns, clients, []
    model = records.iterates
    return columns, clients, [stored.take("iterates", (length, *model.shape), model.dtype)]
