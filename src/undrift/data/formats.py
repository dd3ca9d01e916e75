"""Readers of published file formats: IDX, npz, CIFAR pickles, LEAF JSON, UCI text.

Each one turns a damaged file into a `DataError` that names the file. None of them runs code from a file.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import pickle
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from undrift.data.errors import DataError
from undrift.data.sets import Array

_DAMAGE = (
    *(EOFError, KeyError, IndexError, TypeError, ValueError),
    *(gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, tarfile.TarError, pickle.UnpicklingError),
)


@contextmanager
def damage_named(path: Path, form: str) -> Iterator[None]:
    """Turn the many exceptions of a damaged file into one that says which file and what was expected."""
    try:
        yield
    except DataError:
        raise
    except _DAMAGE as error:
        raise DataError(
            f"{path} must be {form}, but reading it failed ({type(error).__name__}: {error}): "
            f"it is damaged or of another kind; remove it and fetch it again."
        ) from error


_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> Array:
    """Read an IDX file, gzipped or not: two zero bytes, a type, the number of axes, the axes, the values."""
    with damage_named(path, "an IDX file"):
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        if data[:2] != b"\0\0" or data[2] not in _IDX_TYPES:
            raise ValueError(f"unknown first bytes {data[:4].hex()}")
        dtype, axes = np.dtype(_IDX_TYPES[data[2]]), data[3]
        shape = tuple(int(n) for n in np.frombuffer(data, ">u4", count=axes, offset=4))
        body = len(data) - 4 - 4 * axes
        if body != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"shape {shape} needs {math.prod(shape) * dtype.itemsize} bytes, found {body}")
        values = np.frombuffer(data, dtype, offset=4 + 4 * axes).reshape(shape)
        return values.astype(dtype.newbyteorder("="), copy=False)


def read_npz(path: Path, keys: Iterable[str]) -> list[Array]:
    """Read named arrays of an npz file, never unpickling objects."""
    with damage_named(path, "an npz file"), np.load(path, allow_pickle=False) as archive:
        missing = [key for key in keys if key not in archive]
        if missing:
            raise DataError(
                f"{path} must hold the arrays {', '.join(keys)}; it lacks {', '.join(missing)} and has "
                f"{', '.join(archive.files) or 'none'}: rename or add them."
            )
        return [archive[key] for key in keys]


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows NumPy arrays and nothing else, so that a file cannot run code."""

    _reconstruct = np.zeros(0).__reduce__()[0]

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and name == "_reconstruct":
            return self._reconstruct
        if module == "numpy" and name in {"ndarray", "dtype"}:
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):
            import _codecs

            return _codecs.encode
        raise pickle.UnpicklingError(f"refused to load {module}.{name}")


def _read_cifar_batch(stream: IO[bytes]) -> tuple[Array, Array]:
    batch = _ArraysOnly(stream, encoding="bytes").load()
    images = np.asarray(batch[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
    return images.transpose(0, 2, 3, 1), np.asarray(batch[b"labels"])


CIFAR_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")


def read_cifar(path: Path) -> list[Array]:
    """Read CIFAR-10 for Python, the published archive or its folder: x_train, y_train, x_test, y_test (NHWC)."""
    with damage_named(path, "CIFAR-10 for Python"):
        if path.is_dir():
            batches = [_read_cifar_batch(io.BytesIO((path / name).read_bytes())) for name in CIFAR_BATCHES]
        else:
            found = {}
            with tarfile.open(path) as archive:
                for member in archive:
                    name = Path(member.name).name
                    stream = archive.extractfile(member) if name in CIFAR_BATCHES else None
                    if stream is not None:
                        found[name] = _read_cifar_batch(stream)
            batches = [found[name] for name in CIFAR_BATCHES]
        images, labels = zip(*batches, strict=True)
        return [np.concatenate(images[:5]), np.concatenate(labels[:5]), images[5], labels[5]]


def read_leaf(folder: Path) -> tuple[Array, Array, list[str]]:
    """Read one LEAF folder of JSON files: pixels (N, 784), labels (N,), and the user of every sample."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} must hold LEAF files (*.json), found none: run LEAF's preprocess.sh.")
    pixels, labels, users = [], [], []
    for path in files:
        with damage_named(path, "a LEAF file with users and user_data"):
            content = json.loads(path.read_text(encoding="utf-8"))
            for user in content["users"]:
                x = np.asarray(content["user_data"][user]["x"], dtype=np.float32)
                y = np.asarray(content["user_data"][user]["y"], dtype=np.int64)
                if len(x) != len(y):
                    raise ValueError(f"user {user} has {len(x)} images and {len(y)} labels")
                if len(y) == 0:
                    continue
                pixels.append(x.reshape(len(y), -1))
                labels.append(y)
                users += [str(user)] * len(y)
    if not labels:
        raise DataError(f"{folder} holds no sample at all: run LEAF's preprocess.sh again.")
    return np.concatenate(pixels), np.concatenate(labels), users


def read_uci_table(path: Path) -> tuple[Array, Array]:
    """Read a processed.*.data file: 13 features ("?" is missing, NaN here) and the diagnosis 0..4 per line."""
    with damage_named(path, "a UCI file with 14 comma-separated values a line"):
        rows = [line.split(",") for line in path.read_text(encoding="ascii").split()]
        table = np.array([[np.nan if value == "?" else float(value) for value in row] for row in rows])
        if table.ndim != 2 or table.shape[1] != 14:
            raise ValueError(f"found a table of shape {table.shape}")
        return table[:, :13].astype(np.float32), table[:, 13]
