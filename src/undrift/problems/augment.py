"""Images that look a little different every time: random shifts and mirror images."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import InputError


@dataclasses.dataclass(frozen=True)
class Augment:
    """Every image of a mini-batch is moved by up to `shift` pixels in both directions, and mirrored with probability ½.

    What comes in from outside has the value `fill`, one number or one per channel. Known elsewhere as random crops with
    padding and horizontal flips. Each mini-batch draws anew, from the same (seed, round, client, step) as its samples.

    >>> images = jnp.arange(16.0).reshape(1, 4, 4, 1)
    >>> moved = Augment(shift=1, mirror=False, fill=-1.0)(jax.random.key(0), images)
    >>> moved.shape, bool((moved == -1).any())
    ((1, 4, 4, 1), True)
    """

    shift: int = 4
    mirror: bool = True
    fill: float | tuple[float, ...] = 0.0

    def __post_init__(self) -> None:
        if int(self.shift) != self.shift or self.shift < 0:
            raise InputError(f"images are moved by a whole number of pixels ≥ 0, got shift={self.shift!r}")

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse samples (of this shape, with their number in front) that are not images."""
        if len(shape) != 4:
            raise InputError(
                f"only images can be moved and mirrored: samples of shape (height, width, channels), got {shape[1:]}; "
                "leave augment out"
            )
        if isinstance(self.fill, tuple) and len(self.fill) != shape[-1]:
            raise InputError(f"fill is one number or one per channel ({shape[-1]}), got {len(self.fill)} of them")

    def __call__(self, key: jax.Array, images: jax.Array) -> jax.Array:
        """Moved and mirrored images, each in its own way."""
        offsets_key, mirror_key = jax.random.split(key)
        offsets = jax.random.randint(offsets_key, (len(images), 2), 0, 2 * self.shift + 1)
        mirrored = jax.random.bernoulli(mirror_key, 0.5, (len(images),))
        return jax.vmap(self._one)(images, offsets, mirrored)

    def _one(self, image: jax.Array, offset: jax.Array, mirrored: Any) -> jax.Array:
        height, width, channels = image.shape
        frame = (height + 2 * self.shift, width + 2 * self.shift, channels)
        padded = jnp.broadcast_to(jnp.asarray(self.fill, image.dtype), frame)
        padded = padded.at[self.shift : self.shift + height, self.shift : self.shift + width].set(image)
        seen = jax.lax.dynamic_slice(padded, (offset[0], offset[1], 0), image.shape)
        return jnp.where(mirrored, seen[:, ::-1], seen) if self.mirror else seen
