"""Logits of a whole data set, in compiled batches."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from .model import Model, Params


@partial(jax.jit, static_argnames=("model", "batch"))
def predict(model: Model, params: Params, images: Array, batch: int = 250) -> Array:
    """Logits (n, classes) of n images, `batch` at a time so that what lies between the layers stays in the cache.

    >>> from undrift import models
    >>> model = models.softmax_regression()
    >>> models.predict(model, model.init(jax.random.key(0)), jnp.zeros((1030, 28, 28, 1))).shape
    (1030, 10)
    """
    whole = len(images) // batch * batch
    parts = []
    if whole:
        blocks = images[:whole].reshape(-1, batch, *images.shape[1:])
        logits = lax.map(lambda block: model.apply(params, block), blocks)
        parts.append(logits.reshape(whole, -1))
    if whole < len(images):
        parts.append(model.apply(params, images[whole:]))
    return jnp.concatenate(parts)
