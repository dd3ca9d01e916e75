"""The layers of a network: small frozen records, each with a name, an `outline` and an `apply`.

Shapes here are of one sample, without the batch. Images enter as (batch, height, width, channels); `ChannelsFirst` turns them
once into the inner layout channels × height × width × batch (see `conv`), `Flatten` ends it with (batch, features).
"""

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from ..errors import InputError
from .conv import Route, convolve
from .initial import Scheme, starts
from .pool import max_pool
from .product import product

Shape = tuple[int, ...]


class Affine(NamedTuple):
    """The parameters of a convolution (weight (o, c, k, k)) or of a dense layer (weight (o, i)); bias (o,)."""

    weight: Any
    bias: Any


class Layer(Protocol):
    """What a network is made of. `outline` returns how the parameters start and the shape of one sample that comes out.

    `batch_axis` says where the input of `apply` has its batch: 0 or −1.
    """

    @property
    def name(self) -> str: ...

    @property
    def batch_axis(self) -> int: ...

    def outline(self, shape: Shape) -> tuple[Any, Shape]: ...

    def apply(self, params: Any, x: Array) -> Array: ...


@dataclass(frozen=True)
class ChannelsFirst:
    """(batch, h, w, c) to (c, h, w, batch)."""

    name: str = "channels_first"
    batch_axis: ClassVar[int] = 0

    def outline(self, shape: Shape) -> tuple[tuple[()], Shape]:
        height, width, channels = shape
        return (), (channels, height, width)

    def apply(self, params: tuple[()], x: Array) -> Array:
        return x.transpose(3, 1, 2, 0)


@dataclass(frozen=True)
class Conv:
    """Convolution, plus bias, with or without ReLU.

    `tile` = 2 hands the outputs over in the 2 × 2 tiles that the max-pool after it wants. Such a layer leaves bias and
    ReLU to the pool.
    """

    name: str
    channels: int
    kernel: int
    padding: int = 0
    bias: bool = True
    relu: bool = True
    tile: int = 1
    initial: Scheme = "uniform"
    route: Route = "auto"
    stride: int = 1
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[Affine, Shape]:
        channels, *sizes = shape
        rows, columns = ((size + 2 * self.padding - self.kernel) // self.stride + 1 for size in sizes)
        if min(rows, columns) < 1:
            raise InputError(
                f"layer {self.name!r}: its {self.kernel}×{self.kernel} kernel must fit into the image; it gets "
                f"{sizes[0]}×{sizes[1]} with padding {self.padding}. Use larger images, or a network with fewer pools."
            )
        if self.tile > 1 and self.stride > 1:
            raise InputError(f"layer {self.name!r}: tiles are of neighbouring outputs, without stride. Use tile=1.")
        if rows % self.tile or columns % self.tile:
            raise InputError(
                f"layer {self.name!r}: outputs in tiles of {self.tile} need a height and width divisible by {self.tile}; "
                f"they are {rows}×{columns}. Use tile=1 for this layer."
            )
        weight = (self.channels, channels, self.kernel, self.kernel)
        params = Affine(*starts(weight, self.initial))
        if not self.bias:
            params = params._replace(bias=())
        if self.tile == 1:
            return params, (self.channels, rows, columns)
        return params, (self.tile**2, self.channels, rows // self.tile, columns // self.tile)

    def apply(self, params: Affine, x: Array) -> Array:
        weight, bias = params
        x = x.astype(weight.dtype)
        y = convolve(x, weight, padding=self.padding, tile=self.tile, route=self.route, stride=self.stride)
        if self.bias:
            y = y + bias.reshape(-1, *(1,) * 3)
        return jax.nn.relu(y) if self.relu else y


@dataclass(frozen=True)
class MaxPool:
    """2 × 2 max-pool with stride 2.

    With `fan_in` it goes on to add a bias, that of the convolution before it (whose outputs have so many inputs each),
    and to apply ReLU, if it is to. Maximum, bias and ReLU commute exactly, and after the maximum there are four times fewer
    numbers.
    """

    name: str
    fan_in: int | None = None
    relu: bool = True
    initial: Scheme = "uniform"
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[Any, Shape]:
        channels, height, width = shape[1:] if len(shape) == 4 else (shape[0], shape[1] // 2, shape[2] // 2)
        if min(height, width) < 1:
            raise InputError(
                f"layer {self.name!r}: a 2×2 max-pool needs at least 2×2 pixels; it gets {shape[-2]}×{shape[-1]}. "
                "Use larger images, or a network with fewer pools."
            )
        bias = () if self.fan_in is None else starts((channels, self.fan_in), self.initial)[1]
        return bias, (channels, height, width)

    def apply(self, params: Any, x: Array) -> Array:
        y = max_pool(x)
        if self.fan_in is None:
            return y
        shifted = y.reshape(y.shape[0], -1) + jnp.expand_dims(params, 1)
        return (jax.nn.relu(shifted) if self.relu else shifted).reshape(y.shape)


@dataclass(frozen=True)
class Flatten:
    """One row of features per sample: from (c, h, w, batch) or, with `images`, from (batch, h, w, c)."""

    name: str = "flatten"
    images: bool = False

    @property
    def batch_axis(self) -> int:
        return 0 if self.images else -1

    def outline(self, shape: Shape) -> tuple[tuple[()], Shape]:
        return (), (prod(shape),)

    def apply(self, params: tuple[()], x: Array) -> Array:
        if self.images:
            return x.reshape(x.shape[0], -1)
        # Turned for good: a product with a factor that is only read as turned misses the fast library on a CPU.
        return lax.optimization_barrier(x.reshape(-1, x.shape[-1]).T)


@dataclass(frozen=True)
class Dense:
    """x ↦ x Wᵀ + b on (batch, features), with or without ReLU."""

    name: str
    features: int
    relu: bool = False
    initial: Scheme = "uniform"
    batch_axis: ClassVar[int] = 0

    def outline(self, shape: Shape) -> tuple[Affine, Shape]:
        (features,) = shape
        return Affine(*starts((self.features, features), self.initial)), (self.features,)

    def apply(self, params: Affine, x: Array) -> Array:
        weight, bias = params
        y = product(x.astype(weight.dtype), weight) + jnp.expand_dims(bias, 0)
        return jax.nn.relu(y) if self.relu else y


@dataclass(frozen=True)
class Dropout:
    """While training, every feature of (batch, features) is 0 with probability `rate`, else divided by 1 − rate.

    Without a key, as in evaluations and full gradients, it lets everything through: the mean of what training sees. Srivastava
    et al., Dropout: a simple way to prevent neural networks from overfitting, JMLR 15, 2014.

    >>> layer = Dropout("dropout1", 0.5)
    >>> sorted(set(layer.thinned(jax.random.key(0), jnp.ones((20, 8))).ravel().tolist()))
    [0.0, 2.0]
    """

    name: str
    rate: float
    batch_axis: ClassVar[int] = 0

    def outline(self, shape: Shape) -> tuple[tuple[()], Shape]:
        if not 0 <= self.rate < 1:
            raise InputError(
                f"layer {self.name!r}: the rate of dropout is a probability, 0 ≤ rate < 1; got {self.rate}. "
                "Use 0.5, or 0 for none."
            )
        return (), shape

    def apply(self, params: tuple[()], x: Array) -> Array:
        return x

    def thinned(self, key: Array, x: Array) -> Array:
        """What training sees of x."""
        kept = jax.random.bernoulli(key, 1 - self.rate, x.shape)
        return jnp.where(kept, x / jnp.asarray(1 - self.rate, x.dtype), jnp.zeros_like(x))
