"""Checkpoints: any file is refused with a `CheckpointError`, or holds what was saved.

The first byte says what the others are: the whole file, what stands behind a checksum that fits, the state, or an array.
"""

from __future__ import annotations

import json

from common import SCRATCH, fuzz, instrumented

with instrumented("undrift.engine.stored", "undrift.engine.checkpoint", "zipfile"):
    import undrift as ud
    from undrift.engine.checkpoint import REMEDY, Checkpoint, State
    from undrift.engine.stored import Stored

from attack.damaged_checkpoints import packed, play, problem, sealed, unpacked
from undrift import precision
from undrift.engine.recorder import Recorder
from undrift.engine.rounds import carry_shapes, record_shapes

play(SCRATCH, 3)
FILE = SCRATCH / "checkpoint.npz"
GOOD = FILE.read_bytes()
MEMBERS = unpacked(GOOD)
STATE = Stored(FILE, REMEDY).state(State)
RUN = ud.describe(ud.scaffold(eta=0.1), problem(), rounds=3, steps=2, keep_iterates=True, per_client=True).to_play()
with precision.scope("float64"):
    CARRY = carry_shapes(RUN)
    RECORDS = record_shapes(RUN, CARRY.memory)
ARRAYS = ["state", "carry_0", "carry_3", "column_loss", "clients_loss", "iterates"]


def one(data: bytes) -> None:
    if not data:
        return
    FILE.write_bytes(_file(data[0] % (3 + len(ARRAYS)), data[1:]))
    recorder = Recorder(RUN)
    try:
        with precision.scope("float64"):
            Checkpoint(SCRATCH, 10.0, lambda: STATE.identity).load(recorder, CARRY, RECORDS)
    except ud.CheckpointError:
        assert (recorder.length, recorder.columns) == (0, {})  # nothing half-loaded
        return
    assert recorder.length == STATE.length


def _file(what: int, data: bytes) -> bytes:
    if what == 0:
        return data
    if what == 1:
        return sealed(data)
    if what == 2:
        text = (
            json.dumps(json.loads(data.decode("utf-8", "replace")))
            if _is_json(data)
            else data.decode("utf-8", "replace")
        )
        return packed(MEMBERS | {"state.npy": _text(text)})
    return packed(MEMBERS | {f"{ARRAYS[what - 3]}.npy": data})


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _text(text: str) -> bytes:
    """An array of one text, made by hand: NumPy drops zeros at the end."""
    encoded = text.encode("utf-32-le", "replace")
    words = f"{{'descr': '<U{len(encoded) // 4}', 'fortran_order': False, 'shape': (), }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words + encoded


def seeds() -> list[bytes]:
    state = json.dumps({name: getattr(STATE, name) for name in State.__struct_fields__}).encode()
    arrays = [bytes([3 + i]) + MEMBERS[f"{name}.npy"] for i, name in enumerate(ARRAYS)]
    return [b"\0" + GOOD[:LARGEST], b"\1" + GOOD[32:LARGEST], b"\2" + state, *arrays]


LARGEST = 4000

if __name__ == "__main__":
    fuzz("checkpoint", seeds(), one)
