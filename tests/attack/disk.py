"""A disk on which something happens at the n-th change: the process dies, or the disk refuses.

`Disk` stands between Python and the files below one folder. Every call that changes them (open for writing, write, fsync,
rename, unlink, mkdir …) is counted, at the level of the system calls; at a chosen one the fault strikes. A death can be
real (SIGKILL) or played: then an exception that nobody catches is raised, all files are cut off from the disk with what
is still in their buffers, locks are let go as the system does for the dead, and every later change raises again, so that
no clean-up code can do what a dead process cannot.
"""

from __future__ import annotations

import builtins
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NEVER = 0
FREEING = ("unlink", "remove", "rmdir")  # what a full disk allows


class Killed(BaseException):
    """A process that is dead, played."""


class Disk:
    """Faults for the files below `root`: at change number `at` (NEVER: only count), `fault` strikes.

    fault: "kill" (before the change), "tear" (a write is half done), "sigkill" (the real thing), or the name of an error
    ("ENOSPC", "EROFS", "EIO"), which every change meets from then on until the disk is left.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Disk(Path(folder)) as disk:
    ...         _ = (Path(folder) / "a").write_text("x")
    ...     disk.changes
    ['open a', 'write a']
    """

    def __init__(self, root: Path, at: int = NEVER, fault: str = "kill") -> None:
        self.root, self.at, self.fault = str(root.resolve()), at, fault
        self.changes: list[str] = []
        self.dead = False
        self._before: list[tuple[Any, str, Any]] = []

    @property
    def struck(self) -> bool:
        return NEVER < self.at <= len(self.changes)

    def __enter__(self) -> Disk:
        opened = _opener(self, io.open)
        self._put(builtins, "open", opened)
        self._put(io, "open", opened)
        self._put(os, "open", self._descriptor_opener(os.open))
        for name in ("write", "fsync", "fdatasync", "ftruncate"):
            self._put(os, name, self._of_descriptor(name, getattr(os, name)))
        for name in ("replace", "rename", "link", "unlink", "remove", "mkdir", "rmdir", "chmod", "truncate"):
            self._put(os, name, self._of_path(name, getattr(os, name)))
        return self

    def __exit__(self, *error: Any) -> None:
        if self.dead:
            bury()
        for module, name, value in reversed(self._before):
            setattr(module, name, value)

    def _put(self, module: Any, name: str, value: Any) -> None:
        self._before.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    def holds(self, path: Any, folder: int | None = None) -> bool:
        """Whether a path, or an open file, lies below the root."""
        return self.name(path, folder) is not None

    def name(self, path: Any, folder: int | None = None) -> str | None:
        """The path below the root, or None."""
        try:
            if isinstance(path, int):
                full = os.readlink(f"/proc/self/fd/{path}")
            elif folder is not None:
                full = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
            else:
                full = os.path.abspath(os.fsdecode(path))
        except (OSError, TypeError):
            return None
        if full != self.root and not full.startswith(self.root + os.sep):
            return None
        return os.path.relpath(full, self.root)

    def change(self, what: str, name: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """A change of the disk, unless it is its turn."""
        if self.dead:
            raise Killed
        self.changes.append(f"{what} {name}")
        if self.struck:
            self._strike(what, name, half)
        return act()

    def _strike(self, what: str, name: str, half: Callable[[], Any] | None) -> None:
        if self.fault in ("tear", "ENOSPC") and half is not None:
            half()
        if self.fault == "sigkill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault in ("kill", "tear"):
            self.die()
        if self.fault == "ENOSPC" and what in FREEING:
            return
        code = getattr(errno, self.fault)
        raise OSError(code, os.strerror(code), os.path.join(self.root, name))

    def die(self) -> None:
        """From here on nothing reaches the disk: not what is in buffers, not what clean-up code would do."""
        self.dead = True
        nowhere = os.open(os.devnull, os.O_RDWR)
        for entry in os.listdir("/proc/self/fd"):
            if self.holds(int(entry)):
                os.dup2(nowhere, int(entry))  # this closes the file, and with it goes the lock
        os.close(nowhere)
        raise Killed

    def _descriptor_opener(self, original: Any) -> Any:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            name = self.name(path, dir_fd)
            writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if name is None or not writing:
                return int(original(path, flags, mode, dir_fd=dir_fd))
            return int(self.change("open", name, lambda: original(path, flags, mode, dir_fd=dir_fd)))

        return opened

    def _of_descriptor(self, what: str, original: Any) -> Any:
        def called(handle: Any, *rest: Any) -> Any:
            number = handle if isinstance(handle, int) else handle.fileno()
            name = self.name(number)
            if name is None:
                return original(handle, *rest)
            half = (lambda: original(handle, rest[0][: len(rest[0]) // 2])) if what == "write" else None
            return self.change(what, name, lambda: original(handle, *rest), half)

        return called

    def _of_path(self, what: str, original: Any) -> Any:
        def called(path: Any, *rest: Any, **named: Any) -> Any:
            folder = named.get("dir_fd", named.get("src_dir_fd"))
            name = self.name(path, folder)
            if name is None:
                return original(path, *rest, **named)
            return self.change(what, name, lambda: original(path, *rest, **named))

        return called


def _opener(disk: Disk, original: Any) -> Any:
    """`open`, whose files for writing count what goes to the system."""

    class File(io.FileIO):
        def write(self, data: Any) -> int:
            view = memoryview(data).cast("B")
            return int(
                disk.change(
                    "write", name_of(self), lambda: self._through(view), lambda: self._through(view[: len(view) // 2])
                )
            )

        def _through(self, data: Any) -> int:
            return int(super().write(data) or 0)

    def name_of(file: io.FileIO) -> str:
        return disk.name(file.fileno()) or "?"

    def opened(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        name = disk.name(file)
        if name is None or not set(mode) & set("wax+"):
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        plain = mode.replace("b", "").replace("t", "")

        def make() -> File:
            return File(file, plain, closefd, opener)

        raw = make() if isinstance(file, int) else disk.change("open", name, make)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    return opened


def bury() -> None:
    """Let what the dead process held be collected while nothing can reach the disk."""
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
