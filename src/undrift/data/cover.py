"""Exact covers: every sample belongs to exactly one client.

A partition is built as a vector `owner`, the client of each sample, so that it is an exact cover by construction;
only at the end is it cut into one array of sample indices per client.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from undrift.data.checks import Ints
from undrift.data.errors import PartitionError

Parts = list[Ints]


def collect(owner: Ints, clients: int) -> Parts:
    """Cut the vector of owners into one ascending index array per client.

    >>> [p.tolist() for p in collect(np.array([1, 0, 1]), clients=2)]
    [[1], [0, 2]]
    """
    by_client = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=clients)
    return np.split(by_client, np.cumsum(sizes)[:-1])


def hand_out(labels: Ints, counts: Ints, rng: np.random.Generator) -> Parts:
    """Give `counts[m, c]` random samples of class c to client m."""
    clients, num_classes = counts.shape
    owner = np.empty(labels.size, dtype=np.int64)
    by_class = collect(labels, num_classes)
    for c, members in enumerate(by_class):
        owner[rng.permutation(members)] = np.repeat(np.arange(clients), counts[:, c])
    return collect(owner, clients)


def label_counts(parts: Sequence[npt.ArrayLike], labels: Ints, num_classes: int) -> Ints:
    """The table `counts[m, c]`: samples of class c at client m.

    >>> label_counts([[0, 2], [1]], np.array([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    sizes = [np.size(part) for part in parts]
    client = np.repeat(np.arange(len(parts)), sizes)
    flat = np.concatenate([np.asarray(part, dtype=np.int64).reshape(-1) for part in parts])
    cells = client * num_classes + labels[flat]
    return np.bincount(cells, minlength=len(parts) * num_classes).reshape(len(parts), num_classes)


def check_cover(parts: Sequence[npt.ArrayLike], samples: int, min_size: int = 1) -> None:
    """Raise unless `parts` hold each of 0..samples-1 exactly once and every client at least `min_size` of them.

    >>> check_cover([[0, 2], [1]], samples=3)
    """
    arrays = [np.asarray(part) for part in parts]
    for client, array in enumerate(arrays):
        if array.size < min_size:
            raise PartitionError(
                f"every client needs at least {min_size} samples, but client {client} has {array.size}: "
                f"remove the client or lower min_size."
            )
        if array.size and (array.ndim != 1 or array.dtype.kind not in "iu"):
            raise PartitionError(
                f"a client's samples must be a flat list of integers, but client {client} has dtype {array.dtype} "
                f"and shape {array.shape}: list sample indices only."
            )
        outside = array[(array < 0) | (array >= samples)] if array.size else array
        if outside.size:
            raise PartitionError(
                f"sample indices must lie in 0..{samples - 1}, got {int(outside[0])} for client {client} "
                f"({outside.size} such indices): is the map meant for another data set?"
            )
    flat = np.concatenate([array.astype(np.int64) for array in arrays]) if arrays else np.empty(0, np.int64)
    seen = np.bincount(flat, minlength=samples)
    repeated, missed = np.flatnonzero(seen > 1), np.flatnonzero(seen == 0)
    if repeated.size:
        raise PartitionError(
            f"every sample belongs to one client only, but sample {int(repeated[0])} appears {int(seen[repeated[0]])} "
            f"times ({repeated.size} samples are repeated): remove the copies."
        )
    if missed.size:
        raise PartitionError(
            f"every sample must belong to a client, but sample {int(missed[0])} belongs to none ({missed.size} of "
            f"{samples} are missed): add them, or pass the number of samples that the map was made for."
        )
