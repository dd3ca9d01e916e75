"""Layers for text: a table of vectors for characters or words, and the LSTM."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..errors import InputError
from .initial import Start, starts
from .layers import Affine, Shape

FORGET = 1.0  # added to the forget gate, so that a fresh network remembers (Jozefowicz et al. 2015)


@dataclass(frozen=True)
class Embedding:
    """Whole numbers 0 … vocabulary − 1, of any shape behind the batch, to vectors of so many features.

    >>> Embedding("embedding", 80, 8).outline((5,))[1]
    (5, 8)
    """

    name: str
    vocabulary: int
    features: int
    batch_axis: ClassVar[int] = 0

    def outline(self, shape: Shape) -> tuple[Start, Shape]:
        return starts((self.vocabulary, self.features), "glorot")[0], (*shape, self.features)

    def apply(self, params: Array, x: Array) -> Array:
        return params[x]


@dataclass(frozen=True)
class LSTM:
    """The hidden states of a long short-term memory: (batch, time, features) to (batch, time, hidden), or the `last` alone.

    With (i, j, f, o) = W [x_t; h] + b:  c ← σ(f + 1)·c + σ(i)·tanh(j),  h ← σ(o)·tanh(c), from c = h = 0. Weight (4 hidden,
    features + hidden), one bias, both as in TensorFlow's BasicLSTMCell. Hochreiter, Schmidhuber, Neural Computation 9, 1997.
    """

    name: str
    hidden: int
    last: bool = False
    batch_axis: ClassVar[int] = 0

    def outline(self, shape: Shape) -> tuple[Any, Shape]:
        if len(shape) != 2:
            raise InputError(
                f"layer {self.name!r} takes samples of shape (time, features); it gets {shape}. Put an Embedding before it."
            )
        time, features = shape
        params = Affine(*starts((4 * self.hidden, features + self.hidden), "glorot"))
        return params, (self.hidden,) if self.last else (time, self.hidden)

    def apply(self, params: Affine, x: Array) -> Array:
        features, x = x.shape[2], x.astype(params.weight.dtype)
        outer, inner = params.weight[:, :features], params.weight[:, features:]
        # What the inputs contribute, of all times in one product
        driven = jnp.einsum("btf,gf->tbg", x, outer) + params.bias.reshape(1, 1, -1)
        start = jnp.zeros((x.shape[0], self.hidden), x.dtype)

        def step(state: tuple[Array, Array], own: Array) -> tuple[tuple[Array, Array], Array | None]:
            cell, seen = state
            i, j, f, o = jnp.split(own + seen @ inner.T, 4, axis=1)
            cell = jax.nn.sigmoid(f + FORGET) * cell + jax.nn.sigmoid(i) * jnp.tanh(j)
            seen = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (cell, seen), None if self.last else seen

        (_, seen), states = lax.scan(step, (start, start), driven)
        return seen if states is None else jnp.swapaxes(states, 0, 1)
