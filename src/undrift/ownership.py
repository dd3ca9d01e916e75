"""A directory, or a file, belongs to one process at a time.

The system's own lock on a hidden file says so. It dies with its process, so that nobody has to judge whether an old lock is
stale. A second hidden file says for people who the owner is. Both are removed when the owner is done, the lock while it is
still held: whoever opened it before and gets it afterwards finds a file without a name, and looks again (`filelock` does).
Older versions of `filelock` remove the file once more when they let go, by then perhaps that of the next owner: not used.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import filelock

from . import files
from .errors import StorageError

LOCK, OWNER = ".lock", ".owner"
LOOK_SECONDS = 0.05  # how often somebody who waits looks again
TURNS = 100  # how often a directory that somebody else has just removed is made again


class InUse(StorageError):
    """It belongs to another process."""


class Owned(NamedTuple):
    """A directory that is this process's own until the block ends that made it so."""

    path: Path


@contextlib.contextmanager
def owned(folder: str | os.PathLike[str] | Owned) -> Iterator[Owned]:
    """Make the directory if it is not there, and own it; one that was made and stays empty is removed again.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, owned(Path(place) / "run") as mine:
    ...     with owned(mine.path):
    ...         pass
    Traceback (most recent call last):
    undrift.ownership.InUse: ... is in use by process ...: wait for it, or choose another directory (--out)
    """
    if isinstance(folder, Owned):  # the caller's own already
        yield folder
        return
    path = Path(folder)
    made: list[Path] = []
    try:
        with _lock_in(path, made):
            files.sweep_up(path)
            yield Owned(path)
    finally:
        for one in made:
            with contextlib.suppress(OSError):  # it is not empty: it is needed
                one.rmdir()


@contextlib.contextmanager
def locked(lock: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold this lock file; wait for one's turn, or refuse if it is another's."""
    held = filelock.FileLock(lock)
    try:
        held.acquire(blocking=wait, poll_interval=LOOK_SECONDS)
    except filelock.Timeout:
        raise in_use(lock) from None
    try:
        with contextlib.suppress(OSError):  # only for people: a full disk need not stop anything yet
            _owner_of(lock).write_text(_who(), encoding="utf-8")
        yield
    finally:
        try:
            for mark in (_owner_of(lock), lock):
                with contextlib.suppress(OSError):  # where open files cannot be removed (Windows) it stays
                    mark.unlink(missing_ok=True)
        finally:
            held.release(force=True)


def in_use(lock: Path) -> InUse:
    """The refusal, with the owner's own words."""
    try:
        who = _owner_of(lock).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        who = "another process"
    what = lock.parent if lock.name == LOCK else lock.with_name(lock.name.removeprefix(".").removesuffix(LOCK))
    return InUse(f"{what} is in use by {who}: wait for it, or choose another directory (--out)")


def contents(folder: Path) -> list[str]:
    """The names in a directory, without what belongs to its owner and what killed writers left."""
    with files.storage(folder):
        names = os.listdir(folder)
    return [name for name in names if name not in (LOCK, LOCK + OWNER) and not files.is_unfinished(name)]


@contextlib.contextmanager
def _lock_in(folder: Path, made: list[Path]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for turn in range(TURNS):
            with files.storage(folder):
                try:
                    made += [one for one in _make(folder) if one not in made]
                    stack.enter_context(locked(folder / LOCK))
                    break
                except FileNotFoundError:  # somebody else made it, did not need it, and removed it
                    if turn == TURNS - 1:
                        raise
        yield


def _make(folder: Path) -> list[Path]:
    """The directories that were not there before, from the innermost outwards."""
    missing = [one for one in (folder, *folder.parents) if not os.path.lexists(one)]
    folder.mkdir(parents=True, exist_ok=True)
    return missing


def _owner_of(lock: Path) -> Path:
    return lock.with_name(lock.name + OWNER)


def _who() -> str:
    program = Path(sys.argv[0] if sys.argv else "")
    name = program.parent.name if program.name == "__main__.py" else program.name  # python -m undrift
    command = shlex.join([name, *sys.argv[1:]])[:200]
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    return f"process {os.getpid()} on {socket.gethostname()} since {since} ({command})\n"
