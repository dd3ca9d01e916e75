"""Tables that grow row by row: in memory, or, where all rows of a run would be large, in a file.

A table in a file is written row behind row and never read back while the run goes on; whoever asks for it gets a memory-mapped
array. It lies in the directory of the checkpoint, which then keeps its name only, or in a temporary file that is gone with it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
import weakref
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import CheckpointError
from ..files import storage

AT_ONCE = 2**23  # bytes of a table that are asked for from the beginning: they cost nothing until they are written
IN_MEMORY = 2**26  # bytes up to which a table is kept in memory
FILES = "table-*.bin"
_NAME = re.compile(r"table-[0-9a-f]{16}\.bin")


class Growing:
    """An array that grows at its end. Rows that were written stay where they are for whoever looks at them."""

    def __init__(self, most: int, rows: np.ndarray | None = None) -> None:
        self.most, self.array = most, rows

    def write(self, at: int, rows: np.ndarray) -> None:
        """Put rows at a place; those before it stay."""
        end = at + len(rows)
        array = self.array
        if array is None or end > len(array):
            room = max(end, min(self.most, max(2 * end, AT_ONCE // max(rows[:1].nbytes, 1))))
            larger = np.empty((room, *rows.shape[1:]), rows.dtype)
            if array is not None:
                larger[:at] = array[:at]
            self.array = array = larger
        array[at:end] = rows

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.zeros(0)[rows] if self.array is None else self.array[rows]


class OnDisk:
    """The same in a file."""

    def __init__(self, folder: Path | None, shape: tuple[int, ...], dtype: Any, name: str | None = None) -> None:
        """A new file, or in this folder the one of this name that a checkpoint speaks of."""
        self.shape, self.dtype, self.name = shape, np.dtype(dtype), name
        self.row = int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize
        self.handle = self._open(folder)
        weakref.finalize(self, os.close, self.handle)  # arrays that were mapped from it stay

    def _open(self, folder: Path | None) -> int:
        if folder is None:
            with (
                storage(scratch_folder()),
                tempfile.TemporaryFile(prefix="undrift-", dir=scratch_folder(), buffering=0) as file,
            ):
                return os.dup(file.fileno())
        mode = "r+b" if self.name else "w+b"
        self.name = self.name or f"table-{secrets.token_hex(8)}.bin"
        if _NAME.fullmatch(self.name) is None:
            raise CheckpointError(f"{folder / self.name}: no table of a run has such a name: start the run again")
        with storage(folder / self.name), open(folder / self.name, mode, buffering=0) as file:
            return os.dup(file.fileno())

    def write(self, at: int, rows: np.ndarray) -> None:
        """Put rows at a place; those before it stay."""
        left: Any = memoryview(cast("Any", np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8)))
        with storage(self.name or scratch_folder()):
            os.lseek(self.handle, at * self.row, os.SEEK_SET)
            while len(left):
                left = left[os.write(self.handle, left) :]

    def __getitem__(self, rows: Any) -> np.ndarray:
        """Memory-mapped, and not to be written to."""
        held = len(self)
        if not held:
            return np.zeros((0, *self.shape), self.dtype)[rows]
        with os.fdopen(os.dup(self.handle), "rb") as file:
            found: np.ndarray = np.memmap(file, self.dtype, "r", shape=(held, *self.shape))[rows]
        return found

    def __len__(self) -> int:
        """Rows that are in the file."""
        return int(os.fstat(self.handle).st_size // max(self.row, 1))

    def settle(self) -> None:
        """Bring the rows to the disk: a checkpoint is going to speak of them."""
        with storage(self.name or scratch_folder()):
            os.fsync(self.handle)

    def check(self, count: int) -> OnDisk:
        """Itself; refuses a file that is too short for the rows that a checkpoint speaks of."""
        if len(self) < count:
            raise CheckpointError(
                f"{self.name} holds {len(self)} rows, the checkpoint speaks of {count}: start the run again"
            )
        return self


Table = Growing | OnDisk


def is_large(rows: int, shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether a table with so many rows is better kept in a file."""
    return rows * int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize > IN_MEMORY


def remove_others(folder: Path, kept: set[str]) -> None:
    """Remove tables that no checkpoint speaks of any more."""
    for path in folder.glob(FILES):
        if path.name not in kept and _NAME.fullmatch(path.name):
            with contextlib.suppress(OSError):  # still open (Windows)
                path.unlink()


def scratch_folder() -> Path:
    """Where large temporary files go: a disk, if the user does not say otherwise (TMPDIR); /tmp may be memory."""
    if "TMPDIR" not in os.environ and os.access("/var/tmp", os.W_OK):
        return Path("/var/tmp")
    return Path(tempfile.gettempdir())
