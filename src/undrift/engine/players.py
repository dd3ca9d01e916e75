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
from .outofcore import OutOfCore, check, row_bytes
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
    if mesh is not None or (store is None and not is_wanted(run)):
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
    elif store is None or (
        checkpoint is not None and not isinstance(store, Owned) and Path(store).resolve() == checkpoint.resolve()
    ):
        assert checkpoint is not None
        yield checkpoint
    else:
        with owned(store) as mine:
            yield mine.path


def is_wanted(run: Run) -> bool:
    """Whether the data are on disk, or the clients' memories would take more than half of this machine's memory.

    Where nobody has asked for a store, a run that cannot be played with one is played in memory.
    """
    if run.recipe.centralised:
        return False
    if run.problem.is_on_disk:
        return True
    room = memory.installed()
    if room is None or 2 * run.population.clients * row_bytes(run) <= room:
        return False
    try:
        check(run)
    except InputError:
        return False
    return run.plan.cohort_size < run.population.clients
