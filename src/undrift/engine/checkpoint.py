"""Checkpoints: enough to continue a killed run and end with the same bits.

A checkpoint is one file: a SHA-256 of the rest, then an .npz with the method's memory, the records so far and a fingerprint
of the run. It is written beside the old one and moved into place, so that a crash while writing leaves the old one whole.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..errors import CheckpointError
from .recorder import Recorder
from .setup import Setup

FILE = "checkpoint.npz"


class Checkpoint:
    """The checkpoint of one run in one directory."""

    def __init__(self, directory: Path, setup: Setup, seconds: float) -> None:
        self.path, self.setup, self.seconds = directory / FILE, setup, seconds
        self.fingerprint = fingerprint(setup)
        self.saved = time.monotonic()

    @classmethod
    def at(cls, directory: str | Path | None, setup: Setup, seconds: float) -> Checkpoint | None:
        if directory is None:
            return None
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, setup, seconds)

    def exists(self) -> bool:
        return self.path.exists()

    def maybe_save(self, carry: Any, recorder: Recorder) -> None:
        """Save if the last time is long enough ago."""
        if time.monotonic() - self.saved >= self.seconds:
            self.save(carry, recorder)

    def save(self, carry: Any, recorder: Recorder) -> None:
        arrays: dict[str, Any] = {f"carry_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(carry))}
        arrays |= {f"column_{name}": np.concatenate(parts) for name, parts in recorder.columns.items() if parts}
        arrays |= {"iterates": np.concatenate(recorder.iterates)} if recorder.iterates else {}
        state = json.dumps({"fingerprint": self.fingerprint, "length": recorder.length, "diverged": recorder.diverged})
        buffer = io.BytesIO()
        np.savez(buffer, state=np.array(state), **arrays)
        content = buffer.getvalue()
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("wb") as file:
            file.write(hashlib.sha256(content).digest() + content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)
        self.saved = time.monotonic()

    def load(self, carry: Any, recorder: Recorder) -> Any:
        """The carry of the saved run, its records put into the recorder."""
        stored = self._read()
        state = json.loads(str(stored["state"]))
        if state["fingerprint"] != self.fingerprint:
            raise CheckpointError(
                f"{self.path} belongs to another run (its method, problem, plan or seed differ): resume with the original "
                "setting, or choose another directory"
            )
        recorder.length = state["length"]
        recorder.diverged = None if state["diverged"] is None else tuple(state["diverged"])
        for name in recorder.columns:
            recorder.columns[name] = [stored[f"column_{name}"]]
        if "iterates" in stored:
            recorder.iterates = [stored["iterates"]]
        leaves, structure = jax.tree.flatten(carry)
        return jax.tree.unflatten(structure, [stored[f"carry_{i}"] for i in range(len(leaves))])

    def _read(self) -> dict[str, np.ndarray]:
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


def fingerprint(setup: Setup) -> str:
    """A hash of everything that decides a run's numbers, the number of rounds excepted."""
    words = {k: v for k, v in setup.describe().items() if k != "rounds"} | {"keep_iterates": setup.keep_iterates}
    # Functions among the settings (Optax transforms) name themselves with an address that another process does not share.
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", json.dumps(words, sort_keys=True)).encode())
    digest.update(repr(sorted(setup.method.numbers.items())).encode())
    for leaf in [*jax.tree.leaves(setup.problem), setup.x0]:
        digest.update(np.ascontiguousarray(np.asarray(leaf)).data)
    return digest.hexdigest()
