"""Networks with other losses than cross-entropy: regression, a user's loss, metrics."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from everyday import only

CLIENTS, SAMPLES, FEATURES = 4, 80, 3
PARTS = np.split(np.arange(SAMPLES), CLIENTS)
ONE = ud.models.mlp((8,), classes=1, input=(FEATURES,))
LINEAR = ud.models.mlp((), classes=1, input=(FEATURES,), dtype="float64")


def regression(outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(SAMPLES, FEATURES))
    return inputs, inputs @ rng.normal(size=(FEATURES, outputs)) + 0.5


def absolute(outputs: Any, targets: Any) -> Any:
    return jnp.abs(outputs - targets)[:, 0]


def huber(outputs: Any, targets: Any) -> Any:
    off = jnp.abs(outputs[:, 0] - targets)
    return jnp.where(off < 1, 0.5 * off**2, off - 0.5)


def test_a_network_learns_regression() -> None:
    data = regression()
    p = ud.problems.network(ONE, data, PARTS, test=data, loss="squared", metrics={"absolute_error": absolute})
    history = ud.run(ud.fedavg(eta=0.05), p, rounds=40, steps=10).history
    assert history["loss"][-1] < 0.02 * history["loss"][0]
    assert history["absolute_error"][-1] < 0.2 * history["absolute_error"][0]
    assert "accuracy" not in history
    np.testing.assert_allclose(history["loss"], history["test_loss"], rtol=1e-4)  # the same data


def test_a_linear_network_with_the_squared_loss_is_least_squares() -> None:
    inputs, targets = regression()
    ones = np.column_stack([inputs, np.ones(SAMPLES)])
    expected = ud.problems.least_squares(ones.reshape(CLIENTS, -1, FEATURES + 1), targets.reshape(CLIENTS, -1))
    p = ud.problems.network(LINEAR, (inputs, targets[:, 0]), PARTS, loss="squared", train_sample=None)
    x = np.random.default_rng(1).normal(size=FEATURES + 1)
    n = SAMPLES // CLIENTS
    np.testing.assert_allclose(n * p.value(x), expected.value(x), rtol=1e-12)
    np.testing.assert_allclose(n * p.gradient(x), expected.gradient(x), rtol=1e-11)


def test_targets_of_the_outputs_shape() -> None:
    inputs, targets = regression(outputs=2)
    model = ud.models.mlp((), classes=2, input=(FEATURES,), dtype="float64")
    p = ud.problems.network(model, (inputs, targets), PARTS, loss="squared", train_sample=None)
    x = np.zeros(p.dim)
    np.testing.assert_allclose(p.value(x), 0.5 * np.mean(np.sum(targets**2, axis=1)), rtol=1e-12)


def test_a_users_loss_and_metrics() -> None:
    inputs, targets = regression()
    data = inputs, targets[:, 0]
    metrics = {"within": lambda outputs, targets: jnp.abs(outputs[:, 0] - targets) < 0.1}
    p = ud.problems.network(LINEAR, data, PARTS, test=data, loss=huber, metrics=metrics, train_sample=None)
    off = np.abs(targets[:, 0])
    assert p.value(np.zeros(p.dim)) == pytest.approx(np.mean(np.where(off < 1, 0.5 * off**2, off - 0.5)), rel=1e-12)
    history = ud.run(ud.fedavg(eta=0.1), p, rounds=30, steps=10).history
    assert history["within"][0] < 0.3
    assert history["within"][-1] == 1


def test_metrics_beside_the_accuracy() -> None:
    d = ud.data.load("digits")
    model = ud.models.softmax_regression(input=(8, 8, 1))
    wrong = {"wrong": lambda logits, labels: jnp.argmax(logits, axis=1) != labels}
    p = ud.problems.network(model, d.train, [np.arange(100)], test=d.test, metrics=wrong)
    history = ud.run(ud.fedavg(eta=0.2), p, rounds=2, steps=5).history
    np.testing.assert_allclose(history["accuracy"] + history["wrong"], 1, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("cut", only([0, 2, 3], {2}))
def test_split_equals_uncut_for_the_squared_loss(cut: int) -> None:
    model = ud.models.mlp((4, 3), classes=1, input=(FEATURES,), dtype="float64")
    oracle = ud.oracles.minibatch(5, replace=True)
    runs = [
        ud.run(
            method(eta=0.05),
            ud.problems.network(model, regression(), PARTS, loss="squared", batch=5, cut=c),
            rounds=2, steps=[1, 3, 2, 2], oracle=oracle,
        )
        for method, c in ((ud.ssl, cut), (ud.sequential_fl, None))
    ]  # fmt: skip
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_message_passing_with_real_targets() -> None:
    p = ud.problems.network(ONE, regression(), PARTS, loss="squared", batch=5, cut=1)
    a, b = (play(ud.ssl(eta=0.05), p, rounds=2, steps=2) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(a.x, b.x, atol=1e-6)


def bad_cases() -> dict[str, Any]:
    inputs, targets = regression()
    holes = targets.copy()
    holes[7] = np.nan
    two = regression(outputs=2)

    def make(data: Any = (inputs, targets), **arguments: Any) -> Any:
        return ud.problems.network(ONE, data, PARTS, **{"loss": "squared", **arguments})

    return {
        "unknown loss 'squarred': did you mean 'squared'": lambda: make(loss="squarred"),
        "a loss is one of cross_entropy, squared, mse or a function": lambda: make(loss=3),
        "labels must be whole numbers .* loss='squared'": lambda: make((inputs, targets[:, 0]), loss="cross_entropy"),
        "train targets must be finite, but sample 7": lambda: make((inputs, holes)),
        "train needs one target per sample": lambda: make((inputs, targets[:5])),
        r"train targets of the output's shape \(1,\), got \(2,\)": lambda: make(two),
        r"test targets of the output's shape \(1,\), got \(2,\)": lambda: make(test=two),
        "targets must be real numbers": lambda: make((inputs, targets.astype(str))),
        r"loss returns one number per sample, of shape \(2,\)": lambda: make(loss=lambda o, t: jnp.mean(o - t)),
        "loss cannot be evaluated on outputs": lambda: make(loss=lambda o, t: jnp.dot(o, t)),
        r"off returns one number per sample": lambda: make(metrics={"off": lambda o, t: o - t}),
        "a column loss of its own": lambda: make(metrics={"loss": absolute}),
        "a column accuracy of its own": lambda: ud.problems.network(
            ONE, (inputs, np.zeros(SAMPLES, int)), PARTS, metrics={"accuracy": absolute}
        ),
        "a metric is called as a column": lambda: make(metrics={"mean error": absolute}),
        "a metric is a function": lambda: make(metrics={"off": 3}),
    }


@pytest.mark.parametrize("message", list(bad_cases()))
def test_bad_input(message: str) -> None:
    with pytest.raises(ud.InputError, match=message):
        bad_cases()[message]()
