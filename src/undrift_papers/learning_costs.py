"""What a round of a training run would cost if it were deployed: whole models for FedAvg, a model cut in two for SSL.

The runs take SSL's numbers from sequential FL on the uncut model, which are the same. Its messages are not, so they are
counted from the program of split learning itself, and nothing is run for it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import undrift as ud

from .jobs import Outcome

MODE = "peer"  # clients hand their half of the model to one another


def costs(outcome: Outcome, cut: int | None = None) -> dict[str, Any]:
    """Bytes, gradients and virtual seconds up to each evaluated round; every round costs the same.

    `cut`: how many leading layers SSL leaves at the client.
    """
    job = outcome.job
    split = cut if ud.METHODS[job.method](eta=job.eta).recipe.ordered else None
    one = _round(job.data, job.model, job.method, job.steps, min(job.cohort, job.clients), job.batch, split)
    return {axis: outcome.rounds * cost for axis, cost in one.items()}


@functools.cache
def _round(
    data: str, model: str, method: str, steps: int, cohort: int, batch: int, cut: int | None
) -> dict[str, float]:
    """One round's cost with this cohort, whose members have the default resources; with a cut, that of SSL.

    >>> _round("digits", "mlp", "fedavg", 10, 5, 20, None)["bytes"] == 5 * 2 * 4 * 55210  # every client: the model twice
    True
    """
    from undrift.advice.costs import tariff

    played = ud.METHODS[method](eta=1.0) if cut is None else ud.ssl(eta=1.0, mode=MODE)
    price = tariff(played, _blank(data, model, cohort, batch, cut), steps, ud.Resources.of(cohort)).round
    return {"bytes": price.bytes, "gradients": price.gradients, "seconds": price.seconds}


def _blank(data: str, model: str, clients: int, batch: int, cut: int | None) -> Any:
    """A problem of these shapes: a batch of black images for every client."""
    from undrift.studies.networks import model_maker

    about = ud.data.entry(data)
    net = model_maker(model)(classes=len(about.class_names), input=about.sample_shape)
    images, labels = np.zeros((batch, *about.sample_shape), np.float32), np.zeros(batch, np.int64)
    return ud.problems.network(net, (images, labels), [np.arange(batch)] * clients, batch=batch, cut=cut)
