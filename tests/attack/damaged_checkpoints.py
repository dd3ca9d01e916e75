"""Checkpoints that are damaged, or written by somebody who knows how: none may be used, none may end in anything but an error.

Damage that the checksum finds is easy; the other kinds come with a checksum that fits.
`python tests/attack/damaged_checkpoints.py` prints the counts of an attack.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import undrift as ud

Members = dict[str, bytes]  # the files of an .npz
MOST_MEMORY = 2**40  # what bombs declare


def problem() -> ud.problems.Problem:
    return ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [1.0]]))


def play(folder: Path, rounds: int, resume: bool = True) -> ud.Result:
    return ud.run(
        ud.scaffold(eta=0.1), problem(), rounds=rounds, steps=2, keep_iterates=True, per_client=True,
        checkpoint=folder, resume=resume,
    )  # fmt: skip


# ----- how to write one
def unpacked(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content[32:])) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Members, compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return sealed(buffer.getvalue())


def sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def array(value: Any, **arguments: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, value, **arguments)
    return buffer.getvalue()


def header(words: str, rest: bytes = b"") -> bytes:
    """An array file with any words for a header."""
    text = words.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + rest


def _text(value: str) -> bytes:
    return array(np.array(value))


# ----- kinds of damage
def with_member(name: str, change: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes]:
    """One array changed (None: left out)."""

    def damage(content: bytes) -> bytes:
        members = unpacked(content)
        changed = change(members.get(f"{name}.npy", b""))
        rest = {other: kept for other, kept in members.items() if other != f"{name}.npy"}
        return packed(rest if changed is None else rest | {f"{name}.npy": changed})

    return damage


def with_state(change: Callable[[dict[str, Any]], Any]) -> Callable[[bytes], bytes]:
    """The state changed in place."""

    def changed(member: bytes) -> bytes:
        state = json.loads(str(np.load(io.BytesIO(member))))
        change(state)
        return _text(json.dumps(state))

    return with_member("state", changed)


def flipped(place: float) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        changed = bytearray(content)
        changed[min(int(place * len(content)), len(content) - 1)] ^= 0x10
        return bytes(changed)

    return damage


def _twice(content: bytes) -> bytes:
    import warnings

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a name comes twice
        for name, member in [*unpacked(content).items(), ("carry_0.npy", array(np.zeros(1)))]:
            archive.writestr(name, member)
    return sealed(buffer.getvalue())


def _encrypted(content: bytes) -> bytes:
    """Every member says that it is encrypted."""
    changed = bytearray(content[32:])
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = changed.find(mark)
        while at >= 0:
            changed[at + place] |= 1
            at = changed.find(mark, at + 4)
    return sealed(bytes(changed))


def _longer(member: bytes) -> bytes:
    values = np.load(io.BytesIO(member))
    return array(np.concatenate([values, values[-1:]]))


def _as(dtype: Any) -> Callable[[bytes], bytes]:
    return lambda member: array(np.load(io.BytesIO(member)).astype(dtype))


def _declares(shape: str, descr: str = "<f8") -> Callable[[bytes], bytes]:
    words = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    return lambda member: header(words, b"\0" * 8)


def _bomb(content: bytes) -> bytes:
    return packed(unpacked(content) | {"carry_0.npy": array(np.zeros(2**20))}, zipfile.ZIP_DEFLATED)


def kinds() -> dict[str, Callable[[bytes], bytes]]:
    """name -> what is done to the bytes of a good checkpoint."""
    state, first, loss = "state", "carry_0", "column_loss"
    return {
        # the checksum finds it
        "empty": lambda c: b"",
        "ten bytes": lambda c: c[:10],
        "only the checksum": lambda c: c[:32],
        "cut": lambda c: c[:-100],
        "half": lambda c: c[: len(c) // 2],
        "longer": lambda c: c + b"\0",
        "twice": lambda c: c + c,
        "zeros": lambda c: bytes(len(c)),
        "text": lambda c: b"this is no checkpoint, but it is long enough to hold a checksum and some more",
        "a bit of the checksum": flipped(0.0),
        "a bit near the start": flipped(0.1),
        "a bit in the middle": flipped(0.5),
        "a bit near the end": flipped(0.95),
        # the checksum fits
        "nothing behind the checksum": lambda c: sealed(b""),
        "not a zip": lambda c: sealed(b"PK" + c[34:60]),
        "zip cut": lambda c: sealed(c[32:-20]),
        "zip without members": lambda c: packed({}),
        "zip with a bit changed": lambda c: sealed(flipped(0.5)(c[32:])),
        "zip bomb": _bomb,
        "compressed": lambda c: packed(unpacked(c), zipfile.ZIP_DEFLATED),
        "encrypted": _encrypted,
        "a name twice": _twice,
        "a file that is no array": lambda c: packed(unpacked(c) | {"notes.txt": b"hello"}),
        "a name that leaves the folder": lambda c: packed(unpacked(c) | {"../../x.npy": array(np.zeros(1))}),
        "no state": with_member(state, lambda m: None),
        "state is no JSON": with_member(state, lambda m: _text("{'a': 1}")),
        "state is a list": with_member(state, lambda m: _text("[1, 2]")),
        "state is a number": with_member(state, lambda m: array(np.array(3.0))),
        "state is bytes": with_member(state, lambda m: array(np.array(b"{}"))),
        "state nests deeply": with_member(state, lambda m: _text("[" * 100_000)),
        "state beyond Unicode": with_member(
            state, lambda m: header("{'descr': '<U1', 'fortran_order': False, 'shape': (), }", b"\xff\xff\xff\xff")
        ),
        "state with half a character": with_member(
            state, lambda m: header("{'descr': '<U1', 'fortran_order': False, 'shape': (), }", b"\x00\xd8\0\0")
        ),
        "no identity": with_state(lambda s: s.pop("identity")),
        "another identity": with_state(lambda s: s.update(identity="0" * 64)),
        "no plan": with_state(lambda s: s.pop("plan")),
        "another plan": with_state(lambda s: s.update(plan="0" * 64)),
        "no length": with_state(lambda s: s.pop("length")),
        "length 0": with_state(lambda s: s.update(length=0)),
        "length −1": with_state(lambda s: s.update(length=-1)),
        "length 5.5": with_state(lambda s: s.update(length=5.5)),
        "length as a word": with_state(lambda s: s.update(length="six")),
        "length 10¹⁸": with_state(lambda s: s.update(length=10**18)),
        "one round more than there is": with_state(lambda s: s.update(length=s["length"] + 1)),
        "one round less than there is": with_state(lambda s: s.update(length=s["length"] - 1)),
        "diverged as a word": with_state(lambda s: s.update(diverged="yes")),
        "diverged with three numbers": with_state(lambda s: s.update(diverged=[1, 2, 3])),
        "diverged before the start": with_state(lambda s: s.update(diverged=[-4, 0])),
        "a word more in the state": with_state(lambda s: s.update(more=1)),
        "no memory": with_member(first, lambda m: None),
        "memory of another shape": with_member(first, lambda m: array(np.zeros(7))),
        "memory of another rank": with_member(first, lambda m: array(np.zeros((1, 1)))),
        "memory in float32": with_member(first, _as(np.float32)),
        "memory in whole numbers": with_member(first, _as(np.int64)),
        "complex memory": with_member(first, _as(np.complex128)),
        "memory of text": with_member(first, lambda m: array(np.array(["a"]))),
        "memory of dates": with_member(first, lambda m: array(np.array(["2026-01-01"], "M8[D]"))),
        "memory of records": with_member(first, lambda m: array(np.zeros(1, [("a", "f8")]))),
        "memory of objects": with_member(first, lambda m: array(np.array([{}]), allow_pickle=True)),
        "memory more than there is": with_member("carry_99", lambda m: array(np.zeros(1))),
        "memory ahead of the records": with_member("carry_3", lambda m: array(np.asarray(np.load(io.BytesIO(m)) + 1))),
        "memory that declares 8 TB": with_member(first, _declares(f"({MOST_MEMORY},)")),
        "memory that declares more than there are bytes": with_member(first, _declares(f"({10**30},)")),
        "memory of negative length": with_member(first, _declares("(-1,)")),
        "memory of 10³⁰ empty rows": with_member(first, _declares(f"(0, {10**17}, {10**17})")),
        "memory whose shape is a word": with_member(first, _declares("'abc'")),
        "memory of an unknown kind": with_member(first, _declares("(1,)", "<f7")),
        "a header that is a program": with_member(first, lambda m: header("__import__('os').system('true')")),
        "a header that nests deeply": with_member(first, lambda m: header("(" * 9000)),
        "a header of minus signs": with_member(first, lambda m: header("-" * 9000 + "1")),
        "a header without end": with_member(first, lambda m: b"\x93NUMPY\x02\x00\xff\xff\xff\xff"),
        "an array of version 9": with_member(first, lambda m: b"\x93NUMPY\x09\x00" + m[8:]),
        "an array file of three bytes": with_member(first, lambda m: m[:3]),
        "no loss": with_member(loss, lambda m: None),
        "a loss longer than the others": with_member(loss, _longer),
        "a loss with two axes": with_member(loss, lambda m: array(np.load(io.BytesIO(m))[:, None])),
        "a loss of text": with_member(loss, lambda m: array(np.array(["a"] * 6))),
        "no count of bytes": with_member("column_bytes_up", lambda m: None),
        "an unknown column": with_member("column_luck", lambda m: array(np.zeros(6))),
        "an unknown array": with_member("luck", lambda m: array(np.zeros(6))),
        "no iterates": with_member("iterates", lambda m: None),
        "iterates of another dimension": with_member("iterates", lambda m: array(np.zeros((6, 9)))),
        "no numbers of clients": with_member("clients_loss", lambda m: None),
        "numbers of three clients": with_member("clients_loss", lambda m: array(np.zeros((6, 3)))),
    }


def attack_checkpoints(seed: int = 0, only: Iterable[str] | None = None, flips: int = 40) -> dict[str, int]:
    """Every kind of damage (or only those named) and some random bits behind a checksum that fits; what became of them.

    A bit that nobody reads (the date of a member) is harmless: the run then ends as it did. The last three counts must be 0.
    """
    counts = {"damaged": 0, "refused": 0, "harmless": 0, "wrong": 0, "other_exceptions": 0, "touched": 0}
    rng, known = np.random.default_rng(seed), kinds()
    damages = [known[name] for name in (known if only is None else only)]
    damages += [_sealed_flip(place) for place in rng.random(flips)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = play(folder, 5)
        good = (folder / "checkpoint.npz").read_bytes()
        for damage in damages:
            counts["damaged"] += 1
            for what in _outcome(folder, damage(good), expected):
                counts[what] += 1
    return counts


def _sealed_flip(place: float) -> Callable[[bytes], bytes]:
    return lambda content: sealed(flipped(place)(content[32:]))


def _outcome(folder: Path, bad: bytes, expected: ud.Result) -> list[str]:
    file = folder / "checkpoint.npz"
    file.write_bytes(bad)
    try:
        found = play(folder, 5)
    except ud.CheckpointError:
        return ["refused"] if file.read_bytes() == bad else ["refused", "touched"]
    except Exception:
        return ["other_exceptions"]
    same = np.array_equal(found.iterates, expected.iterates) and all(
        np.array_equal(found.history[name], expected.history[name], equal_nan=True) for name in expected.history
    )
    return ["harmless" if same else "wrong"]


if __name__ == "__main__":
    print(json.dumps(attack_checkpoints(), indent=1))
