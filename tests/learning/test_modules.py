"""Training modules of other libraries: it is what training the same built-in network is, in every interpreter."""

from __future__ import annotations

from functools import cache
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from foreign import BUILT_IN, COUNT, INPUTS, LIBRARIES, OUTPUTS, RATE, built_in_x

CLIENTS, SAMPLES = 3, 36
PARTS = np.array_split(np.arange(SAMPLES), CLIENTS)
RUN: dict[str, Any] = {"rounds": 3, "steps": 2}
METHODS = {"fedavg": ud.fedavg(eta=0.1), "fedlin": ud.fedlin(eta=0.1)}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(SAMPLES, INPUTS)).astype(np.float32)
    return inputs, np.argmax(inputs @ rng.normal(size=(INPUTS, OUTPUTS)), axis=1)


def problem(model: Any, **options: Any) -> ud.problems.Network:
    return ud.problems.network(model, data(), PARTS, test=data(), batch=4, **options)


@cache
def built_in(method: str) -> Any:
    x0 = np.random.default_rng(1).normal(size=COUNT).astype(np.float32) / 2
    return x0, ud.run(METHODS[method], problem(BUILT_IN), x0=x0, **RUN)


def from_built_in(library: Any, p: ud.problems.Network, x: np.ndarray) -> np.ndarray:
    """The library's flat x of the parameters that the built-in network has as x."""
    places = built_in_x(library, p.unravel(np.arange(COUNT, dtype=np.float32))).astype(int)
    theirs = np.empty(COUNT, np.float32)
    theirs[places] = x
    return theirs


SELDOM = [("nnx", "fedlin"), ("equinox", "fedavg"), ("haiku", "fedlin")]


@pytest.mark.parametrize(
    ("name", "method"),
    [("linen", "fedavg"), ("nnx", "fedavg"), *(pytest.param(*case, marks=pytest.mark.slow) for case in SELDOM)],
)
def test_training_a_module_is_training_the_built_in_network(name: str, method: str) -> None:
    library = LIBRARIES[name]
    p = problem(library.make(0.0))
    x0, expected = built_in(method)
    result = ud.run(METHODS[method], p, x0=from_built_in(library, p, x0), **RUN)
    np.testing.assert_allclose(result.x, from_built_in(library, p, expected.x), rtol=1e-4, atol=1e-5)
    for column in ("loss", "test_loss", "accuracy"):
        np.testing.assert_allclose(result.history[column], expected.history[column], rtol=1e-4)
    module = p.model.to_module(result.x)
    logits = library.outputs(module, jnp.asarray(data()[0]))
    accuracy = np.mean(np.argmax(logits, axis=1) == data()[1])
    np.testing.assert_allclose(result.history["accuracy"][-1], accuracy, rtol=1e-6)


@pytest.mark.slow  # every day with a built-in model: test_network.py
@pytest.mark.parametrize("name", ["linen", "equinox"])
def test_dropout_draws_the_same_in_messages_as_in_the_simulation(name: str) -> None:
    p = problem(LIBRARIES[name].make(RATE))
    assert p.architecture.net.random
    one, other = (play(METHODS["fedavg"], p, rounds=2, steps=2) for play in (ud.run, ud.loopback))
    np.testing.assert_allclose(one.x, other.x, atol=1e-6)
    assert not np.allclose(one.x, ud.run(METHODS["fedavg"], p, rounds=2, steps=2, seed=0, x0=one.x).x)


class Chain:
    """A list of Linen modules, to be cut."""

    modules = (nn.Dense(5), nn.relu, nn.Dense(OUTPUTS))


@pytest.mark.slow
def test_split_learning_of_a_list_of_modules_is_sequential_learning_of_the_whole() -> None:
    cut, whole = (problem(list(Chain.modules), cut=cut) for cut in (2, None))
    one, other = ud.run(ud.ssl(eta=0.1), cut, **RUN), ud.run(ud.sequential_fl(eta=0.1), whole, **RUN)
    np.testing.assert_allclose(one.x, other.x, atol=1e-6)
    assert cut.halves.boundary == (INPUTS + 1) * 5


def test_what_cannot_be_cut() -> None:
    with pytest.raises(ud.InputError, match=r"'LinenNet' is one module, .* give a list of modules"):
        problem(LIBRARIES["linen"].make(0.0), cut=1)
    with pytest.raises(ud.InputError, match="a pair \\(init, apply\\) has no layers to count"):
        problem((BUILT_IN.init, BUILT_IN.apply), cut=1)
    text = np.zeros((6, 4), int), np.zeros(6, int)
    reader = ud.models.char_lstm(3, (4,), embedding=2, hidden=3, layers=1)
    with pytest.raises(ud.InputError, match="no gradient comes back through whole numbers: cut after the embedding"):
        ud.problems.network(reader, text, [np.arange(6)], cut=0)


class Reader(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(4)(nn.Embed(5, 3)(x).mean(1))


def reading() -> tuple[np.ndarray, np.ndarray]:
    text = np.random.default_rng(0).integers(0, 5, (30, 6))
    return text, text[:, -1] % 4


@pytest.mark.slow
def test_whole_numbers_reach_an_embedding() -> None:
    """Of a module, and of a pair of functions that indexes a table."""
    parts = np.array_split(np.arange(30), 3)
    pair = lambda key: jax.random.normal(key, (5, 4)), lambda table, x: table[x].mean(1)
    for model in (Reader(), pair):
        p = ud.problems.network(model, reading(), parts)
        assert p.shared["x"].dtype == "int32"
        assert np.isfinite(p.value(p.initial(0)))
    pixels = np.zeros((30, 6), np.uint8), reading()[1]
    assert ud.problems.network(ud.models.mlp((), 4, (6,)), pixels, parts).shared["x"].dtype == "float32"


@pytest.mark.slow
@pytest.mark.parametrize("layers", [1, 2])
def test_the_character_model_learns_whole_and_cut(layers: int) -> None:
    model = ud.models.char_lstm(5, (6,), embedding=3, hidden=4, layers=layers)
    parts = np.array_split(np.arange(30), 3)
    text = reading()[0], reading()[0][:, -1]
    cut, whole = (ud.problems.network(model, text, parts, batch=5, cut=cut) for cut in (2, None))
    one, other = (
        ud.run(ud.ssl(eta=0.5), cut, rounds=4, steps=4),
        ud.run(ud.sequential_fl(eta=0.5), whole, rounds=4, steps=4),
    )
    np.testing.assert_allclose(one.x, other.x, atol=1e-5)
    assert other.history["loss"][-1] < other.history["loss"][0]


def test_inputs_that_no_table_has_a_row_for() -> None:
    model = ud.models.char_lstm(5, (6,), embedding=3, hidden=4)
    text, labels = reading()
    parts = [np.arange(30)]
    with pytest.raises(ud.InputError, match="the model knows the inputs 0 … 4, and train inputs hold 9"):
        ud.problems.network(model, (text + 5, labels), parts)
    with pytest.raises(ud.InputError, match="the model knows the inputs 0 … 4, and test inputs hold -1"):
        ud.problems.network(model, (text, labels), parts, test=(text - 1, labels))
    with pytest.raises(ud.InputError, match="they are whole numbers; train inputs are float64"):
        ud.problems.network(model, (text * 1.0, labels), parts)


def test_what_is_wrong_with_a_model_is_said_with_a_remedy() -> None:
    with pytest.raises(
        ud.InputError, match=r"cannot be applied to inputs of shape \(2, 6\), float32: .*Remedy: make it for"
    ):
        problem((lambda key: jnp.ones((9, 3)), lambda table, x: x @ table))
    with pytest.raises(ud.InputError, match=r"a model is one of ud\.models, a module of Flax, Equinox or Haiku, or a"):
        problem(object())
    with pytest.raises(ud.InputError, match="LinenNet is a class: give an instance"):
        problem(type(LIBRARIES["linen"].make(0.0)))
    inputs, labels = data()
    with pytest.raises(ud.InputError, match="the model has 3 outputs, so labels are 0 … 2, but there is the label 3"):
        ud.problems.network(LIBRARIES["linen"].make(0.0), (inputs, labels + 1), PARTS)


def test_mean_squares_of_one_and_of_several_outputs() -> None:
    inputs, _ = data()
    targets = np.random.default_rng(2).normal(size=(SAMPLES, OUTPUTS))
    p = ud.problems.network(BUILT_IN, (inputs, targets), PARTS, test=(inputs, targets), loss="mse", train_sample=None)
    x = np.zeros(p.dim)
    assert p.value(x) == pytest.approx(np.mean(targets**2), rel=1e-5)
    one = ud.models.mlp((), classes=1, input=(INPUTS,))
    single = ud.problems.network(one, (inputs, targets[:, 0]), PARTS, loss="mse", train_sample=None)
    assert single.value(np.zeros(single.dim)) == pytest.approx(np.mean(targets[:, 0] ** 2), rel=1e-5)
    with pytest.raises(
        ud.InputError, match=r"a squared loss needs train targets of the output's shape \(3,\), got \(\)"
    ):
        ud.problems.network(BUILT_IN, (inputs, targets[:, 0]), PARTS, loss="mse")


@pytest.mark.slow
def test_a_sweep_and_records_of_each_client() -> None:
    """A module, a loss and a metric of one's own: rows of a sweep are runs, and every client has its means."""
    inputs, labels = data()

    def margin(outputs: Any, targets: Any) -> Any:
        signs = 2.0 * jax.nn.one_hot(targets, OUTPUTS) - 1
        return jnp.mean(jnp.maximum(0, 1 - signs * outputs), axis=1)

    hits = {"hits": lambda outputs, targets: jnp.argmax(outputs, axis=1) == targets}
    module = LIBRARIES["linen"].make(0.0)
    p = ud.problems.network(module, (inputs, labels), PARTS, test=(inputs, labels), loss=margin, metrics=hits, batch=4)
    swept = ud.sweep(ud.fedavg, p, grid={"eta": [0.05, 0.1]}, **RUN)
    single = ud.run(METHODS["fedavg"], p, per_client=True, **RUN)
    np.testing.assert_allclose(swept.history["loss"][1, 0], single.history["loss"], rtol=1e-4)
    assert single.clients["loss"].shape == (len(single.history["loss"]), CLIENTS)
    assert "accuracy" not in single.history
    np.testing.assert_allclose(single.clients["hits"].mean(axis=1), single.history["hits"], rtol=1e-5)  # all as large
