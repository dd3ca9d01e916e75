"""Files that are there whole or not at all.

Everything undrift keeps is written beside its place, brought to the disk, and moved into its place: whatever happens in
between (a kill, a full disk, a power cut), a reader finds the old file or the new one, never a part of one.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from .errors import StorageError

UNFINISHED = ".part"  # how names of files end that are still being written


@contextmanager
def storage(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a refusal of the disk into an error that says which file, why, and what to do."""
    try:
        yield
    except OSError as error:
        raise StorageError.of(path, error) from error


@contextmanager
def replacing(path: Path, secret: bool = False) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends, and leaves no trace if the block fails.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "numbers.txt") as file:
    ...         _ = file.write(b"1 2 3")
    ...     os.listdir(folder)
    ['numbers.txt']
    """
    with storage(path):
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", suffix=UNFINISHED, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if not secret:
                _with_usual_rights(name)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise
        _remember_names(path.parent)


def write_bytes(path: Path, content: bytes, secret: bool = False) -> None:
    """The file with this content, whole or not at all; `secret`: readable by its owner alone."""
    with replacing(path, secret) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """The file with this text in UTF-8, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def sweep_up(folder: Path) -> None:
    """Remove what killed writers left behind; only for the process that owns the folder."""
    with storage(folder):
        for left in folder.glob(f".*-*{UNFINISHED}"):
            left.unlink(missing_ok=True)


def _with_usual_rights(name: str) -> None:
    """`mkstemp` makes files for their owner alone; results are as readable as any other file of the user's."""
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)


def _remember_names(folder: Path) -> None:
    """Bring the folder itself to the disk, where the system allows it, so that the move outlives a power cut."""
    if os.name != "posix":
        return
    handle: Any = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(handle)
    finally:
        os.close(handle)
