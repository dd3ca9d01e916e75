"""Readers of published file formats: IDX, npz, LEAF JSON, UCI text (CIFAR pickles: `cifar`).

Each one turns a damaged file into a `DataError` that names the file. None of them runs code from a file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from undrift.data.archives import LARGEST, contents, damage_named, npz_arrays, opened, read_all, unpacked
from undrift.data.errors import DataError
from undrift.data.sets import Array

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read_idx(path: Path) -> Array:
    """Read an IDX file, gzipped or not: two zero bytes, a type, the number of axes, the axes, the values."""
    with damage_named(path, "an IDX file"), opened(path) as stream, unpacked(stream) as plain:
        head = plain.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _IDX_TYPES:
            raise ValueError(f"unknown first bytes {head.hex()}")
        dtype, axes = np.dtype(_IDX_TYPES[head[2]]), head[3]
        shape = tuple(int(n) for n in np.frombuffer(plain.read(4 * axes), ">u4", count=axes))
        declared = math.prod(shape) * dtype.itemsize
        if declared > LARGEST:
            raise ValueError(f"shape {shape} needs {declared} bytes, at most {LARGEST} are read")
        body = read_all(plain, declared)
        if len(body) != declared:
            raise ValueError(f"shape {shape} needs {declared} bytes, found {len(body)}")
        values = np.frombuffer(body, dtype).reshape(shape)
        return values.astype(dtype.newbyteorder("="), copy=False)


def read_npz(path: Path, keys: Collection[str]) -> list[Array]:
    """Read named arrays of an npz file, never unpickling objects."""
    with damage_named(path, "an npz file"):
        arrays = npz_arrays(path, LARGEST)
    missing = [key for key in keys if key not in arrays]
    if missing:
        raise DataError(
            f"{path} must hold the arrays {', '.join(keys)}; it lacks {', '.join(missing)} and has "
            f"{', '.join(arrays) or 'none'}: rename or add them."
        )
    return [arrays[key] for key in keys]


def read_own_npz(path: Path) -> dict[str, Array]:
    """All arrays of a user's npz file, never unpickling objects; it may be as large as the memory of the machine."""
    with damage_named(path, "an .npz file of numbers", "save it again with np.savez"):
        return npz_arrays(path)


def read_leaf(folder: Path) -> tuple[Array, Array, list[str]]:
    """Read one LEAF folder of JSON files: pixels (N, 784), labels (N,), and the user of every sample."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"{folder} must hold LEAF files (*.json), found none: run LEAF's preprocess.sh.")
    pixels, labels, users = [], [], []
    for path in files:
        with damage_named(path, "a LEAF file with users and user_data"):
            for user, x, y in _users(json.loads(contents(path))):
                if len(y) == 0:
                    continue
                pixels.append(x.reshape(len(y), -1))
                labels.append(y)
                users += [user] * len(y)
    if not labels:
        raise DataError(f"{folder} holds no sample at all: run LEAF's preprocess.sh again.")
    return np.concatenate(pixels), np.concatenate(labels), users


def _users(content: Any) -> Iterator[tuple[str, Array, Array]]:
    """Name, images and labels of every user of a LEAF file."""
    names = content["users"]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError("users must be a list of names, each once")
    for user in names:
        x, y = (np.asarray(content["user_data"][user][key]) for key in ("x", "y"))
        if len(x) != len(y) or y.ndim != 1:
            raise ValueError(f"user {user[:80]} has {len(x)} images and labels of shape {y.shape}")
        if len(y) and (x.dtype.kind not in "iuf" or y.dtype.kind not in "iu"):
            raise ValueError(f"user {user[:80]} must have numbers x and whole numbers y, found {x.dtype} and {y.dtype}")
        yield user, x.astype(np.float32), y.astype(np.int64)


def read_uci_table(path: Path) -> tuple[Array, Array]:
    """Read a processed.*.data file: 13 features ("?" is missing, NaN here) and the diagnosis 0..4 per line."""
    with damage_named(path, "a UCI file with 14 comma-separated values a line"):
        rows = [line.split(",") for line in contents(path).decode("ascii").split()]
        table = np.array([[np.nan if value == "?" else float(value) for value in row] for row in rows])
        if table.ndim != 2 or table.shape[1] != 14:
            raise ValueError(f"found a table of shape {table.shape}")
        return table[:, :13].astype(np.float32), table[:, 13]
