"""Files of unknown origin, read with a limit: what they declare is checked before it is read, and what arrives is counted.

All readers of data files open them here. Nothing is ever unpacked to the disk, so names in an archive lead nowhere; links,
devices and doubles among them are refused all the same. `LARGEST` is several times the largest file of the data sets that
undrift knows; one's own npz files may be as large as the memory.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import tarfile
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from undrift import memory
from undrift.data.errors import DataError, MissingDataError
from undrift.data.sets import Array
from undrift.errors import StorageError

LARGEST = 2**30  # bytes of one file, packed and unpacked
MOST_MEMBERS = 1000
_PIECE = 2**20
_GZIP = b"\x1f\x8b"
_REASONS = 300  # characters of a foreign error that are repeated to the user


class TooLarge(ValueError):
    """A file, or what is packed in it, is larger than allowed."""


@contextmanager
def damage_named(path: Path, form: str, remedy: str = "remove it and fetch it again") -> Iterator[None]:
    """Turn the many exceptions of a damaged file into one that says which file and what was expected.

    Readers of foreign formats raise nearly anything (recursion, overflow, `NotImplementedError`, `tokenize` errors), so only
    what undrift says itself, and the refusals of the disk, pass as they are.
    """
    try:
        yield
    except (DataError, MissingDataError, StorageError):
        raise
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise _damaged(path, form, remedy, error) from error
        raise StorageError.of(path, error) from error
    except Exception as error:
        raise _damaged(path, form, remedy, error) from error


def _damaged(path: Path, form: str, remedy: str, error: Exception) -> DataError:
    reason = f"{type(error).__name__}: {str(error)[:_REASONS]}"
    return DataError(
        f"{path} must be {form}, but reading it failed ({reason}): it is damaged or of another kind; {remedy}."
    )


@contextmanager
def opened(path: Path, most: int = LARGEST) -> Iterator[IO[bytes]]:
    """A regular file of at most so many bytes. Directories, pipes and devices are refused before they are opened."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise MissingDataError(f"the file {path} does not exist: check the path.") from None
    except NotADirectoryError:
        raise MissingDataError(f"the file {path} does not exist, a part of its path is a file: check it.") from None
    except ValueError as error:  # a NUL in the path
        raise DataError(f"{str(path)!r} cannot be a path ({error}): correct it.") from None
    except OSError as error:
        raise StorageError.of(path, error) from error
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} must be a file, but it is a {_kind(found.st_mode)}: name the file itself.")
    _allow(found.st_size, most, "the file")
    try:
        stream = path.open("rb")
    except OSError as error:
        raise StorageError.of(path, error) from error
    with stream:
        yield stream


def contents(path: Path, most: int = LARGEST) -> bytes:
    """All bytes of a file, as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "zeros"
    ...     _ = path.write_bytes(bytes(10**6))
    ...     contents(path, most=10**5)
    Traceback (most recent call last):
    undrift.data.archives.TooLarge: the file must be at most 100 kB, it has 1 MB: it is not what it seems
    """
    with opened(path, most) as stream:
        return read_all(stream, most)


@contextmanager
def unpacked(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """The stream itself, or what is in it if it is gzipped."""
    packed = stream.read(2) == _GZIP
    stream.seek(0)
    if not packed:
        yield stream
        return
    with gzip.GzipFile(fileobj=stream) as plain:
        yield plain  # type: ignore[misc]


def read_all(stream: IO[bytes], most: int) -> bytes:
    """What is left of a stream, counted while it is read; an error as soon as it is more than allowed."""
    pieces, left = [], most
    while piece := stream.read(min(_PIECE, left + 1)):
        left -= len(piece)
        if left < 0:
            raise TooLarge(f"what is packed must be at most {memory.words(most)}, it is more: it is not what it seems")
        pieces.append(piece)
    return b"".join(pieces)


class _Counted(io.RawIOBase):
    """A stream that ends in an error after so many bytes."""

    def __init__(self, stream: IO[bytes], most: int) -> None:
        self.stream, self.most, self.seen = stream, most, 0

    def read(self, size: int = -1) -> bytes:
        piece = self.stream.read(min(size, _PIECE) if size >= 0 else _PIECE)
        self.seen += len(piece)
        _allow(self.seen, self.most, "what is packed")
        return piece


def tar_members(path: Path, names: Collection[str], most_each: int, most: int) -> dict[str, bytes]:
    """The files of these names in a tar archive, gzipped or not, whatever folder they are in; all must be there, once."""
    found: dict[str, bytes] = {}
    # As a stream: nothing is sought, each member is met once, and no more than the limit is ever unpacked.
    with (
        opened(path, most) as stream,
        unpacked(stream) as plain,
        tarfile.open(fileobj=_Counted(plain, most), mode="r|") as archive,
    ):
        for number, member in enumerate(archive):
            if number >= MOST_MEMBERS:
                raise TooLarge(f"an archive must have at most {MOST_MEMBERS} members, this one has more")
            name = member.name.rpartition("/")[2]
            if name not in names:
                continue
            if not member.isreg() or name in found:
                raise ValueError(
                    f"{member.name[:80]} must be one ordinary file, it is a link, a device, or there twice"
                )
            _allow(member.size, most_each, name)
            found[name] = read_all(archive.extractfile(member), most_each)  # type: ignore[arg-type]
    missing = [name for name in names if name not in found]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    return found


def npz_arrays(path: Path, most: int | None = None) -> dict[str, Array]:
    """All arrays of an npz file; objects (which would have to be unpickled) are refused.

    The sum of what the members declare is at most `most` bytes (default: the memory of the machine), and no array is made
    before its shape agrees with the size of its member.
    """
    limit = most or memory.installed() or LARGEST
    with opened(path, limit) as stream, zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS:
            raise TooLarge(f"an npz file must have at most {MOST_MEMBERS} arrays, this one has {len(members)}")
        _allow(sum(member.file_size for member in members), limit, "the arrays together")
        names = [member.filename.removesuffix(".npy") for member in members]
        if len(set(names)) != len(names):
            raise ValueError(f"every array must be there once, found {', '.join(sorted(names))[:_REASONS]}")
        return {name: _member(archive, member) for name, member in zip(names, members, strict=True)}


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Array:
    name = member.filename[:80]
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is packed by method {member.compress_type}: only stored and deflated arrays are read")
    with archive.open(member) as stream:
        shape, fortran, dtype = _header(stream, name)
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which would run code when read: store numbers")
        declared = math.prod(shape) * dtype.itemsize
        there = member.file_size - stream.tell()
        if min(shape, default=0) < 0 or declared != there:
            raise ValueError(f"{name} declares shape {shape} of {dtype}, {declared} bytes, but has {there}")
        flat = np.empty(math.prod(shape), dtype)
        _fill(flat, stream, name)
        return flat.reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} has version {version} of the npy format: versions 1.0 and 2.0 are read")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(stream)
    return found


def _fill(flat: Array, stream: IO[bytes], name: str) -> None:
    """Read exactly the bytes of the array; the read behind them lets zipfile compare the checksum."""
    place, target = 0, flat.view(np.uint8) if flat.itemsize and flat.size else np.empty(0, np.uint8)
    while piece := stream.read(_PIECE):
        if place + len(piece) > target.size:
            raise TooLarge(f"{name} holds more than it declares")
        target[place : place + len(piece)] = np.frombuffer(piece, np.uint8)
        place += len(piece)
    if place < target.size:
        raise EOFError(f"{name} ends after {place} of {target.size} bytes")


def _allow(size: int, most: int, what: str) -> None:
    if size > most:
        raise TooLarge(
            f"{what} must be at most {memory.words(most)}, it has {memory.words(size)}: it is not what it seems"
        )


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "directory"
    return "pipe" if stat.S_ISFIFO(mode) else "device or socket"
