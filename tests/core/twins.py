"""What the tests of this room share: both interpreters side by side, and a tiny network that can be cut."""

from __future__ import annotations

from typing import Any

import numpy as np

import undrift as ud
from undrift.models.layers import Dense, Flatten
from undrift.models.model import Model

CLIENTS, BATCH, FEATURES = 3, 4, 2


def same_records(one: ud.Result, other: ud.Result, rtol: float = 1e-9) -> None:
    """Every column, everything per client, the model, how long and why."""
    np.testing.assert_allclose(one.x, other.x, rtol=rtol, atol=1e-12)
    assert set(one.history) == set(other.history)
    for name, column in other.history.items():
        exact = name.startswith("bytes") or name.endswith("gradients")
        np.testing.assert_allclose(
            one.history[name], column, rtol=0 if exact else rtol, atol=0 if exact else 1e-10, err_msg=name
        )
    assert set(one.clients) == set(other.clients)
    for name, rows in other.clients.items():
        np.testing.assert_allclose(one.clients[name], rows, rtol=rtol, atol=1e-10, err_msg=name)
    assert (one.rounds, one.stopped) == (other.rounds, other.stopped)


def both(method: Any, problem: ud.problems.Problem, **arguments: Any) -> ud.Result:
    """The simulated run, after the same run by message passing gave the same records."""
    simulated = ud.run(method, problem, **arguments)
    same_records(ud.loopback(method, problem, **arguments), simulated)
    return simulated


def linear_layers(*widths: int) -> Model:
    """Dense layers without anything between them."""
    layers = (Dense(f"dense{k}", width, relu=False) for k, width in enumerate(widths, start=1))
    return Model("linear", (Flatten(images=True), *layers), (FEATURES,), dtype="float64")


def network_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, one block per client; the clients disagree."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(CLIENTS, BATCH, FEATURES))
    slopes = rng.normal(size=(CLIENTS, FEATURES))
    targets = np.einsum("inf,if->in", inputs, slopes) + rng.normal(size=(CLIENTS, 1))
    return inputs, targets


def network_problem(model: Model, cut: int | None, weights: Any = None, test: Any = None) -> ud.problems.Problem:
    """Regression; a mini-batch is all that a client has, so mini-batches are full gradients."""
    inputs, targets = network_data()
    parts = np.split(np.arange(CLIENTS * BATCH), CLIENTS)
    data = inputs.reshape(-1, FEATURES), targets.ravel()
    return ud.problems.network(
        model, data, parts, loss="squared", batch=BATCH, cut=cut, weights=weights, test=test, train_sample=None
    )
