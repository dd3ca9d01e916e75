"""What a compressed vector is made of, in memory and on the wire.

Every kind has one encoding: places ascend, unused bits are zero, scales are not negative. What breaks this is refused.
"""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import WireError
from .wire import Packed, finite


@partial(jax.tree_util.register_dataclass, data_fields=["values", "indices"], meta_fields=["dim"])
@dataclasses.dataclass(frozen=True)
class Sparse(Packed):
    """k values and their places (ascending). The places travel as a bitmap where that is shorter than indices."""

    values: Any
    indices: Any
    dim: int

    def dense(self) -> jax.Array:
        return jnp.zeros((self.dim,), self.values.dtype).at[self.indices].set(self.values)

    def wire_size(self) -> int:
        k = self.values.shape[0]
        return k * np.dtype(self.values.dtype).itemsize + min(k * _index_dtype(self.dim).itemsize, -(-self.dim // 8))

    def to_wire(self) -> bytes:
        values, indices = np.asarray(self.values), np.asarray(self.indices)
        if self._as_bitmap():
            present = np.zeros(self.dim, bool)
            present[indices] = True
            places = np.packbits(present, bitorder="little").tobytes()
        else:
            places = indices.astype(_index_dtype(self.dim)).tobytes()
        return _little(values) + places

    def from_wire(self, payload: bytes) -> Sparse:
        dtype, k = np.dtype(self.values.dtype), self.values.shape[0]
        values = np.frombuffer(payload[: k * dtype.itemsize], dtype.newbyteorder("<")).astype(dtype)
        places = payload[k * dtype.itemsize :]
        if self._as_bitmap():
            found = np.flatnonzero(_unpacked(places, self.dim))
            if len(found) != k:
                raise WireError(f"a bitmap of this message marks {k} places, got {len(found)}")
        else:
            found = np.frombuffer(places, _index_dtype(self.dim))
            ascending = bool((found[1:] > found[:-1]).all())
            largest = int(found[-1] if ascending and k else found.max(initial=0))
            if largest >= self.dim:
                raise WireError(f"places are below the dimension d = {self.dim}, got {largest}")
            if not ascending:
                raise WireError("places ascend and none comes twice, got another order")
        return Sparse(values, found.astype(np.int32), self.dim)

    def _as_bitmap(self) -> bool:
        return -(-self.dim // 8) < self.values.shape[0] * _index_dtype(self.dim).itemsize


@partial(jax.tree_util.register_dataclass, data_fields=["positive", "scale"], meta_fields=[])
@dataclasses.dataclass(frozen=True)
class Signs(Packed):
    """One bit per entry and one scale."""

    positive: Any
    scale: Any

    def dense(self) -> jax.Array:
        return jnp.where(self.positive, self.scale, -self.scale)

    def wire_size(self) -> int:
        return -(-self.positive.shape[0] // 8) + np.dtype(self.scale.dtype).itemsize

    def to_wire(self) -> bytes:
        return np.packbits(np.asarray(self.positive), bitorder="little").tobytes() + _little(np.asarray(self.scale))

    def from_wire(self, payload: bytes) -> Signs:
        dim, dtype = self.positive.shape[0], np.dtype(self.scale.dtype)
        cut = -(-dim // 8)
        return Signs(_unpacked(payload[:cut], dim).astype(bool), _scale(payload[cut:], dtype))


@partial(jax.tree_util.register_dataclass, data_fields=["level", "step"], meta_fields=["levels"])
@dataclasses.dataclass(frozen=True)
class Levels(Packed):
    """Whole multiples of one step, in −levels … levels, packed to the fewest bits that hold them."""

    level: Any
    step: Any
    levels: int

    def dense(self) -> jax.Array:
        return self.level.astype(self.step.dtype) * self.step

    def wire_size(self) -> int:
        return -(-self.level.shape[0] * self._bits() // 8) + np.dtype(self.step.dtype).itemsize

    def to_wire(self) -> bytes:
        shifted = (np.asarray(self.level) + self.levels).astype(np.uint32)
        bits = (shifted[:, None] >> np.arange(self._bits(), dtype=np.uint32)) & 1
        return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes() + _little(np.asarray(self.step))

    def from_wire(self, payload: bytes) -> Levels:
        dim, bits, dtype = self.level.shape[0], self._bits(), np.dtype(self.step.dtype)
        cut = -(-dim * bits // 8)
        flags = _unpacked(payload[:cut], dim * bits).reshape(dim, bits)
        shifted = np.zeros(dim, np.int64)
        for place in range(bits):
            shifted |= flags[:, place].astype(np.int64) << place
        if shifted.max(initial=0) > 2 * self.levels:
            raise WireError(f"levels lie in −{self.levels} … {self.levels}, got {shifted.max() - self.levels}")
        return Levels((shifted - self.levels).astype(np.int32), _scale(payload[cut:], dtype), self.levels)

    def is_finite(self) -> bool:
        step = np.asarray(self.step)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite(np.max(np.abs(np.asarray(self.level)), initial=0).astype(step.dtype) * step)

    def _bits(self) -> int:
        return (2 * self.levels).bit_length()


@cache
def _index_dtype(dim: int) -> np.dtype[Any]:
    return np.dtype("u1" if dim <= 2**8 else "<u2" if dim <= 2**16 else "<u4")


def _unpacked(payload: bytes, count: int) -> np.ndarray:
    """So many bits, one a byte; the last byte may have room for more, which must be zero."""
    bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
    if np.any(bits[count:]):
        raise WireError(f"bits after the last of {count} are zero, got others")
    return bits[:count]


def _scale(payload: bytes, dtype: np.dtype[Any]) -> np.ndarray:
    scale = np.frombuffer(payload, dtype.newbyteorder("<")).astype(dtype).reshape(())
    if np.signbit(scale) and not np.isnan(scale):  # it would be another way to write the vector with all signs turned
        raise WireError(f"a scale is ≥ 0 without a minus sign, got {scale}")
    return scale


def _little(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
