"""Partitions that need no drawing of proportions: iid, and by a column such as the writer or the hospital."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from undrift.data.checks import at_least, check_room, generators
from undrift.data.cover import Parts, collect
from undrift.data.errors import PartitionError


def iid(
    labels: npt.ArrayLike | int, clients: int, *, seed: int | np.random.SeedSequence = 0, min_size: int = 1
) -> Parts:
    """Deal the samples out like cards: every client is a uniform random subset, sizes differ by at most one.

    `labels` gives the number of samples only, so that number itself will do.

    >>> parts = iid(10, clients=3, seed=0)
    >>> [len(p) for p in parts]
    [4, 3, 3]
    """
    samples = int(labels) if isinstance(labels, int | np.integer) else np.asarray(labels).shape[0]
    at_least("the number of samples", samples, 1)
    clients = at_least("clients", clients, 1)
    check_room(samples, clients, at_least("min_size", min_size, 0))
    (rng,) = generators(seed, 1)
    owner = np.empty(samples, dtype=np.int64)
    owner[rng.permutation(samples)] = np.arange(samples) % clients
    return collect(owner, clients)


def by_group(groups: npt.ArrayLike, *, min_size: int = 1) -> Parts:
    """One client per distinct value of a column: a writer, a hospital, a device. Clients follow the sorted values.

    Groups smaller than `min_size` are pooled, smallest first, until the pool is large enough; a last pool that stays
    too small joins the smallest other client. Clients made of pools come after the others. A group is never cut.

    >>> [p.tolist() for p in by_group(["b", "a", "b"])]
    [[1], [0, 2]]
    >>> [p.tolist() for p in by_group(["b", "a", "b", "c"], min_size=2)]
    [[0, 2], [1, 3]]
    """
    column: npt.NDArray[Any] = np.asarray(groups)
    if column.ndim != 1 or column.size == 0:
        raise PartitionError(
            f"groups must be one non-empty column with a value per sample, got shape {column.shape}: "
            f"pass for example d.train.group."
        )
    if column.dtype.kind == "f" and np.isnan(column).any():
        raise PartitionError(
            f"every sample needs a group, but sample {int(np.flatnonzero(np.isnan(column))[0])} has NaN: "
            f"give those samples a group of their own."
        )
    min_size = at_least("min_size", min_size, 0)
    check_room(column.size, 1, min_size)
    values, owner = np.unique(column, return_inverse=True)
    parts = collect(owner.astype(np.int64).reshape(-1), values.size)
    return _pool_small(parts, min_size)


def _pool_small(parts: Parts, min_size: int) -> Parts:
    large = [part for part in parts if part.size >= min_size]
    small = sorted((part for part in parts if part.size < min_size), key=len)
    pool: Parts = []
    for part in small:
        pool.append(part)
        if sum(map(len, pool)) >= min_size:
            large.append(np.sort(np.concatenate(pool)))
            pool = []
    if pool:
        smallest = min(range(len(large)), key=lambda m: len(large[m]))
        large[smallest] = np.sort(np.concatenate([large[smallest], *pool]))
    return large
