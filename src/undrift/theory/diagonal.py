"""Round maps on x alone with real rates: any round in closed form."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .bound import first_round
from .quadratics import Quadratics

BLOCK = 256  # rounds that are looked at together
LOOKED_AT = 16384  # rounds that may be looked at one by one; beyond, the gap is taken to cross the target once


@dataclasses.dataclass(frozen=True)
class Diagonal:
    """x_t = x_∞ + W diag(r^t) U (x_0 − x_∞), and with it f(x_t) − f* = ½‖a + B (r^t ∘ c)‖²."""

    limit: np.ndarray  # x_∞
    rates: np.ndarray  # r
    inverse: np.ndarray  # U: x − x_∞ -> coefficients
    rest: np.ndarray  # a = H^½(x_∞ − x*), zero for methods that go to x*
    basis: np.ndarray  # B = H^½ W
    size: float  # ≥ ‖B‖

    @classmethod
    def towards_optimum(cls, q: Quadratics, Q: np.ndarray) -> Diagonal:
        """Of x⁺ = x − Q∇f(x): z = H^½(x − x*) goes to (I − H^½QH^½)z, where H is not singular."""
        eigenvalues, vectors = q.spectrum
        kept = eigenvalues > q.dim * np.finfo(float).eps * np.max(np.abs(eigenvalues), initial=0)
        root = vectors[:, kept] * np.sqrt(eigenvalues[kept])  # in the eigenbasis: z = rootᵀ(x − x*)
        inside = root.T @ Q @ root
        rates, basis = np.linalg.eigh(np.eye(root.shape[1]) - (inside + inside.T) / 2)
        return cls(q.x, rates, basis.T @ root.T, np.zeros(root.shape[1]), basis, 1.0)

    @classmethod
    def surrogate(cls, q: Quadratics, hessian: np.ndarray, linear: np.ndarray) -> Diagonal:
        """Of x⁺ = x − (K x − k) with a symmetric K; directions in which nothing moves stay out."""
        eigenvalues, vectors = np.linalg.eigh(hessian)
        kept = np.abs(eigenvalues) > q.dim * np.finfo(float).eps * np.max(np.abs(eigenvalues), initial=0)
        vectors, eigenvalues = vectors[:, kept], eigenvalues[kept]
        limit = vectors @ ((vectors.T @ linear) / eigenvalues)
        limit = limit + vectors @ ((vectors.T @ (linear - hessian @ limit)) / eigenvalues)
        return cls(limit, 1 - eigenvalues, vectors.T, q.root @ (limit - q.x), q.root @ vectors, q.stretch)

    def coefficients(self, x0: np.ndarray) -> np.ndarray:
        return self.inverse @ (x0 - self.limit)

    def gaps(self, rounds: Any, x0: np.ndarray) -> np.ndarray:
        """f(x_t) − f* at these rounds, in any order, without those between them."""
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            decayed = self.coefficients(x0)[:, None] * self.rates[:, None] ** np.asarray(rounds)[None, :]
            return 0.5 * np.sum((self.rest[:, None] + self.basis @ decayed) ** 2, axis=0)

    @property
    def floor(self) -> float:
        """f(x_∞) − f*."""
        return float(0.5 * self.rest @ self.rest)

    def rounds_to(self, target: float, x0: np.ndarray, at_most: int) -> int | None:
        """The first round from which on the gap is at most the target."""
        if np.max(np.abs(self.rates), initial=0.0) >= 1 or self.floor > target:
            return None
        if not np.any(self.rest):
            return self._bisected(target, x0, at_most)  # a sum of falling terms: one crossing
        certain = self._certain(target, x0, at_most)
        if certain > LOOKED_AT:
            return self._bisected(target, x0, at_most)
        for end in range(certain, 0, -BLOCK):  # backwards from where all is settled to the last round above the target
            begin = max(0, end - BLOCK)
            above = np.flatnonzero(~(self.gaps(np.arange(begin, end), x0) <= target))
            if above.size:
                last = begin + int(above[-1])
                return last + 1 if last + 1 <= at_most else None
        return 0

    def _certain(self, target: float, x0: np.ndarray, at_most: int) -> int:
        """From this round on the gap cannot be above the target: √(2·gap) ≤ ‖a‖ + ‖B‖‖r^t ∘ c‖, which only falls."""
        room = np.sqrt(2 * target) - np.linalg.norm(self.rest)
        c = self.coefficients(x0)

        def settled(t: int) -> bool:
            with np.errstate(under="ignore"):
                return bool(self.size * np.linalg.norm(self.rates**t * c) <= room)

        low, high = 0, 1
        while high < at_most and not settled(high):
            low, high = high, 2 * high
        while high - low > max(1, high // 64):
            middle = (low + high) // 2
            low, high = (low, middle) if settled(middle) else (middle, high)
        return high

    def _bisected(self, target: float, x0: np.ndarray, at_most: int) -> int | None:
        def reached(t: int) -> bool:
            return bool(self.gaps([t], x0)[0] <= target)

        return 0 if reached(0) else first_round(reached, at_most)
