"""Users' arrays on their way into a problem: weights, padding, finiteness, the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError

ALIGNMENT = 64  # bytes
BLOCK_ENTRIES = 2**22


def normalised_weights(weights: Any, clients: int, dtype: Any) -> np.ndarray:
    """w_i ≥ 0 with Σ w_i = 1; equal where the user gives none."""
    if weights is None:
        return np.full(clients, 1 / clients, dtype)
    w = np.asarray(weights, np.float64)
    if w.shape != (clients,):
        raise InputError(f"weights must have one entry per client: expected shape ({clients},), got {w.shape}")
    if not np.all(np.isfinite(w)) or np.any(w < 0) or w.sum() <= 0:
        raise InputError(f"weights must be finite, ≥ 0 and not all zero, got {w}")
    return (w / w.sum()).astype(dtype)


def padded_rows(blocks: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Equal or unequal blocks as one array with zeros below, and the true lengths."""
    if hasattr(blocks, "ndim") and blocks.ndim >= 2:
        return blocks, np.full(blocks.shape[0], blocks.shape[1], np.int64)
    rows = [np.asarray(b) for b in blocks]
    if not rows:
        raise InputError(f"{what} must hold at least one client, got an empty list")
    if any(r.ndim == 0 for r in rows):
        raise InputError(f"{what} must have one entry per row of each client's block, got one number per client")
    tails = {r.shape[1:] for r in rows}
    if len(tails) != 1:
        raise InputError(f"all clients' {what} must agree in their last dimensions, got {sorted(tails)}")
    sizes = np.array([len(r) for r in rows])
    out = aligned_zeros((len(rows), sizes.max(), *rows[0].shape[1:]), np.result_type(*rows))
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out, sizes


def samples(A: Any, targets: Any, name: str, entry: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(m, n, d) features and (m, n) targets of linear models from blocks, and the clients' numbers of samples."""
    rows, sizes = padded_rows(A, "A")
    ends, lengths = padded_rows(targets, name)
    if rows.ndim != 3:
        raise InputError(f"A must have shape (m, n, d) or be a list of (n_i, d) blocks, got shape {rows.shape}")
    if ends.ndim != 2 or len(ends) != len(rows) or not np.array_equal(sizes, lengths):
        raise InputError(
            f"{name} must have one {entry} per row of A: A has rows {sizes.tolist()[:10]}, {name} {lengths.tolist()[:10]} of "
            f"shape {ends.shape[2:]}"
        )
    return rows, ends, sizes


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes: what a CPU device takes over without a copy. NumPy's own start anywhere."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def to_device(array: Any, dtype: Any) -> jax.Array:
    """On the device in this dtype. Large aligned arrays that already fit are not copied (do not write to them afterwards)."""
    array = array if isinstance(array, jax.Array) else np.asarray(array)
    if array.dtype == np.dtype(dtype) and array.nbytes > 2**28:
        return jax.device_put(array, may_alias=True)
    return jnp.asarray(array, dtype)


def require_finite(**arrays: Any) -> None:
    for name, array in arrays.items():
        if not all(np.isfinite(block).all() for block in _blocks(np.asarray(array))):
            where = np.argwhere(~np.isfinite(np.asarray(array)))[0].tolist()
            raise InputError(f"{name} must be finite, but its entry {where} is not: clean the data first")


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in pieces, so that a look at all of it needs little memory."""
    rows = max(1, BLOCK_ENTRIES * len(array) // max(array.size, 1)) if array.ndim else 1
    yield from (array[k : k + rows] for k in range(0, len(array), rows)) if array.ndim else [array]


def own_copy(stack: Any, client: int, samples: int | None = None) -> Any:
    """One client's row of every leaf (its first `samples` samples), with the client axis kept, in memory of its own."""

    def own(leaf: Any) -> jax.Array:
        row = np.asarray(leaf)[client : client + 1]
        return jnp.asarray(np.array(row if samples is None else row[:, :samples]))

    return jax.tree.map(own, stack)
