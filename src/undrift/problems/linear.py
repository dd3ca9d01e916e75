"""Losses of a linear prediction a_jᵀx: one number per sample stands for its gradient."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .client import ClientLoss


class LinearModel(ClientLoss):
    """f_i(x) = Σ_j ℓ_j(a_jᵀx) + (l2/2)‖x‖², with ℓ_j'(z) given by `slopes`.

    The gradient of sample j is ℓ_j'(a_jᵀx) a_j + (l2/n) x, so a table of component gradients is one slope per sample. A
    regulariser belongs to every component in equal parts; where there is one, the table also keeps the points at which the
    components were last taken.
    """

    A: jax.Array
    targets: jax.Array
    l2: Any = None

    def slopes(self, predictions: jax.Array, targets: jax.Array) -> jax.Array:
        raise NotImplementedError

    @property
    def capacity(self) -> int:
        return int(self.A.shape[0])

    def partial_gradient(self, x: jax.Array, indices: jax.Array, weights: jax.Array) -> jax.Array:
        rows = self.A[indices]
        total = (weights * self.slopes(rows @ x, self.targets[indices])) @ rows
        return total if self.l2 is None else total + self.l2 * (jnp.sum(weights) / self.size) * x

    def track(self, x: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        slopes = self.slopes(self.A @ x, self.targets)
        if self.l2 is None:
            return {"slopes": slopes}, slopes @ self.A
        points = jnp.broadcast_to(x[None], (-(-self.capacity // batch), x.size))
        return {"slopes": slopes, "points": points}, slopes @ self.A + self.l2 * x

    def refresh(self, table: Any, index: Any, y: jax.Array, batch: int) -> tuple[Any, jax.Array]:
        samples, present = self.component(index, batch)
        rows = self.A[samples]
        new = self.slopes(rows @ y, self.targets[samples])
        step = jnp.where(present, new - table["slopes"][samples], 0)
        change = step @ rows
        table = {**table, "slopes": table["slopes"].at[samples].add(step)}
        if self.l2 is not None:
            share = self.l2 * (jnp.sum(present) / self.size).astype(y.dtype)
            change = change + share * (y - table["points"][index])
            table["points"] = table["points"].at[index].set(y)
        return table, change
