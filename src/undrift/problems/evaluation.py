"""What is recorded of a model: every client is asked about x, and its answers become columns.

A client answers with `ClientLoss.measure`; `summarise` is the server's part. The simulation compiles both into the run, and
interpreters that pass messages send the answers.

| answer | meaning |
|---|---|
| loss | f_i(x), or, with a weight, an estimate of it |
| gradient | ∇f_i(x), where it is cheap |
| gap | a share of f(x) − f* without cancellation: Σ w_i gap_i = f(x) − f* |
| accuracy | of classifiers, if asked for: the share of the client's own samples that x classifies rightly |
| weight | what this answer counts for in the mean in place of w_i, where losses are measured on a sample of all data |
| own_loss, own_accuracy, … | means over all samples of the client, if asked for, where its loss is that of a sample |
| share | of a client that holds the data of several: each one's part of its weight; the other answers have a row for each |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..sharding import by_all, to_all
from ..sums import total, weighted

Answers = Mapping[str, jax.Array]
OWN = "own_"
QUANTILES = (10, 50, 90)
RANKED = 32  # clients up to which they are put in order by counting who is before whom
LARGEST_IS_WORST = {"loss": True, "accuracy": False}


AGAINST_OPTIMUM = ("gap", "sq_distance")  # columns that take x*


class Reference(NamedTuple):
    """What the records are measured against, where x* is known."""

    x: Any
    value: Any


class Evaluation(NamedTuple):
    """What is recorded of one model."""

    columns: dict[str, Any]  # "loss" among them
    suspect: Any  # the client to look at if the loss is not finite, or −1
    clients: dict[str, Any]  # arrays with one entry per client, where they were asked for


def summarise(
    x: jax.Array, answers: Answers, weights: jax.Array, reference: Reference | None, per_client: bool = False
) -> Evaluation:
    """The columns of x from the answers of all m clients, stacked.

    >>> answers = {"loss": jnp.array([1.0, 3.0]), "gradient": jnp.array([[3.0], [1.0]])}
    >>> found = summarise(jnp.zeros(1), answers, jnp.array([0.5, 0.5]), None)
    >>> {name: round(float(value), 6) for name, value in found.columns.items()}  # doctest: +NORMALIZE_WHITESPACE
    {'loss': 2.0, 'grad_norm': 2.0, 'dissimilarity': 1.0,
     'loss_worst': 3.0, 'loss_spread': 1.0, 'loss_q10': 1.2, 'loss_q50': 2.0, 'loss_q90': 2.8}
    """
    answers, weights = _one_row_each(answers, weights)
    weights = answers.get("weight", weights)
    slopes = None
    if "gradient" in answers:
        gradients = answers.pop("gradient")
        slopes = Slopes.around(weighted(weights, gradients), gradients)
    given = x, *_known_to_all(answers, slopes), weights, reference
    evaluation: Evaluation = by_all(partial(conclude, per_client=per_client), *given)
    return evaluation


class Slopes(NamedTuple):
    """What is recorded of the clients' gradients: one number each, and their mean."""

    mean: jax.Array  # ∇f(x)
    norms: jax.Array  # ‖∇f_i(x)‖
    differences: jax.Array  # ‖∇f_i(x) − ∇f(x)‖
    steepest: jax.Array  # the largest entry of |∇f_i(x)|

    @classmethod
    def around(cls, mean: jax.Array, gradients: jax.Array) -> Slopes:
        """Of these clients' gradients, where the mean of all clients is known."""
        norms, differences = (jnp.linalg.norm(g, axis=1) for g in (gradients, gradients - mean[None, :]))
        return cls(mean, norms, differences, jnp.max(jnp.abs(gradients), axis=1))


def _known_to_all(answers: Answers, slopes: Slopes | None) -> tuple[Answers, Slopes | None]:
    """On a mesh, every client's numbers on every device."""
    if slopes is None:
        return to_all(answers), None
    answers, each = to_all((answers, slopes[1:]))
    return answers, Slopes(slopes.mean, *each)


def conclude(
    x: jax.Array,
    answers: Answers,
    slopes: Slopes | None,
    weights: jax.Array,
    reference: Reference | None,
    per_client: bool,
) -> Evaluation:
    """The columns of x from one number per client for every answer."""
    columns = {"loss": weighted(weights, answers["loss"])}
    clients = _of_each(answers)
    suspect: Any = jnp.int32(-1)
    if reference is not None:
        columns |= _against(reference, x, columns["loss"], answers, weights)
    if slopes is not None:
        columns |= {"grad_norm": jnp.linalg.norm(slopes.mean), "dissimilarity": jnp.max(slopes.differences)}
        clients |= {"grad_norm": slopes.norms, "dissimilarity": slopes.differences}
        suspect = _suspect(answers["loss"], slopes.steepest)
    return Evaluation(columns | statistics(clients), suspect, clients if per_client else {})


def statistics(clients: Answers) -> dict[str, jax.Array]:
    """Worst, spread (standard deviation) and quantiles over clients, all counted alike, of their losses and accuracies."""
    found = {}
    for name, largest_is_worst in LARGEST_IS_WORST.items():
        if name in clients:
            ordered = _sorted(clients[name])
            found[f"{name}_worst"] = ordered[-1 if largest_is_worst else 0]
            found[f"{name}_spread"] = _spread(ordered)
            found |= {f"{name}_q{q}": _quantile(ordered, q / 100) for q in QUANTILES}
    return found


def _spread(values: jax.Array) -> jax.Array:
    count = values.shape[0]
    return jnp.sqrt(total((values - total(values) / count) ** 2) / count)


def _sorted(values: jax.Array) -> jax.Array:
    """In ascending order, NaN last. XLA's sort on a CPU is slow: few values are put into their places by their ranks."""
    count = values.shape[0]
    if count > RANKED:
        return jnp.sort(values)
    key, places = jnp.where(jnp.isnan(values), jnp.inf, values), np.arange(count)
    before = (key[None, :] < key[:, None]) | ((key[None, :] == key[:, None]) & (places[None, :] < places[:, None]))
    rank = jnp.sum(before, axis=1)
    return jnp.sum(jnp.where(rank[None, :] == places[:, None], key[None, :], 0), axis=1)


def _quantile(ordered: jax.Array, q: float) -> jax.Array:
    place = q * (ordered.shape[0] - 1)
    below, part = int(place), place - int(place)
    return ordered[below] if part == 0 else (1 - part) * ordered[below] + part * ordered[below + 1]


def _against(reference: Reference, x: jax.Array, loss: jax.Array, answers: Answers, weights: jax.Array) -> Any:
    """Gap and distance; where the gap is exact down to the smallest numbers, the loss follows from it."""
    columns = {"gap": loss - reference.value, "sq_distance": jnp.sum((x - reference.x) ** 2)}
    if "gap" in answers:
        gap = weighted(weights, answers["gap"])
        columns |= {"gap": gap, "loss": reference.value + gap}
    return columns


def _of_each(answers: Answers) -> dict[str, jax.Array]:
    """What is known of every client: its own means, or its loss, gap and accuracy where these are not of a sample."""
    if "weight" in answers:
        return {name.removeprefix(OWN): value for name, value in answers.items() if name.startswith(OWN)}
    return {name: answers[name] for name in ("loss", "gap", "accuracy") if name in answers}


def _suspect(losses: jax.Array, steepest: jax.Array) -> jax.Array:
    """The client with the steepest gradient, among those whose loss is not finite if there are any."""
    steepest = jnp.nan_to_num(steepest, nan=jnp.inf)
    broken = ~jnp.isfinite(losses)
    return jnp.argmax(jnp.where(broken == jnp.any(broken), steepest, -1)).astype(jnp.int32)


def _one_row_each(answers: Answers, weights: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """One row for everyone whose data are asked about, also where one client holds the data of several."""
    if "share" not in answers:
        return dict(answers), weights
    rows = {name: value.reshape(-1, *value.shape[2:]) for name, value in answers.items() if name != "share"}
    return rows, (weights[:, None] * answers["share"]).ravel()
