"""Checks at the user's boundary, shared by every partition."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from undrift import memory
from undrift.data.errors import DataError, PartitionError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def at_least(name: str, value: Any, smallest: int) -> int:
    """Return `value` as an int that is at least `smallest`.

    >>> at_least("clients", 10, 1)
    10
    """
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise PartitionError(f"{name} must be a whole number, got {value!r}: pass an int.") from None
    if number < smallest:
        raise PartitionError(f"{name} must be at least {smallest}, got {number}: raise {name}.")
    return number


def positive(name: str, value: Any) -> float:
    """Return `value` as a finite float above zero.

    >>> positive("alpha", 10)
    10.0
    """
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise PartitionError(
            f"{name} must be finite and above 0, got {value!r}: a small {name} (0.1) makes clients differ, "
            f"a large one (100) makes them alike."
        )
    return number


def check_labels(labels: npt.ArrayLike, num_classes: int | None = None) -> tuple[Ints, int]:
    """Return the labels as int64 together with the number of classes (default: largest label + 1).

    >>> check_labels([0, 2, 1])[1]
    3
    """
    array = np.asarray(labels)
    if array.ndim != 1 or array.size == 0:
        raise DataError(
            f"labels must be one non-empty axis of integers, got shape {array.shape}: pass the labels of all samples."
        )
    if array.dtype.kind not in "iu":
        raise DataError(f"labels must be integers, got dtype {array.dtype}: convert with labels.astype(int).")
    array = array.astype(np.int64)
    total = int(array.max()) + 1 if num_classes is None else at_least("num_classes", num_classes, 1)
    outside = np.flatnonzero((array < 0) | (array >= total))
    if outside.size:
        first = int(outside[0])
        raise DataError(
            f"every label must lie in 0..{total - 1}, but sample {first} has label {int(array[first])} "
            f"({outside.size} such samples): correct the labels or set num_classes."
        )
    return array, total


def check_classes(classes: int, present: int) -> None:
    """Refuse more classes at a client than there are."""
    if classes > present:
        raise PartitionError(
            f"a client cannot hold classes={classes} different classes of {present}: take classes <= {present}."
        )


def check_room(samples: int, clients: int, min_size: int) -> None:
    """Refuse partitions that cannot exist because there are too few samples.

    >>> check_room(samples=100, clients=10, min_size=10)
    """
    if clients * min_size > samples:
        rule = "no client may be empty" if min_size == 1 else f"every client needs min_size={min_size} samples"
        raise PartitionError(
            f"{rule}: {clients} clients need {clients * min_size} samples, got {samples}. "
            f"Take at most {samples // min_size} clients"
            + (", or allow empty clients with min_size=0." if min_size == 1 else ", or lower min_size.")
        )


def check_table(clients: int, classes: int) -> None:
    """Refuse so many clients that their table of classes would not fit into memory.

    >>> check_table(clients=10**6, classes=10)
    """
    memory.require(
        4 * 8 * clients * classes, f"a partition of {classes} classes among {clients} clients", "take fewer clients"
    )


def generators(seed: int | np.random.SeedSequence, streams: int) -> list[np.random.Generator]:
    """Independent random streams from one seed; no global state is read or written.

    >>> [int(g.integers(100)) for g in generators(0, 2)] == [int(g.integers(100)) for g in generators(0, 2)]
    True
    """
    if isinstance(seed, np.random.SeedSequence):
        # Spawning changes a SeedSequence; a copy keeps the caller's as it was.
        root = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    else:
        root = np.random.SeedSequence(at_least("seed", seed, 0))
    return [np.random.default_rng(child) for child in root.spawn(streams)]
