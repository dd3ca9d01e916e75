"""Partitions from and to a map file: JSON of the form {"client": [sample indices]}."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undrift.data.checks import at_least
from undrift.data.cover import Parts, check_cover
from undrift.data.errors import MissingDataError, PartitionError
from undrift.files import write_text


def from_map(
    source: str | PathLike[str] | Mapping[Any, Sequence[int]],
    samples: npt.ArrayLike | int,
    *,
    min_size: int = 1,
) -> Parts:
    """Read a partition from a JSON file or a mapping, and check that it is an exact cover.

    `samples` is the number of samples, or an array with one entry each (the labels). Clients are ordered by number
    when all their names are numbers, else as the file lists them.

    >>> [p.tolist() for p in from_map({"1": [0], "0": [2, 1]}, samples=3)]
    [[1, 2], [0]]
    """
    total = int(samples) if isinstance(samples, int | np.integer) else np.asarray(samples).shape[0]
    table = source if isinstance(source, Mapping) else _read(Path(source))
    names = list(table)
    if all(str(name).isdecimal() for name in names):
        names.sort(key=lambda name: int(str(name)))
    if not names:
        raise PartitionError('a map needs at least one client, got none: write {"client": [sample indices]}.')
    try:
        arrays = [np.asarray(table[name]) for name in names]
    except ValueError as error:  # ragged lists
        raise PartitionError(f"a client's samples must be a flat list of integers: {error}.") from None
    check_cover(arrays, total, at_least("min_size", min_size, 0))
    return [np.sort(array.astype(np.int64)) for array in arrays]


def to_map(parts: Sequence[npt.ArrayLike], path: str | PathLike[str]) -> Path:
    """Write a partition as a map file that `from_map` reads back.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = to_map([[1, 2], [0]], Path(folder) / "map.json")
    ...     [p.tolist() for p in from_map(path, samples=3)]
    [[1, 2], [0]]
    """
    table = {str(client): np.asarray(part, dtype=np.int64).tolist() for client, part in enumerate(parts)}
    path = Path(path)
    write_text(path, json.dumps(table))
    return path


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise MissingDataError(f"the map file {path} does not exist: check the path.")
    try:
        table = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_no_repeats)
    except json.JSONDecodeError as error:
        raise PartitionError(
            f"{path} is not valid JSON ({error}): it must be {{'client': [sample indices]}}."
        ) from None
    if not isinstance(table, dict):
        raise PartitionError(
            f"{path} must hold an object {{'client': [sample indices]}}, got a {type(table).__name__}: convert it."
        )
    return table


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON lets a key appear twice and keeps the last one in silence; here it is an error."""
    table = dict(pairs)
    if len(table) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise PartitionError(f"every client is listed once, but {twice!r} appears more than once: join its lists.")
    return table
