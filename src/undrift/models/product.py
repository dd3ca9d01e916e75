"""x Wᵀ for a small batch and few outputs, as softmax regression takes it in every local step of every client.

XLA's product for a CPU packs both factors first, which for ten samples and ten classes costs several times the arithmetic. Here
the forward pass is a sum of a few elementwise products whose entries one matrix-vector product adds up, and the gradient of W a
sum of outer products: both compile to plain vectorised loops over the features, which merge with what is around them.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

MOST_SAMPLES, MOST_OUTPUTS, LEAST_FEATURES = 32, 16, 256  # where it was measured to be faster
MOST_PIECES, LANES = 16, 8  # terms of the sum of products; entries that the processor handles together


def product(x: Array, weight: Array) -> Array:
    """x (batch, features) times the transpose of weight (outputs, features)."""
    batch, features = x.shape
    small = 1 < batch <= MOST_SAMPLES and weight.shape[0] <= MOST_OUTPUTS and features >= LEAST_FEATURES
    if small and _pieces(features) > 1 and jax.default_backend() == "cpu":
        return _slim(x, weight)
    return x @ weight.T


def _summed(x: Array, weight: Array) -> Array:
    width = x.shape[1] // _pieces(x.shape[1])
    places = range(0, x.shape[1], width)
    added = sum(x[:, None, k : k + width] * weight[None, :, k : k + width] for k in places)
    return added @ jnp.ones(width, x.dtype)


_slim = jax.custom_vjp(_summed)


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _summed(x, weight), (x, weight)


def _backward(factors: tuple[Array, Array], slope: Array) -> tuple[Array, Array]:
    x, weight = factors
    outer = [slope[j, :, None] * x[j, None, :] for j in range(x.shape[0])]
    return slope @ weight, sum(outer[1:], outer[0])


_slim.defvjp(_forward, _backward)


def _pieces(features: int) -> int:
    """Into how many pieces of whole vectors the features can be cut; 1 where they cannot."""
    return max((k for k in range(1, MOST_PIECES + 1) if features % (k * LANES) == 0), default=1)
