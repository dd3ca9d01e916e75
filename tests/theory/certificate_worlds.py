"""Rounds of `theory.certificates.rounds` on numbers: what the programmes speak of, to be compared with the simulation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from undrift.theory.certificates.rounds import METHODS, Played
from undrift.theory.certificates.sketch import Client


@dataclasses.dataclass
class Gradient:
    """A loss that is known by its gradient, and by its proximal operator where it has one."""

    gradient: Callable[[np.ndarray], np.ndarray]
    prox: Callable[[np.ndarray, float], np.ndarray] | None = None


class Numbers:
    """A world of arrays: x* is the origin, `given` are the vectors that a round asks for, in its order."""

    def __init__(
        self, losses: Sequence[Sequence[Any]], steps: Sequence[int], weights: Sequence[float], given: Sequence[Any]
    ) -> None:
        self.clients = [Client(list(own), tau, float) for own, tau in zip(losses, steps, strict=True)]
        self.weights = weights
        self.given = list(given)
        self.origin = 0.0

    def everyone(self) -> Any:
        return self.given.pop(0)

    def each(self) -> list[Any]:
        return list(self.given.pop(0))

    each_centred = each

    def mean(self, vectors: Sequence[Any]) -> Any:
        return sum(w * v for w, v in zip(self.weights, vectors, strict=True))

    def contracted(self, vector: Any, delta: float, shared: bool = True) -> Any:
        """TOP-k with k = d/δ."""
        keep = np.argsort(-np.abs(vector))[: round(len(vector) / float(delta))]
        out = np.zeros_like(vector)
        out[keep] = vector[keep]
        return out


def play(
    name: str,
    losses: Sequence[Sequence[Any]],
    steps: Sequence[int],
    weights: Sequence[float],
    eta: float,
    given: Any,
    **settings: Any,
) -> Played:
    """One round of a method on numbers."""
    method = METHODS[name]
    return method.play(Numbers(losses, steps, weights, given), eta, {**method.settings, **settings})


def quadratic(A: np.ndarray) -> Gradient:
    """½xᵀAx."""
    return Gradient(lambda x: A @ x, lambda u, s: np.linalg.solve(np.eye(len(A)) + s * A, u))


def bent(direction: np.ndarray, bend: float, L: float, mu: float) -> Gradient:
    """Curvature L along a direction up to |⟨direction, x⟩| = bend, and μ beyond it and across: as hostile as can be."""

    def gradient(x: np.ndarray) -> np.ndarray:
        along = float(direction @ x)
        return mu * x + (L - mu) * float(np.clip(along, -bend, bend)) * direction

    return Gradient(gradient)


def hostile(rng: np.random.Generator, clients: int, L: float, mu: float) -> tuple[list[list[Gradient]], np.ndarray]:
    """Losses with their curvatures at the ends of [μ, L] in directions of their own, quadratic or bent; and a start."""
    dim = int(rng.integers(1, 5))
    losses = []
    for _ in range(clients):
        if rng.random() < 0.5:
            basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
            curvatures = rng.choice([L, mu, mu + (L - mu) * rng.random()], size=dim)
            losses.append([quadratic(basis @ np.diag(curvatures) @ basis.T)])
        else:
            direction = rng.normal(size=dim)
            losses.append([bent(direction / np.linalg.norm(direction), float(rng.exponential()), L, mu)])
    return losses, rng.normal(size=dim) * rng.choice([0.1, 1.0, 10.0])
