"""A user's own problem: a loss function and data per client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..errors import InputError
from .arrays import normalised_weights, on_disk, real, real_number, where_it_lies
from .base import Constants, Optimum, Problem
from .client import ClientLoss


class WholeLoss(ClientLoss):
    """loss(x, data_i)."""

    def __init__(self, loss: Callable[..., Any], shared: Any, row: Any) -> None:
        self._loss, self.data = loss, row["data"]

    def loss(self, x: jax.Array) -> jax.Array:
        return self._loss(x, self.data)


class SumLoss(ClientLoss):
    """Σ_j loss(x, sample_j) or their mean, over the client's own samples."""

    def __init__(self, loss: Callable[..., Any], average: bool, shared: Any, row: Any) -> None:
        self._loss, self.average, self.data, self.size = loss, average, row["data"], row["size"]

    def loss(self, x: jax.Array) -> jax.Array:
        values = jax.vmap(self._loss, in_axes=(None, 0))(x, self.data)
        total = jnp.sum(jnp.where(jnp.arange(values.shape[0]) < self.size, values, 0))
        return total / self.size if self.average else total

    @property
    def capacity(self) -> int:
        return int(jax.tree.leaves(self.data)[0].shape[0])

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        batch = jax.tree.map(lambda leaf: leaf[indices], self.data)
        total = jax.grad(lambda z: weights @ jax.vmap(self._loss, in_axes=(None, 0))(z, batch))(x)
        return total / self.size if self.average else total


class Custom(Problem):
    name = "custom"

    @property
    def sampled(self) -> tuple[str, ...]:  # type: ignore[override]
        _, per_sample, _ = self.static
        return ("data",) if per_sample else ()

    @classmethod
    def view_of(cls, static: tuple[Any, ...], shared: Any, row: Any) -> ClientLoss:
        loss, per_sample, average = static
        return SumLoss(loss, average, shared, row) if per_sample else WholeLoss(loss, shared, row)

    @classmethod
    def adds_samples(cls, static: tuple[Any, ...]) -> bool:
        _, per_sample, average = static
        return bool(per_sample and not average)

    def _only(self, client: int) -> Problem:
        problem = super()._only(client)
        if "constants" in self.__dict__:  # they were given, and hold for every client
            given = self.constants
            problem.__dict__["constants"] = Constants(given.L, given.mu, np.full(1, given.L), np.full(1, given.mu))
        return problem

    def _optimum_is_cheap(self) -> bool:
        return False


def custom(
    loss: Callable[[jax.Array, Any], jax.Array],
    data: Any,
    dim: int,
    *,
    per_sample: bool = False,
    average: bool = True,
    weights: Any = None,
    optimum: tuple[Any, float] | None = None,
    constants: tuple[float, float] | None = None,
) -> Custom:
    """f_i(x) = loss(x, data_i), or with `per_sample` the mean (or sum) of loss(x, sample) over client i's samples.

    `data`: arrays (or a tree of them) with a leading client axis, or a list with one tree per client; with `per_sample`
    clients may have different numbers of samples. `loss` is written in jax.numpy. `optimum` = (x*, f*) and
    `constants` = (L, μ), where they are known, let gap, distance and theory be reported.

    >>> targets = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> p = custom(lambda x, t: jnp.sum((x - t) ** 2), targets, dim=2)
    >>> p.value([2.0, 4.0])
    5.0
    """
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool) or dim < 1:
        raise InputError(f"dim, the length of the model, must be a whole number ≥ 1, got {dim!r}: correct it")
    if isinstance(data, list):
        stacked, sizes = _stack_clients(list(data), per_sample)
    else:
        stacked = _arrays(data, "data")
        first = jax.tree.leaves(stacked)[0]
        _check_axes(stacked, 2 if per_sample else 1)
        sizes = np.full(len(first), first.shape[1] if per_sample else 1)
    leaves = jax.tree.leaves(stacked)
    if not sizes.size or sizes.min() < 1:
        raise InputError(
            f"data must hold at least one client, and every client a sample, got arrays of shape {[a.shape for a in leaves]}"
        )
    if len({len(leaf) for leaf in leaves}) != 1:
        raise InputError(f"all arrays need the same number of clients first, got {[leaf.shape for leaf in leaves]}")
    if per_sample and len({leaf.shape[1] for leaf in leaves}) != 1:
        raise InputError(f"all arrays need the same number of samples second, got {[leaf.shape for leaf in leaves]}")
    floating = [leaf for leaf in leaves if leaf.dtype.kind == "f"] or [np.zeros(1)]
    dtype = precision.working_dtype(*floating)
    with precision.scope(dtype):
        stack = {
            "data": jax.tree.map(lambda a: _placed(a, dtype), stacked),
            "size": jnp.asarray(np.asarray(sizes, np.int32)),
        }
        w = jnp.asarray(normalised_weights(weights, len(sizes), dtype))
        problem = Custom(stack, (), w, dim, dtype, (loss, per_sample, average))
        _check_loss(problem)
    if optimum is not None:
        problem.__dict__["optimum"] = _given_optimum(optimum, dim, dtype)
    if constants is not None:
        L, mu = _given_constants(constants)
        problem.__dict__["constants"] = Constants(L, mu, np.full(len(sizes), L), np.full(len(sizes), mu))
    return problem


def _placed(array: Any, dtype: Any) -> Any:
    """Numbers in the working precision; counts and labels as JAX keeps them."""
    if array.dtype.kind == "f":
        return where_it_lies("data", array, dtype)
    return where_it_lies("data", array, array.dtype) if on_disk(array) else jnp.asarray(array)


def _arrays(tree: Any, what: str) -> Any:
    """The tree with arrays of real numbers as leaves. NaN may be meant (the loss is the user's): it is not refused."""
    found = jax.tree.map(lambda leaf: np.asarray(real(what, leaf)), tree)
    if not jax.tree.leaves(found):
        raise InputError(f"{what} must hold at least one array, got {tree!r:.80}: give the numbers that the loss needs")
    return found


def _check_axes(tree: Any, least: int) -> None:
    shapes = [leaf.shape for leaf in jax.tree.leaves(tree)]
    if any(len(shape) < least for shape in shapes):
        axes = "clients and samples" if least == 2 else "clients"
        raise InputError(f"all arrays need leading axes of {axes}, got shapes {shapes}: reshape them")


def _given_optimum(optimum: Any, dim: int, dtype: Any) -> Optimum:
    if not isinstance(optimum, tuple | list) or len(optimum) != 2:
        raise InputError(f"optimum must be a pair (x*, f*), got {optimum!r:.80}")
    x = np.asarray(real("x* of optimum", optimum[0]), dtype)
    if x.shape != (dim,) or not np.isfinite(x).all():
        raise InputError(f"x* of optimum must be {dim} finite numbers, got shape {x.shape}: {x!r:.80}")
    return Optimum(x, real_number("f* of optimum", optimum[1], -np.inf), "given")


def _given_constants(constants: Any) -> tuple[float, float]:
    if not isinstance(constants, tuple | list) or len(constants) != 2:
        raise InputError(f"constants must be a pair (L, μ), got {constants!r:.80}")
    return real_number("L of constants", constants[0]), real_number("μ of constants", constants[1], -np.inf)


def _stack_clients(clients: list[Any], per_sample: bool) -> tuple[Any, np.ndarray]:
    if not clients:
        raise InputError("data must hold at least one client, got an empty list")
    trees = [_arrays(client, f"data of client {i}") for i, client in enumerate(clients)]
    if len({jax.tree.structure(tree) for tree in trees}) != 1:
        raise InputError(
            "all clients need data of the same form (the same names, the same nesting), but they differ: mend them"
        )
    if per_sample:
        for tree in trees:
            _check_axes(tree, 1)
    if not per_sample:
        shapes = {tuple(leaf.shape for leaf in jax.tree.leaves(tree)) for tree in trees}
        if len(shapes) != 1:
            raise InputError(f"clients' data have different shapes {sorted(shapes)[:3]}…: use per_sample=True")
        return jax.tree.map(lambda *rows: np.stack(rows), *trees), np.ones(len(trees), np.int64)
    sizes = np.array([len(jax.tree.leaves(tree)[0]) for tree in trees])
    for i, tree in enumerate(trees):
        lengths = [len(leaf) for leaf in jax.tree.leaves(tree)]
        if len(set(lengths)) != 1:
            raise InputError(
                f"all arrays of a client need the same number of samples, those of client {i} have {lengths}"
            )
    if sizes.min() < 1:
        raise InputError(f"every client needs at least one sample; client {int(sizes.argmin())} has none")

    def pad(*rows: np.ndarray) -> np.ndarray:
        # Repeating a client's last sample keeps padded losses finite; they are masked out of every sum.
        return np.stack([np.concatenate([r, np.repeat(r[-1:], sizes.max() - len(r), axis=0)]) for r in rows])

    return jax.tree.map(pad, *trees), sizes


def _check_loss(problem: Custom) -> None:
    row = jax.tree.map(lambda leaf: leaf[0], problem.stack)
    try:
        shape = jax.eval_shape(
            lambda x: problem.client(row).loss(x), jax.ShapeDtypeStruct((problem.dim,), problem.dtype)
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"the loss cannot be evaluated at x of shape ({problem.dim},): {error}") from error
    if shape.shape != ():
        raise InputError(
            f"a loss returns one number, this one returns an array of shape {shape.shape}: sum or average it"
        )
