"""The pathological partition: every client holds samples of exactly C classes."""

from __future__ import annotations

import heapq

import numpy as np
import numpy.typing as npt

from undrift.data.checks import Ints, at_least, check_classes, check_labels, check_room, generators
from undrift.data.cover import Parts, hand_out
from undrift.data.errors import PartitionError
from undrift.data.minimum import Mask, raise_to_minimum


def pathological(
    labels: npt.ArrayLike,
    clients: int,
    classes: int,
    *,
    seed: int | np.random.SeedSequence = 0,
    min_size: int = 1,
    num_classes: int | None = None,
) -> Parts:
    """Every client holds exactly `classes` classes, and clients are of nearly equal size.

    The M·C places are shared among the classes in proportion to their sizes, clients fill them at random with
    different classes, and a class is split evenly among its clients. (The well-known recipe of sorting by label and
    dealing out shards does nearly the same, but shards that straddle two classes break the count.)

    >>> labels = np.repeat(np.arange(10), 60)
    >>> parts = pathological(labels, clients=30, classes=2, seed=0)
    >>> {len(np.unique(labels[p])) for p in parts}, {len(p) for p in parts}
    ({2}, {20})

    Reference: McMahan et al., Communication-efficient learning of deep networks from decentralized data, AISTATS 2017.
    """
    y, total = check_labels(labels, num_classes)
    clients = at_least("clients", clients, 1)
    classes = at_least("classes", classes, 1)
    min_size = at_least("min_size", min_size, 0)
    check_room(y.size, clients, min_size)
    class_sizes = np.bincount(y, minlength=total)
    places = share_places(class_sizes, clients, classes)
    first, second = generators(seed, 2)
    holds = fill_places(places, clients, classes, first)
    counts = np.zeros((clients, total), dtype=np.int64)
    for c in np.flatnonzero(class_sizes):
        members = second.permutation(np.flatnonzero(holds[:, c]))
        base, extra = divmod(int(class_sizes[c]), members.size)
        counts[members, c] = base + (np.arange(members.size) < extra)
    return hand_out(y, raise_to_minimum(counts, holds, min_size, keep=1), second)


def share_places(class_sizes: Ints, clients: int, classes: int) -> Ints:
    """How many clients hold each class: M·C places in proportion to the class sizes (highest averages).

    No class has more places than clients or than samples, and every class that has samples has a place.

    >>> share_places(np.array([100, 100, 200]), clients=4, classes=2).tolist()
    [2, 2, 4]
    """
    present = np.flatnonzero(class_sizes)
    most = np.minimum(class_sizes, clients)
    check_classes(classes, present.size)
    if not present.size <= clients * classes <= int(most.sum()):
        raise PartitionError(
            f"clients * classes must lie in {present.size}..{int(most.sum())}, so that every class has a client and "
            f"every client a sample of each of its classes; got {clients} * {classes} = {clients * classes}: "
            f"change clients or classes."
        )
    places = (class_sizes > 0).astype(np.int64)
    queue = [(-class_sizes[c] / 2, int(c)) for c in present if most[c] > 1]
    heapq.heapify(queue)
    for _ in range(clients * classes - present.size):
        _, c = heapq.heappop(queue)
        places[c] += 1
        if places[c] < most[c]:
            heapq.heappush(queue, (-class_sizes[c] / (places[c] + 1), c))
    return places


def fill_places(places: Ints, clients: int, classes: int, rng: np.random.Generator) -> Mask:
    """Fill the places at random: each client holds `classes` different classes, class c has `places[c]` clients.

    Clients choose in turn, a class with chance growing with its open places. A class with as many open places as
    clients are left must be chosen by all of them; taking such classes first means that nobody gets stuck.

    >>> fill_places(np.array([2, 1, 1]), clients=2, classes=2, rng=np.random.default_rng(0)).sum(axis=0).tolist()
    [2, 1, 1]
    """
    open_places = places.astype(np.float64)
    noise = rng.gumbel(size=(clients, places.size))
    holds = np.zeros((clients, places.size), dtype=bool)
    for turn, client in enumerate(rng.permutation(clients)):
        with np.errstate(divide="ignore"):
            keys = np.log(open_places) + noise[client]  # Gumbel keys: a weighted draw without replacement
        keys[open_places == clients - turn] = np.inf
        chosen = np.argsort(-keys)[:classes]
        holds[client, chosen] = True
        open_places[chosen] -= 1
    return holds
