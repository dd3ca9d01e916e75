"""Messages: any bytes are refused with a `WireError`, or can be used and encode to the same bytes.

The first byte says for which kind of message the others are; the highest for none, but for an envelope.
"""

from __future__ import annotations

from common import fuzz, instrumented

with instrumented("undrift.wire", "undrift.messages", "undrift.envelope"):
    import undrift as ud
    from undrift import wire
    from undrift.envelope import DOWN, OVERHEAD, Envelope, seal, unseal
    from undrift.messages import Levels, Signs, Sparse

from attack.wire_payloads import holds, kinds, with_fitting_checksum

PACKED = (Levels, Signs, Sparse)  # imported here to be watched
TOLD = Envelope(DOWN, bytes(range(16)), client=3, attempt=0, place=1, round=7, repeat=0, steps=5)


def one(data: bytes) -> None:
    if not data:
        return
    if data[0] == 255:
        _frame(data[1:])
        return
    kind, payload = kinds()[data[0] % len(kinds())], data[1:]
    holds(kind, payload)


def _frame(frame: bytes) -> None:
    """As it came, and with a checksum that fits."""
    for given in (frame, with_fitting_checksum(frame) if len(frame) >= OVERHEAD else frame):
        try:
            told, payload = unseal(given)
        except ud.WireError:
            continue
        assert seal(told, payload) == given


def seeds() -> list[bytes]:
    honest = [wire.encode(kind.honest) for kind in kinds()]
    return [bytes([i]) + payload for i, payload in enumerate(honest)] + [b"\xff" + seal(TOLD, b"payload")]


if __name__ == "__main__":
    fuzz("wire", seeds(), one)
