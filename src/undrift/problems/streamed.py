"""What is recorded of a model when the clients' data do not fit into memory: a block of clients at a time.

The same columns as `Problem.evaluate`, to rounding. Losses and norms are one number per client, and those are kept; gradients
are not. ‖∇f_i(x) − ∇f(x)‖ needs the mean first, so data with gradients are read twice. Partial sums are added in pairs, as in
`sums`, so that their number costs no digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import precision
from ..sums import weighted
from .evaluation import Evaluation, Reference, Slopes, conclude

if TYPE_CHECKING:
    from .base import Problem

BLOCK_BYTES = 2**26  # of data and gradients that are looked at at once


class InPairs:
    """A sum whose parts come one after the other and are added as a tree: each passes through few additions.

    >>> total = InPairs()
    >>> for _ in range(5):
    ...     total.add(np.ones(2))
    >>> total.sum()
    array([5., 5.])
    """

    def __init__(self) -> None:
        self.parts: list[tuple[int, Any]] = []  # (how many parts are in it, their sum), most first

    def add(self, part: Any) -> None:
        """One part more."""
        count = 1
        while self.parts and self.parts[-1][0] == count:
            part, count = jax.tree.map(lambda a, b: a + b, self.parts.pop()[1], part), 2 * count
        self.parts.append((count, part))

    def sum(self) -> Any:
        """Of all parts so far; there must be one."""
        _, total = self.parts[-1]
        for _, part in reversed(self.parts[:-1]):
            total = jax.tree.map(lambda a, b: a + b, part, total)
        return total


class Streamed:
    """`problem.evaluate` by blocks of clients; called with a model."""

    def __init__(self, problem: Problem, reference: Reference | None, per_client: bool) -> None:
        self.problem, self.reference, self.per_client = problem, reference, per_client
        each = problem.client_bytes + 2 * problem.dim * problem.dtype.itemsize
        self.rows = int(np.clip(BLOCK_BYTES // each, 1, problem.clients))

    def __call__(self, x: Any) -> Evaluation:
        with precision.scope(self.problem.dtype):
            return self._evaluate(jnp.asarray(x, self.problem.dtype))

    def _evaluate(self, x: jax.Array) -> Evaluation:
        found: list[dict[str, np.ndarray]] = []
        mean = InPairs()
        for ids, block in self.blocks():
            answers, part = _answers(block, self.reference, x, self.per_client)
            found.append({name: np.asarray(values)[: len(ids)] for name, values in answers.items()})
            if part is not None:
                mean.add(part)
        answers = {name: np.concatenate([block[name] for block in found]) for name in found[0]}
        slopes = self._slopes(x, mean.sum()) if mean.parts else None
        weights = answers.get("weight", np.asarray(self.problem.weights))
        return _concluded(x, answers, slopes, weights, self.reference, self.per_client)

    def _slopes(self, x: jax.Array, mean: jax.Array) -> Slopes:
        found = []
        for ids, block in self.blocks():
            of_block = _slopes(block, x, mean)
            found.append([np.asarray(values)[: len(ids)] for values in of_block[1:]])
        return Slopes(mean, *(jnp.asarray(np.concatenate(parts)) for parts in zip(*found, strict=True)))

    def blocks(self) -> Iterator[tuple[np.ndarray, Problem]]:
        """All clients, some at a time: their numbers, and the problem among them, of always as many rows."""
        everyone = np.arange(self.problem.clients)
        for first in range(0, len(everyone), self.rows):
            ids = everyone[first : first + self.rows]
            yield ids, self.problem.among(ids, self.rows)


@jax.jit
def _slopes(block: Problem, x: jax.Array, mean: jax.Array) -> Slopes:
    return Slopes.around(mean, block.each(lambda f: f.gradient(x)))


def _measured(
    block: Problem, reference: Reference | None, x: jax.Array, per_client: bool
) -> tuple[dict[str, jax.Array], Any]:
    optimum = None if reference is None else reference.x
    answers = dict(block.each(lambda f: f.measure(x, optimum, per_client)))
    gradients = answers.pop("gradient", None)
    return answers, None if gradients is None else weighted(block.weights, gradients)


_answers = jax.jit(_measured, static_argnums=3)
_concluded = jax.jit(conclude, static_argnums=5)
