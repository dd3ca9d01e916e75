"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file: a SHA-256 of the rest, then an .npz with the method's memory, the records so far and a fingerprint
of the run. It is written beside the old one and moved into place, so that a crash while writing leaves the old one whole.
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
from .identity import plan_identity
from .recorder import Recorder, joined

FILE = "checkpoint.npz"


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
        state = json.dumps(
            {"identity": self.identity, "plan": plan, "length": recorder.length, "diverged": recorder.diverged}
        )
        buffer = io.BytesIO()
        np.savez(buffer, state=np.array(state), **arrays)
        content = buffer.getvalue()
        files.write_bytes(self.path, hashlib.sha256(content).digest() + content)
        self.saved = time.monotonic()

    def load(self, carry: Any, recorder: Recorder) -> Any:
        """The carry of the saved run, its records put into the recorder."""
        stored = self._read()
        state = json.loads(str(stored["state"]))
        same_plan = state.get("plan") == plan_identity(recorder.run.plan, state["length"])
        if state.get("identity") != self.identity or not same_plan:
            raise CheckpointError(
                f"{self.path} belongs to another run (its program, numbers, problem, plan or seed differ, or it was written "
                "with other versions of undrift or JAX): resume with the original setting, or choose another directory"
            )
        recorder.length = state["length"]
        recorder.diverged = None if state["diverged"] is None else tuple(state["diverged"])
        recorder.columns = _parts(stored, "column_")
        recorder.clients = _parts(stored, "clients_")
        if "iterates" in stored:
            recorder.iterates = [stored["iterates"]]
        leaves, structure = jax.tree.flatten(carry)
        return jax.tree.unflatten(structure, [stored[f"carry_{i}"] for i in range(len(leaves))])

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


def _parts(stored: dict[str, np.ndarray], prefix: str) -> dict[str, list[np.ndarray]]:
    return {name.removeprefix(prefix): [array] for name, array in stored.items() if name.startswith(prefix)}
