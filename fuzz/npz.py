"""A user's own data: any file is a problem, or an `UndriftError`.

The first byte says what the others are: the whole file, or one of its arrays beside honest ones.
"""

from __future__ import annotations

import io
import zipfile

import numpy as np
from common import SCRATCH, fuzz, instrumented

with instrumented("undrift.studies", "undrift.data", "undrift.problems", "numpy.lib", "zipfile"):
    import undrift as ud
    from undrift.studies.catalogue import npz

from attack.damaged_checkpoints import array

FILE = SCRATCH / "data.npz"
HONEST = {
    "A": array(np.arange(12.0).reshape(2, 3, 2)),
    "b": array(np.arange(6.0).reshape(2, 3)),
}
FLAT = {
    "A": array(np.ones((4, 2), np.float32)),
    "y": array(np.array([1, -1, 1, -1])),
    "client": array(np.array([0, 0, 1, 1])),
}
NAMES = ["A", "b", "A", "y", "client"]


def one(data: bytes) -> None:
    if not data:
        return
    what = data[0] % (1 + len(NAMES))
    FILE.write_bytes(data[1:] if what == 0 else _file((HONEST if what <= 2 else FLAT) | {NAMES[what - 1]: data[1:]}))
    try:
        problem = npz(str(FILE))
    except ud.UndriftError:
        return
    assert min(problem.clients, problem.dim) >= 1
    assert np.all(np.isfinite(np.asarray(problem.stack["A"])))


def _file(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def seeds() -> list[bytes]:
    arrays = [bytes([1 + i]) + (HONEST if i < 2 else FLAT)[name] for i, name in enumerate(NAMES)]
    return [b"\0" + _file(HONEST), b"\0" + _file(FLAT), *arrays]


if __name__ == "__main__":
    fuzz("npz", seeds(), one)
