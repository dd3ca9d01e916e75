"""What plays a run: all of it in memory, on a mesh, or with the clients' rows in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from .. import memory
from ..errors import InputError
from ..ownership import Owned, owned
from ..problems.arrays import on_disk
from .description import Run
from .outofcore import OutOfCore, row_bytes
from .simulate import _Simulation
from .table import scratch_folder


@contextmanager
def player(run: Run, observe: Any, mesh: Any, store: Any, checkpoint: Path | None) -> Iterator[_Simulation]:
    """What plays this run: all in memory, or with the clients' rows in `store`, if that is given or needed.

    Without a directory of its own the store is that of the checkpoint, or a temporary one.
    """
    if mesh is not None and store is not None:
        raise InputError(
            "a mesh keeps clients' rows in the memory of its devices, a store keeps them on disk: give one of the two"
        )
    if mesh is not None and any(map(on_disk, jax.tree.leaves(run.problem.shared))):
        raise InputError(
            "on a mesh every process reads the rows of its own clients, and the samples of a network are one table for all: "
            "give them as arrays, np.array(x)"
        )
    if mesh is not None or (store is None and not is_needed(run)):
        yield _Simulation(run, observe, mesh)
        return
    with _folder(store, checkpoint) as folder:
        simulation = OutOfCore(run, observe, folder)
        try:
            yield simulation
        finally:
            simulation.close(remove=checkpoint is None)


@contextmanager
def _folder(store: Any, checkpoint: Path | None) -> Iterator[Path]:
    if store is None and checkpoint is None:
        with tempfile.TemporaryDirectory(prefix="undrift-", dir=scratch_folder()) as made:
            yield Path(made)
    elif store is None or (checkpoint is not None and not isinstance(store, Owned) and Path(store) == checkpoint):
        assert checkpoint is not None
        yield checkpoint
    else:
        with owned(store) as mine:
            yield mine.path


def is_needed(run: Run) -> bool:
    """Whether the data are on disk, or the clients' memories would take more than half of this machine's memory."""
    if run.recipe.centralised:
        return False
    room = memory.installed()
    large = room is not None and 2 * run.population.clients * row_bytes(run) > room
    return run.problem.is_on_disk or (large and run.plan.cohort_size < run.population.clients)
