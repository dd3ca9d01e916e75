"""Compressors, error feedback, and compression of one direction of one exchange.

A compressor maps v ∈ R^d to a message that is shorter than v and stands for a vector C(v). It is a δ-contraction if
E‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖². Error feedback keeps what was not sent and adds it to the next message:

    h = C(ρ + v),   ρ ← ρ + v − h.

Difference memory keeps, at both ends, what the receiver holds of v, and sends what is new:

    c = C(v − h),   h ← h + c.

The receiver takes h for v. Where v settles, h becomes v itself, however sparse C is; what error feedback delivers goes on
changing, and a mean over clients with different v_i keeps a floor.

References: Stich, Cordonnier, Jaggi, "Sparsified SGD with memory" (2018); Karimireddy et al., "Error feedback fixes SignSGD"
(2019); Alistarh et al., "QSGD" (2017); FedLin (Mitra et al. 2021), Algorithm 1, lines 11–15; Richtárik, Sokolov, Fatkhullin,
"EF21: a new, simpler, theoretically better, and practically faster error feedback" (2021).
"""

from __future__ import annotations

import abc
import dataclasses
import math
import numbers
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InputError
from .messages import Levels, Signs, Sparse
from .wire import Packed, dense

MOST_LEVELS = 2**24  # whole numbers up to here are exact in every precision
DIFFERENCE: Literal["difference"] = "difference"
# What is kept from message to message: error feedback (True), nothing (False), or what the receiver holds (at both ends)
Kept = bool | Literal["difference"]


@dataclasses.dataclass(frozen=True)
class Compressor(abc.ABC):
    """A map v ↦ message with known contraction and size. `memory`: what is kept from message to message, see above."""

    @abc.abstractmethod
    def compress(self, v: jax.Array, key: jax.Array) -> Packed: ...

    @abc.abstractmethod
    def contraction(self, dim: int) -> float:
        """The smallest known δ with E‖C(v) − v‖² ≤ (1 − 1/δ)‖v‖² (∞ if there is none)."""

    @property
    @abc.abstractmethod
    def memory(self) -> Kept: ...

    @property
    def differs(self) -> bool:
        """Whether what is sent is the difference to what the receiver holds."""
        return self.memory == DIFFERENCE

    def with_memory(self, memory: Kept) -> Compressor:
        """The same compressor with this kind of memory."""
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if "memory" not in own:
            raise InputError(f"{self} has no choice of memory, {memory!r} is asked for: make memory a field of it")
        return type(self)(**{**own, "memory": memory})

    def wire_size(self, dim: int, dtype: Any = "float64") -> int:
        """Bytes of one compressed vector of this length.

        >>> top_k(10).wire_size(1000)       # ten values, ten 2-byte indices
        100
        """
        vector = jax.ShapeDtypeStruct((dim,), jnp.dtype(dtype))
        with jax.enable_x64(jnp.dtype(dtype).itemsize == 8):
            return jax.eval_shape(self.compress, vector, jax.eval_shape(lambda: jax.random.key(0))).wire_size()


@dataclasses.dataclass(frozen=True)
class TopK(Compressor):
    k: int
    memory: Kept = True

    def compress(self, v: jax.Array, key: jax.Array) -> Sparse:
        _check_k(self.k, v.size)
        if self.k == v.size:
            return Sparse(v, jnp.arange(v.size, dtype=jnp.int32), v.size)
        _, indices = jax.lax.top_k(jnp.abs(v), self.k)
        indices = jnp.sort(indices)
        return Sparse(v[indices], indices, v.size)

    def contraction(self, dim: int) -> float:
        _check_k(self.k, dim)
        return dim / self.k

    def __str__(self) -> str:
        return _words("top_k", self.k, self.memory, usual=True)


@dataclasses.dataclass(frozen=True)
class RandomK(Compressor):
    k: int
    memory: Kept = True

    def compress(self, v: jax.Array, key: jax.Array) -> Sparse:
        _check_k(self.k, v.size)
        _, indices = jax.lax.top_k(jax.random.bits(key, v.shape), self.k)
        indices = jnp.sort(indices)
        scale = 1.0 if self.memory else v.size / self.k
        return Sparse(v[indices] * jnp.asarray(scale, v.dtype), indices, v.size)

    def contraction(self, dim: int) -> float:
        _check_k(self.k, dim)
        if self.memory or self.k == dim:
            return dim / self.k
        variance = dim / self.k - 1
        return 1 / (1 - variance) if variance < 1 else math.inf

    def __str__(self) -> str:
        return _words("random_k", self.k, self.memory, usual=True)


@dataclasses.dataclass(frozen=True)
class ScaledSign(Compressor):
    memory: Kept = True

    def compress(self, v: jax.Array, key: jax.Array) -> Signs:
        return Signs(v >= 0, jnp.mean(jnp.abs(v)))

    def contraction(self, dim: int) -> float:
        return float(dim)

    def __str__(self) -> str:
        return _words("scaled_sign", None, self.memory, usual=True)


@dataclasses.dataclass(frozen=True)
class Quantise(Compressor):
    levels: int
    memory: Kept = False

    def compress(self, v: jax.Array, key: jax.Array) -> Levels:
        norm = jnp.linalg.norm(v)
        safe = jnp.where(norm > 0, norm, 1)
        position = jnp.minimum(jnp.abs(v) / safe, 1) * self.levels  # |v| ≤ ‖v‖, but for rounding
        low = jnp.floor(position)
        up = jax.random.uniform(key, v.shape, v.dtype) < position - low
        level = (low + up.astype(v.dtype)) * jnp.sign(v)
        level = jnp.where(jnp.isnan(level), 0, level)  # then the step is not finite either, and says so
        step = norm / self.levels
        if self.memory:  # the contraction that belongs to an unbiased operator of variance ω is C/(1 + ω)
            step = step / (1 + self.variance(v.size))
        return Levels(level.astype(jnp.int32), step, self.levels)

    def variance(self, dim: int) -> float:
        """ω with E‖Q(v) − v‖² ≤ ω‖v‖² (QSGD, Lemma 3.1)."""
        return min(dim / self.levels**2, math.sqrt(dim) / self.levels)

    def contraction(self, dim: int) -> float:
        omega = self.variance(dim)
        if self.memory:
            return 1 + omega
        return 1 / (1 - omega) if omega < 1 else math.inf

    def __str__(self) -> str:
        return _words("quantise", self.levels, self.memory, usual=False)


def top_k(k: int, memory: bool | Literal["difference"] = True) -> TopK:
    """Keep the k entries of largest magnitude: δ = d/k (FedLin, section 3). Ties go to the lower index.

    `memory`: error feedback (True), none (False), or "difference": C(v − h) is sent, and both ends add it to h (EF21).

    >>> import numpy as np
    >>> top_k(1).compress(jnp.array([1.0, -3.0, 2.0]), jax.random.key(0)).dense()
    Array([ 0., -3.,  0.], dtype=float32)
    """
    return TopK(_whole("k", k), _kept(memory))


def random_k(k: int, memory: bool | Literal["difference"] = True) -> RandomK:
    """Keep k entries chosen uniformly: δ = d/k. Without memory they are scaled by d/k, which makes C unbiased."""
    return RandomK(_whole("k", k), _kept(memory))


def scaled_sign(memory: bool | Literal["difference"] = True) -> ScaledSign:
    """C(v) = (‖v‖₁/d) sign(v), one bit per entry: ‖C(v) − v‖² = (1 − ‖v‖₁²/(d‖v‖²))‖v‖², so δ ≤ d."""
    return ScaledSign(_kept(memory))


def quantise(levels: int = 1, memory: bool | Literal["difference"] = False) -> Quantise:
    """Unbiased quantisation to `levels` magnitudes (QSGD). With memory the result is scaled to be a contraction.

    E‖Q(v) − v‖² ≤ ω‖v‖² with ω = min(d/s², √d/s).
    """
    levels = _whole("levels", levels)
    if levels > MOST_LEVELS:
        raise InputError(f"levels must be at most 2**24, got {levels}: a float32 does not tell more apart")
    return Quantise(levels, _kept(memory))


def feedback(compressor: Compressor | None, memory: Any, v: jax.Array, key: jax.Array) -> tuple[Any, Any]:
    """One compressed transmission of v: (message, what the sender keeps).

    Error feedback: h = C(ρ + v); ρ ← ρ + v − h. Difference: c = C(v − h); h ← h + c. Without memory it stays as it is
    (nothing); without a compressor the message is v.
    """
    if compressor is None:
        return v, memory
    if not compressor.memory:
        return compressor.compress(v, key), memory
    if compressor.differs:
        message = compressor.compress(v - memory, key)
        return message, memory + message.dense()
    message = compressor.compress(memory + v, key)
    return message, memory + v - message.dense()


def arrived(compressor: Compressor | None, held: Any, message: Any) -> tuple[jax.Array, Any]:
    """The vector that a message stands for at the receiver, and what the receiver keeps: (h, h) with difference memory.

    >>> link, v = top_k(1, memory="difference"), jnp.array([3.0, 2.0])
    >>> sent = held = jnp.zeros(2)
    >>> for _ in range(2):
    ...     message, sent = feedback(link, sent, v, jax.random.key(0))
    ...     arrives, held = arrived(link, held, message)
    >>> arrives
    Array([3., 2.], dtype=float32)
    """
    vector: jax.Array = dense(message)
    if compressor is not None and compressor.differs:
        vector = held + vector
        return vector, vector
    return vector, held


def sender_memory(compressor: Compressor | None, v: jax.Array) -> Any:
    """What the sender keeps at the start: zero, or nothing where nothing is kept."""
    return jnp.zeros_like(v) if compressor is not None and compressor.memory else ()


def receiver_memory(compressor: Compressor | None, v: jax.Array) -> Any:
    """What the receiver keeps at the start: zero with difference memory, else nothing."""
    return jnp.zeros_like(v) if compressor is not None and compressor.differs else ()


def _check_k(k: int, dim: int) -> None:
    if not 1 <= k <= dim:
        raise InputError(f"k must be between 1 and the dimension d = {dim}, got k = {k}: choose a smaller k")


def _whole(name: str, value: Any) -> int:
    whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or value < 1:
        raise InputError(f"{name} must be a whole number ≥ 1, got {value!r}")
    return int(value)


def _kept(memory: Any) -> Kept:
    if isinstance(memory, bool | np.bool_):
        return bool(memory)
    if isinstance(memory, str) and memory == DIFFERENCE:
        return DIFFERENCE
    raise InputError(
        f"memory must be True (error feedback), False (none) or {DIFFERENCE!r} (what is new to the receiver), got {memory!r}"
    )


def _words(name: str, number: int | None, memory: Kept, usual: bool) -> str:
    parts = [] if number is None else [str(number)]
    if memory != usual:
        parts.append(f"memory={memory!r}")
    return f"{name}({', '.join(parts)})"
