"""What a server may know of a problem: who takes part, and what their data look like, but no sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..oracles import Oracle

if TYPE_CHECKING:
    from .base import Problem
    from .client import ClientLoss


@dataclasses.dataclass(frozen=True, eq=False)
class Population:
    """The clients of a problem seen from outside.

    `row` and `shared` are trees of `jax.ShapeDtypeStruct`: the data of the largest client. With `view` they are enough to
    trace a client's part of an exchange, and so to lay out every message.

    >>> import jax
    >>> import undrift as ud
    >>> p = ud.problems.least_squares(np.ones((3, 5, 2)), np.ones((3, 5)), weights=[1, 1, 2]).population
    >>> p.clients, p.weights.tolist(), p.relative_weights.tolist(), p.sizes.tolist(), p.dim
    (3, [0.25, 0.25, 0.5], [0.75, 0.75, 1.5], [5, 5, 5], 2)
    >>> x = jax.ShapeDtypeStruct((p.dim,), p.dtype)
    >>> with jax.enable_x64(True):
    ...     jax.eval_shape(lambda shared, row, x: p.view(shared, row).gradient(x), p.shared, p.row, x)
    ShapeDtypeStruct(shape=(2,), dtype=float64)
    """

    name: str
    clients: int  # m
    weights: np.ndarray  # w_i
    sizes: np.ndarray  # n_i
    dim: int  # d
    dtype: np.dtype[Any]
    row: Any
    shared: Any
    kind: type[Problem]
    static: tuple[Any, ...]  # what the kind of problem knows besides data: functions, the shape of a network

    def view(self, shared: Any, row: Any) -> ClientLoss:
        """f_i of a client with these data."""
        return self.kind.view_of(self.static, shared, row)

    def __str__(self) -> str:
        return f"<{self.name}: {self.clients} clients, d = {self.dim}, {self.dtype}>"

    def of(self, weights: np.ndarray, sizes: np.ndarray) -> Population:
        """The same kind of problem with clients of these weights and sizes: known without a sample of theirs."""
        most = int(sizes.max())
        row = {name: _longer(part, most) if name in self.kind.sampled else part for name, part in self.row.items()}
        shared, static = self.kind.shapes_for(self.shared, self.static, most)
        return dataclasses.replace(
            self, clients=len(weights), weights=weights, sizes=sizes, row=row, shared=shared, static=static
        )

    @property
    def default_oracle(self) -> Oracle:
        """How clients take gradients where the user does not say."""
        return self.kind.oracle_of(self.static)

    def initial(self, seed: int) -> np.ndarray:
        """x_0 where the user gives none; it is shared by all who ask, and therefore read-only."""
        if seed not in self._drawn:
            self._drawn.clear()  # the last one is enough for calls again and again
            x0 = self.kind.initial_of(self.static, self.dim, self.dtype, seed)
            x0.setflags(write=False)  # a copy for every caller would touch 8 GB of zeros for a model of 10⁹ numbers
            self._drawn[seed] = x0
        return self._drawn[seed]

    @cached_property
    def _drawn(self) -> dict[int, np.ndarray]:
        return {}

    def check_dialogue(self, oracle: Oracle) -> None:
        """Refuse a split dialogue that these clients cannot hold."""
        self.kind.check_dialogue(self.static, oracle)

    @property
    def adds_samples(self) -> bool:
        """Whether f_i is a sum over client i's samples."""
        return self.kind.adds_samples(self.static)

    @property
    def halves(self) -> Any:
        """The two halves of a cut model."""
        return self.kind.halves_of(self.static)

    @cached_property
    def outline(self) -> Hashable:
        """All that shapes of memories and messages follow from."""
        leaves, structure = jax.tree.flatten((self.row, self.shared))
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        return self.kind, self.static, self.dim, self.dtype, structure, shapes

    @cached_property
    def equal_weights(self) -> bool:
        """Whether all clients count alike."""
        return bool(np.all(self.weights == self.weights[0]))

    @cached_property
    def relative_weights(self) -> np.ndarray:
        """m·w_i: by how much more than in a plain mean client i counts. Exactly 1 for all where weights are equal."""
        return np.ones_like(self.weights) if self.equal_weights else self.clients * self.weights


def _longer(part: jax.ShapeDtypeStruct, samples: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((samples, *part.shape[1:]), part.dtype)
