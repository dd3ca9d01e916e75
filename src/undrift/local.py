"""What happens at a client: τ local steps.

All parallel methods share one local iteration,

    y ← y − η (G_i(y) + shift + pull·(y − anchor)),      y_0 given,

FedAvg with no shift, FedProx with pull β to the model, SCAFFOLD and FedLin with their corrections as shift, FedSplit's
proximal solver with pull 1/s to its centre. `descend` performs it, `descend_with` with any Optax transform.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import jax.numpy as jnp

from .errors import InputError
from .oracles import Oracle

if TYPE_CHECKING:
    import optax

    from .problems.client import ClientLoss

AHEAD_BYTES = 2**23  # of mini-batches of one client that are looked up at once
Carry = TypeVar("Carry")


@dataclasses.dataclass(frozen=True)
class Local:
    """All that a client has at hand in an exchange: its data, its randomness, its speed."""

    loss: ClientLoss  # f_i
    steps: Any  # τ_i
    key: jax.Array  # from (seed, round, exchange, client)
    round: Any
    client: Any  # its number
    oracle: Oracle
    steps_key: Any = (
        None  # of this client and round alone: what local steps draw, in however many exchanges they are taken
    )
    # Where clients play in turn there is no mean to weigh them: their steps are scaled by m·w_i. None: not in turn
    stride: Any = None

    def gradient(self, x: jax.Array, step: Any = 0) -> jax.Array:
        """G_i(x): the oracle's answer at local step `step`."""
        return self.oracle.gradient(self.loss, x, self.key, step)

    def strided(self, step: Any) -> Any:
        """A step (or a step size) as long as this client's are."""
        return step if self.stride is None else step * self.stride


def itself(x: Any) -> Any:
    """x."""
    return x


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
) -> jax.Array:
    """The local iteration above, `steps` times (τ_i by default).

    `first`: G_i(start), if it is known already, so that it is not paid for twice. `anchor`: the start by default.
    """
    steps = local.steps if steps is None else steps
    eta, anchor = local.strided(eta), start if anchor is None else anchor
    direction = _direction(anchor, shift, pull)
    spectrum = local.loss.spectrum() if local.oracle.exact else None
    if spectrum is not None:
        known = local.gradient(start) if first is None else first
        return _quadratic_descend(start, direction(start, known), spectrum, eta, steps, 0 if pull is None else pull)

    # A vector that is cut into parameters and put together again in every step keeps a compiler from long plain loops.
    apart, together = local.loss.pieces if local.oracle.ahead > 1 else (itself, itself)
    towards = _direction(apart(anchor), None if shift is None else apart(shift), pull)

    def step(y: Any, gradient: Any) -> Any:
        return jax.tree.map(lambda part, slope: part - eta * slope, y, towards(y, gradient))

    y, done = (apart(start), 0) if first is None else (step(apart(start), apart(first)), 1)
    return together(_take_steps(local, done, steps, lambda gradient, y: step(y, gradient(y)), y))


def descend_from_reference(local: Local, start: jax.Array, eta: Any, shift: jax.Array) -> jax.Array:
    """τ_i steps y ← y − η(G_i(y) − G_i(start) + shift), both gradients of a step from the same draw; the first is −η·shift."""
    eta = local.strided(eta)

    def step(gradient: Callable[[jax.Array], jax.Array], y: jax.Array) -> jax.Array:
        return y - eta * (gradient(y) - gradient(start) + shift)

    return _take_steps(local, 1, local.steps, step, start - eta * shift)


def descend_with(
    solver: optax.GradientTransformation, state: Any, local: Local, start: jax.Array, pull: Any = None
) -> tuple[jax.Array, Any]:
    """τ_i steps of an Optax transform from this state of it, and the state they leave."""
    direction = _direction(start, None, pull)

    def step(gradient: Callable[[jax.Array], jax.Array], carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        y, state = carry
        updates, state = solver.update(direction(y, gradient(y)), state, y)
        return y + local.strided(updates), state

    return _take_steps(local, 0, local.steps, step, (start, state))


def _take_steps(local: Local, first: Any, steps: Any, step: Callable[..., Carry], carry: Carry) -> Carry:
    """carry ← step(G_i, carry) for the local steps first, …, steps − 1, each with the oracle's gradient of that step.

    What the oracle draws for a step is drawn before, for a block of steps at once: inside the loop, drawing a mini-batch
    took longer than its gradient.
    """
    ahead = _steps_ahead(local)
    if ahead == 1:
        return jax.lax.fori_loop(first, steps, lambda k, c: step(lambda y: local.gradient(y, k), c), carry)

    def block(state: tuple[Any, Carry]) -> tuple[Any, Carry]:
        begin, carry = state
        end = begin + jnp.minimum(steps - begin, ahead)
        drawn = local.oracle.draw(local.loss, local.key, begin + jnp.arange(ahead, dtype=begin.dtype))

        def one(k: jax.Array, carry: Carry) -> Carry:
            own = jax.tree.map(lambda rows: rows[k - begin], drawn)

            def turn(k: jax.Array, carry: Carry) -> Carry:
                return step(lambda y: local.oracle.with_draw(local.loss, y, local.key, k, own), carry)

            # A loop of one turn: what goes into it lies in memory, where otherwise every operation would find its samples anew.
            return jax.lax.fori_loop(k, jnp.minimum(k + 1, end), turn, carry)

        return end, jax.lax.fori_loop(begin, end, one, carry)

    begin = jnp.asarray(first, jnp.asarray(steps).dtype)
    return jax.lax.while_loop(lambda state: state[0] < steps, block, (begin, carry))[1]


def _steps_ahead(local: Local) -> int:
    """For how many steps is drawn at once: as many as the oracle likes, but fewer of large mini-batches."""
    ahead = local.oracle.ahead
    drawn = jax.eval_shape(lambda: local.oracle.draw(local.loss, local.key, jnp.arange(ahead, dtype=jnp.int32)))
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(drawn))
    return max(1, min(ahead, ahead * AHEAD_BYTES // max(size, 1)))


def _direction(anchor: Any, shift: Any, pull: Any) -> Any:
    def direction(y: Any, gradient: Any) -> Any:
        total = gradient if shift is None else jax.tree.map(jnp.add, gradient, shift)
        return total if pull is None else jax.tree.map(lambda t, a, b: t + pull * (a - b), total, y, anchor)

    return direction


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
        take = left & 1 == 1  # with a remainder and a quotient of signed numbers XLA compiles four times as much
        total = jnp.where(take, total + power * block, total)
        power = jnp.where(take, power * block_power, power)
        return left >> 1, total, power, block * (1 + block_power), block_power * block_power

    def eight_doublings(carry: Any) -> Any:  # one pass through memory for every count below 256
        for _ in range(8):
            carry = doubling(carry)
        return carry

    one = jnp.ones_like(ratio)
    carry = (jnp.asarray(count), jnp.zeros_like(ratio), one, one, ratio)
    return jax.lax.while_loop(lambda c: c[0] > 0, eight_doublings, carry)[1]


@dataclasses.dataclass(frozen=True)
class Solver:
    """How clients take their local steps: plain ones of size η, or those of an Optax transform.

    The transform starts afresh in every round, or (`goes_on`) where the client's last round left it: its moments, and the count
    that its own schedule follows.
    """

    eta: Any
    transform: optax.GradientTransformation | None
    goes_on: bool = False

    @classmethod
    def of(cls, solver: Any, eta: Any, goes_on: bool = False) -> Solver:
        if goes_on and solver is None:
            raise InputError("keep_solver=True needs a solver whose state is kept: solver=optax.adam, for example")
        return cls(eta, as_solver(solver, eta), goes_on)

    def memory(self, x: jax.Array, loss: ClientLoss | None = None) -> Any:
        """What a client keeps of it from round to round."""
        return self.transform.init(x) if self.transform is not None and self.goes_on else ()

    def descend(self, memory: Any, local: Local, x: jax.Array, pull: Any = None) -> tuple[jax.Array, Any]:
        """τ_i steps from x, with pull to it: where they end, and the client's memory."""
        if self.transform is None:
            return descend(local, x, self.eta, pull=pull), memory
        y, state = descend_with(self.transform, memory if self.goes_on else self.transform.init(x), local, x, pull)
        return y, state if self.goes_on else memory


def is_transform(thing: Any) -> bool:
    """Whether it is an Optax transform."""
    import optax  # a tenth of a second that those who use none need not wait

    return isinstance(thing, optax.GradientTransformation)


def as_solver(solver: Any, eta: Any) -> optax.GradientTransformation | None:
    """An Optax transform from a transform, or from a function of the step size such as `optax.adam`."""
    if solver is None:
        return None
    if is_transform(solver):
        return solver
    made = solver(eta) if callable(solver) else None
    if not is_transform(made):
        raise InputError(f"a solver is an Optax transform or a function eta -> transform, got {solver!r}")
    return made
