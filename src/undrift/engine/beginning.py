"""The start program of a method for more clients than fit into memory: a block of clients at a time.

All m clients play it, and what the server makes of their answers must be a function of sums over them (`Cohort.mean`,
`average`, `total`). Then one pass over the clients for each such sum is enough, and nothing of a client need be kept: its
memory after the start is a function of its own data, made again when the client is first needed. What a method does otherwise
is refused.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InputError
from ..problems.streamed import InPairs, Streamed
from ..protocol import Algorithm, Cohort, Exchange
from ..signatures import Tree
from ..sums import total, weighted
from .description import Run
from .interpret import Asked, Context, Members, ask
from .layout import lay_out


class Part(Cohort):
    """Some of all clients, whose server asks for sums over all of them. Those that are known it is told."""

    known: tuple[Tree, ...]
    whole: jax.Array  # Σ w_i over all clients
    asked: list[Tree]  # over these clients: the first sum that is not known, and those after it

    def mean(self, ups: Tree, around: Tree | None = None) -> Tree:
        return self.average(ups)  # before round 1 answers count w_i

    def average(self, ups: Tree) -> Tree:
        return self._over_all(self.weights / self.whole, ups)

    def total(self, ups: Tree) -> Tree:
        return self._over_all(self.weights, ups)

    def _over_all(self, share: jax.Array, ups: Tree) -> Tree:
        place = len(self.asked)
        here = jax.tree.map(lambda u: weighted(share, u), ups)
        self.asked.append(here)
        return self.known[place] if place < len(self.known) else here


def check_start(run: Run) -> None:
    """Refuse a method whose start cannot be played by blocks of clients."""
    algorithm = run.algorithm
    if not algorithm.start:
        return
    slots = jax.tree.leaves(jax.eval_shape(algorithm.server, jnp.asarray(run.x0))[1])
    if len(algorithm.start) != 1 or not isinstance(algorithm.start[0], Exchange) or slots:
        raise InputError(
            f"{run.method.name} begins with more than one exchange with all {run.population.clients} clients, or keeps slots "
            "for them: with clients' rows on disk only a start of one exchange, without slots, can be played; leave store out"
        )


def played_start(run: Run) -> tuple[Any, int]:
    """The server's memory before round 1, and a client whose answer was not finite, or −1; `run` with all its data."""
    algorithm, problem = run.algorithm_at(0), run.problem
    if not algorithm.start:
        return jax.jit(lambda x: algorithm.server(x)[0])(jnp.asarray(run.x0)), -1
    blocks, suspect = Streamed(problem, None, False), -1
    known: tuple[Tree, ...] = ()
    whole = total(jnp.asarray(problem.weights))
    while True:
        sums = InPairs()
        for ids, block in blocks.blocks():
            places = np.concatenate([ids, np.full(blocks.rows - len(ids), ids[-1])]).astype(np.int32)
            server, asked, odd = _block(_inputs(run, block), places, known, whole)
            suspect = suspect if suspect >= 0 else int(odd)
            if len(asked) == len(known):  # all sums are known, so one block says it as well as any
                return server, suspect
            sums.add(asked[len(known)])
        known = (*known, sums.sum())


def _inputs(run: Run, block: Any) -> Run:
    """The run with some of its clients; what counts before round 1 are weights alone."""
    some = run.but(data=block)
    some.__dict__.update(reference=None, importance=np.asarray(block.weights))
    return some


@jax.jit
def _block(run: Run, ids: jax.Array, known: Any, whole: jax.Array) -> Any:
    """(server, sums over this block, a client whose answer is not finite)."""
    algorithm = run.algorithm_at(jnp.int32(0))
    found, step = _ask_all(run, algorithm, ids)
    asked: list[Tree] = []

    def receive(ups: Any, slots: Any, weights: Any, numbers: Any, steps: Any) -> Any:
        part = Part(*found.cohort._replace(weights=weights, ids=numbers, steps=steps))
        asked.clear()
        part.known, part.whole, part.asked = known, whole, asked
        return step.receive(found.server, slots, ups, part)[0]

    given = found.ups, found.slots, found.cohort.weights, found.cohort.ids, found.cohort.steps
    server = receive(*given)
    here = list(asked)
    if len(here) == len(known):
        _check_only_sums(run, receive, given)
    suspect = jnp.where(jnp.all(found.finite), -1, found.cohort.ids[jnp.argmin(found.finite)])
    return server, here, suspect


def _ask_all(run: Run, algorithm: Algorithm, ids: jax.Array) -> tuple[Asked, Exchange]:
    (step,) = algorithm.start
    assert isinstance(step, Exchange)
    context = Context(run, jnp.int32(0), opening=True)
    memory = lay_out(algorithm, jnp.asarray(run.x0), run.problem)
    rows = jnp.arange(ids.shape[0], dtype=jnp.int32)
    members = Members(ids, jnp.ones(ids.shape, jnp.int32), None, rows)
    return ask(step, memory, members, context), step


def _check_only_sums(run: Run, receive: Any, given: Any) -> None:
    """With all sums known the server must not need the answers themselves."""
    if depends(jax.make_jaxpr(receive)(*given).jaxpr):
        raise InputError(
            f"{run.recipe.name} needs the answers of all clients at once before round 1; with clients' rows on disk a start "
            "may use sums over them alone (cohort.mean, average, total): leave store out"
        )


def depends(traced: Any, first: int = 0) -> bool:
    """Whether what a traced function returns can depend on its inputs from this one on."""
    touched = set(traced.invars[first:])
    for equation in traced.eqns:
        if any(value in touched for value in equation.invars if not hasattr(value, "val")):
            touched.update(equation.outvars)
    return any(value in touched for value in traced.outvars if not hasattr(value, "val"))
