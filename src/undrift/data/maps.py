"""Partitions from and to a map file: JSON of the form {"client": [sample indices]}."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undrift.data.archives import contents
from undrift.data.checks import at_least
from undrift.data.cover import Parts, check_cover
from undrift.data.errors import PartitionError
from undrift.errors import InputError
from undrift.files import write_text

_LONGEST_NUMBER = 18  # digits of a client's name that is sorted as a number


def from_map(
    source: str | PathLike[str] | Mapping[Any, Sequence[int]],
    samples: npt.ArrayLike | int,
    *,
    min_size: int = 1,
) -> Parts:
    """Read a partition from a JSON file or a mapping, and check that it is an exact cover.

    `samples` is the number of samples, or an array with one entry each (the labels). Clients are ordered by number
    when all their names are numbers, else as the file lists them; the samples of a client as its list has them, since
    programs that walk through a client's data in order depend on it.

    >>> [p.tolist() for p in from_map({"1": [0], "0": [2, 1]}, samples=3)]
    [[2, 1], [0]]
    """
    total = at_least("the number of samples", samples if np.ndim(samples) == 0 else np.shape(samples)[0], 1)
    table = source if isinstance(source, Mapping) else _read(Path(source))
    names = list(table)
    if all(str(name).isdecimal() and len(str(name)) <= _LONGEST_NUMBER for name in names):
        names.sort(key=lambda name: int(str(name)))
    if not names:
        raise PartitionError('a map needs at least one client, got none: write {"client": [sample indices]}.')
    arrays = [_samples_of(name, table[name]) for name in names]
    check_cover(arrays, total, at_least("min_size", min_size, 0))
    return [array.astype(np.int64) for array in arrays]


def _samples_of(name: Any, given: Any) -> npt.NDArray[Any]:
    """An array; whether it is one of indices, `check_cover` says."""
    if isinstance(given, list | tuple) and any(isinstance(index, bool) for index in given):
        raise PartitionError(
            f"a client's samples must be a flat list of integers, but client {name} lists true or false: "
            f"list sample indices only."
        )
    try:
        return np.asarray(given)
    except ValueError as error:  # ragged lists
        raise PartitionError(
            f"a client's samples must be a flat list of integers, but those of client {name} are not ({error}): "
            f"list sample indices only."
        ) from None


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
    try:
        table = json.loads(contents(path), object_pairs_hook=_no_repeats)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:  # no JSON, no text, nested without end, or too large
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
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise PartitionError(f"every client is listed once, but {twice[:80]!r} appears more than once: join its lists.")
    return table
