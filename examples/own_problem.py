"""A problem of your own in three lines: robust regression with a smoothed absolute value, clients of unequal size."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import undrift as ud


def main(rounds: int = 300) -> dict[str, float]:
    """FedAvg and FedLin on it. Returns ‖∇f‖ where each ends: no minimiser is known here, but its gradient is zero."""
    rng = np.random.default_rng(0)
    samples = [(rng.standard_normal((n, 5)), rng.standard_normal(n) + i) for i, n in enumerate((20, 35, 50, 12))]

    def loss(x, sample):
        a, b = sample
        return jnp.sqrt(1 + (a @ x - b) ** 2) + 0.05 * jnp.sum(x**2)

    problem = ud.problems.custom(loss, samples, dim=5, per_sample=True)

    left = {}
    for method in (ud.fedavg(eta=0.05), ud.fedlin(eta=0.5)):
        result = ud.run(method, problem, rounds=rounds, steps=[10, 20, 5, 15])
        left[method.name] = float(result.history["grad_norm"][-1])
        print(f"{method.name:8} loss {result.history['loss'][-1]:.6f}, ‖∇f‖ = {left[method.name]:.1e}")
    return left


if __name__ == "__main__":
    main()
