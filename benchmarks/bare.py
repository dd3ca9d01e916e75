"""The round of `lenet` written by hand in JAX, with undrift's network and nothing else of it: what the engine costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import undrift as ud

AXIS = "devices"


def bare_rounds(
    model: ud.models.Model, images: np.ndarray, labels: np.ndarray, eta: float, decay: float
) -> Callable[[Any, np.ndarray], Any]:
    """rounds(params, places): one round for each row of places (rounds, clients, steps, batch), which samples are taken."""
    mesh = jax.make_mesh((jax.device_count(),), (AXIS,), axis_types=(AxisType.Auto,))
    everywhere = NamedSharding(mesh, PartitionSpec())
    x, y = jax.device_put((images, labels), everywhere)

    def loss(params: Any, inputs: jax.Array, targets: jax.Array) -> jax.Array:
        scores = jax.nn.log_softmax(model.apply(params, inputs))
        return -jnp.mean(jnp.take_along_axis(scores, targets[:, None], axis=1))

    def one_round(params: Any, x: jax.Array, y: jax.Array, places: jax.Array) -> Any:
        def step(params: Any, chosen: jax.Array) -> tuple[Any, None]:
            gradient = jax.grad(loss)(params, x[chosen], y[chosen])
            return jax.tree.map(lambda p, g: p - eta * (g + decay * p), params, gradient), None

        ends = jax.lax.map(lambda mine: jax.lax.scan(step, params, mine)[0], places)
        return jax.tree.map(lambda leaf: jax.lax.pmean(leaf.mean(axis=0), AXIS), ends)

    whole, dealt = PartitionSpec(), PartitionSpec(AXIS)
    shared = jax.shard_map(
        one_round, mesh=mesh, in_specs=(whole, whole, whole, dealt), out_specs=whole, check_vma=False
    )
    compiled = jax.jit(shared, donate_argnums=0)

    def rounds(params: Any, places: np.ndarray) -> Any:
        params = jax.device_put(jax.tree.map(jnp.array, params), everywhere)
        for row in places:
            # One at a time: collectives of several rounds in flight can wait for each other's threads for ever.
            params = jax.block_until_ready(compiled(params, x, y, row))
        return params

    return rounds
