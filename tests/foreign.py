"""The same perceptron in every library: 6 inputs, 5 hidden units with ReLU, dropout, 3 outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from undrift import models

INPUTS, HIDDEN, OUTPUTS = 6, 5, 3
RATE = 0.5


class LinenNet(nn.Module):
    rate: float = 0.0

    @nn.compact
    def __call__(self, x: Any, train: bool = False) -> Any:
        x = nn.relu(nn.Dense(HIDDEN)(x))
        x = nn.Dropout(self.rate, deterministic=not train)(x)
        return nn.Dense(OUTPUTS)(x)


class NnxNet(nnx.Module):
    def __init__(self, rate: float, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(INPUTS, HIDDEN, rngs=rngs)
        self.dropout = nnx.Dropout(rate, rngs=rngs)
        self.second = nnx.Linear(HIDDEN, OUTPUTS, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.second(self.dropout(nnx.relu(self.first(x))))


class EquinoxNet(eqx.Module):
    first: eqx.nn.Linear
    second: eqx.nn.Linear
    dropout: eqx.nn.Dropout
    shift: np.ndarray  # an array that is not trained

    def __init__(self, rate: float, key: Any) -> None:
        one, two = jax.random.split(key)
        self.first = eqx.nn.Linear(INPUTS, HIDDEN, key=one)
        self.second = eqx.nn.Linear(HIDDEN, OUTPUTS, key=two)
        self.dropout = eqx.nn.Dropout(rate)
        self.shift = np.zeros(INPUTS, np.int32)

    def __call__(self, x: Any, key: Any = None) -> Any:
        return self.second(self.dropout(jax.nn.relu(self.first(x - self.shift)), key=key))


def haiku_net(rate: float) -> hk.Transformed:
    def forward(x: Any, is_training: bool = False) -> Any:
        x = jax.nn.relu(hk.Linear(HIDDEN)(x))
        if is_training and rate:
            x = hk.dropout(hk.next_rng_key(), rate, x)
        return hk.Linear(OUTPUTS)(x)

    return hk.transform(forward)


class Library(NamedTuple):
    """How a library has the perceptron, and where its two weights (in, out) and two biases are."""

    make: Callable[[float], Any]
    outputs: Callable[[Any, Any], Any]  # of a module with its parameters, by the library's own means
    dense: Callable[[Any], list[Any]]  # parameters -> [weight, bias, weight, bias]


def _nnx_outputs(module: Any, x: Any) -> Any:
    module.eval()
    return module(x)


LIBRARIES = {
    "linen": Library(
        LinenNet,
        lambda module, x: module(x),
        lambda p: [p[n][k] for n in ("Dense_0", "Dense_1") for k in ("kernel", "bias")],
    ),
    "nnx": Library(
        lambda rate: NnxNet(rate, nnx.Rngs(0)),
        _nnx_outputs,
        lambda p: [p[n][k][...] for n in ("first", "second") for k in ("kernel", "bias")],
    ),
    "equinox": Library(
        lambda rate: EquinoxNet(rate, jax.random.key(0)),
        lambda module, x: jax.vmap(eqx.nn.inference_mode(module))(x),
        lambda p: [p.first.weight.T, p.first.bias, p.second.weight.T, p.second.bias],
    ),
    "haiku": Library(
        haiku_net,
        lambda module, x: module(x),
        lambda p: [p[n][k] for n in ("linear", "linear_1") for k in ("w", "b")],
    ),
}
BUILT_IN = models.mlp((HIDDEN,), classes=OUTPUTS, input=(INPUTS,))
COUNT = (INPUTS + 1) * HIDDEN + (HIDDEN + 1) * OUTPUTS


def built_in_x(library: Library, params: Any) -> np.ndarray:
    """The same parameters as the flat x of the built-in perceptron, whose weights are (out, in)."""
    arrays = [np.asarray(array).T for array in library.dense(params)]
    return np.concatenate([np.ravel(array) for array in arrays])


def samples(count: int = 4, seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(count, INPUTS)), jnp.float32)
