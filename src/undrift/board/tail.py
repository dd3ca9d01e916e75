"""The lines of a file that grows, each read once."""

from __future__ import annotations

import contextlib
import os

from .folder import Folder, Place, Seen

AT_ONCE = 4 * 2**20  # bytes that are read in one look
LONGEST = 8 * 2**20  # bytes of a line


class Tail:
    """Follows one file. A file in its place, or one that has become shorter, is read from its beginning."""

    def __init__(self, folder: Folder, place: Place, name: str) -> None:
        self.folder, self.place, self.name = folder, place, name
        self._seen: Seen | None = None
        self._at, self._rest, self._skips = 0, b"", False

    def look(self) -> tuple[bool, list[bytes], bool]:
        """(whether it begins anew, the whole lines that have come, whether there is more to read at once)."""
        with self.folder.file(self.place, self.name) as handle:
            if handle is None:
                anew = self._seen is not None
                self._begin(None)
                return anew, [], False
            found = os.fstat(handle)
            seen = Seen(found.st_ino, found.st_size, found.st_mtime_ns)
            if seen == self._seen and self._at == seen.size:
                return False, [], False
            anew = self._seen is None or seen.inode != self._seen.inode or seen.size < self._at
            if anew:
                self._begin(seen)
            self._seen = seen
            lines = self._lines(handle)
        return anew, lines, self._at < seen.size

    def _begin(self, seen: Seen | None) -> None:
        self._seen, self._at, self._rest, self._skips = seen, 0, b"", False

    def _lines(self, handle: int) -> list[bytes]:
        part = b""
        with contextlib.suppress(OSError):
            os.lseek(handle, self._at, os.SEEK_SET)
            part = os.read(handle, AT_ONCE)
        self._at += len(part)
        *whole, self._rest = (self._rest + part).split(b"\n")
        if self._skips and whole:  # the end of a line that was too long
            whole, self._skips = whole[1:], False
        if len(self._rest) > LONGEST:
            self._rest, self._skips = b"", True
        return whole
