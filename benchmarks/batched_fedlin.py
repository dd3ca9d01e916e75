"""FedLin on least squares as an expert writes it in NumPy: all clients in one batched product, the fast ones dropped early.

Clients are sorted by τ_i, longest first, so that those still at work are a leading slice and nothing is computed for the
others. Step sizes are multiplied into the matrices once. The first local step needs no product: its gradient is the one that
was sent in the round before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Sorted:
    """The clients' data, longest τ_i first, and how many are still at work at each local step."""

    def __init__(self, A: np.ndarray, b: np.ndarray, steps: np.ndarray, eta: float) -> None:
        order = np.argsort(-steps, kind="stable")
        self.A, self.b, self.steps = A[order], b[order], steps[order]
        self.eta = (eta / self.steps)[:, None]
        self.at_work = [int(np.sum(self.steps > k)) for k in range(int(self.steps[0]))]

    def rounds(self, count: int, gradients: Callable[..., np.ndarray], local: Callable[..., np.ndarray]) -> np.ndarray:
        """The iterates x_0, …, x_count from x_0 = 0."""
        m, _, d = self.A.shape
        iterates = np.zeros((count + 1, d))
        G = gradients(iterates[0])
        for t in range(count):
            g = G.mean(axis=0)
            y = local(np.repeat(iterates[t][None], m, axis=0), g, G)
            iterates[t + 1] = y.mean(axis=0)
            G = gradients(iterates[t + 1])
        return iterates


def with_samples(data: Sorted) -> Callable[[int], np.ndarray]:
    """Gradients as Aᵀ(Ay − b)."""
    A, b, eta = data.A, data.b, data.eta
    transposed = np.ascontiguousarray(np.swapaxes(A, 1, 2))

    def gradients(x: np.ndarray) -> np.ndarray:
        return times(transposed, A @ x - b)

    def local(y: np.ndarray, g: np.ndarray, G: np.ndarray) -> np.ndarray:
        shift = eta * (g - G)
        y -= eta * g
        for k in data.at_work[1:]:
            y[:k] -= eta[:k] * times(transposed[:k], times(A[:k], y[:k]) - b[:k]) + shift[:k]
        return y

    return lambda count: data.rounds(count, gradients, local)


def with_gram(data: Sorted) -> Callable[[int], np.ndarray]:
    """Gradients as Hy − c with H = AᵀA and c = Aᵀb kept."""
    H, c = gram(data)
    scaled = data.eta[:, :, None] * H

    def local(y: np.ndarray, g: np.ndarray, G: np.ndarray) -> np.ndarray:
        shift = data.eta * (g - G - c)
        y -= data.eta * g
        for k in data.at_work[1:]:
            y[:k] -= times(scaled[:k], y[:k]) + shift[:k]
        return y

    return lambda count: data.rounds(count, lambda x: H @ x - c, local)


def with_closed_form(data: Sorted) -> Callable[[int], np.ndarray]:
    """All τ_i steps at once: y = x − V[η Σ_{ℓ<τ}(1 − ηλ)^ℓ]Vᵀg. Here τ_i never changes, so the matrix is made once."""
    H, c = gram(data)
    eigenvalues, V = np.linalg.eigh(H)
    powers = (1 - data.eta * eigenvalues)[:, :, None] ** np.arange(int(data.steps[0]))
    sums = np.sum(np.where(np.arange(int(data.steps[0])) < data.steps[:, None, None], powers, 0), axis=2)
    whole = (V * (data.eta * sums)[:, None, :]) @ np.swapaxes(V, 1, 2)
    return lambda count: data.rounds(count, lambda x: H @ x - c, lambda y, g, G: y - whole @ g)


def gram(data: Sorted) -> tuple[np.ndarray, np.ndarray]:
    transposed = np.swapaxes(data.A, 1, 2)
    return transposed @ data.A, times(transposed, data.b)


def times(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """One matrix-vector product per client."""
    return (matrices @ vectors[:, :, None])[:, :, 0]
