"""2 × 2 max-pooling with the gradient of one winner, as PyTorch has it."""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax


@jax.custom_jvp
def largest(x: Array) -> Array:
    """The maximum over axis 0. Where several are largest, the derivative is that of the first of them.

    The automatic derivative shares the gradient among the largest, with divisions that cost more than the convolution.
    Ties are common, not exotic: every blank corner of an image is one.

    >>> jax.grad(lambda x: largest(x).sum())(jnp.array([1.0, 3.0, 3.0]))
    Array([0., 1., 0.], dtype=float32)
    """
    best = x[0]
    for index in range(1, x.shape[0]):
        best = jnp.maximum(best, x[index])
    return best


@largest.defjvp
def _largest_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (x_dot,) = primals, tangents
    best = largest(x)
    last = x.shape[0] - 1
    winner = jnp.full(best.shape, last, jnp.int32)
    for index in range(last - 1, -1, -1):
        winner = jnp.where(x[index] == best, index, winner)
    won = jnp.expand_dims(winner, 0) == lax.broadcasted_iota(jnp.int32, x.shape, 0)
    return best, jnp.where(won, x_dot, jnp.zeros_like(x_dot)).sum(0)


@partial(jax.jit, inline=True)
def max_pool(x: Array) -> Array:
    """Maximum over 2 × 2 windows of (c, h, w, batch), or of tiles (4, c, h/2, w/2, batch) as `convolve` makes them.

    An odd last row or column is left out, as in PyTorch.

    >>> max_pool(jnp.arange(16.0).reshape(1, 4, 4, 1)).ravel()
    Array([ 5.,  7., 13., 15.], dtype=float32)
    """
    if x.ndim == 4:
        x = _tiles(x)
    # Long rows: over (4, c, h, w, batch) the compiled loops are short and several times slower.
    return largest(x.reshape(4, -1)).reshape(x.shape[1:])


def _tiles(x: Array) -> Array:
    channels, height, width, batch = x.shape
    rows, columns = height // 2, width // 2
    x = x[:, : 2 * rows, : 2 * columns].reshape(channels, rows, 2, columns, 2, batch)
    return x.transpose(2, 4, 0, 1, 3, 5).reshape(4, channels, rows, columns, batch)
