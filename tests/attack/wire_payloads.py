"""Payloads that nobody honest would send: random, damaged, cut and padded ones of every kind of message.

`python tests/attack/wire_payloads.py [COUNT]` prints the counts of an attack.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import undrift as ud
from undrift import precision, wire
from undrift.envelope import DOWN, OVERHEAD, Envelope, must_be, seal, unseal
from undrift.messages import Levels, Signs, Sparse

COMPRESSORS = {
    "bitmap": (ud.top_k(5), 13),
    "full bitmap": (ud.top_k(16), 16),
    "indices of one byte": (ud.random_k(2), 200),
    "indices of two bytes": (ud.top_k(3), 1000),
    "indices of four bytes": (ud.top_k(2), 70_000),
    "signs": (ud.scaled_sign(), 13),
    "signs in whole bytes": (ud.scaled_sign(), 16),
    "one level": (ud.quantise(1), 11),
    "three levels": (ud.quantise(3), 16),
    "five levels": (ud.quantise(5, memory=True), 9),
    "a thousand levels": (ud.quantise(1000), 5),
}


class Kind(NamedTuple):
    """A kind of message: an honest one, as bytes, and what it looks like."""

    name: str
    dtype: str
    honest: Any
    shapes: Any


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Every compressor and every sort of array, in both precisions."""
    rng, found = np.random.default_rng(0), []
    for dtype in ("float32", "float64"):
        for name, (compressor, dim) in COMPRESSORS.items():
            with precision.scope(dtype):
                packed = compressor.compress(jnp.asarray(rng.normal(size=dim), dtype), jax.random.key(1))
            found.append(_kind(name, dtype, jax.tree.map(np.asarray, packed)))
        vector, flags = rng.normal(size=7).astype(dtype), rng.random(9) > 0.5
        found.append(_kind("vector", dtype, vector))
        found.append(_kind("whole numbers", dtype, (np.arange(3, dtype=np.int32), np.uint8(7), np.int64(-5))))
        found.append(_kind("truth values", dtype, flags))
        found.append(_kind("nothing", dtype, ()))
        found.append(_kind("nested", dtype, {"a": vector, "b": (found[0].honest, flags, np.int32(4)), "c": ()}))
    return tuple(found)


def _kind(name: str, dtype: str, honest: Any) -> Kind:
    return Kind(
        name, dtype, honest, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), honest)
    )


def hostile(honest: bytes, rng: np.random.Generator) -> bytes:
    """Bytes made from honest ones, or from nothing."""
    ways: list[Callable[[bytearray], bytes]] = [
        lambda p: rng.bytes(len(p)),
        lambda p: rng.bytes(int(rng.integers(0, 2 * len(p) + 3))),
        lambda p: _flipped(p, 1, rng),
        lambda p: _flipped(p, 3, rng),
        lambda p: bytes(p[: int(rng.integers(0, len(p) + 1))]),
        lambda p: bytes(p) + rng.bytes(int(rng.integers(1, 9))),
        lambda p: _overwritten(p, rng),
        lambda p: _swapped(p, rng),
    ]
    return ways[int(rng.integers(len(ways)))](bytearray(honest))


def _flipped(payload: bytearray, bits: int, rng: np.random.Generator) -> bytes:
    for place in rng.integers(0, max(8 * len(payload), 1), bits if payload else 0):
        payload[int(place) // 8] ^= 1 << (int(place) % 8)
    return bytes(payload)


def _overwritten(payload: bytearray, rng: np.random.Generator) -> bytes:
    """A stretch of zeros, ones, or of what NaN and infinity are made of."""
    if payload:
        start = int(rng.integers(len(payload)))
        stop = min(start + int(rng.integers(1, 9)), len(payload))
        fill = (b"\0" * 8, b"\xff" * 8, b"\0\0\x80\x7f" * 2, b"\0" * 6 + b"\xf0\x7f")[int(rng.integers(4))]
        payload[start:stop] = fill[: stop - start]
    return bytes(payload)


def _swapped(payload: bytearray, rng: np.random.Generator) -> bytes:
    if len(payload) > 1:
        a, b = (int(i) for i in rng.choice(len(payload), 2, replace=False))
        payload[a], payload[b] = payload[b], payload[a]
    return bytes(payload)


def used(message: Any, dtype: str) -> str | None:
    """Use a message as a server would; what is wrong with it, or nothing."""
    with precision.scope(dtype):
        vectors = _dense(message)
    for node in jax.tree.leaves(message, is_leaf=lambda node: isinstance(node, wire.Packed)):
        fault = _fault(node)
        if fault:
            return fault
    return None if all(wire.finite(np.asarray(v)) for v in jax.tree.leaves(vectors)) else "not finite"


@jax.jit
def _dense(message: Any) -> Any:
    return jax.tree.map(wire.dense, message, is_leaf=lambda node: isinstance(node, wire.Packed))


def _fault(node: Any) -> str | None:
    """The rules again, said in another way than in the library."""
    if isinstance(node, Sparse):
        places = [int(i) for i in node.indices]
        fits = places == sorted(set(places)) and all(0 <= i < node.dim for i in places)
        return None if fits and len(places) == len(node.values) else "places"
    if isinstance(node, Levels):
        return None if all(-node.levels <= int(level) <= node.levels for level in node.level) else "levels"
    if isinstance(node, Signs):
        return None if node.positive.dtype == bool and float(node.scale) >= 0 else "signs"
    if node.dtype == bool:
        return None if set(node.tobytes()) <= {0, 1} else "truth values"
    return None


def holds(kind: Kind, payload: bytes) -> None:
    """Assert that a payload is refused, or usable and canonical."""
    try:
        message = wire.decode(payload, kind.shapes)
    except ud.WireError:
        return
    assert used(message, kind.dtype) is None
    assert wire.encode(message) == payload


def attack_wire(payloads: int, seed: int = 0) -> dict[str, int]:
    """So many hostile payloads and frames, and what became of them; the last three counts must be 0."""
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("payloads", "refused", "accepted", "failed_on_use", "other_exceptions", "not_canonical"), 0)
    for _ in range(payloads):
        kind = kinds()[int(rng.integers(len(kinds())))]
        honest = wire.encode(kind.honest)
        in_envelope = rng.random() < 0.1
        counts["payloads"] += 1
        counts[_frame(honest, rng) if in_envelope else _payload(kind, hostile(honest, rng))] += 1
    return counts


def _payload(kind: Kind, payload: bytes) -> str:
    try:
        message = wire.decode(payload, kind.shapes)
    except ud.WireError:
        return "refused"
    except Exception:
        return "other_exceptions"
    try:
        if used(message, kind.dtype) is not None:
            return "failed_on_use"
    except Exception:
        return "failed_on_use"
    return "accepted" if wire.encode(message) == payload else "not_canonical"


def _frame(honest: bytes, rng: np.random.Generator) -> str:
    """In half of the attacks on an envelope its checksum was made to fit."""
    told = Envelope(DOWN, bytes(range(16)), client=3, attempt=0, place=1, round=7, repeat=0, steps=5)
    frame = hostile(seal(told, honest), rng)
    if rng.random() < 0.5 and len(frame) >= OVERHEAD:
        frame = with_fitting_checksum(frame)
    try:
        found, payload = unseal(frame)
        must_be(found, told)
    except ud.WireError:
        return "refused"
    except Exception:
        return "other_exceptions"
    return "accepted" if seal(found, payload) == frame else "not_canonical"


def with_fitting_checksum(frame: bytes) -> bytes:
    import zlib

    header, payload = frame[: OVERHEAD - 4], frame[OVERHEAD:]
    return header + zlib.crc32(payload, zlib.crc32(header)).to_bytes(4, "little") + payload


if __name__ == "__main__":
    print(json.dumps(attack_wire(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000), indent=1))
