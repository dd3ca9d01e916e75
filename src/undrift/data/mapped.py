"""Arrays that stay in their file: .npy, and .npz without compression."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from undrift.data.archives import damage_named
from undrift.data.errors import DataError
from undrift.files import storage

LOCAL_HEADER = 30  # bytes, before the name and what else a zip file says in front of a member
ENCRYPTED = 1


def mapped(path: str | os.PathLike[str]) -> Any:
    """The array of an .npy file, or those of an .npz file by name, memory-mapped: what is looked at is read, nothing else.

    Problems take them in place of arrays and bring only those clients to memory that take part; see docs/out-of-core.md.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.savez(Path(folder.name) / "data.npz", A=np.arange(6.0).reshape(3, 2), y=np.ones(3, np.int8))
    >>> found = mapped(Path(folder.name) / "data.npz")
    >>> sorted(found), found["A"][1].tolist(), type(found["A"]).__name__
    (['A', 'y'], [2.0, 3.0], 'memmap')
    >>> del found; folder.cleanup()
    """
    file = Path(path)
    if file.suffix == ".npz":
        return _members(file)
    if file.suffix != ".npy":
        raise DataError(f"{file} must be an .npy or an .npz file to be memory-mapped: convert it with np.save")
    with damage_named(file, "an .npy file", "write it again with np.save"), storage(file), open(file, "rb") as opened:
        return _array(file, opened, 0, os.path.getsize(file))


def _members(path: Path) -> Mapping[str, np.memmap[Any, Any]]:
    found: dict[str, np.memmap[Any, Any]] = {}
    form = "an .npz file"
    with damage_named(path, form, "write it again with np.savez"), storage(path), open(path, "rb") as opened:
        with zipfile.ZipFile(opened) as archive:
            members = archive.infolist()
        for member in members:
            name = member.filename.removesuffix(".npy")
            if member.compress_type != zipfile.ZIP_STORED:
                raise DataError(
                    f"{path}: {name} is compressed, and only what lies in a file as it is can be memory-mapped: write it with "
                    "np.savez, not np.savez_compressed, or as .npy files"
                )
            if member.flag_bits & ENCRYPTED or name in found:
                raise DataError(f"{path}: {name} is encrypted or there twice: write it again with np.savez")
            opened.seek(member.header_offset + 26)
            lengths = opened.read(4)
            offset = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            begin = member.header_offset + LOCAL_HEADER + offset
            found[name] = _array(path, opened, begin, begin + member.file_size)
    return found


def _array(path: Path, file: IO[bytes], begin: int, end: int) -> np.memmap[Any, Any]:
    """The array whose .npy form lies between these places of the file."""
    file.seek(begin)
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(file)
    start, size = file.tell(), int(np.prod(shape, dtype=object)) * dtype.itemsize
    if dtype.hasobject:
        raise DataError(f"{path} holds Python objects, which cannot be memory-mapped: convert them to numbers")
    if not size:
        raise DataError(f"{path} holds an array of shape {shape}, which is empty: leave it out")
    if start + size != end or end > os.fstat(file.fileno()).st_size:
        raise DataError(f"{path} declares an array of {size} bytes and holds {end - start}: write it again")
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")
