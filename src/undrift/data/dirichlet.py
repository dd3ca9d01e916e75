"""Dirichlet partitions: the plain one, and the second level of ExDir."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from undrift.data.checks import Floats, Ints, at_least, check_labels, check_room, check_table, generators, positive
from undrift.data.cover import Parts, hand_out
from undrift.data.minimum import Mask, raise_to_minimum


def dirichlet(
    labels: npt.ArrayLike,
    clients: int,
    alpha: float,
    *,
    seed: int | np.random.SeedSequence = 0,
    min_size: int = 1,
    num_classes: int | None = None,
) -> Parts:
    """Split every class among all clients by its own Dirichlet draw.

    For each class c, draw p_c ~ Dir_M(α) and give client m the share p_{c,m} of the class. A small α makes clients
    differ, a large one makes them alike. It is ExDir(C, α) with C = all classes, drawn from the same random stream.

    Clients that come out below `min_size` (default 1: nobody is empty) receive samples from the largest clients;
    `min_size=0` keeps the raw draw.

    >>> labels = np.repeat([0, 1, 2], 100)
    >>> parts = dirichlet(labels, clients=5, alpha=0.5, seed=0)
    >>> sum(len(p) for p in parts)
    300

    Reference: Yurochkin et al., Bayesian nonparametric federated learning of neural networks, ICML 2019.
    """
    y, total = check_labels(labels, num_classes)
    clients = at_least("clients", clients, 1)
    alpha, min_size = positive("alpha", alpha), at_least("min_size", min_size, 0)
    check_room(y.size, clients, min_size)
    check_table(clients, total)
    _, second = generators(seed, 2)
    return allocate_samples(y, np.ones((clients, total), dtype=bool), alpha, second, min_size)


def allocate_samples(
    y: Ints, allowed: Mask, alpha: float, rng: np.random.Generator, min_size: int, enough: float = np.inf
) -> Parts:
    """For each class c draw p_c ~ Dir(α q_c), where q_c = allowed[:, c], and hand its samples out accordingly.

    Clients that have `enough` samples when it is the turn of a class get none of it, if others may hold it.
    """
    clients, num_classes = allowed.shape
    class_sizes = np.bincount(y, minlength=num_classes)
    counts = np.zeros((clients, num_classes), dtype=np.int64)
    for c in np.flatnonzero(class_sizes):
        members = np.flatnonzero(allowed[:, c])
        wanting = members[counts[members].sum(axis=1) < enough]
        members = wanting if wanting.size else members
        shares = draw_shares(alpha, members.size, rng)
        counts[members, c] = round_shares(shares, int(class_sizes[c]))
    return hand_out(y, raise_to_minimum(counts, allowed, min_size), rng)


def draw_shares(alpha: float, size: int, rng: np.random.Generator) -> Floats:
    """One draw of the symmetric Dirichlet distribution, safe for every α > 0.

    Normalised gamma variables G(α) all underflow to zero when α is small. Their logarithms do not:
    log G(α) = log G(α + 1) + log(U) / α in distribution, with U uniform on (0, 1].

    >>> float(draw_shares(1e-9, 4, np.random.default_rng(0)).sum())
    1.0
    """
    alpha = max(alpha, 1e-12)  # already one-hot for any number of clients; below this log(U)/α could overflow
    logs = np.log(rng.standard_gamma(alpha + 1.0, size)) + np.log1p(-rng.random(size)) / alpha
    weights = np.exp(logs - logs.max())
    shares: Floats = weights / weights.sum()
    return shares


def round_shares(shares: Floats, total: int) -> Ints:
    """Whole numbers that sum to `total`, each less than one away from its share (largest remainders).

    >>> round_shares(np.array([0.5, 0.26, 0.24]), 10).tolist()
    [5, 3, 2]
    """
    exact = shares * total
    counts = np.floor(exact).astype(np.int64)
    # Rounding errors of the shares may push the sum of the floors one off in either direction.
    missing = total - int(counts.sum())
    order = np.argsort(counts - exact, kind="stable")
    if missing > 0:
        counts[order[:missing]] += 1
    elif missing < 0:
        counts[order[::-1][:-missing]] -= 1
    return counts
