"""A site's memory on its disk: what it was after the last rounds that count.

Two snapshots are kept: the one that the server counts (`base`) and the one written last. Between the site's commit and the
server's checkpoint either side may die, and whichever of the two the server then asks for is there.
"""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any

from ..engine.stored import read_stored, write_stored
from ..errors import CheckpointError

NEVER = -1  # the round of the memory that a site begins with, which is computed and not kept


class Snapshots(abc.ABC):
    """The memories after some rounds."""

    @abc.abstractmethod
    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        """Bring the memory after this round to the disk; forget all others but that of `base`."""

    @abc.abstractmethod
    def at(self, round: int) -> list[Any]:
        """The memory after this round; `CheckpointError` where it is not there."""


class InProcess(Snapshots):
    """Snapshots that live as long as the process, for rehearsals in one."""

    def __init__(self) -> None:
        self.kept: dict[int, list[Any]] = {}

    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        self.kept = {r: kept for r, kept in self.kept.items() if r == base} | {round: list(leaves)}

    def at(self, round: int) -> list[Any]:
        if round not in self.kept:
            raise lost(round, "this process")
        return self.kept[round]


class OnDisk(Snapshots):
    """One file per snapshot in the site's state directory."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        arrays = {f"leaf_{i}": leaf for i, leaf in enumerate(leaves)}
        write_stored(self._file(round), {"identity": self.identity, "round": round, "leaves": len(leaves)}, arrays)
        for file in self.folder.glob("memory-*.npz"):
            if file not in (self._file(round), self._file(base)):
                file.unlink(missing_ok=True)

    def at(self, round: int) -> list[Any]:
        file = self._file(round)
        if not file.exists():
            raise lost(round, str(self.folder))
        state, arrays = read_stored(file)
        if state.get("identity") != self.identity or state.get("round") != round:
            raise CheckpointError(f"{file} belongs to another run: give every run a state directory of its own")
        return [arrays[f"leaf_{i}"] for i in range(state["leaves"])]

    def _file(self, round: int) -> Path:
        return self.folder / f"memory-{round}.npz"


def lost(round: int, place: str) -> CheckpointError:
    """The error of a site that cannot go back to where the server wants it."""
    return CheckpointError(
        f"the memory after round {round} is not in {place}: bring the state directory back, or begin without memory by "
        "--reset, which the trace of the run will show"
    )
