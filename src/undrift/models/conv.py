"""Convolution, by whichever route the machine is good at: the one place that decides.

XLA's own convolution is right on an accelerator and slow on a CPU. There, copying the patches that the kernel sees into a
matrix and taking one matrix product is several times faster. Both routes compute the same numbers up to rounding.

Activations are channels × height × width × batch. With the batch last, the innermost loop of every copy, sum and maximum
runs over whole contiguous rows, whatever the kernel does with the picture.

**Tiles.** A convolution that is followed by a 2×2 max-pool is computed for 2×2 *tiles* of outputs at once: one column of
the patch matrix is what a whole tile sees, (k + 1)² pixels instead of 4 k², and the rows of the expanded kernel are the four
outputs of the tile. The product has (k + 1)²/k² times the arithmetic (1.44 for k = 5) but the patch matrix, which is
what costs time in a small network, shrinks 4 k²/(k + 1)² times (2.8), and the pool becomes a maximum of four whole arrays.
"""

from functools import partial
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from ..errors import InputError

Route = Literal["auto", "patches", "xla"]
BLOCKS = 2  # of channels, see `_phases`


def chosen_route(route: Route = "auto") -> Literal["patches", "xla"]:
    """The route that `convolve` takes; "auto" asks JAX, while tracing, which kind of machine it computes on.

    >>> chosen_route("xla")
    'xla'
    """
    if route not in get_args(Route):
        raise InputError(f"a convolution goes by one of the routes {get_args(Route)}; got {route!r}. Use 'auto'.")
    if route == "auto":
        return "patches" if jax.default_backend() == "cpu" else "xla"
    return route


@partial(jax.jit, static_argnames=("padding", "tile", "route", "stride"), inline=True)
def convolve(
    x: Array, weight: Array, *, padding: int = 0, tile: int = 1, route: Route = "auto", stride: int = 1
) -> Array:
    """Cross-correlation, as networks mean it.

    `x` is (c, h, w, batch), `weight` is (o, c, k, k). The result is (o, h', w', batch) with h' = ⌊(h + 2·padding − k)/stride⌋
    + 1 or, with `tile` t > 1 and stride 1, (t², o, h'/t, w'/t, batch): entry [a·t + b, o, i, j] is the output at row i·t + a,
    column j·t + b.

    >>> x = jnp.ones((3, 8, 8, 5))
    >>> weight = jnp.ones((4, 3, 5, 5))
    >>> convolve(x, weight).shape, convolve(x, weight, tile=2).shape
    ((4, 4, 4, 5), (4, 4, 2, 2, 5))
    """
    if padding:
        x = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    through = _through_patches if chosen_route(route) == "patches" else _through_xla
    return through(x, weight, tile, stride)


def _through_xla(x: Array, weight: Array, tile: int, stride: int) -> Array:
    y = lax.conv_general_dilated(x, weight, (stride, stride), "VALID", dimension_numbers=("CHWN", "OIHW", "CHWN"))
    return y if tile == 1 else _apart(y, tile).swapaxes(0, 1)


def _through_patches(x: Array, weight: Array, tile: int, stride: int) -> Array:
    out, kernel = weight.shape[0], weight.shape[2]
    batch = x.shape[-1]
    rows, columns = (((size - kernel) // stride + 1) // tile for size in x.shape[1:3])
    if tile == 1:
        patches = _patches(x, kernel, rows, columns, stride).reshape(-1, rows * columns * batch)
        return (weight.reshape(out, -1) @ patches).reshape(out, rows, columns, batch)
    x = _phases(x, tile)
    taps = _taps(kernel, tile)
    patches = _patches(x.reshape(-1, *x.shape[2:]), taps, rows, columns).reshape(-1, rows * columns * batch)
    # A kernel that lies with its inputs first goes to faster products, in this direction and in both ways back.
    y = lax.dot_general(_tile_kernel(weight, tile), patches, (((0,), (0,)), ((), ())))
    return y.reshape(tile**2, out, rows, columns, batch)


def _phases(x: Array, tile: int) -> Array:
    """(c, h, w, batch) to (c, tile², h/tile, w/tile, batch): the pixels of every tile apart.

    In a loop over two blocks of channels, for the sake of its borders: nothing is merged across them. Without it XLA on a CPU
    computes what was done to x anew in each of the windows of `_patches`, and on the way back adds the windows up within
    what was done to x, element by element: together a quarter of a step of LeNet-5. (It drops `optimization_barrier` before
    it merges.)
    """
    channels, *_, batch = x.shape
    if channels % BLOCKS or batch == 1:  # single samples come vectorised, and a loop would have them turned around
        return _apart(x, tile)
    apart = lax.map(partial(_apart, tile=tile), x.reshape(BLOCKS, channels // BLOCKS, *x.shape[1:]))
    return apart.reshape(channels, *apart.shape[2:])


def _apart(x: Array, tile: int) -> Array:
    channels, height, width, batch = x.shape
    x = x.reshape(channels, height // tile, tile, width // tile, tile, batch)
    return x.transpose(0, 2, 4, 1, 3, 5).reshape(channels, tile**2, height // tile, width // tile, batch)


def _patches(x: Array, taps: int, rows: int, columns: int, stride: int = 1) -> Array:
    """(planes, h, w, batch) to (planes, taps², rows, columns, batch): at every position the taps × taps window below it."""
    height, width = stride * (rows - 1) + 1, stride * (columns - 1) + 1
    windows = [x[:, i : i + height : stride, j : j + width : stride] for i in range(taps) for j in range(taps)]
    return jnp.stack(windows, axis=1)


def _taps(kernel: int, tile: int) -> int:
    """How many tiles, in one direction, the outputs of one tile see."""
    return -(-(kernel + tile - 1) // tile)


def _tile_kernel(weight: Array, tile: int) -> Array:
    """The kernel that maps what a tile sees to the outputs of the tile, (c·tile²·taps², tile²·o)."""
    out, channels, kernel, _ = weight.shape
    # Each entry is a weight or zero: the product copies, exactly, and is faster than padding and transposing.
    spread = jnp.asarray(_spread(kernel, tile), weight.dtype)
    by_input = weight.reshape(out, channels, kernel**2).transpose(1, 2, 0)
    copies = jax.vmap(lambda own: jnp.dot(spread, own, precision=lax.Precision.HIGHEST))(by_input)
    return copies.reshape(-1, tile**2 * out)


def _spread(kernel: int, tile: int) -> np.ndarray:
    """0/1 matrix (tile²·taps²·tile², kernel²): which weight stands where in the tile's kernel."""
    taps = _taps(kernel, tile)
    spread = np.zeros((tile, tile, taps, taps, tile, tile, kernel, kernel))
    for u, v, a, b in np.ndindex(kernel, kernel, tile, tile):
        (row, row_phase), (column, column_phase) = divmod(u + a, tile), divmod(v + b, tile)
        spread[row_phase, column_phase, row, column, a, b, u, v] = 1
    return spread.reshape(-1, kernel**2)
