"""Control variates: what SCAFFOLD and the corrected methods in turn share.

Client i keeps c_i, its mean gradient when it last took local steps, and somebody keeps c = Σ w_i c_i. Local steps

    y ← y − η(G_i(y) − c_i + c)

stand still at x* once c_i = ∇f_i(x*) for all i, because then c = ∇f(x*) = 0: nothing drifts there, whoever takes part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, Solver, descend, descend_with

if TYPE_CHECKING:
    import optax


def mean_gradient(c_i: jax.Array, c: jax.Array, way: jax.Array, length: Any) -> jax.Array:
    """c_i − c + way/length; steps of size 0 (a schedule that warms up) say nothing about gradients, and c_i stays."""
    return jnp.where(length == 0, c_i, c_i - c + way / jnp.where(length == 0, 1, length))


class Steering(NamedTuple):
    """The state of a solver whose gradients are corrected."""

    inner: Any
    own: jax.Array  # c_i, with which this turn is corrected
    c: jax.Array
    mean: jax.Array  # of the turn's gradients so far: c_i⁺ when it is over; before its first step c_i
    taken: jax.Array  # steps


def steered(solver: optax.GradientTransformation, still: Any = False) -> optax.GradientTransformation:
    """A solver that is given G_i(y) − c_i + c, and remembers the mean of G_i. `still`: its steps are 0, and c_i stays."""
    import optax

    def init(x: Any) -> Steering:
        zero = jnp.zeros_like(x)
        return Steering(solver.init(x), zero, zero, zero, jnp.asarray(0, jnp.int32))

    def update(gradient: Any, state: Any, x: Any = None) -> tuple[Any, Steering]:
        updates, inner = solver.update(gradient - state.own + state.c, state.inner, x)
        mean = (state.taken * state.mean + gradient) / (state.taken + 1)
        kept = jnp.where(jnp.asarray(still), state.own, mean)
        return updates, state._replace(inner=inner, mean=kept, taken=state.taken + 1)

    return optax.GradientTransformation(init, update)


def begun(state: Steering, inner: Any, c: jax.Array) -> Steering:
    """The state at the beginning of a turn: c_i is the mean gradient of the last one."""
    return Steering(inner, state.mean, c, state.mean, jnp.zeros_like(state.taken))


def corrected_steps(
    solver: Solver, kept: Any, local: Local, x: jax.Array, c_i: jax.Array, c: jax.Array
) -> tuple[jax.Array, jax.Array, Any]:
    """τ_i steps along G_i(y) − c_i + c from x: where they end, c_i⁺ = the mean of their G_i, what the solver keeps."""
    if solver.transform is None:
        y = descend(local, x, solver.eta, shift=c - c_i)
        return y, mean_gradient(c_i, c, x - y, local.steps * local.strided(solver.eta)), kept
    inner = kept if solver.goes_on else solver.transform.init(x)
    start = Steering(inner, c_i, c, c_i, jnp.asarray(0, jnp.int32))
    y, end = descend_with(steered(solver.transform), start, local, x)
    return y, end.mean, end.inner if solver.goes_on else kept
