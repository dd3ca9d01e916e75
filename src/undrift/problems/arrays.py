"""Users' arrays on their way into a problem: the gate that they all pass, weights, padding, the device."""

from __future__ import annotations

import math
import mmap
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import memory
from ..errors import InputError

ALIGNMENT = 64  # bytes
BLOCK_ENTRIES = 2**22
EVEN = "share the samples out more evenly, or take fewer"


def normalised_weights(weights: Any, clients: int, dtype: Any) -> np.ndarray:
    """w_i ≥ 0 with Σ w_i = 1; equal where the user gives none."""
    if weights is None:
        return np.full(clients, 1 / clients, dtype)
    w = np.asarray(real("weights", weights), np.float64)
    if w.shape != (clients,):
        raise InputError(f"weights must have one entry per client: expected shape ({clients},), got {w.shape}")
    with np.errstate(over="ignore"):
        total = w.sum()
    if not np.all(np.isfinite(w)) or np.any(w < 0) or not 0 < total < np.inf:
        raise InputError(
            f"weights must be finite, ≥ 0 and not all zero, and so must be their sum, got {w}: correct them"
        )
    return (w / w.sum()).astype(dtype)


def real(name: str, given: Any) -> Any:
    """An array of real numbers, as it is: floating, whole, or True and False, which count as 1 and 0.

    Everything that NumPy would convert without a word and wrongly is refused: complex numbers would lose their imaginary
    parts, dates become nanoseconds, masked entries come to light again.

    >>> real("A", [[1, 2]]).dtype.kind
    'i'
    >>> real("A", [1 + 2j])
    Traceback (most recent call last):
    undrift.errors.InputError: A must be real numbers, got complex128: give real and imaginary parts as numbers of their own
    """
    if np.ma.is_masked(given):
        raise InputError(f"{name} must be real numbers, but some of its entries are masked: fill or leave them out")
    try:
        array = given if isinstance(given, jax.Array) else np.asarray(given)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be an array of numbers, but its rows differ in length ({error}): mend them"
        ) from None
    if jnp.issubdtype(array.dtype, jnp.floating) or array.dtype.kind in "iub":
        return array
    remedies = {
        "c": "give real and imaginary parts as numbers of their own",
        "M": "convert dates to numbers, such as days since the first one",
        "m": "convert durations to numbers, such as seconds",
        "O": "mend rows of unequal length, and convert what is no number",
    }
    raise InputError(
        f"{name} must be real numbers, got {array.dtype}: {remedies.get(array.dtype.kind, 'convert it to numbers')}"
    )


def real_number(name: str, given: Any, least: float = 0.0) -> float:
    """One finite number that is not too small.

    >>> real_number("l2", 0.5)
    0.5
    """
    number = math.nan
    plain = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if plain or (getattr(given, "ndim", 1) == 0 and given.dtype.kind in "iuf"):
        with suppress(OverflowError):  # a whole number beyond all floats
            number = float(given)
    if not (abs(number) < np.inf and number >= least):
        bound = "" if least == -np.inf else f" and ≥ {least:g}"
        raise InputError(f"{name} must be finite{bound}, got {given!r:.80}: choose such a number")
    return number


def padded_rows(blocks: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Equal or unequal blocks as one array with zeros below, and the true lengths."""
    if getattr(blocks, "ndim", 0) >= 2:
        blocks = real(what, blocks)
        return blocks, np.full(blocks.shape[0], blocks.shape[1], np.int64)
    if not isinstance(blocks, Iterable) or isinstance(blocks, str | bytes | Mapping) or getattr(blocks, "ndim", 1) == 0:
        raise InputError(
            f"{what} must have one entry per row of each client's block, got {blocks!r:.80}: give an array, or a list of blocks"
        )
    rows = [real(f"{what} of client {i}", block) for i, block in enumerate(blocks)]
    if not rows:
        raise InputError(f"{what} must hold at least one client, got an empty list: give one block per client")
    if any(r.ndim == 0 for r in rows):
        raise InputError(f"{what} must have one entry per row of each client's block, got one number per client")
    tails = {r.shape[1:] for r in rows}
    if len(tails) != 1:
        raise InputError(f"all clients' {what} must agree in their last dimensions, got {sorted(tails)}")
    sizes = np.array([len(r) for r in rows])
    dtype = np.result_type(*rows)
    shape = (len(rows), int(sizes.max()), *rows[0].shape[1:])
    memory.require(
        math.prod(shape) * dtype.itemsize, f"{what} with its clients filled up to {sizes.max()} samples each", EVEN
    )
    out = aligned_zeros(shape, dtype)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out, sizes


def samples(A: Any, targets: Any, name: str, entry: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(m, n, d) features and (m, n) targets of linear models from blocks, and the clients' numbers of samples."""
    rows, sizes = padded_rows(A, "A")
    ends, lengths = padded_rows(targets, name)
    if rows.ndim != 3:
        raise InputError(f"A must have shape (m, n, d) or be a list of (n_i, d) blocks, got shape {rows.shape}")
    if not len(rows):
        raise InputError(f"A must hold at least one client, got shape {rows.shape}: give one block per client")
    if not rows.shape[2]:
        raise InputError(f"A must have at least one column, got shape {rows.shape}: d ≥ 1 is the length of the model")
    if ends.ndim != 2 or len(ends) != len(rows) or not np.array_equal(sizes, lengths):
        raise InputError(
            f"{name} must have one {entry} per row of A: A has rows {sizes.tolist()[:10]}, {name} {lengths.tolist()[:10]} of "
            f"shape {ends.shape[2:]}"
        )
    if sizes.min() < 1:
        raise InputError(
            f"every client needs at least one sample, but client {int(sizes.argmin())} has none: leave it out"
        )
    return rows, ends, sizes


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros that start at a multiple of 64 bytes: what a CPU device takes over without a copy. NumPy's own start anywhere."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size].view(dtype).reshape(shape)


def on_disk(array: Any) -> bool:
    """Whether the array lies in a memory-mapped file, so that only what is looked at is read.

    >>> import tempfile
    >>> with tempfile.TemporaryFile() as file:
    ...     mapped = np.memmap(file, np.float32, shape=(4, 2))
    ...     on_disk(mapped), on_disk(np.asarray(mapped)[1:]), on_disk(mapped[[0, 1]]), on_disk(np.zeros(3))
    (True, True, False, False)
    """
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)


def where_it_lies(name: str, array: Any, dtype: Any) -> Any:
    """The array on the device, or, of one that is memory-mapped, only a view of it: rows are read when they are needed."""
    if not on_disk(array):
        return to_device(array, dtype)
    if array.dtype != np.dtype(dtype):
        raise InputError(
            f"{name} is memory-mapped with numbers of {array.dtype}, and {np.dtype(dtype)} is what is computed with: keep it "
            f"on disk as {np.dtype(dtype)}, or read it into memory with np.array({name})"
        )
    return np.asarray(array)


def to_device(array: Any, dtype: Any) -> jax.Array:
    """On the device in this dtype. Large aligned arrays that already fit are not copied (do not write to them afterwards)."""
    array = array if isinstance(array, jax.Array) else np.asarray(array)
    if array.dtype == np.dtype(dtype) and array.nbytes > 2**28:
        return jax.device_put(array, may_alias=True)
    return jnp.asarray(array, dtype)


def require_sound(terms: int, dtype: Any, **arrays: Any) -> None:
    """Refuse numbers that are not finite, or so large that a sum of so many squares of them is not."""
    limit = np.sqrt(
        np.float64(np.finfo(dtype).max) / max(terms, 1)
    )  # not a plain float, which float16 would round to ∞
    for name, array in arrays.items():
        array = np.asarray(array)
        if all(np.all(np.abs(block) <= limit) for block in blocks(array)):  # false for NaN as well
            continue
        where = first_where(array, lambda block: ~(np.abs(block) <= limit))
        value = array[tuple(where)]
        place = f"its entry {where} (client {where[0]}, row {where[1]}) is {value}"
        if not np.isfinite(value):
            raise InputError(f"{name} must be finite, but {place}: clean the data first")
        raise InputError(
            f"{name} must stay below {limit:.1e} in absolute value, because {terms} squares of such numbers are added in "
            f"{np.dtype(dtype)}, but {place}: rescale the data"
        )


def require_room_for_hessians(clients: int, dim: int) -> None:
    """Refuse matrices ∇²f_i that cannot fit into memory."""
    memory.require(
        8 * clients * dim**2,
        f"the Hessians of {clients} clients with d = {dim}",
        "take a smaller problem, or do without what needs them (theory, advice, closed forms)",
    )


def first_where(array: np.ndarray, wrong: Callable[[np.ndarray], np.ndarray]) -> list[int]:
    """The indices of the first entry of which this is true; there is one."""
    before = 0
    for block in blocks(array):
        found = np.argwhere(wrong(block))
        if len(found):
            first = found[0].tolist()
            return [before + first[0], *first[1:]] if array.ndim else first
        before += len(block) if array.ndim else 0
    raise AssertionError("no entry is wrong")


def blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in pieces, so that a look at all of it needs little memory."""
    rows = max(1, BLOCK_ENTRIES * len(array) // max(array.size, 1)) if array.ndim else 1
    yield from (array[k : k + rows] for k in range(0, len(array), rows)) if array.ndim else [array]


def own_copy(stack: Any, client: int, samples: int | None = None) -> Any:
    """One client's row of every leaf (its first `samples` samples), with the client axis kept, in memory of its own."""

    def own(leaf: Any) -> jax.Array:
        row = np.asarray(leaf)[client : client + 1]
        return jnp.asarray(np.array(row if samples is None else row[:, :samples]))

    return jax.tree.map(own, stack)
