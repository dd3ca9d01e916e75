"""What makes a run this run and no other: its traced program with all constants, its inputs, its plan.

None of it goes by names or words: two functions called `<lambda>`, two bare `Algorithm`s, two Optax transforms that differ in a
captured number are different programs, and the jaxpr shows it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr

from ..plan import ChangingSteps, Draw, Plan, RandomSteps
from ..privacy import private_of
from ..problems.arrays import blocks
from .description import Run

Traced = Any  # a closed jaxpr, which is a class of its own or (JAX 0.12) a jaxpr with constants
ADDRESS = re.compile(r"( at)? 0x[0-9a-f]+")  # of a Python object: another process has another
SOME = 32  # rounds that show how the library draws a plan
AT_ONCE = 256  # rounds of a plan that are drawn at once
MOST_BLOCKS = 4096  # of clients' rows, which are hashed one by one


def identity(
    run: Run, program: str, *inputs: Any, stack: Any = None, digests: Callable[[Any, int], bytes] | None = None
) -> str:
    """A hash of everything that decides a run's numbers, the number of rounds excepted.

    `program`: the identity of its program. `inputs`: more than the run's own. `stack`, `digests`: the rows of clients and who
    hashes them, where they are not all here.
    """
    digest = hashlib.sha256(program.encode())
    (data, *known), _ = run.tree_flatten()
    if data is not None:
        (rows, *shared), _ = data.tree_flatten()
        for leaf in jax.tree.leaves(rows if stack is None else stack):
            digest.update(repr(((data.clients, *leaf.shape[1:]), str(leaf.dtype))).encode())
            digest.update((digests or row_digests)(leaf, data.clients))
        known += shared
    for leaf in jax.tree.leaves((known, inputs)):
        array = jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
        _add(digest, np.asarray(array))
    digest.update(repr((run.seed, run.failures, run.on_divergence, run.resources)).encode())
    if (private := private_of(run.recipe)) is not None:  # its δ is in no program
        digest.update(repr(private).encode())
    return digest.hexdigest()


def row_digests(rows: Any, clients: int) -> bytes:
    """Hashes of clients' rows, a block of them at a time, one after the other; `clients`: m, also of some of them."""
    block = row_blocks(clients)
    rows = (
        np.asarray(rows) if isinstance(rows, jax.Array) else rows
    )  # to cut JAX's array would be a program for every cut
    starts = range(0, len(rows), block)
    parts = (np.ascontiguousarray(np.asarray(rows[first : first + block])) for first in starts)
    return b"".join(hashlib.sha256(part.tobytes()).digest() for part in parts)


def row_blocks(clients: int) -> int:
    """How many clients' rows are hashed together: whoever holds some of the rows holds whole blocks, see `mesh`."""
    return -(-clients // MOST_BLOCKS)


def program_identity(program: Traced, text: str | None = None) -> str:
    """A hash of a traced program: its text (given, where it is known already), and the values of all constants in it."""
    digest = hashlib.sha256(ADDRESS.sub("", str(program.jaxpr) if text is None else text).encode())
    for constant in _constants(program):
        _add(digest, np.asarray(constant))
    return digest.hexdigest()


def is_fully_shown(text: str) -> bool:
    """Whether a program's text shows all that it does: of a host callback, a Python function, there is only a name."""
    return "0x" not in text


def plan_identity(plan: Plan, rounds: int) -> str:
    """A hash of who takes part, with how many steps, and who answers in these rounds."""
    return str(plan_digest_after(plan, rounds).hexdigest())


def plan_digest_after(plan: Plan, rounds: int) -> Any:
    """The same while it can still be added to."""
    digest = plan_digest(plan)
    for first in range(1, 1 if plan.settled else rounds + 1, AT_ONCE):
        add_rounds(digest, plan, plan.draw(first, min(AT_ONCE, rounds + 1 - first)))
    return digest


def plan_digest(plan: Plan) -> Any:
    """The hash of a plan before round 1: all of it, where the library draws it, for that follows from a few numbers."""
    digest = hashlib.sha256()
    drawn = dataclasses.replace(plan, absences=None, availability=None)
    if drawn.settled:
        digest.update(repr((plan.clients, str(plan.participation), plan.failures, plan.seed)).encode())
        by_range = isinstance(plan.steps, RandomSteps) and not plan.steps.common
        if isinstance(plan.steps, ChangingSteps) and not by_range:
            digest.update(repr(plan.steps).encode())  # two coins that differ little fall alike for a long time
        for part in drawn.draw(1, SOME):
            _add(digest, np.asarray([]) if part is None else np.asarray(part))
    if plan.availability is not None:
        digest.update(plan.availability.digest.encode())
    if plan.absences is not None:
        digest.update(b"trace")  # never the run without one, not even before round 1
    return digest


def add_rounds(digest: Any, plan: Plan, draw: Draw) -> Any:
    """The hash with these rounds too, where a user's function or a trace says them: only what it says tells what it is."""
    if not plan.settled:
        parts = [np.asarray(part, np.int64) for part in draw if part is not None]
        digest.update(np.concatenate(parts, axis=1).tobytes())  # row by row, however many are drawn at once
    return digest


def _add(digest: Any, array: np.ndarray) -> None:
    digest.update(repr((array.shape, str(array.dtype))).encode())
    for block in blocks(array):  # an array may be larger than the memory
        digest.update(np.ascontiguousarray(block).reshape(-1).view(np.uint8))


def _constants(program: Traced) -> Iterator[Any]:
    yield from getattr(program, "consts", ())
    inside: Any = getattr(program, "jaxpr", program)
    for equation in inside.eqns:
        for value in jax.tree.leaves(list(equation.params.values()), is_leaf=_is_program):
            if _is_program(value):
                yield from _constants(value)


def _is_program(value: Any) -> bool:
    return isinstance(value, Jaxpr) or isinstance(getattr(value, "jaxpr", None), Jaxpr)
