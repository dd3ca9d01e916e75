"""Reading below one folder and nowhere else: no link is followed, nothing is written, and nothing may be too large.

Runs come and go while they are looked at, and whoever writes into the folder may be careless or hostile: every function here
answers "nothing there" to whatever is missing, damaged or not a plain file.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

DEPTH, FOLDERS, RUNS = 6, 4000, 500  # how far down, how many folders and how many runs are looked at
MARKS = ("study.toml", "progress.jsonl", "summary.json")  # one of which a folder with a run holds
READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
BY_HANDLE = os.open in os.supports_dir_fd  # on others a link may be put in the way between two looks

Place = tuple[str, ...]  # the names that lead from the folder to a run


class Seen(NamedTuple):
    """What tells one state of a file from another."""

    inode: int
    size: int
    changed: int  # nanoseconds


class Folder:
    """A folder that is looked at."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    def runs(self) -> list[Place]:
        """Where runs are, in the order of their names."""
        found: list[Place] = []
        waiting: list[Place] = [()]
        for _ in range(FOLDERS):
            if not waiting or len(found) >= RUNS:
                break
            place = waiting.pop()
            names, inner = self._names(place)
            if any(mark in names for mark in MARKS):
                found.append(place)
            if len(place) < DEPTH:
                waiting += [(*place, name) for name in sorted(inner, reverse=True)]
        return sorted(found)

    def _names(self, place: Place) -> tuple[set[str], list[str]]:
        """(plain files, folders) in a folder, none of which is a link or hidden."""
        files: set[str] = set()
        inner: list[str] = []
        with contextlib.suppress(OSError), self._opened(place) as handle, os.scandir(handle) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.name.startswith(".") or not _printable(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        inner.append(entry.name)
                    elif entry.is_file(follow_symlinks=False):
                        files.add(entry.name)
        return files, inner

    @contextlib.contextmanager
    def _opened(self, place: Place) -> Iterator[int | str]:
        """A handle of a folder below the root, reached without passing a link; a path where the system has no such handles."""
        if not BY_HANDLE:
            yield str(self.root.joinpath(*place))
            return
        with contextlib.ExitStack() as stack:
            handle = os.open(self.root, READING | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            for name in place:
                handle = os.open(name, READING | os.O_DIRECTORY, dir_fd=handle)
                stack.callback(os.close, handle)
            yield handle

    @contextlib.contextmanager
    def file(self, place: Place, name: str) -> Iterator[int | None]:
        """A handle of a plain file of a run, for reading; None where there is none."""
        try:
            with self._opened(place) as folder:
                handle = self._open_in(folder, name)
        except OSError:
            yield None
            return
        try:
            yield handle if stat.S_ISREG(os.fstat(handle).st_mode) else None
        finally:
            os.close(handle)

    @staticmethod
    def _open_in(folder: int | str, name: str) -> int:
        if isinstance(folder, int):
            return os.open(name, READING, dir_fd=folder)
        return os.open(os.path.join(folder, name), READING)

    def seen(self, place: Place, name: str) -> Seen | None:
        """The state of a file; None where there is none."""
        with self.file(place, name) as handle:
            if handle is None:
                return None
            found = os.fstat(handle)
            return Seen(found.st_ino, found.st_size, found.st_mtime_ns)

    def read(self, place: Place, name: str, most: int) -> bytes | None:
        """The content of a file; None where there is none, or more than this."""
        with self.file(place, name) as handle:
            if handle is None or os.fstat(handle).st_size > most:
                return None
            with contextlib.suppress(OSError), os.fdopen(os.dup(handle), "rb") as file:
                content = file.read(most + 1)
                return content if len(content) <= most else None
        return None


def _printable(name: str) -> bool:
    """Whether a name can be shown: not half a character, no control sequence."""
    return name.isprintable()
