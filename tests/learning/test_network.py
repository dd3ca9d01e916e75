"""Networks as problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from everyday import only
from processes import PATIENCE, process


@pytest.fixture(scope="module")
def digits() -> Any:
    return ud.data.load("digits")


@pytest.fixture(scope="module")
def parts(digits: Any) -> list[np.ndarray]:
    return ud.data.exdir(digits.train.y, clients=10, classes=2, alpha=10.0, seed=0)


@pytest.fixture(scope="module")
def trimmed(parts: list[np.ndarray]) -> list[np.ndarray]:
    """Clients of two sizes: message passing compiles for every size."""
    return [part[: 40 + 10 * (i % 2)] for i, part in enumerate(parts)]


MODEL = ud.models.softmax_regression(input=(8, 8, 1))
INDEPENDENT = ud.oracles.minibatch(20, replace=True)  # compiles faster than a walk through shuffled data


def test_learns_digits_and_records_accuracy(digits: Any, parts: list[np.ndarray]) -> None:
    problem = ud.problems.network(MODEL, digits.train, parts, test=digits.test)
    result = ud.run(ud.sequential_fl(eta=0.2), problem, rounds=10, steps=20, record_every=5)
    accuracy = result.history["accuracy"]
    assert accuracy.shape == (11,)
    assert np.isnan(accuracy[[1, 2, 3, 4, 6, 7, 8, 9]]).all()
    assert accuracy[-1] > 0.8
    assert result.history["loss"][-1] < result.history["loss"][0]


@pytest.mark.slow
def test_the_centralised_baseline_starts_where_the_clients_do_and_learns(digits: Any, parts: list[np.ndarray]) -> None:
    problem = ud.problems.network(MODEL, digits.train, parts, test=digits.test)
    result = ud.run(ud.sgd(eta=0.2, batch=20), problem, rounds=5, steps=40, record_every=5)
    assert result.history["accuracy"][0] == ud.run(ud.fedavg(eta=0.2), problem, rounds=1).history["accuracy"][0]
    assert result.history["accuracy"][-1] > 0.8


def test_gradients_are_those_of_mean_cross_entropy(digits: Any, parts: list[np.ndarray]) -> None:
    problem = ud.problems.network(MODEL, digits.train, parts, train_sample=None)
    x = np.random.default_rng(0).normal(size=problem.dim).astype(np.float32)
    weight, bias = x[:640].reshape(10, 64), x[640:]
    total = np.zeros(problem.dim)
    value = 0.0
    for part in parts:
        inputs, labels = digits.train.x[part].reshape(len(part), 64), digits.train.y[part]
        logits = inputs @ weight.T + bias
        shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
        p = shifted / shifted.sum(axis=1, keepdims=True)
        value += -np.log(p[np.arange(len(part)), labels]).mean() / len(parts)
        p[np.arange(len(part)), labels] -= 1
        total += np.concatenate([(p.T @ inputs).ravel(), p.sum(axis=0)]) / len(part) / len(parts)
    np.testing.assert_allclose(problem.gradient(x), total, atol=2e-6)
    assert problem.value(x) == pytest.approx(value, rel=1e-5)


def test_any_pair_of_init_and_apply_fits(digits: Any, parts: list[np.ndarray]) -> None:
    def init(key: jax.Array) -> dict[str, jax.Array]:
        return {"w": 0.01 * jax.random.normal(key, (64, 10)), "b": jnp.zeros(10)}

    def apply(params: dict[str, jax.Array], images: jax.Array) -> jax.Array:
        return images.reshape(images.shape[0], 64) @ params["w"] + params["b"][None]

    problem = ud.problems.network((init, apply), digits.train, parts, test=digits.test)
    result = ud.run(ud.fedavg(eta=0.5), problem, rounds=5, steps=10)
    assert problem.dim == 650
    assert result.history["accuracy"][-1] > 0.5


THINNING = ud.models.Model(
    "thinning",
    (ud.models.Flatten(images=True), ud.models.Dropout("dropout1", 0.5), ud.models.Dense("dense1", 10)),
    (8, 8, 1),
)


def test_dropout_draws_in_training_and_nowhere_else(digits: Any, trimmed: list[np.ndarray]) -> None:
    thinned, plain = (ud.problems.network(m, digits.train, trimmed, test=digits.test) for m in (THINNING, MODEL))
    arguments = {"rounds": 2, "steps": 3, "participation": ud.plan.uniform(3), "oracle": INDEPENDENT}
    a, b = ud.run(ud.fedavg(eta=0.2), thinned, **arguments), ud.loopback(ud.fedavg(eta=0.2), thinned, **arguments)
    np.testing.assert_allclose(a.x, b.x, atol=1e-6)  # message passing drops the same
    other = ud.run(ud.fedavg(eta=0.2), plain, **arguments)
    assert a.history["loss"][0] == pytest.approx(other.history["loss"][0], rel=1e-6)
    assert np.abs(a.x - other.x).max() > 1e-3
    np.testing.assert_allclose(thinned.gradient(a.x), plain.gradient(a.x), atol=1e-6)


def test_a_pair_whose_apply_takes_a_key_gets_one_in_training(digits: Any, parts: list[np.ndarray]) -> None:
    def apply(params: Any, images: jax.Array, key: jax.Array | None = None) -> jax.Array:
        return THINNING.apply(params, images, key)

    own = ud.problems.network((THINNING.init, apply), digits.train, parts)
    known = ud.problems.network(THINNING, digits.train, parts)
    a, b = (ud.run(ud.fedavg(eta=0.2), p, rounds=1, steps=2, oracle=INDEPENDENT).x for p in (own, known))
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_last_batch_that_is_short_is_the_mean_of_what_it_has(digits: Any) -> None:
    """Five samples in batches of three: the second batch of an epoch has two."""
    problem = ud.problems.network(MODEL, digits.train, [np.arange(5)], batch=3, last_batch="short")
    oracle, key, x = problem.default_oracle, jax.random.key(1), jnp.asarray(problem.initial(0))
    assert str(oracle) == "minibatch(3, last=short)"
    found = jax.jit(lambda step: oracle.gradient(problem.loss_of(0), x, key, step))
    order = np.asarray(jax.jit(lambda: oracle.indices(5, key, jnp.arange(2)))())
    for step, batch in enumerate((order[0], order[1, :2])):
        expected = ud.problems.network(MODEL, digits.train, [batch]).gradient(np.asarray(x))
        np.testing.assert_allclose(found(step), expected, atol=1e-6)
    result = ud.run(ud.fedavg(eta=0.5), problem, rounds=1, steps=2)
    assert result.history["gradients"][-1] == 2


def test_weights_by_size(digits: Any, parts: list[np.ndarray]) -> None:
    by_size = ud.problems.network(MODEL, digits.train, parts, weights="by size")
    sizes = np.array([len(part) for part in parts])
    np.testing.assert_allclose(by_size.weights, sizes / sizes.sum(), rtol=1e-6)
    with pytest.raises(ud.InputError, match="one per client, or the word 'by size'; got 'by samples'"):
        ud.problems.network(MODEL, digits.train, parts, weights="by samples")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssl", "sflv1", "sflv2"])
def test_message_passing_agrees(name: str, digits: Any, trimmed: list[np.ndarray]) -> None:
    problem = ud.problems.network(MODEL, digits.train, trimmed, test=digits.test, cut=1)
    method = ud.METHODS[name](eta=0.2)
    arguments = {"rounds": 2, "steps": 2, "participation": ud.plan.uniform(3), "failures": 0.2}
    a, b = ud.run(method, problem, **arguments), ud.loopback(method, problem, **arguments)
    np.testing.assert_allclose(a.x, b.x, atol=1e-6)


def test_peer_and_central_hand_over_differ_in_bytes_only(digits: Any, parts: list[np.ndarray]) -> None:
    model = ud.models.mlp((6,), input=(8, 8, 1))
    problem = ud.problems.network(model, digits.train, parts, cut=2)
    peer, central = (ud.run(ud.ssl(eta=0.2, mode=mode), problem, rounds=2, steps=3) for mode in ("peer", "central"))
    np.testing.assert_allclose(peer.x, central.x, rtol=0, atol=1e-6)
    half = 4 * (64 * 6 + 6)
    turns, batches = 2 * 10, 2 * 10 * 3
    activations = 4 * 20 * 6
    assert peer.history["bytes_peer"][-1] == turns * half
    assert peer.history["bytes_up"][-1] == batches * (activations + 4 * 20)
    assert peer.history["bytes_down"][-1] == batches * activations
    assert central.history["bytes_peer"][-1] == 0
    assert central.history["bytes_up"][-1] == peer.history["bytes_up"][-1] + turns * half
    assert central.history["bytes_down"][-1] == peer.history["bytes_down"][-1] + turns * half
    for name, size in {"activations": activations, "activation_gradients": activations, "labels": 80}.items():
        assert peer.history[f"bytes_{name}"][-1] == batches * size
    assert peer.history["gradients"][-1] == batches


@pytest.mark.slow
@pytest.mark.parametrize("everything", only(["at the server", "at the client"], {"at the server"}))
def test_sflv2_averages_the_client_halves_and_chains_the_server_half(
    everything: str, digits: Any, parts: list[np.ndarray]
) -> None:
    cut, twin = {"at the server": (0, ud.sequential_fl), "at the client": (len(MODEL.layers), ud.fedavg)}[everything]
    problem = ud.problems.network(MODEL, digits.train, parts, cut=cut)
    a, b = (
        ud.run(method, problem, rounds=2, steps=2, seed=1, oracle=INDEPENDENT).x
        for method in (ud.sflv2(eta=0.2), twin(eta=0.2))
    )
    np.testing.assert_allclose(a, b, atol=1e-6)


def bad_cases(d: Any, parts: list[np.ndarray]) -> dict[str, Any]:
    holes = d.train.x.copy()
    holes[3, 0, 0, 0] = np.nan
    few = ud.models.softmax_regression(classes=7, input=(8, 8, 1))
    return {
        "the model has 7 outputs": lambda: ud.problems.network(few, d.train, parts),
        "sample 3 holds NaN": lambda: ud.problems.network(MODEL, (holes, d.train.y), parts),
        "label -1": lambda: ud.problems.network(MODEL, (d.train.x, d.train.y.astype(int) - 1), parts),
        "client 10 has no samples": lambda: ud.problems.network(MODEL, d.train, [*parts, np.array([], int)]),
        "parts name sample 99999": lambda: ud.problems.network(MODEL, d.train, [np.array([99999])]),
        "a cut lies between 0 and": lambda: ud.problems.network(MODEL, d.train, parts, cut=17),
        "one label per sample": lambda: ud.problems.network(MODEL, (d.train.x, d.train.y[:5]), parts),
        "this problem is not cut": lambda: ud.run(
            ud.ssl(eta=0.1), ud.problems.network(MODEL, d.train, parts), rounds=1
        ),
        "exchanges full mini-batches": lambda: ud.run(
            ud.ssl(eta=0.1), ud.problems.network(MODEL, d.train, parts, cut=1, last_batch="short"), rounds=1
        ),
        "dropout draws: use a model without it": lambda: ud.run(
            ud.ssl(eta=0.1), ud.problems.network(THINNING, d.train, parts, cut=1), rounds=1
        ),
        "mini-batches of the problem's batch": lambda: ud.run(
            ud.ssl(eta=0.1), ud.problems.network(MODEL, d.train, parts, cut=1), rounds=1, oracle=ud.oracles.full()
        ),
    }


@pytest.mark.parametrize("message", list(bad_cases(ud.data.load("digits"), [np.array([0])])))
def test_bad_input(message: str, digits: Any, parts: list[np.ndarray]) -> None:
    with pytest.raises(ud.InputError, match=message):
        bad_cases(digits, parts)[message]()


TWO_DEVICES = """
import sys, numpy as np, undrift as ud
if sys.argv[1] == "2":
    ud.use_devices(2)
rng = np.random.default_rng(0)
images, labels = rng.random((140, 16, 16, 1), np.float32), np.arange(140) % 10
parts = np.split(rng.permutation(140), [10, 30, 45, 80, 95, 120])
model = getattr(ud.models, sys.argv[2])(input=(16, 16, 1))
p = ud.problems.network(model, (images, labels), parts, batch=5, train_sample=64)
r = ud.run(ud.fedavg(eta=0.1), p, rounds=2, steps=[1, 2, 3, 1, 2, 3, 1], participation=ud.plan.uniform(3))
p = ud.problems.network(ud.models.softmax_regression(input=(16, 16, 1)), (images, labels), parts, batch=5, train_sample=64)
s = ud.run(ud.scaffold(eta=0.1), p, rounds=2, steps=60, participation=ud.plan.uniform(3))  # merged, and enough to share
assert (ud.engine.simulate.is_spread(ud.describe(ud.scaffold(eta=0.1), p, rounds=2, steps=60))) == (sys.argv[1] == "2")
print(*r.x.tolist(), *r.history["loss"].tolist(), *r.history["bytes_up"].tolist(), *s.x.tolist(), *s.history["drift"].tolist())
"""


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lenet5", "softmax_regression"])
def test_two_devices_give_the_numbers_of_one(model: str, tmp_path: Path) -> None:
    """The same draws; sums inside a matrix product may be split differently between threads, so equal to rounding."""
    with process(TWO_DEVICES, ["1", model], tmp_path) as one, process(TWO_DEVICES, ["2", model], tmp_path) as two:
        (a, complaints), (b, more) = (made.communicate(timeout=PATIENCE) for made in (one, two))
    assert (one.returncode, two.returncode) == (0, 0), complaints + more
    np.testing.assert_allclose(np.fromstring(a, sep=" "), np.fromstring(b, sep=" "), rtol=0, atol=1e-5)


def test_devices_cannot_be_changed_after_the_first_computation() -> None:
    jnp.zeros(1).block_until_ready()
    with pytest.raises(ud.InputError, match="before JAX computes anything"):
        ud.use_devices(jax.device_count() + 1)
