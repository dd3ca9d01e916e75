"""Messages that must be refused: payloads of every kind, envelopes, and compressors that could write such messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hostile_case import Case

import undrift as ud
from undrift import wire
from undrift.envelope import DOWN, Envelope, must_be, seal, unseal
from undrift.messages import Levels, Signs, Sparse

BITMAP = Sparse(np.ones(5, np.float32), np.array([0, 2, 4, 6, 12], np.int32), 13)  # 20 bytes of values, 2 of places
INDICES = Sparse(np.ones(2, np.float64), np.array([3, 150], np.int32), 200)  # 16 bytes of values, 2 of places
WIDE = Sparse(np.ones(2, np.float32), np.array([3, 999], np.int32), 1000)  # 8 bytes of values, 4 of places
SIGNS = Signs(np.array([True] * 5), np.float32(0.5))  # 1 byte of signs, 4 of scale
LEVELS = Levels(np.array([-1, 0, 1], np.int32), np.float32(0.5), 1)  # 1 byte (6 bits) of levels, 4 of step
VECTOR = np.array([1.0, 2.0, 3.0], np.float32)
TOLD = Envelope(DOWN, bytes(range(16)), client=3, attempt=0, place=1, round=7, repeat=0, steps=5)


def _arrives(like: Any, payload: Any) -> Callable[[], Any]:
    return lambda: wire.decode(payload, like)


def _changed(like: Any, **bytes_at: int) -> Callable[[], Any]:
    """The message with some bytes changed; `at_3=7` puts 7 into byte 3."""
    payload = bytearray(wire.encode(like))
    for place, value in bytes_at.items():
        payload[int(place.removeprefix("at_"))] = value
    return _arrives(like, bytes(payload))


def _frame(change: Callable[[bytes], Any]) -> Callable[[], Any]:
    return lambda: unseal(change(seal(TOLD, b"payload")))


def _of(**fields: Any) -> Callable[[], Any]:
    return lambda: must_be(TOLD._replace(**fields), TOLD)


_scale = np.float32
_message = wire.encode

CASES = [
    # how long
    Case("wire: empty vector", ("12 bytes", "got 0", "cut or padded"), call=_arrives(VECTOR, b"")),
    Case("wire: vector one byte short", ("12 bytes", "got 11"), call=_arrives(VECTOR, _message(VECTOR)[:-1])),
    Case("wire: vector one byte long", ("12 bytes", "got 13"), call=_arrives(VECTOR, _message(VECTOR) + b"\0")),
    Case("wire: twice the message", ("12 bytes", "got 24"), call=_arrives(VECTOR, 2 * _message(VECTOR))),
    Case("wire: bytes where none belong", ("0 bytes", "got 1"), call=_arrives((), b"\0")),
    Case("wire: float64 for float32", ("12 bytes", "got 24"), call=_arrives(VECTOR, VECTOR.astype("f8").tobytes())),
    Case("wire: text", ("a message is bytes", "got str"), call=_arrives(VECTOR, "123456789012")),
    Case("wire: an array", ("a message is bytes", "got ndarray"), call=_arrives(VECTOR, VECTOR)),
    Case("wire: nothing", ("a message is bytes", "got NoneType"), call=_arrives(VECTOR, None)),
    # what numbers
    Case("wire: NaN", ("finite", "part 1 of 1"), call=_arrives(VECTOR, _scale([1, np.nan, 2]).tobytes())),
    Case("wire: infinity", ("finite", "part 1 of 1"), call=_arrives(VECTOR, _scale([1, 2, np.inf]).tobytes())),
    Case("wire: −infinity", ("finite", "part 1 of 1"), call=_arrives(VECTOR, _scale([-np.inf, 2, 3]).tobytes())),
    Case(
        "wire: NaN in the second part",
        ("finite", "part 2 of 2"),
        call=_arrives((VECTOR, VECTOR), _message(VECTOR) + _scale([np.nan] * 3).tobytes()),
    ),
    Case("wire: truth value 2", ("byte 0 or 1", "got 2"), call=_arrives(np.zeros(2, bool), b"\x01\x02")),
    Case("wire: truth value 255", ("byte 0 or 1", "got 255"), call=_arrives(np.zeros(2, bool), b"\xff\x00")),
    # sparse
    Case("wire: empty bitmap", ("marks 5 places", "got 0"), call=_changed(BITMAP, at_20=0, at_21=0)),
    Case("wire: one place too many", ("marks 5 places", "got 6"), call=_changed(BITMAP, at_20=0b1010111)),
    Case("wire: one place too few", ("marks 5 places", "got 4"), call=_changed(BITMAP, at_20=0b0010101)),
    Case("wire: full bitmap", ("marks 5 places", "got 13"), call=_changed(BITMAP, at_20=255, at_21=0b11111)),
    Case(
        "wire: place after the last",
        ("after the last of 13", "got others"),
        call=_changed(BITMAP, at_20=0b1010100, at_21=0b110000),
    ),
    Case("wire: sparse NaN", ("finite", "part 1 of 1"), call=_changed(BITMAP, at_2=0xC0, at_3=0x7F)),
    Case("wire: index d", ("below the dimension d = 200", "got 200"), call=_changed(INDICES, at_17=200)),
    Case("wire: index 255", ("below the dimension d = 200", "got 255"), call=_changed(INDICES, at_17=255)),
    Case("wire: index 65535", ("below the dimension d = 1000", "got 65535"), call=_changed(WIDE, at_10=255, at_11=255)),
    Case("wire: an index twice", ("ascend", "twice"), call=_changed(INDICES, at_17=3)),
    Case("wire: indices descend", ("ascend", "got another order"), call=_changed(INDICES, at_16=150, at_17=3)),
    # signs and levels
    Case("wire: signs after the last", ("after the last of 5", "got others"), call=_changed(SIGNS, at_0=0b111111)),
    Case("wire: negative scale", ("a scale is ≥ 0", "got -0.5"), call=_changed(SIGNS, at_4=0xBF)),
    Case("wire: scale −0", ("a scale is ≥ 0", "got -0.0"), call=_changed(SIGNS, at_3=0, at_4=0x80)),
    Case("wire: infinite scale", ("finite", "part 1 of 1"), call=_changed(SIGNS, at_3=0x80, at_4=0x7F)),
    Case("wire: level 2 of 1", ("−1 … 1", "got 2"), call=_changed(LEVELS, at_0=0b100111)),
    Case("wire: bits after the levels", ("after the last of 6", "got others"), call=_changed(LEVELS, at_0=0b1100100)),
    Case("wire: negative step", ("a scale is ≥ 0", "got -0.5"), call=_changed(LEVELS, at_4=0xBF)),
    Case(
        "wire: levels that overflow",
        ("finite", "part 1 of 1"),
        call=_arrives(Levels(LEVELS.level, LEVELS.step, 3), b"\x36\x00" + _scale(3e38).tobytes()),
    ),
    # envelopes
    Case("wire: empty frame", ("at least", "got 0"), call=_frame(lambda frame: b"")),
    Case("wire: text for a frame", ("a frame is bytes", "got str"), call=_frame(lambda frame: "frame")),
    Case("wire: frame of others", ("begins with", "does not speak undrift"), call=_frame(lambda f: b"HTTP" + f[4:])),
    Case("wire: version 2", ("version 1", "got 2", "install the same"), call=_frame(lambda f: f[:4] + b"\2\0" + f[6:])),
    Case("wire: frame cut", ("announces 7 bytes", "got 6"), call=_frame(lambda frame: frame[:-1])),
    Case("wire: frame padded", ("announces 7 bytes", "got 8"), call=_frame(lambda frame: frame + b"\0")),
    Case("wire: damaged payload", ("checksum", "damaged"), call=_frame(lambda frame: frame[:-1] + b"D")),
    Case("wire: another client", ("client 3", "got 4", "belongs elsewhere"), call=_of(client=4)),
    Case("wire: another round", ("round 7", "got 6", "belongs elsewhere"), call=_of(round=6)),
    Case("wire: a late attempt", ("attempt 0", "got 1", "belongs elsewhere"), call=_of(attempt=1)),
    Case("wire: another exchange", ("place 1", "got 0", "belongs elsewhere"), call=_of(place=0)),
    Case("wire: another run", ("run 0001", "got ffff", "belongs elsewhere"), call=_of(run=b"\xff" * 16)),
    # compressors
    Case("wire: k as a word", ("k must be a whole number ≥ 1", "'ten'"), call=lambda: ud.top_k("ten")),
    Case("wire: k = nan", ("k must be a whole number ≥ 1", "nan"), call=lambda: ud.random_k(float("nan"))),
    Case("wire: no k", ("k must be a whole number ≥ 1", "None"), call=lambda: ud.top_k(None)),
    Case(
        "wire: memory = 'no'",
        ("memory must be True (error feedback), False (none) or 'difference'", "'no'"),
        call=lambda: ud.top_k(3, memory="no"),
    ),
    Case("wire: 2³¹ levels", ("levels must be at most 2**24", "2147483648"), call=lambda: ud.quantise(2**31)),
    Case("wire: half a level", ("levels must be a whole number ≥ 1", "0.5"), call=lambda: ud.quantise(0.5)),
]
