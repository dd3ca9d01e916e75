"""Messages as bytes.

Both ends know the program, so they know the shape of every message: what travels is the payload alone, leaf after leaf, in
little-endian order. A node of the message that is a `Packed` (a compressed vector) writes itself more tightly than its arrays
would. `size` answers from shapes only; `len(encode(message)) == size(message)` always.

What arrives is hostile until it was checked. `decode` accepts exactly what `encode` can have written: every payload that it
accepts encodes to the same bytes again, so no two payloads mean the same message. Anything else is a `WireError`, and nothing
that arrives decides how much is allocated or how long it takes.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import NotFiniteError, WireError


class Packed(abc.ABC):
    """A part of a message with an encoding of its own."""

    @abc.abstractmethod
    def wire_size(self) -> int:
        """Bytes on the wire, from shapes and dtypes only."""

    @abc.abstractmethod
    def to_wire(self) -> bytes:
        """Exactly `wire_size()` bytes."""

    @abc.abstractmethod
    def from_wire(self, payload: bytes) -> Packed:
        """The inverse; `self` only lends its shapes. Bytes that `to_wire` cannot have written are a `WireError`."""

    @abc.abstractmethod
    def dense(self) -> jax.Array:
        """The vector it stands for."""

    def is_finite(self) -> bool:
        """Whether the vector it stands for has finite entries only."""
        return all(finite(leaf) for leaf in jax.tree.leaves(self))


def dense(part: Any) -> Any:
    """A vector from a compressed one; arrays are returned as they are."""
    return part.dense() if isinstance(part, Packed) else part


def size(message: Any) -> int:
    """Bytes of a message, or of its shapes (`jax.eval_shape`).

    >>> size((np.zeros(3), np.int32(7)))
    28
    """
    return sum(_size(node) for node in _nodes(message))


def encode(message: Any) -> bytes:
    """The payload of a message.

    >>> decode(encode((np.arange(3.0), np.int32(7))), (np.zeros(3), np.int32(0)))
    (array([0., 1., 2.]), array(7, dtype=int32))
    """
    return b"".join(_encode(node) for node in _nodes(message))


def decode(payload: bytes, like: Any, *, not_finite: bool = False) -> Any:
    """The message whose shapes are those of `like`, checked.

    `not_finite`: accept infinities and NaN. From a network they are refused; only where all nodes are one's own does a run
    that diverges send them, to be reported as a divergence.

    >>> decode(b"\\x02", np.zeros(1, bool))
    Traceback (most recent call last):
    undrift.errors.WireError: a truth value is the byte 0 or 1, got 2
    """
    return Form(like).decode(payload, not_finite=not_finite)


class Form:
    """The shapes of a message, looked at once by those who receive many of its kind."""

    def __init__(self, like: Any) -> None:
        nodes, self.structure = jax.tree.flatten(like, is_leaf=_is_packed)
        self.parts: list[tuple[int, Any]] = [(_size(node), _reader(node)) for node in nodes]
        self.size = sum(length for length, _ in self.parts)

    def decode(self, payload: bytes, *, not_finite: bool = False) -> Any:
        """See `decode`."""
        if not isinstance(payload, bytes):
            raise WireError(f"a message is bytes, got {type(payload).__name__}")
        if len(payload) != self.size:
            raise WireError(
                f"a message of this exchange has {self.size} bytes, got {len(payload)}: it was cut or padded"
            )
        decoded, position = [], 0
        for length, read in self.parts:
            decoded.append(read(payload if length == self.size else payload[position : position + length]))
            position += length
        if not not_finite:
            for number, node in enumerate(decoded):
                if not finite(node):
                    raise NotFiniteError(
                        f"a message holds finite numbers, part {number + 1} of {len(decoded)} does not"
                    )
        return jax.tree.unflatten(self.structure, decoded)


def finite(part: Any) -> bool:
    """Whether an array or a compressed vector has finite entries only.

    >>> finite(np.array([1.0, np.inf])), finite(np.array([1, 2]))
    (False, True)
    """
    if isinstance(part, Packed):
        return part.is_finite()
    if part.dtype.kind == "f":  # the others that may be infinite are not NumPy's own
        return bool(np.isfinite(np.asarray(part)).all())
    return not jnp.issubdtype(part.dtype, jnp.inexact) or bool(np.all(np.isfinite(np.asarray(part))))


def _is_packed(node: Any) -> bool:
    return isinstance(node, Packed)


def _nodes(message: Any) -> list[Any]:
    return jax.tree.leaves(message, is_leaf=_is_packed)


def _size(node: Any) -> int:
    if isinstance(node, Packed):
        return node.wire_size()
    return math.prod(np.shape(node)) * np.dtype(node.dtype).itemsize


def _encode(node: Any) -> bytes:
    if isinstance(node, Packed):
        return node.to_wire()
    array = np.asarray(node)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _reader(like: Any) -> Callable[[bytes], Any]:
    """What makes a part of its bytes."""
    if isinstance(like, Packed):
        return like.from_wire
    dtype, shape = np.dtype(like.dtype), np.shape(like)
    little = dtype.newbyteorder("<")

    def read(payload: bytes) -> np.ndarray:
        if dtype == np.bool_:
            _check_truth(payload)
        return np.frombuffer(payload, little).astype(dtype, copy=False).reshape(shape)

    return read


def _check_truth(payload: bytes) -> None:
    largest = max(payload, default=0)
    if largest > 1:
        raise WireError(f"a truth value is the byte 0 or 1, got {largest}")
