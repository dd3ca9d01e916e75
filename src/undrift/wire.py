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
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import NotFiniteError, WireError

LITTLE = sys.byteorder == "little"  # this machine writes numbers as they travel


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
    """The shapes of a message, looked at once by those who send or receive many of its kind."""

    def __init__(self, like: Any) -> None:
        nodes, structure = jax.tree.flatten(like, is_leaf=_is_packed)
        self.structure: Any = structure
        sizes = [_size(node) for node in nodes]
        self.size = sum(sizes)
        self.readers = [_reader(node, start) for node, start in zip(nodes, _starts(sizes), strict=True)]
        self.writers = [_written if isinstance(node, Packed) else _bytes_of for node in nodes]

    def encode(self, message: Any) -> bytes:
        """See `encode`; the message must have this form."""
        nodes = self.structure.flatten_up_to(message)
        return b"".join([write(node) for write, node in zip(self.writers, nodes, strict=True)])

    def decode(self, payload: bytes, *, not_finite: bool = False) -> Any:
        """See `decode`."""
        if not isinstance(payload, bytes):
            raise WireError(f"a message is bytes, got {type(payload).__name__}")
        if len(payload) != self.size:
            raise WireError(
                f"a message of this exchange has {self.size} bytes, got {len(payload)}: it was cut or padded"
            )
        decoded = [read(payload) for read in self.readers]
        if not not_finite:
            for number, node in enumerate(decoded):
                if not finite(node):
                    raise NotFiniteError(
                        f"a message holds finite numbers, part {number + 1} of {len(decoded)} does not"
                    )
        return self.structure.unflatten(decoded)


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
    return node.to_wire() if isinstance(node, Packed) else _bytes_of(node)


def _bytes_of(array: Any) -> bytes:
    array = np.asarray(array)
    if not _is_little(array.dtype):
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()


def _is_little(dtype: np.dtype[Any]) -> bool:
    return LITTLE and dtype.isnative


def _written(part: Packed) -> bytes:
    return part.to_wire()


def _starts(sizes: list[int]) -> list[int]:
    """Where parts of these sizes begin that lie one behind the other."""
    return [sum(sizes[:k]) for k in range(len(sizes))]


def _reader(like: Any, start: int) -> Callable[[bytes], Any]:
    """What makes a part of the payload in which its bytes begin there."""
    end = start + _size(like)
    if isinstance(like, Packed):
        return lambda payload: like.from_wire(payload[start:end])
    dtype, shape = np.dtype(like.dtype), np.shape(like)
    little, truth = dtype.newbyteorder("<"), dtype == np.bool_
    if _is_little(dtype) and len(shape) == 1 and not truth:
        return lambda payload: np.frombuffer(payload[start:end], dtype)  # most parts are vectors

    def read(payload: bytes) -> np.ndarray:
        own = payload[start:end]  # where it is not all there is, a copy: numbers amidst bytes need not be aligned
        if truth:
            _check_truth(own)
        return np.frombuffer(own, little).astype(dtype, copy=False).reshape(shape)

    return read


def _check_truth(payload: bytes) -> None:
    largest = max(payload, default=0)
    if largest > 1:
        raise WireError(f"a truth value is the byte 0 or 1, got {largest}")
