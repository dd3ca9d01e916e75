"""What travels between the server and a site: typed, versioned, checked when it arrives.

A frame is msgpack. Whatever comes over a network is hostile until it has passed `read`: unknown kinds and fields, numbers out
of range, wrong types and frames that are too long are refused there. The payload of an exchange stays bytes; `wire.decode`
checks it against the shapes of the contract.

Within a round every message to a site has a number, 0, 1, 2, …; `attempt` counts how often the round was begun. The three
together make every frame repeatable: a site that has answered answers the same again, one that is behind says so.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from ..errors import InputError

PROTOCOL = 1  # raised when frames change their meaning
LARGE = 64 * 1024  # bytes of a payload from which on it is copied with care
EMPTY, BIN32 = b"\xc4\x00", b"\xc6"  # msgpack's no bytes, and the head of bytes whose length has 32 bits
HEADROOM = 64 * 1024  # bytes of a frame besides its payload
FACTS = 2**18  # bytes in which a site tells of its data

Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Round = Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)]  # -1: before the first
Word = Annotated[str, msgspec.Meta(max_length=4096)]


class FrameError(InputError):
    """A frame that this side does not understand; the connection ends, the run does not."""


class Frame(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=True, array_like=True):
    """Base of all frames."""


# ----- a site speaks
class Hello(Frame, frozen=True):
    """Who is there, and what it remembers."""

    protocol: Count
    undrift: Word
    contract: Word  # the hash of the contract that it has accepted, or "" to be shown the contract
    state: Word  # names its state directory: another one means that its memory was lost
    reset: bool  # begin without memory, whatever there is
    facts: Annotated[bytes, msgspec.Meta(max_length=FACTS)]  # what its data look like, see `facts`


class Answer(Frame, frozen=True):
    """The reply to the message of this number."""

    round: Count
    attempt: Count
    number: Count
    payload: bytes


class Saw(Frame, frozen=True):
    """What it makes of the model of this round."""

    round: Count
    payload: bytes


class Committed(Frame, frozen=True):
    """The memory after this round is on the disk."""

    round: Count
    attempt: Count


class Behind(Frame, frozen=True):
    """A message of this round is missing here: tell me again, from this number on."""

    round: Count
    attempt: Count
    number: Count


class Unable(Frame, frozen=True):
    """The site cannot go on, for this reason; a person must look."""

    reason: Word


# ----- the server speaks
class Terms(Frame, frozen=True):
    """The contract, for a site that wants to see it."""

    contract: bytes


class Welcome(Frame, frozen=True):
    """The site takes part as client `number`; `population` is what the server knows of all."""

    number: Count
    reset: bool  # begin without memory although there was one: the operator said so
    population: bytes


class Refused(Frame, frozen=True):
    """The site does not take part."""

    reason: Word


class Ask(Frame, frozen=True):
    """The message of an exchange. `base`: the last round of the site that counts; its memory is where this one begins."""

    round: Count
    attempt: Count
    number: Count
    base: Round
    place: Count
    repeat: Count
    steps: Count
    payload: bytes


class Look(Frame, frozen=True):
    """What does the site make of this model, with the memory that it had after round `base`? Nothing changes."""

    round: Count
    base: Round
    payload: bytes


class Commit(Frame, frozen=True):
    """The round is over after so many messages to you: keep your memory."""

    round: Count
    attempt: Count
    asks: Count


class Finished(Frame, frozen=True):
    """The run is over; nothing more will be asked."""

    words: Word


FromSite = Hello | Answer | Saw | Committed | Behind | Unable
FromServer = Terms | Welcome | Refused | Ask | Look | Commit | Finished
_FROM_SITE = msgspec.msgpack.Decoder(FromSite)
_FROM_SERVER = msgspec.msgpack.Decoder(FromServer)
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")


def write(frame: Frame) -> bytes:
    """The bytes of a frame.

    >>> read_at_server(write(Committed(round=7, attempt=0)))
    Committed(round=7, attempt=0)
    """
    payload = getattr(frame, "payload", b"")
    if len(payload) < LARGE:
        return _ENCODER.encode(frame)
    # The same bytes, copied once: the encoder's buffer grows step by step, and is copied whenever it does.
    head = _ENCODER.encode(msgspec.structs.replace(frame, payload=b""))
    assert head.endswith(EMPTY)  # the payload is the last field of every frame that has one
    return b"".join((head.removesuffix(EMPTY), BIN32, len(payload).to_bytes(4), payload))


def read_at_server(content: bytes | bytearray) -> FromSite:
    """A frame from a site, checked.

    >>> read_at_server(b"nonsense")
    Traceback (most recent call last):
    undrift.deploy.frames.FrameError: a frame from a site cannot be read: ...
    """
    return _read(_FROM_SITE, content, "a site")


def read_at_site(content: bytes | bytearray) -> FromServer:
    """A frame from the server, checked."""
    return _read(_FROM_SERVER, content, "the server")


def _read(decoder: msgspec.msgpack.Decoder[T], content: bytes | bytearray, sender: str) -> T:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise FrameError(
            f"a frame from {sender} cannot be read: {error}: its version or its bytes are wrong"
        ) from error


def plain(text: str) -> str:
    """One printable line, whatever a stranger wrote.

    >>> plain("a\\nb")
    'a?b'
    """
    return "".join(c if c.isprintable() else "?" for c in text[:1000])
