"""Which runs record every client unasked: those of few clients, where it costs next to nothing."""

from __future__ import annotations

from ..problems.population import Population

MOST_CLIENTS = 100
MOST_NUMBERS = 250_000  # clients × rounds that are kept
MOST_WORK = 1e8  # samples × numbers of a model: networks look at all their data for it, not only at a sample


def records_each_client(population: Population, rounds: int) -> bool:
    """Whether a run of so many rounds records losses, accuracies and drift of each client where nobody says.

    >>> import numpy as np
    >>> from undrift.problems import least_squares
    >>> few = least_squares(np.ones((3, 5, 2)), np.ones((3, 5))).population
    >>> records_each_client(few, 1000), records_each_client(few, 1_000_000)
    (True, False)
    """
    m, work = population.clients, float(population.sizes.sum()) * population.dim
    return m <= MOST_CLIENTS and m * (rounds + 1) <= MOST_NUMBERS and work <= MOST_WORK
