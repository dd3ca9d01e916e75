"""Files of arrays that undrift wrote for itself, read as if a stranger had written them.

A stored file is a SHA-256 of the rest, then an .npz: arrays, and one text `state` in JSON. The checksum finds damage; it does
not say who wrote the file. So everything is checked before anything is used, nothing that the file says decides how much
memory is taken (arrays are stored as they are, never compressed, and must have exactly the size that they declare), and
whatever is wrong is a `CheckpointError`.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec
import numpy as np

from ..errors import CheckpointError
from ..files import storage, write_bytes

STATE = "state"
DIGEST = hashlib.sha256().digest_size
# The header of an array as NumPy writes it, for numbers, truth values and text alone: no objects, no records
_HEADER = re.compile(
    rb"\{'descr': '([<|][biufU]\d{1,9})', 'fortran_order': (True|False), 'shape': \(((?:\d{1,18},? ?)*)\), \} *\n"
)
Form = TypeVar("Form", bound=msgspec.Struct)


def write(path: Path, state: msgspec.Struct, arrays: Mapping[str, Any]) -> None:
    """Keep a state and arrays, whole or not at all."""
    buffer = io.BytesIO()
    parts: dict[str, Any] = {STATE: np.array(msgspec.json.encode(state).decode()), **arrays}
    np.savez(buffer, **parts)
    content = buffer.getvalue()
    write_bytes(path, hashlib.sha256(content).digest() + content)


class Stored:
    """The content of such a file. What is taken from it is counted, so that nothing can be left over.

    `remedy` ends every complaint.
    """

    def __init__(self, path: Path, remedy: str) -> None:
        self.path, self.remedy = path, remedy
        with storage(path):
            raw = path.read_bytes()
        content = memoryview(raw)[DIGEST:]
        if hashlib.sha256(content).digest() != raw[:DIGEST]:
            raise CheckpointError(f"{path} is corrupt (its checksum does not fit): {remedy}")
        try:
            self.arrays = _arrays(bytes(content))
        except Exception as error:  # zipfile alone raises nine kinds of errors for broken archives
            raise CheckpointError(f"{path} cannot be read ({error}): {remedy}") from error

    def state(self, form: type[Form]) -> Form:
        """The state, which must have this form."""
        text = self.take(STATE, (), None)
        try:
            return msgspec.json.decode(str(text[()]), type=form)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            self.refuse(f"its state is not what is written there: {error}")

    def take(self, name: str, shape: tuple[int | None, ...], dtype: Any) -> np.ndarray:
        """The array of this name; None in a shape: any length, for a dtype: any (text for the state, else numbers)."""
        if name not in self.arrays:
            self.refuse(f"{name} is missing")
        array = self.arrays.pop(name)
        fits = len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
        kinds = "U" if name == STATE else "biuf"
        if not fits or array.dtype.kind not in kinds or (dtype is not None and array.dtype != dtype):
            wanted = tuple("any" if n is None else n for n in shape)
            self.refuse(f"{name} must be {dtype or 'numbers'} of shape {wanted}, got {array.dtype} of {array.shape}")
        return array

    def names(self, prefix: str) -> list[str]:
        """Of the arrays not yet taken, those that begin so, without that beginning."""
        return [name.removeprefix(prefix) for name in self.arrays if name.startswith(prefix)]

    def finish(self) -> None:
        """Everything must have been taken."""
        if self.arrays:
            self.refuse(f"it also holds {', '.join(sorted(self.arrays)[:3])}, which do not belong there")

    def refuse(self, why: str) -> NoReturn:
        raise CheckpointError(f"{self.path} cannot be used ({why}): {self.remedy}")


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > len(content):
            raise ValueError("it declares more than it holds")
        for member in members:
            name, _, kind = member.filename.rpartition(".")
            if kind != "npy" or name in found:
                raise ValueError(f"{member.filename!r} does not belong there")
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{name} is compressed")
            found[name] = _array(name, archive.read(member))
    return found


def _array(name: str, file: bytes) -> np.ndarray:
    """An .npy file, without asking Python to evaluate its header."""
    long = file[:8] in (b"\x93NUMPY\x02\x00", b"\x93NUMPY\x03\x00")
    if not long and file[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError(f"{name} is not an array")
    begin = 12 if long else 10
    end = begin + int.from_bytes(file[8:begin], "little")
    header = _HEADER.fullmatch(file[begin:end])
    if header is None:
        raise ValueError(f"{name} is not an array of numbers, truth values or text")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(n) for n in header[3].replace(b",", b" ").split())
    if math.prod(shape) * dtype.itemsize != len(file) - end:
        raise ValueError(f"{name} declares {math.prod(shape) * dtype.itemsize} bytes and holds {len(file) - end}")
    if dtype == np.bool_ and max(file[end:], default=0) > 1:
        raise ValueError(f"{name} holds truth values other than 0 and 1")
    if dtype.kind == "U":
        file[end:].decode("utf-32-le")  # refuses what is no character: Python cannot hold what NumPy would make of it
    return np.frombuffer(file, dtype, offset=end).reshape(shape, order="F" if header[2] == b"True" else "C").copy()
