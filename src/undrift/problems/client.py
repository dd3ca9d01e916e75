"""One client's loss f_i, as methods and oracles see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import InputError


class ClientLoss:
    """f_i as client i sees it. Only `loss` is compulsory."""

    size: Any = 1  # number of components f_ij

    def loss(self, x: jax.Array) -> jax.Array:
        raise NotImplementedError

    def gradient(self, x: jax.Array) -> jax.Array:
        return jax.grad(self.loss)(x)

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        """Σ_j weights_j ∇f̂_j(x) over these samples, where f_i = Σ_j f̂_j over all."""
        raise InputError(
            "this problem's clients have no components, so mini-batches are not defined: use oracles.full()"
        )

    def batch_gradient(self, x: jax.Array, indices: jax.Array) -> jax.Array:
        """An unbiased estimate of ∇f_i from these samples: (n_i/b) Σ_j ∇f̂_j(x)."""
        scale = jnp.asarray(self.size, x.dtype) / indices.shape[0]
        return self.partial_gradient(x, indices, jnp.full(indices.shape, scale, x.dtype))

    def fetched(self, indices: jax.Array) -> Any:
        """What `fetched_gradient` takes in place of these samples; for the batches of several steps, a row each."""
        return indices

    def fetched_gradient(self, x: jax.Array, fetched: Any, present: jax.Array | None = None) -> jax.Array:
        """`batch_gradient` on samples that were fetched before; on those of them that are `present`, where that is said."""
        if present is None:
            return self.batch_gradient(x, fetched)
        share = present.astype(x.dtype) / jnp.sum(present).astype(x.dtype)
        return self.partial_gradient(x, fetched, jnp.asarray(self.size, x.dtype) * share)

    @property
    def pieces(self) -> tuple[Callable[[jax.Array], Any], Callable[[Any], jax.Array]]:
        """From x to parts of it, of which `fetched_gradient` takes gradients too, and back."""
        return (lambda x: x), (lambda x: x)

    def varied(self, key: jax.Array, step: Any) -> ClientLoss:
        """f_i with its samples as they are seen at this local step (data augmentation); itself where they do not vary."""
        return self

    # ----- incremental aggregation (FedTrack, IAG): components are runs of `batch` consecutive samples
    @property
    def capacity(self) -> int:
        """The largest number of samples any client has; sizes are padded to it."""
        raise InputError("this problem's clients have no components, so incremental aggregation is not defined")

    def component_count(self, batch: int) -> Any:
        return -(-self.size // batch)

    def component_gradient(self, x: jax.Array, index: Any, batch: int) -> jax.Array:
        """What one component contributes to ∇f_i(x)."""
        samples, present = self.component(index, batch)
        return self.partial_gradient(x, samples, present.astype(x.dtype))

    def component(self, index: Any, batch: int) -> tuple[jax.Array, jax.Array]:
        """The samples of a component, and which of them exist (the last component may be short)."""
        samples = index * batch + jnp.arange(batch)
        return jnp.minimum(samples, self.size - 1), samples < self.size

    def track(self, x: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        """A table of all component gradients at x, and their sum ∇f_i(x)."""
        rows = -(-self.capacity // batch)
        table = jax.vmap(lambda j: self.component_gradient(x, j, batch))(jnp.arange(rows))
        return table, jnp.sum(table, axis=0)

    def refresh(self, table: Any, index: Any, y: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        """The table with one component taken anew at y, and by how much the sum changes."""
        new = self.component_gradient(y, index, batch)
        return table.at[index].set(new), new - table[index]

    def spectrum(self) -> tuple[jax.Array, jax.Array] | None:
        """(λ, V) of a constant Hessian V diag(λ) Vᵀ, where it is worth using."""
        return None

    def prox(self, centre: jax.Array, s: Any) -> jax.Array | None:
        """argmin_y f_i(y) + ‖y − centre‖²/(2s) in closed form, where there is one."""
        return None

    # ----- evaluation
    def measure(self, x: jax.Array, optimum: jax.Array | None, per_client: bool = False) -> dict[str, jax.Array]:
        """What the client answers when it is asked about x; see `evaluation` for the names.

        optimum: x*, where it is known. per_client: what costs extra and tells clients apart is wanted too.
        """
        return {"loss": self.loss(x), "gradient": self.gradient(x)}
