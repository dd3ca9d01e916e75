"""A minimum size for every client, reached by moving as few samples as needed.

Many partitioners redraw until the smallest client is large enough, which may take forever. Here a partition is drawn
once, and clients that came out too small receive samples from the largest ones, of classes that they may hold. When
no large client holds such a class directly, samples move along a chain of clients: an augmenting path, as in maximum
flow. So the minimum is reached whenever it can be, and the procedure always ends: each step lowers the total deficit.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from undrift.data.checks import Ints
from undrift.data.errors import PartitionError

Mask = npt.NDArray[np.bool_]


def raise_to_minimum(counts: Ints, allowed: Mask, min_size: int, keep: int = 0) -> Ints:
    """Return `counts` (clients × classes) with every row sum at least `min_size` and the same column sums.

    A client receives only classes it is `allowed`, and one that gives keeps `keep` samples of each of its classes.

    >>> raise_to_minimum(np.array([[9, 1], [0, 0]]), np.ones((2, 2), bool), min_size=2).tolist()
    [[7, 1], [2, 0]]
    """
    counts = counts.copy()
    sizes = counts.sum(axis=1)
    for client in map(int, np.flatnonzero(sizes < min_size)):
        while sizes[client] < min_size:
            path = _direct(counts, sizes, allowed, client, min_size, keep)
            if path is None:
                path = _chain(counts, sizes, allowed, client, min_size, keep)
            if path is None:
                raise PartitionError(
                    f"min_size={min_size} cannot be reached: client {client} may hold only classes "
                    f"{np.flatnonzero(allowed[client]).tolist()}, and no sample of them can be spared. "
                    f"Lower min_size, take fewer clients, or give each client more classes."
                )
            _move(counts, sizes, path, min_size, keep)
    return counts


# A path is a list of (giver, class, receiver), from the client in need to the one that can spare samples.
_Path = list[tuple[int, int, int]]


def _direct(counts: Ints, sizes: Ints, allowed: Mask, client: int, min_size: int, keep: int) -> _Path | None:
    """The largest client that can spare a class the needy one may hold, and the class it has most of."""
    classes = np.flatnonzero(allowed[client])
    spare = counts[:, classes] > keep
    able = spare.any(axis=1) & (sizes > min_size)
    if not able.any():
        return None
    giver = int(np.argmax(np.where(able, sizes, -1)))
    return [(giver, int(classes[np.argmax(counts[giver, classes])]), client)]


def _chain(counts: Ints, sizes: Ints, allowed: Mask, client: int, min_size: int, keep: int) -> _Path | None:
    """Breadth-first search for the shortest chain of single moves that ends at a client above the minimum."""
    came_from: dict[int, tuple[int, int]] = {client: (-1, -1)}
    queue = deque([client])
    while queue:
        receiver = queue.popleft()
        for c in np.flatnonzero(allowed[receiver]):
            for giver in map(int, np.flatnonzero(counts[:, c] > keep)):
                if giver in came_from:
                    continue
                came_from[giver] = (receiver, int(c))
                if sizes[giver] > min_size:
                    return _trace(came_from, giver)
                queue.append(giver)
    return None


def _trace(came_from: dict[int, tuple[int, int]], giver: int) -> _Path:
    path: _Path = []
    while came_from[giver][0] >= 0:
        receiver, c = came_from[giver]
        path.append((giver, c, receiver))
        giver = receiver
    return path


def _move(counts: Ints, sizes: Ints, path: _Path, min_size: int, keep: int) -> None:
    """Move along the path as many samples as it can carry at once."""
    source, needy = path[0][0], path[-1][2]
    amount = min(
        int(min_size - sizes[needy]),
        int(sizes[source] - min_size),
        *(int(counts[giver, c] - keep) for giver, c, _ in path),
    )
    for giver, c, receiver in path:
        counts[giver, c] -= amount
        counts[receiver, c] += amount
    sizes[source] -= amount
    sizes[needy] += amount
