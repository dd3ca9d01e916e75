"""What residual networks are made of: group normalisation, blocks with a shortcut, the mean over the picture."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array

from ..errors import InputError
from .initial import Start
from .layers import Affine, Layer, Shape

EPSILON = 1e-5


@dataclass(frozen=True)
class GroupNorm:
    """(x − mean)/√(variance + ε)·γ + β, mean and variance over a sample's pixels and a group of its channels; ε = 10⁻⁵.

    It looks at one sample at a time. BatchNorm, in whose place it stands, looks at those around it too and keeps what it saw:
    statistics of a client's data, which no mean over clients makes right. Wu, He, Group normalization, arXiv:1803.08494.

    >>> layer = GroupNorm("norm1", groups=2)
    >>> params = Affine(jnp.ones(4), jnp.zeros(4))
    >>> float(jnp.abs(layer.apply(params, jax.random.normal(jax.random.key(0), (4, 8, 8, 3))).mean()).round(5))
    0.0
    """

    name: str
    groups: int = 2
    relu: bool = False
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[Affine, Shape]:
        channels = shape[0]
        if self.groups < 1 or channels % self.groups:
            raise InputError(
                f"layer {self.name!r}: groups divide the channels, {channels} here; got groups={self.groups}. Use a divisor."
            )
        return Affine(Start((channels,), "constant", 1.0), Start((channels,), "constant", 0.0)), shape

    def apply(self, params: Affine, x: Array) -> Array:
        x = x.astype(params.weight.dtype)
        grouped = x.reshape(self.groups, -1, x.shape[-1])
        centred = grouped - grouped.mean(axis=1, keepdims=True)
        scale = jax.lax.rsqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
        channel = (-1, *(1 for _ in x.shape[1:]))
        y = (centred * scale).reshape(x.shape) * params.weight.reshape(channel) + params.bias.reshape(channel)
        return jax.nn.relu(y) if self.relu else y


@dataclass(frozen=True)
class Subsample:
    """Every `stride`-th pixel, and channels of zeros behind its own: the shortcut without parameters (He et al.'s option A)."""

    name: str
    channels: int
    stride: int = 2
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[tuple[()], Shape]:
        before, *sizes = shape
        if before > self.channels:
            raise InputError(f"layer {self.name!r} adds channels: {before} do not become {self.channels}.")
        return (), (self.channels, *(-(-size // self.stride) for size in sizes))

    def apply(self, params: tuple[()], x: Array) -> Array:
        kept = x[:, :: self.stride, :: self.stride]
        return jnp.pad(kept, ((0, self.channels - x.shape[0]), (0, 0), (0, 0), (0, 0)))


@dataclass(frozen=True)
class Residual:
    """x ↦ ReLU(layers(x) + shortcut(x)); without layers of its own the shortcut is x itself."""

    name: str
    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[Any, Shape]:
        params, out = _outline(self.layers, shape)
        beside, same = _outline(self.shortcut, shape)
        if out != same:
            raise InputError(
                f"layer {self.name!r}: what is added has one shape; the layers give {out}, the shortcut {same}."
            )
        return (params, beside), out

    def apply(self, params: Any, x: Array) -> Array:
        y, beside = x, x
        for layer, own in zip(self.layers, params[0], strict=True):
            y = layer.apply(own, y)
        for layer, own in zip(self.shortcut, params[1], strict=True):
            beside = layer.apply(own, beside)
        return jax.nn.relu(y + beside.astype(y.dtype))


@dataclass(frozen=True)
class MeanPool:
    """The mean over the whole picture: (c, h, w, batch) to (batch, c)."""

    name: str = "mean_pool"
    batch_axis: ClassVar[int] = -1

    def outline(self, shape: Shape) -> tuple[tuple[()], Shape]:
        return (), shape[:1]

    def apply(self, params: tuple[()], x: Array) -> Array:
        return x.mean(axis=(1, 2)).T


def _outline(layers: tuple[Layer, ...], shape: Shape) -> tuple[tuple[Any, ...], Shape]:
    params = []
    for layer in layers:
        own, shape = layer.outline(shape)
        params.append(own)
    return tuple(params), shape
