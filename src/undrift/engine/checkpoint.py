"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file: a SHA-256 of the rest, then an .npz with the method's memory, the records so far and a fingerprint
of the run. It is written beside the old one and moved into place, so that a crash while writing leaves the old one whole. What
is saved is what the recorder keeps, which is replaced as a whole when a chunk of rounds is complete: no interrupt can tear it.
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import numpy as np

from .. import files
from ..errors import CheckpointError
from .identity import plan_digest_after
from .recorder import Kept, Recorder

FILE = "checkpoint.npz"
FORMAT = 2  # costs are running totals; the plan is known by the rounds that were played


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
        state = {"format": FORMAT, "identity": self.identity, "plan": kept.drawn.hexdigest()}
        state |= {"length": kept.length, "diverged": kept.diverged}
        buffer = io.BytesIO()
        np.savez(buffer, state=np.array(json.dumps(state)), **arrays)
        content = buffer.getvalue()
        files.write_bytes(self.path, hashlib.sha256(content).digest() + content)
        self.saved = time.monotonic()

    def load(self, recorder: Recorder) -> None:
        """Put the saved run into the recorder, which holds the beginning of the same run."""
        stored = self._read()
        state = json.loads(str(stored["state"]))
        if state.get("format") != FORMAT or state.get("identity") != self.identity:
            raise self._of_another_run()
        run, played = recorder.run, state["length"] - 1
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
        if state["plan"] != drawn.hexdigest():
            raise self._of_another_run()
        leaves, structure = jax.tree.flatten(recorder.kept.carry)
        carry = jax.tree.unflatten(structure, [stored[f"carry_{i}"] for i in range(len(leaves))])
        diverged = None if state["diverged"] is None else tuple(state["diverged"])
        kept = Kept(played + 1, diverged, carry, drawn)
        recorder.restore(kept, _rows(stored, "column_"), _rows(stored, "clients_"), stored.get("iterates"))

    def _of_another_run(self) -> CheckpointError:
        return CheckpointError(
            f"{self.path} belongs to another run (its program, numbers, problem, plan or seed differ, or it was written "
            "with other versions of undrift or JAX): resume with the original setting, or choose another directory"
        )

    def _read(self) -> dict[str, np.ndarray]:
        with files.storage(self.path):
            raw = self.path.read_bytes()
        digest, content = raw[:32], raw[32:]
        if hashlib.sha256(content).digest() != digest:
            raise CheckpointError(
                f"{self.path} is corrupt (its checksum does not fit): delete it to start this run again; history.csv and "
                "model.npy beside it are not touched"
            )
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                return dict(archive)
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise CheckpointError(f"{self.path} cannot be read: {error}") from error


def _rows(stored: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in stored.items() if name.startswith(prefix)}
