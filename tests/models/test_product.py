"""The product of a small batch and few outputs: another way to compute, the same numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from undrift import precision
from undrift.models.product import MOST_OUTPUTS, MOST_SAMPLES, product

FEATURES = 784


def slim(x: jax.Array, weight: jax.Array) -> bool:
    return "custom_vjp" in str(jax.make_jaxpr(product)(x, weight))


def test_value_and_derivatives_are_those_of_the_plain_product():
    rng = np.random.default_rng(0)
    with precision.scope(np.float64):
        x, weight, target = (jnp.asarray(rng.normal(size=s)) for s in ((2, 3, FEATURES), (2, 5, FEATURES), (3, 5)))
        assert slim(x[0], weight[0])

        def loss(times, x, weight):
            return jnp.sum(jnp.tanh(times(x, weight) / 28) * target)

        def plain(x, weight):
            return x @ weight.T

        def everything(times):
            slopes = jax.grad(loss, argnums=(1, 2))
            gradient = jax.vmap(lambda a, w: slopes(times, a, w))(x, weight)
            curved = jax.jvp(lambda w: slopes(times, x[0], w)[1], (weight[0],), (weight[1],))[1]
            return jax.vmap(times)(x, weight), gradient, curved

        for ours, theirs in zip(
            *(jax.tree.leaves(jax.jit(lambda t=t: everything(t))()) for t in (product, plain)), strict=True
        ):
            assert np.allclose(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("batch", "outputs", "features"),
    [
        (1, 10, FEATURES),
        (MOST_SAMPLES + 1, 10, FEATURES),
        (10, MOST_OUTPUTS + 1, FEATURES),
        (10, 10, 128),
        (10, 10, 797),
    ],
)
def test_other_shapes_are_left_to_the_compiler(batch, outputs, features):
    assert not slim(jnp.ones((batch, features)), jnp.ones((outputs, features)))
