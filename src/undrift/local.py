"""What happens at a client: τ local steps.

All parallel methods share one local iteration,

    y ← y − η (G_i(y) + shift + pull·(y − anchor)),      y_0 given,

FedAvg with no shift, FedProx with pull β to the model, SCAFFOLD and FedLin with their corrections as shift, FedSplit's
proximal solver with pull 1/s to its centre. `descend` performs it, for any Optax transform if one is given.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import optax

from .errors import InputError
from .oracles import Oracle


@dataclasses.dataclass(frozen=True)
class Local:
    """All that a client has at hand in an exchange: its data, its randomness, its speed."""

    loss: Any  # f_i, see problems.base.ClientLoss
    steps: Any  # τ_i
    key: jax.Array  # from (seed, round, exchange, client)
    round: Any
    client: Any  # its number
    oracle: Oracle
    every_round: bool = True  # nobody ever misses a round
    repeat: Any = 0  # how often this exchange was played before in this round
    steps_key: Any = (
        None  # of this client and round alone: what local steps draw, in however many exchanges they are taken
    )

    def gradient(self, x: jax.Array, step: Any = 0) -> jax.Array:
        """G_i(x): the oracle's answer at local step `step`."""
        return self.oracle.gradient(self.loss, x, self.key, step)


def descend(
    local: Local,
    start: jax.Array,
    eta: Any,
    *,
    steps: Any = None,
    shift: jax.Array | None = None,
    pull: Any = None,
    anchor: jax.Array | None = None,
    first: jax.Array | None = None,
    solver: optax.GradientTransformation | None = None,
) -> jax.Array:
    """The local iteration above, `steps` times (τ_i by default).

    `first`: G_i(start), if it is known already, so that it is not paid for twice. `anchor`: the start by default.
    """
    steps = local.steps if steps is None else steps
    anchor = start if anchor is None else anchor

    def direction(y: jax.Array, gradient: jax.Array) -> jax.Array:
        total = gradient if shift is None else gradient + shift
        return total if pull is None else total + pull * (y - anchor)

    spectrum = local.loss.spectrum() if local.oracle.exact and solver is None else None
    if spectrum is not None:
        known = local.gradient(start) if first is None else first
        return _quadratic_descend(start, direction(start, known), spectrum, eta, steps, 0 if pull is None else pull)

    state = () if solver is None else solver.init(start)

    def step(y: jax.Array, state: Any, gradient: jax.Array) -> tuple[jax.Array, Any]:
        if solver is None:
            return y - eta * direction(y, gradient), state
        updates, state = solver.update(direction(y, gradient), state, y)
        return y + updates, state

    done = 0
    y = start
    if first is not None:
        y, state = step(y, state, first)
        done = 1
    y, _ = jax.lax.fori_loop(done, steps, lambda k, c: step(c[0], c[1], local.gradient(c[0], k)), (y, state))
    return y


def _quadratic_descend(
    start: jax.Array, slope: jax.Array, spectrum: tuple[jax.Array, jax.Array], eta: Any, steps: Any, pull: Any
) -> jax.Array:
    """τ steps on a quadratic at the price of two matrix-vector products.

    With Hessian V diag(λ) Vᵀ and first direction p, the iteration y ← y − η(p + (H + pull·I)(y − y_0)) ends at
    y_0 − V [η Σ_{ℓ<τ} (1 − η(λ + pull))^ℓ] Vᵀ p.
    """
    eigenvalues, vectors = spectrum
    sums = geometric_sum(1 - eta * (eigenvalues + pull), steps)
    return start - vectors @ (eta * sums * (slope @ vectors))


def geometric_sum(ratio: jax.Array, count: Any) -> jax.Array:
    """Σ_{ℓ<count} ratio^ℓ by doubling: no division, so nothing is lost where the ratio is near one.

    >>> geometric_sum(jnp.array([0.5, 1.0, -2.0]), 3)
    Array([1.75, 3.  , 3.  ], dtype=float32)
    """

    def doubling(carry: Any) -> Any:
        left, total, power, block, block_power = carry
        take = left % 2 == 1
        total = jnp.where(take, total + power * block, total)
        power = jnp.where(take, power * block_power, power)
        return left // 2, total, power, block * (1 + block_power), block_power * block_power

    def eight_doublings(carry: Any) -> Any:  # one pass through memory for every count below 256
        for _ in range(8):
            carry = doubling(carry)
        return carry

    one = jnp.ones_like(ratio)
    carry = (jnp.asarray(count), jnp.zeros_like(ratio), one, one, ratio)
    return jax.lax.while_loop(lambda c: c[0] > 0, eight_doublings, carry)[1]


def as_solver(solver: Any, eta: Any) -> optax.GradientTransformation | None:
    """An Optax transform from a transform, or from a function of the step size such as `optax.adam`."""
    if solver is None:
        return None
    if isinstance(solver, optax.GradientTransformation):
        return solver
    made = solver(eta) if callable(solver) else None
    if not isinstance(made, optax.GradientTransformation):
        raise InputError(f"a solver is an Optax transform or a function eta -> transform, got {solver!r}")
    return made
