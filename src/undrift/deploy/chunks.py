"""Frames in pieces: a byte that says whether more follows, then the piece."""

from __future__ import annotations

from collections.abc import Iterator

from .frames import FrameError

PIECE = 2**20
MORE, LAST = b"\x00", b"\x01"


def chunks(content: bytes, piece: int = PIECE) -> Iterator[bytes]:
    """The pieces of a frame.

    >>> list(chunks(b"abcde", piece=2))
    [b'\\x00ab', b'\\x00cd', b'\\x01e']
    """
    view = memoryview(content)
    for start in range(0, max(len(view), 1), piece):
        head = LAST if start + piece >= len(view) else MORE
        yield b"".join((head, view[start : start + piece]))


class Assembly:
    """Puts pieces together, and refuses a frame that grows beyond the limit.

    >>> assembly = Assembly(limit=10)
    >>> [assembly.add(piece) for piece in chunks(b"abcde", piece=2)]
    [None, None, b'abcde']
    """

    def __init__(self, limit: int) -> None:
        self.limit, self.pieces, self.length = limit, list[bytes](), 0

    def add(self, piece: bytes) -> bytes | None:
        """The whole frame, if this was its last piece."""
        if len(piece) < 1 or piece[:1] not in (MORE, LAST) or (piece[:1] == MORE and len(piece) == 1):
            raise FrameError("a piece of a frame has no valid head: the other side speaks another protocol")
        self.length += len(piece) - 1
        if self.length > self.limit:
            raise FrameError(f"a frame is longer than the {self.limit} bytes that any message of this run can have")
        self.pieces.append(piece[1:])
        if piece[:1] == MORE:
            return None
        whole, self.pieces, self.length = b"".join(self.pieces), [], 0
        return whole
