"""What local steps draw: the same in blocks as step by step, and outside the loop over the steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import undrift as ud
from everyday import only
from undrift import precision
from undrift.local import Local, descend
from undrift.oracles import DRAWN_AT_ONCE

ORACLES = [ud.oracles.minibatch(3), ud.oracles.minibatch(7), ud.oracles.minibatch(3, replace=True)]
STEPS = 2 * DRAWN_AT_ONCE + 3  # two whole blocks and a part


def client(oracle: ud.oracles.Oracle, steps: Any = STEPS) -> Local:
    rng = np.random.default_rng(0)
    problem = ud.problems.logistic(rng.normal(size=(1, 5, 4)), np.where(rng.normal(size=(1, 5)) > 0, 1, -1), l2=0.1)
    loss = problem.client(jax.tree.map(lambda leaf: leaf[0], problem.stack))
    return Local(loss, steps, jax.random.key(3), 1, 0, oracle)


@pytest.mark.parametrize("oracle", ORACLES, ids=str)
def test_the_draws_of_many_steps_are_those_of_each(oracle):
    key = jax.random.key(5)
    together = jax.jit(lambda steps: oracle.indices(5, key, steps))(jnp.arange(STEPS))
    alone = jax.jit(lambda step: oracle.indices(5, key, step))
    assert together.tolist() == [alone(step).tolist() for step in range(STEPS)]


@pytest.mark.parametrize("oracle", only(ORACLES, ORACLES[1:2]), ids=str)
@pytest.mark.parametrize("first_is_known", only([False, True], [True]))
def test_local_steps_in_blocks_are_the_steps_one_by_one(oracle, first_is_known):
    with precision.scope(np.float64):
        local, start = client(oracle), jnp.ones(4)
        y = start
        for step in range(STEPS):
            y = y - 0.1 * local.gradient(y, step)
        first = local.gradient(start) if first_is_known else None
        assert np.allclose(descend(local, start, 0.1, first=first), y, rtol=1e-13)


def test_nothing_is_drawn_inside_the_loop_over_local_steps():
    def local_steps(start: jax.Array, steps: jax.Array) -> jax.Array:
        return descend(client(ud.oracles.minibatch(3), steps), start, 0.1)

    with precision.scope(np.float64):
        program = jax.make_jaxpr(jax.vmap(local_steps))(jnp.ones((2, 4)), jnp.array([3, 9]))
    innermost = [set(names(body)) for body in loops(program.jaxpr) if "dot_general" in names(body)][-1]
    drawing = {"random_bits", "random_fold_in", "threefry2x32", "while", "scan"}
    assert drawing & set(names(program.jaxpr)) >= {"random_bits", "random_fold_in", "while"}
    assert not drawing & innermost


def inner(equation: Any) -> Iterator[Any]:
    for value in jax.tree.leaves(equation.params, is_leaf=lambda v: hasattr(v, "eqns") or hasattr(v, "jaxpr")):
        if hasattr(value, "eqns") or hasattr(value, "jaxpr"):
            yield getattr(value, "jaxpr", value)


def names(jaxpr: Any) -> list[str]:
    """All operations of a program, those inside others too."""
    return [name for e in jaxpr.eqns for name in (e.primitive.name, *(n for part in inner(e) for n in names(part)))]


def loops(jaxpr: Any) -> Iterator[Any]:
    """The bodies of all loops, outer ones first."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "while":
            yield equation.params["body_jaxpr"].jaxpr
        for part in inner(equation):
            yield from loops(part)
