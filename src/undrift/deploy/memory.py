"""A site's memory on its disk: what it was after the last rounds that count.

Two snapshots are kept: the one that the server counts (`base`) and the one written last. Between the site's commit and the
server's checkpoint either side may die, and whichever of the two the server then asks for is there.
"""

from __future__ import annotations

import abc
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from ..engine.stored import Stored, write
from ..errors import CheckpointError
from ..files import storage

NEVER = -1  # the round of the memory that a site begins with, which is computed and not kept
REMEDY = "bring the state directory back, or begin without memory by --reset, which the trace of the run will show"


class Snapshots(abc.ABC):
    """The memories after some rounds."""

    @abc.abstractmethod
    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        """Bring the memory after this round to the disk; forget all others but that of `base`."""

    @abc.abstractmethod
    def rounds(self) -> list[int]:
        """The rounds after which it is there."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Remove all of them: the site begins without memory."""

    def check(self, round: int) -> None:
        """Refuse to go back to before what is there: a server that plays a round for the first time is at least as far."""
        if (there := self.rounds()) and max(there) > round:
            raise lost(round - 1, self.place, there)

    place: str  # where they are, for complaints

    @abc.abstractmethod
    def at(self, round: int, like: list[Any]) -> list[Any]:
        """The memory after this round, arrays of the shapes of `like`; `CheckpointError` where it is not there."""


class InProcess(Snapshots):
    """Snapshots that live as long as the process, for rehearsals in one."""

    place = "this process"

    def __init__(self) -> None:
        self.kept: dict[int, list[Any]] = {}

    def rounds(self) -> list[int]:
        return list(self.kept)

    def forget(self) -> None:
        self.kept = {}

    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        self.kept = {r: kept for r, kept in self.kept.items() if r == base} | {round: list(leaves)}

    def at(self, round: int, like: list[Any]) -> list[Any]:
        if round not in self.kept:
            raise lost(round, self.place, self.kept)
        return self.kept[round]


class Head(msgspec.Struct, forbid_unknown_fields=True):
    """What a snapshot says besides its arrays."""

    identity: str
    round: int


class OnDisk(Snapshots):
    """One file per snapshot in the site's state directory."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity, self.place = folder, identity, str(folder)

    def forget(self) -> None:
        for round in self.rounds():
            with storage(self._file(round)):
                self._file(round).unlink(missing_ok=True)

    def keep(self, round: int, leaves: list[Any], base: int) -> None:
        write(self._file(round), Head(self.identity, round), {f"leaf_{i}": leaf for i, leaf in enumerate(leaves)})
        for file in self.folder.glob("memory-*.npz"):
            if file not in (self._file(round), self._file(base)):
                with storage(file):
                    file.unlink(missing_ok=True)

    def at(self, round: int, like: list[Any]) -> list[Any]:
        file = self._file(round)
        if not file.exists():
            raise lost(round, self.place, self.rounds())
        stored = Stored(file, REMEDY)
        head = stored.state(Head)
        if head.identity != self.identity or head.round != round:
            stored.refuse("it belongs to another run")
        leaves = [stored.take(f"leaf_{i}", tuple(leaf.shape), leaf.dtype) for i, leaf in enumerate(like)]
        stored.finish()
        return leaves

    def _file(self, round: int) -> Path:
        return self.folder / f"memory-{round}.npz"

    def rounds(self) -> list[int]:
        names = (file.stem.removeprefix("memory-") for file in self.folder.glob("memory-*.npz"))
        return [int(name) for name in names if name.isdecimal()]


def lost(round: int, place: str, there: Collection[int]) -> CheckpointError:
    """The error of a site that cannot go back to where the server wants it; `there`: where it could go back to."""
    if there and max(there) > round and round not in there:
        return CheckpointError(
            f"the server wants to go on after round {max(round, 0)}, but {place} holds the memory after rounds "
            f"{sorted(there)}: the server has begun from an old checkpoint; bring its newest one back (nothing was changed "
            "here), or begin without memory by --reset, which the trace of the run will show"
        )
    held = f"it holds that after rounds {sorted(there)}" if there else "it holds none"
    return CheckpointError(f"the memory after round {round} is not in {place} ({held}): {REMEDY}")
