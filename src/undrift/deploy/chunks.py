"""Frames in pieces: the first begins with the length of the whole, so that a frame too long is refused before it comes."""

from __future__ import annotations

from collections.abc import Iterator

from .frames import FrameError

PIECE = 2**20  # measured: smaller ones cost more calls, larger ones more copies
HEAD = 8  # bytes of the length


def chunks(content: bytes, piece: int = PIECE) -> Iterator[bytes]:
    """The pieces of a frame; one is copied at a time.

    >>> list(chunks(b"abcde", piece=2))
    [b'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x05ab', b'cd', b'e']
    """
    view = memoryview(content)
    yield b"".join((len(view).to_bytes(HEAD), view[:piece]))
    for start in range(piece, len(view), piece):
        yield bytes(view[start : start + piece])


class Assembly:
    """Puts pieces together where they belong, without a second copy.

    >>> assembly = Assembly(limit=10)
    >>> [assembly.add(piece) for piece in chunks(b"abcde", piece=2)]
    [None, None, bytearray(b'abcde')]
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit  # most bytes of a frame
        self.whole, self.filled = bytearray(), 0

    @property
    def length(self) -> int:
        """Of the frame whose pieces are coming; 0 between two frames."""
        return len(self.whole)

    def add(self, piece: bytes) -> bytes | bytearray | None:
        """The whole frame, if this was its last piece."""
        if not self.length:
            return self._first(piece)
        if not piece or self.filled + len(piece) > self.length:
            raise FrameError("a piece of a frame has another length than announced: the other side speaks otherwise")
        self.whole[self.filled : self.filled + len(piece)] = piece
        self.filled += len(piece)
        return self._complete()

    def _first(self, piece: bytes) -> bytes | bytearray | None:
        length = int.from_bytes(piece[:HEAD])
        if len(piece) < HEAD or not 0 < len(piece) - HEAD <= length:
            raise FrameError("a frame has no valid head: the other side speaks another protocol")
        if length > self.limit:
            raise FrameError(
                f"a frame of {length} bytes is longer than the {self.limit} that any message of this run can have"
            )
        if len(piece) == HEAD + length:
            return piece[HEAD:]
        self.whole, self.filled = bytearray(length), len(piece) - HEAD  # the system gives pages as they are filled
        self.whole[: self.filled] = memoryview(piece)[HEAD:]
        return None

    def _complete(self) -> bytearray | None:
        if self.filled < self.length:
            return None
        whole, self.whole, self.filled = self.whole, bytearray(), 0
        return whole
