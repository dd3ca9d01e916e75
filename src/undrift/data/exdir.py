"""The extended Dirichlet partition ExDir(C, α) of the sequential split learning paper."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from undrift.data.checks import (
    Floats,
    Ints,
    at_least,
    check_classes,
    check_labels,
    check_room,
    check_table,
    generators,
    positive,
)
from undrift.data.cover import Parts
from undrift.data.dirichlet import allocate_samples
from undrift.data.errors import PartitionError
from undrift.data.minimum import Mask

SELECTIONS = 1000  # of classes by all clients, before it is given up to reach `min_clients`


def exdir(
    labels: npt.ArrayLike,
    clients: int,
    classes: int,
    alpha: float,
    *,
    seed: int | np.random.SeedSequence = 0,
    min_size: int = 1,
    num_classes: int | None = None,
    min_clients: int = 1,
    cap: bool = False,
) -> Parts:
    """ExDir(C, α): first classes go to clients, then samples.

    1. Allocating classes. Every client selects C = `classes` different classes uniformly at random, until each class
       is allocated to at least one client. This gives q_c in {0, 1}^M, the clients that may hold class c.
    2. Allocating samples. For each class c, draw p_c ~ Dir(α q_c) and give client m the share p_{c,m} of the class.

    The paper leaves three things open. "Until" is read as: all clients select again if a class was left out. That law
    is sampled exactly but without repetition (see `allocate_classes`), so the call always ends. Shares become
    whole numbers by largest remainders, so a client may hold fewer than C classes when a class is small. And clients
    below `min_size` (default 1) receive samples of their own classes; `min_size=0` keeps the raw draw. Classes
    without samples take no part.

    Three details of the authors' published program that the paper does not mention are options. It asks for `min_size` = 10.
    It asks for `min_clients` = max(⌊⌊C·M/K⌋/5⌋, 1) clients that may hold a class, of K classes: all clients select again until
    it is so (here at most 1000 times). And it has a `cap`: a client that already holds N/M samples or more, of N in all, gets
    nothing of the classes that are shared out after that, in the order of their numbers (here: unless no client of a class is
    below the cap). It redraws all shares where a client is below `min_size`; here samples are moved, as for every partition.

    >>> labels = np.repeat(np.arange(10), 100)
    >>> parts = exdir(labels, clients=20, classes=2, alpha=10.0, seed=0)
    >>> max(len(np.unique(labels[p])) for p in parts)
    2

    Reference: Li and Lyu, Convergence analysis of sequential split learning on heterogeneous data, section 5 and
    appendix F.2.
    """
    y, total = check_labels(labels, num_classes)
    clients = at_least("clients", clients, 1)
    present = np.flatnonzero(np.bincount(y, minlength=total))
    classes = at_least("classes", classes, 1)
    check_classes(classes, present.size)
    if clients * classes < present.size:
        raise PartitionError(
            f"every class needs a client: {clients} clients with {classes} classes each reach at most "
            f"{clients * classes} of {present.size} classes. Take clients * classes >= {present.size}."
        )
    alpha, min_size = positive("alpha", alpha), at_least("min_size", min_size, 0)
    check_room(y.size, clients, min_size)
    check_table(clients, total)
    first, second = generators(seed, 2)
    allowed = np.zeros((clients, total), dtype=bool)
    min_clients = at_least("min_clients", min_clients, 1)
    allowed[:, present] = _until_many(present.size, clients, classes, min_clients, first)
    return allocate_samples(y, allowed, alpha, second, min_size, y.size / clients if cap else np.inf)


def _until_many(num_classes: int, clients: int, classes: int, least: int, rng: np.random.Generator) -> Mask:
    """Level one, all clients selecting again until every class has so many of them."""
    if least * num_classes > clients * classes:
        raise PartitionError(
            f"min_clients={least} cannot be reached: {clients} clients with {classes} classes each make {clients * classes} "
            f"places for {num_classes} classes. Take min_clients <= {clients * classes // num_classes}."
        )
    for _ in range(SELECTIONS):
        mask = allocate_classes(num_classes, clients, classes, rng)
        if mask.sum(axis=0).min() >= least:
            return mask
    raise PartitionError(
        f"in {SELECTIONS} selections of classes some class always had fewer than min_clients={least} of {clients} clients: "
        f"lower min_clients; a fifth of the mean number, {max(clients * classes // num_classes // 5, 1)}, is always near."
    )


def allocate_classes(num_classes: int, clients: int, classes: int, rng: np.random.Generator) -> Mask:
    """Level one: which client may hold which class, as a clients × classes mask.

    The law is: every client takes a uniform subset of C classes, given that all K classes are taken. Redrawing until
    that happens can take very long (with M = K = 10, C = 1 one trial in 2,756 succeeds; with K = 100 practically
    none). Instead, let f(r, u) be the probability that r further clients take all of u given classes. It obeys

        f(0, 0) = 1,    f(r, u) = Σ_j h(j; u) f(r - 1, u - j),    h(j; u) = C(u, j) C(K - u, C - j) / C(K, C).

    With u classes still untaken and r clients to come after this one, this client takes j of the untaken classes with
    probability proportional to h(j; u) f(r, u - j). No draw is ever thrown away.

    >>> mask = allocate_classes(10, clients=10, classes=1, rng=np.random.default_rng(0))
    >>> mask.sum(axis=0).tolist(), mask.sum(axis=1).tolist()
    ([1, 1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    log_h = _log_new_classes(num_classes, classes)
    log_f = _log_cover(log_h, clients)
    mask = np.zeros((clients, num_classes), dtype=bool)
    taken = np.zeros(num_classes, dtype=bool)
    client = 0
    while not taken.all():
        untaken = int(np.count_nonzero(~taken))
        fresh = np.arange(min(classes, untaken) + 1)
        log_p = log_h[untaken, fresh] + log_f[clients - client - 1, untaken - fresh]
        p = np.exp(log_p - log_p.max())
        j = int(rng.choice(fresh, p=p / p.sum()))
        mask[client, rng.choice(np.flatnonzero(~taken), j, replace=False)] = True
        mask[client, rng.choice(np.flatnonzero(taken), classes - j, replace=False)] = True
        taken |= mask[client]
        client += 1
    # All classes are taken: the clients that remain are free, and can be drawn at once.
    rest = np.argsort(rng.random((clients - client, num_classes)), axis=1)[:, :classes]
    np.put_along_axis(mask[client:], rest, True, axis=1)
    # The sequential draw is exchangeable over clients, as the law asks: no shuffle is needed.
    return mask


def _log_new_classes(num_classes: int, classes: int) -> Floats:
    """log h(j; u): a uniform subset of C of the K classes meets a given set of u classes in j places."""
    u = np.arange(num_classes + 1)[:, None]
    j = np.arange(classes + 1)[None, :]
    return _log_binomial(u, j) + _log_binomial(num_classes - u, classes - j) - _log_binomial(num_classes, classes)


def _log_binomial(n: Ints | int, k: Ints | int) -> Floats:
    n, k = np.broadcast_arrays(np.asarray(n), np.asarray(k))
    inside = (k >= 0) & (k <= n)
    n, k = np.where(inside, n, 0), np.where(inside, k, 0)
    return np.where(inside, gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1), -np.inf)


def _log_cover(log_h: Floats, clients: int) -> Floats:
    """log f(r, u) for r = 0..clients, u = 0..K; in logarithms because f underflows when clients are few."""
    num_classes, classes = log_h.shape[0] - 1, log_h.shape[1] - 1
    left = np.arange(num_classes + 1)[:, None] - np.arange(classes + 1)[None, :]
    possible = left >= 0
    log_f = np.full((clients + 1, num_classes + 1), -np.inf)
    log_f[0, 0] = 0.0
    for r in range(1, clients + 1):
        terms = np.where(possible, log_h + log_f[r - 1, np.where(possible, left, 0)], -np.inf)
        log_f[r] = np.logaddexp.reduce(terms, axis=1)
    return log_f
