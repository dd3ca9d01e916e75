"""What a client gets when it asks for a gradient: the full one, a mini-batch, or a noisy one.

Every oracle is unbiased: E[G_i(x)] = ∇f_i(x).
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InputError
from .gate import LARGEST, Count, NotNegative, check_value
from .randomness import device_shuffle_keys, swap_or_not

LastBatch = Literal["full", "short"]
DRAWN_AT_ONCE = (
    8  # local steps whose mini-batches are drawn together, in few large operations instead of many small ones
)


@dataclasses.dataclass(frozen=True)
class Oracle(abc.ABC):
    """A hashable rule for gradients. `exact` oracles return ∇f_i itself."""

    exact = False
    ahead = 1  # so many steps are drawn for at once

    @property
    def most_steps(self) -> int:
        """How many local steps of a round it can tell apart."""
        return LARGEST

    def gradient(self, loss: Any, x: jax.Array, key: jax.Array, step: Any) -> jax.Array:
        """G_i(x) at local step `step`; `key` belongs to this client, round and exchange."""
        return self.with_draw(loss, x, key, step, self.draw(loss, key, step))

    def draw(self, loss: Any, key: jax.Array, step: Any) -> Any:
        """What can be drawn for a step, or for an array of them, before the point is known; () where that is nothing."""
        return ()

    @abc.abstractmethod
    def with_draw(self, loss: Any, x: jax.Array, key: jax.Array, step: Any, drawn: Any) -> jax.Array:
        """G_i(x) at local step `step`, for which this was drawn."""

    @abc.abstractmethod
    def components(self, sizes: np.ndarray) -> np.ndarray:
        """Component gradients that one call costs, for clients with these numbers of components."""


@dataclasses.dataclass(frozen=True)
class Full(Oracle):
    exact = True

    def with_draw(self, loss: Any, x: jax.Array, key: jax.Array, step: Any, drawn: Any) -> jax.Array:
        return loss.gradient(x)

    def components(self, sizes: np.ndarray) -> np.ndarray:
        return sizes

    def __str__(self) -> str:
        return "full"


@dataclasses.dataclass(frozen=True)
class MiniBatch(Oracle):
    size: int
    replace: bool
    last: LastBatch = "full"  # batch of an epoch
    ahead = DRAWN_AT_ONCE

    def draw(self, loss: Any, key: jax.Array, step: Any) -> Any:
        fetched = loss.fetched(self.indices(loss.size, key, step))
        return (fetched, self.present(loss.size, step)) if self.last == "short" else fetched

    def with_draw(self, loss: Any, x: jax.Array, key: jax.Array, step: Any, drawn: Any) -> jax.Array:
        seen = loss.varied(key, step)
        return seen.fetched_gradient(x, *drawn) if self.last == "short" else seen.fetched_gradient(x, drawn)

    @property
    def most_steps(self) -> int:
        return LARGEST if self.replace else LARGEST // self.size  # a place in the walk through the data has 32 bits

    def indices(self, n: Any, key: jax.Array, step: Any) -> jax.Array:
        """The components of this step's batch; a row of them for each of several steps."""
        step = jnp.asarray(step)
        if self.replace:
            place = _for_each(lambda k: jax.random.uniform(k, (self.size,), jnp.float32), key, step)
            return jnp.minimum((place * n).astype(jnp.int32), n - 1)
        if self.last == "short":
            keys = _for_each(device_shuffle_keys, key, step // self._batches(n))
            first, second = jnp.moveaxis(keys, (-1, -2), (0, 1))[..., None]
            return swap_or_not(
                jnp.minimum(self._place(n, step), n - 1), n, first % jnp.asarray(n, jnp.uint32), second, jnp
            )
        # Position in an endless walk through the data. A batch meets at most two epochs, each with its own order; a client
        # smaller than the batch goes around in the second order until the batch is full.
        places = jnp.arange(self.size).reshape(*(1 for _ in step.shape), -1)
        position = step[..., None] * self.size + places
        epoch = step * self.size // n
        keys = _for_each(device_shuffle_keys, key, jnp.stack([epoch, epoch + 1]))
        this, following = jnp.moveaxis(keys, (-2, -1), (1, 2))[..., None]
        now, whole = (position // n == epoch[..., None])[None], jnp.asarray(n, jnp.uint32)
        pivots = jnp.where(now, this[:, 0] % whole, following[:, 0] % whole)
        return swap_or_not(position % n, n, pivots, jnp.where(now, this[:, 1], following[:, 1]), jnp)

    def present(self, n: Any, step: Any) -> jax.Array:
        """Which components of a batch that may be short exist; a row for each of several steps."""
        return self._place(n, jnp.asarray(step)) < n

    def _batches(self, n: Any) -> Any:
        """How many batches an epoch has whose last one may be short."""
        return -(-n // self.size)

    def _place(self, n: Any, step: jax.Array) -> jax.Array:
        """Where in the order of its epoch each component of this step's batch stands; past the end where there is none."""
        places = jnp.arange(self.size).reshape(*(1 for _ in step.shape), -1)
        return (step % self._batches(n))[..., None] * self.size + places

    def smallest(self, sizes: np.ndarray) -> np.ndarray:
        """How many components the smallest batch of an epoch has, for clients with so many."""
        if self.last == "full":
            return np.full_like(sizes, self.size)
        return np.where(sizes % self.size, sizes % self.size, self.size)

    def components(self, sizes: np.ndarray) -> np.ndarray:
        """Every batch is counted as a full one; of a client with less data than that, as all its data."""
        return np.full_like(sizes, self.size) if self.last == "full" else np.minimum(sizes, self.size)

    def __str__(self) -> str:
        last = ", last=short" if self.last == "short" else ""
        return f"minibatch({self.size}{', replace=True' if self.replace else ''}{last})"


@dataclasses.dataclass(frozen=True)
class Noisy(Oracle):
    variance: float

    def with_draw(self, loss: Any, x: jax.Array, key: jax.Array, step: Any, drawn: Any) -> jax.Array:
        noise = jax.random.normal(jax.random.fold_in(key, step), x.shape, x.dtype)
        return loss.gradient(x) + jnp.asarray(np.sqrt(self.variance / x.size), x.dtype) * noise

    def components(self, sizes: np.ndarray) -> np.ndarray:
        return sizes

    def __str__(self) -> str:
        return f"noisy({self.variance:g})"


def _for_each(draw: Callable[[jax.Array], jax.Array], key: jax.Array, numbers: jax.Array) -> jax.Array:
    """draw(key with this number folded in), for every number; its own axes come last."""
    drawn = jax.vmap(lambda number: draw(jax.random.fold_in(key, number)))(numbers.reshape(-1))
    return drawn.reshape(numbers.shape + drawn.shape[1:])


def full() -> Full:
    """∇f_i(x) itself."""
    return Full()


def minibatch(size: int, replace: bool = False, last: LastBatch = "full") -> MiniBatch:
    """(n_i/b) Σ_{j∈B} ∇f_ij(x) on a batch of b components (scaled as the client's loss is: a sum or a mean).

    Without replacement the client walks through a fresh random order of its data in every round and reshuffles whenever it
    has seen everything; a batch larger than the data goes around more than once. With replacement every component is drawn
    independently.

    last: of the batches of an epoch. "full": it is filled up from the next epoch's order, so that all are of one size. "short":
    it has what is left, n_i mod b components, and counts as much as the others, as loaders of deep-learning libraries do it
    unless they are told to drop it; a batch larger than the data is all of the data. G_i is unbiased at every step all the
    same, but its mean over an epoch, in which the components of a short batch count more, is not quite ∇f_i.
    """
    size = check_value("the size of a mini-batch", size, Count)
    replace = check_value("replace", replace, bool)
    if check_value("last", last, LastBatch) == "short" and replace:
        raise InputError("with replacement there are no epochs, so no last batch of one: leave out last='short'")
    return MiniBatch(size, replace, last)


def noisy(variance: float) -> Noisy:
    """∇f_i(x) + ξ with Gaussian ξ, E ξ = 0 and E‖ξ‖² = variance: the oracle of FedLin's Theorem 4."""
    return Noisy(check_value("the variance of the noise", variance, NotNegative))
