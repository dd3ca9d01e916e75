"""What accompanies a payload between two machines: which version of the protocol, which run, where in it, from whom.

An envelope is a header of fixed length and the payload behind it. It is checked before the payload is looked at: whoever
speaks another version, plays another run or answers another question is refused by name. The checksum finds accidents (a cut
or damaged frame); who may speak at all is decided by the transport's certificates. The ledger counts payloads, which are what
methods differ in; `OVERHEAD` bytes more travel with each.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

from .errors import WireError

MAGIC = b"udrf"
VERSION = 1
DOWN, UP = 1, 2  # to a client, and its answer
_HEADER = struct.Struct(
    "<4sHH16sIIiIIiQ"
)  # magic, version, then the fields of `Envelope`, then the length of the payload
_CHECKSUM = struct.Struct("<I")
OVERHEAD = _HEADER.size + _CHECKSUM.size


class Envelope(NamedTuple):
    """Where a payload belongs."""

    direction: int  # DOWN or UP
    run: bytes  # 16 bytes by which both ends know that they play the same run
    client: int
    attempt: int  # of this round: a round that is played again has another number
    place: int  # of the exchange in the program
    round: int
    repeat: int
    steps: int  # τ_i

    def reply(self) -> Envelope:
        """Of the answer to this message."""
        return Envelope(UP, *self[1:])


def seal(envelope: Envelope, payload: bytes) -> bytes:
    """A frame: header, checksum, payload.

    >>> told = Envelope(DOWN, bytes(16), client=3, attempt=0, place=1, round=7, repeat=0, steps=5)
    >>> unseal(seal(told, b"numbers")) == (told, b"numbers")
    True
    """
    header = _HEADER.pack(MAGIC, VERSION, *envelope, len(payload))
    return header + _CHECKSUM.pack(zlib.crc32(payload, zlib.crc32(header))) + payload


def unseal(frame: bytes) -> tuple[Envelope, bytes]:
    """The envelope and the payload of a frame, or a `WireError`."""
    if not isinstance(frame, bytes):
        raise WireError(f"a frame is bytes, got {type(frame).__name__}")
    if len(frame) < OVERHEAD:
        raise WireError(f"a frame has at least {OVERHEAD} bytes, got {len(frame)}: it was cut")
    payload = frame[OVERHEAD:]
    magic, version, *fields, length = _HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise WireError(f"a frame begins with {MAGIC!r}, got {magic!r}: the other end does not speak undrift")
    if version != VERSION:
        raise WireError(f"version {VERSION} of the protocol is spoken here, got {version}: install the same undrift")
    if length != len(payload):
        raise WireError(f"this frame announces {length} bytes, got {len(payload)}: it was cut or padded")
    (checksum,) = _CHECKSUM.unpack_from(frame, _HEADER.size)
    if checksum != zlib.crc32(payload, zlib.crc32(frame[: _HEADER.size])):
        raise WireError("the checksum of a frame does not fit: it was damaged on its way")
    return Envelope(*fields), payload


def must_be(found: Envelope, expected: Envelope) -> None:
    """Refuse a frame that belongs elsewhere.

    >>> told = Envelope(DOWN, bytes(16), client=3, attempt=0, place=1, round=7, repeat=0, steps=5)
    >>> must_be(told.reply()._replace(client=4), told.reply())
    Traceback (most recent call last):
    undrift.errors.WireError: this frame must have client 3, got 4: it belongs elsewhere
    """
    if found == expected:
        return
    for name, value, wanted in zip(Envelope._fields, found, expected, strict=True):
        if value != wanted:
            raise WireError(f"this frame must have {name} {_shown(wanted)}, got {_shown(value)}: it belongs elsewhere")


def _shown(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
