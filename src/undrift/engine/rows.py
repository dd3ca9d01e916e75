"""Clients' rows in a file: one record of fixed length for each client that was ever seen.

What a checkpoint refers to is never written over. A row that changes for the first time since then goes to another place of the
file, and its old place is free again once the next checkpoint is there. So a checkpoint, which keeps the places, stays true
whenever the process dies, and there is no journal to play back.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import jax
import numpy as np

from ..errors import CheckpointError, InputError
from ..files import remember_names, storage

_NAME = re.compile(r"rows-([0-9a-f]{8})-[0-9a-f]{16}\.bin")
ALIGNMENT = 8  # bytes at which every part of a record starts
LARGEST = np.iinfo(np.int32).max


class Field(NamedTuple):
    """One leaf of a client's memory within its record."""

    start: int
    bytes: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Layout:
    """How a tree of arrays, one client's, lies in a record.

    >>> layout = Layout((jax.ShapeDtypeStruct((3,), np.float32), jax.ShapeDtypeStruct((), np.int64)))
    >>> records = layout.pack((np.ones((2, 3), np.float32), np.array([7, 8])))
    >>> records.shape, layout.unpack(records)[1]
    ((2, 24), array([7, 8]))
    """

    def __init__(self, shapes: Any) -> None:
        leaves, self.structure = jax.tree.flatten(shapes)
        self.fields: list[Field] = []
        end = 0
        for leaf in leaves:
            dtype = np.dtype(leaf.dtype)
            size = math.prod(leaf.shape) * dtype.itemsize
            self.fields.append(Field(end, size, tuple(leaf.shape), dtype))
            end += -(-size // ALIGNMENT) * ALIGNMENT
        self.bytes = end

    def pack(self, rows: Any) -> np.ndarray:
        """Records of these rows, as bytes."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(rows)]
        if len(leaves) == 1 and self.fields[0].bytes == self.bytes:  # as they lie
            return np.ascontiguousarray(leaves[0]).reshape(len(leaves[0]), -1).view(np.uint8)
        records = np.zeros((len(leaves[0]) if leaves else 0, self.bytes), np.uint8)
        for field, leaf in zip(self.fields, leaves, strict=True):
            if field.bytes:
                flat = np.ascontiguousarray(leaf).reshape(len(leaf), -1).view(np.uint8)
                records[:, field.start : field.start + field.bytes] = flat
        return records

    def unpack(self, records: np.ndarray) -> Any:
        """The rows of these records."""
        return jax.tree.unflatten(self.structure, [self._leaf(field, records) for field in self.fields])

    def _leaf(self, field: Field, records: np.ndarray) -> np.ndarray:
        if not field.bytes:
            return np.zeros((len(records), *field.shape), field.dtype)
        part = np.ascontiguousarray(records[:, field.start : field.start + field.bytes])
        return part.view(field.dtype).reshape(len(records), *field.shape)


class RowFile:
    """The records of clients on disk, by number. Whoever was never written has none."""

    def __init__(self, folder: Path, clients: int, record: int, name: str | None = None, owner: str = "") -> None:
        """A new file in this folder, or the one of this name that a checkpoint speaks of; `owner`: see `owner_of`."""
        if clients > LARGEST:
            raise InputError(f"rows of at most {LARGEST} clients can be kept in a file, got {clients}")
        self.folder, self.clients, self.record = folder, clients, record
        self.name = f"rows-{owner or owner_of(None)}-{secrets.token_hex(8)}.bin" if name is None else name
        self.path = folder / self.name
        with storage(self.path):
            self.file = open(self.path, "w+b" if name is None else "r+b", buffering=0)  # noqa: SIM115 (see `close`)
        self.places = np.full(clients, -1, np.int32)
        self.saved = np.zeros(0, bool)  # by place: whether a checkpoint refers to it
        self.free = np.zeros(0, np.int32)  # places before `end` that nobody refers to
        self.left = np.zeros(0, np.int32)  # places that only the last checkpoint refers to
        self.end = 0

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether a file of rows has such a name: nothing else may be opened because a checkpoint says so."""
        return _NAME.fullmatch(name) is not None

    def known(self, ids: np.ndarray) -> np.ndarray:
        """Which of these clients have a record."""
        return self.places[ids] >= 0

    def read(self, ids: np.ndarray, into: np.ndarray) -> None:
        """The records of clients that have one."""
        with storage(self.path):
            for first, last, place in _runs(self.places[ids]):
                self.file.seek(place * self.record)
                _read_whole(self.file, into[first:last], self.path)

    def write(self, ids: np.ndarray, records: np.ndarray) -> None:
        """Keep the records of these clients (each of them once)."""
        places = self._places_for(ids)
        with storage(self.path):
            for first, last, place in _runs(places):
                self.file.seek(place * self.record)
                _write_whole(self.file, np.ascontiguousarray(records[first:last]))
        self.places[ids] = places

    def _places_for(self, ids: np.ndarray) -> np.ndarray:
        """Where records may be written: where they are, if no checkpoint refers to it."""
        places = self.places[ids]
        old = places >= 0
        bound = old & self.saved[np.where(old, places, 0)] if self.saved.size else np.zeros(len(ids), bool)
        moving = np.flatnonzero(~old | bound)
        self.left = np.concatenate([self.left, places[bound]])
        taken, self.free = self.free[: len(moving)], self.free[len(moving) :]
        beyond = np.arange(self.end, self.end + len(moving) - len(taken), dtype=np.int64)
        self.end += len(beyond)
        if self.end > LARGEST:
            raise InputError(f"a file of rows has at most {LARGEST} places: take fewer clients")
        places[moving] = np.concatenate([taken, beyond.astype(np.int32)])
        if self.saved.size < self.end:
            self.saved = np.concatenate([self.saved, np.zeros(max(self.end, 1024), bool)])  # at least twice as long
        return places

    # ----- checkpoints
    def settle(self) -> dict[str, np.ndarray]:
        """Bring all records to the disk; what a checkpoint must keep to find them again."""
        with storage(self.path):
            os.fsync(self.file.fileno())
            remember_names(self.folder)
        ids = np.flatnonzero(self.places >= 0).astype(np.int32)
        return {"rows_ids": ids, "rows_places": self.places[ids]}

    def settled(self) -> None:
        """The checkpoint is there: what only the one before it referred to is free, and so are files that came before."""
        self.saved[:] = False
        self.saved[self.places[self.places >= 0]] = True
        self.free, self.left = np.concatenate([self.free, self.left]), self.left[:0]
        remove_rows(self.folder, self.name.split("-")[1], but=self.name)

    def restore(self, ids: np.ndarray, places: np.ndarray) -> None:
        """The state of a checkpoint."""
        room = os.path.getsize(self.path) // max(self.record, 1)
        sound = len(ids) == len(places) and (not len(ids) or (ids.min() >= 0 and ids.max() < self.clients))
        if not sound or len(np.unique(ids)) != len(ids) or len(np.unique(places)) != len(places):
            raise CheckpointError(f"{self.path}: the checkpoint does not say whose rows these are: start the run again")
        if len(places) and (places.min() < 0 or (self.record and places.max() >= room)):
            raise CheckpointError(
                f"{self.path} is too short for the rows that the checkpoint speaks of: start the run again"
            )
        self.places[:] = -1
        self.places[ids] = places
        self.end = int(places.max()) + 1 if len(places) else 0
        self.saved = np.zeros(self.end, bool)
        self.saved[places] = True
        self.free, self.left = np.flatnonzero(~self.saved).astype(np.int32), self.left[:0]

    def close(self, remove: bool) -> None:
        """Close the file; `remove`: no checkpoint refers to it."""
        self.file.close()
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink()


def owner_of(checkpoint: Path | None) -> str:
    """What the names of files begin with that belong to the checkpoint in this directory: a store may serve several."""
    return f"{0 if checkpoint is None else zlib.crc32(str(checkpoint.resolve()).encode()):08x}"


def adopted(folder: Path, name: str, owner: str) -> str:
    """The name of this owner's file of rows: of one that another checkpoint may refer to as well, that of a copy."""
    if name.split("-")[1] == owner:
        return name
    mine = f"rows-{owner}-{secrets.token_hex(8)}.bin"
    with storage(folder / mine):
        shutil.copyfile(folder / name, folder / mine)
    return mine


def remove_rows(folder: Path, owner: str, but: str | None = None) -> None:
    """Remove the rows of one checkpoint, but for one file."""
    for path in folder.glob(f"rows-{owner}-*.bin"):
        if path.name != but and RowFile.is_name(path.name):
            with contextlib.suppress(OSError):  # still open (Windows)
                path.unlink()


def _runs(places: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """(first, last, place of the first) of rows that lie one behind the other."""
    if not len(places):
        return
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    for first, last in zip([0, *breaks.tolist()], [*breaks.tolist(), len(places)], strict=True):
        yield first, last, int(places[first])


def _read_whole(file: Any, into: np.ndarray, path: Path) -> None:
    view = memoryview(cast("Any", into.reshape(-1)))
    while len(view):
        count = file.readinto(view)
        if not count:
            raise CheckpointError(f"{path} ended before the row that was looked for: it was cut; start the run again")
        view = view[count:]


def _write_whole(file: Any, records: np.ndarray) -> None:
    view = memoryview(cast("Any", records.reshape(-1)))
    while len(view):
        view = view[file.write(view) :]
