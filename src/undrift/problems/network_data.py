"""The data of a network problem: samples once, clients as ranges of an index array, and what the server measures on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from .arrays import blocks, first_where, real
from .network_loss import target_dtype
from .network_model import Architecture

NAMES = ("inputs", "targets")


@partial(jax.tree_util.register_dataclass, data_fields=["x", "y"], meta_fields=["architecture"])
@dataclasses.dataclass(frozen=True, eq=False)
class ServerData:
    """Test data at the server, under the network whose models it measures."""

    architecture: Architecture
    x: jax.Array
    y: jax.Array

    def measure(self, x: jax.Array) -> dict[str, jax.Array]:
        """Mean loss and metrics of the model x on these data."""
        found = self.architecture.measure(x, self.x, self.y, jnp.arange(self.y.shape[0]))
        return {"test_loss" if name == "loss" else name: jnp.mean(values) for name, values in found.items()}


def read(given: Any, what: str, labels: bool) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, finite and of the same number."""
    pair = (given.x, given.y) if hasattr(given, "x") and hasattr(given, "y") else given
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise InputError(f"{what} must be an object with x and y, or a pair (x, y), got {type(given).__name__}")
    inputs, targets = (np.asarray(real(f"{what} {name}", array)) for name, array in zip(NAMES, pair, strict=True))
    if not inputs.size:
        raise InputError(f"{what} needs at least one sample of at least one number, got inputs of shape {inputs.shape}")
    if not targets.ndim or not inputs.ndim or len(inputs) != len(targets) or (labels and targets.ndim != 1):
        raise InputError(
            f"{what} needs one {'label' if labels else 'target'} per sample, got {inputs.shape} inputs and "
            f"{'labels' if labels else 'targets'} of shape {targets.shape}"
        )
    if labels and targets.dtype.kind not in "iu":
        raise InputError(
            f"{what} labels must be whole numbers 0, 1, …, got dtype {targets.dtype}: for regression give loss='squared'"
        )
    for name, array in zip(NAMES, (inputs, targets), strict=True):
        if array.dtype.kind == "f" and not all(np.isfinite(block).all() for block in blocks(array)):
            bad = first_where(array, lambda block: ~np.isfinite(block))[0]
            raise InputError(
                f"{what} {name} must be finite, but sample {bad} holds NaN or infinity: clean the data first"
            )
    return inputs, targets


def check_tokens(inputs: np.ndarray, what: str, vocabulary: int | None) -> None:
    """Refuse inputs that no table has a row for; `vocabulary`: how many rows it has, where that is known."""
    if inputs.dtype.kind not in "iu":
        raise InputError(
            f"the model looks its inputs up in a table, so they are whole numbers; {what} inputs are {inputs.dtype}: give the "
            "numbers of characters or words as integers"
        )
    last = (vocabulary or 2**31) - 1
    lowest, highest = int(inputs.min()), int(inputs.max())
    if lowest < 0 or highest > last:
        raise InputError(
            f"the model knows the inputs 0 … {last}, and {what} inputs hold {lowest if lowest < 0 else highest}: make it with "
            "a larger vocabulary, or mend the inputs"
        )


def on_device(inputs: np.ndarray, targets: np.ndarray, dtype: Any, kept_as: Any) -> dict[str, jax.Array]:
    """Both where the programs want them; `kept_as`: the dtype of the inputs."""
    return {"x": jnp.asarray(inputs, kept_as), "y": jnp.asarray(targets, target_dtype(targets, dtype))}


def index_sets(parts: Sequence[Any], samples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All clients' samples in one index array; where each client begins there, and how many it has."""
    if not isinstance(parts, Iterable):
        raise InputError(f"parts must be a list with one list of samples per client, got {parts!r:.80}")
    parts = list(parts)
    plain = all(type(part) is np.ndarray and part.ndim == 1 and part.dtype.kind in "iu" for part in parts)
    arrays = parts if plain else [_indices(client, part) for client, part in enumerate(parts)]
    if not arrays:
        raise InputError("parts must name at least one client, got none: give one list of samples per client")
    sizes = np.fromiter(map(len, arrays), np.int64, len(arrays))
    if sizes.min() < 1:
        raise InputError(f"client {int(sizes.argmin())} has no samples: partition with min_size=1 or leave it out")
    order = np.concatenate(arrays, dtype=np.int64, casting="unsafe")
    if order.min() < 0 or order.max() >= samples:
        strange = order.min() if order.min() < 0 else order.max()
        raise InputError(f"parts name sample {strange}, but there are only 0 … {samples - 1}: correct the partition")
    return order, np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes


def _indices(client: int, part: Any) -> np.ndarray:
    array = np.asarray(real(f"parts of client {client}", part))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"parts must list samples by whole numbers, those of client {client} have dtype {array.dtype} and shape "
            f"{array.shape}: give indices (np.flatnonzero of a mask)"
        )
    return array.astype(np.int64)


def train_sample(
    sizes: np.ndarray, weights: np.ndarray, count: int | None, dtype: Any
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """The samples on which the training loss is measured: all, or `count` of them, drawn once and for all.

    Shared are their places in the index array, client after client, and the weights that make the loss an estimate of f.
    To each client belong where its samples begin among them, how many they are, and its part of the weights.
    """
    if count is not None and (not isinstance(count, int | np.integer) or isinstance(count, bool) or count < 1):
        raise InputError(f"train_sample must be a whole number ≥ 1, or None for all samples, got {count!r}: correct it")
    total = int(sizes.sum())
    chosen = np.arange(total)
    if count is not None and count < total:
        chosen = np.sort(np.random.default_rng(0).choice(total, count, replace=False))
    each = np.repeat(np.asarray(weights, np.float64) / sizes, sizes)[chosen]
    each = each / each.sum()
    owner = np.repeat(np.arange(len(sizes)), sizes)[chosen]
    counts = np.bincount(owner, minlength=len(sizes))
    rows = {
        "sample_start": jnp.asarray(np.cumsum(counts) - counts, jnp.int32),
        "sample_size": jnp.asarray(counts, jnp.int32),
        "share": jnp.asarray(np.bincount(owner, weights=each, minlength=len(sizes)), dtype),
    }
    return {"sample": jnp.asarray(chosen, jnp.int32), "sample_weights": jnp.asarray(each, dtype)}, rows


def own_sample(places: np.ndarray, weights: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """A client's part of the sample, its weights adding up to 1; all its samples alike where it has no part or no weight."""
    if not weights.sum() > 0:
        places = places if len(places) else np.arange(size)
        return places, np.full(len(places), 1 / len(places))
    return places, weights / weights.sum()
