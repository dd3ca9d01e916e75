"""Guarantees on averaged iterates: the common shape of the SSL paper's theorems.

With an effective step η̃ the paper proves E‖x_{r+1} − x*‖² ≤ (1 − μη̃/2)E‖x_r − x*‖² − bη̃ E[f(x_r) − f*] + c₁η̃² + c₂η̃³ and sums
it with weights w_r = (1 − μη̃/2)^{−(r+1)} (w_r = 1 where μ = 0).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .assume import MEASURE, convex_losses, smooth, smooth_and_strongly_convex
from .bound import Assumption, Bound, Subject, known, longest, require_positive, required, same_steps, step_within
from .constants import Constants

VARIANCE = "unbiased gradients of variance ≤ σ² (Assumption 2)"
DISSIMILARITY = "bounded dissimilarity (Assumption 3, (4))"


def largest_step(L: float) -> float:
    """η̃ = 1/(6L), the longest effective step that the theorems for convex losses allow."""
    return 1 / (6 * L)


@dataclasses.dataclass(frozen=True)
class Theorem:
    """A theorem of this shape for one method, one problem and one K."""

    name: str
    method: str
    constants: Constants
    K: int
    per_client: float  # η = η̃ / per_client
    random: bool  # cohorts or orders are drawn, so the guarantee is in expectation even with exact gradients
    assumptions: tuple[Assumption, ...]

    @property
    def M(self) -> int:
        return self.constants.clients

    @property
    def L(self) -> float:
        return float(self.constants.L or 0)  # None is refused where the theorem is evaluated

    @property
    def sigma_sq(self) -> float:
        return float(required(self.name, VARIANCE, "σ²", self.constants.sigma_sq, "name the oracle"))

    def zeta_star_sq(self) -> Any:
        what = "a minimiser x* with known dissimilarity ζ*² there (Assumption 3, (5))"
        return required(self.name, what, "ζ*²", self.constants.zeta_star_sq, "f has no known minimiser")

    def dissimilarity(self) -> tuple[Any, Any]:
        return (
            required(self.name, DISSIMILARITY, "B²", self.constants.B_sq, MEASURE),
            required(self.name, DISSIMILARITY, "ζ²", self.constants.zeta_sq, MEASURE),
        )

    def strongly_convex(
        self, step: float | None, statement: str, front: float, late: int, floor: Callable[[float, float], float]
    ) -> Bound:
        """front·μ‖x_0 − x*‖² exp(−½μη̃(R + late)) + floor(η̃), for R ≥ 1/(μη̃)."""
        L, mu, assumptions = smooth_and_strongly_convex(self.name, self.constants)
        eta, star = step_within(self.name, "η̃", step, largest_step(L), "1/(6L)"), self.zeta_star_sq()
        rest, first = floor(eta, float(star)), 1 / (mu * eta)

        def values(t: np.ndarray, start: float) -> np.ndarray:
            curve = front * mu * start * np.exp(-0.5 * mu * eta * (t + late)) + rest
            return np.where(t >= first * (1 - 1e-12), curve, np.nan)  # the lemma needs R ≥ 1/(μη̃)

        def weights(R: int) -> np.ndarray:
            found = (1 - 0.5 * mu * eta) ** np.arange(R, -1, -1, dtype=float)
            return found / found.sum()

        assumptions, rate = (*assumptions, known("ζ*²", star)), math.exp(-0.5 * mu * eta)
        return self._bound("gap of the weighted mean", statement, eta, assumptions, values, rest, weights, rate)

    def convex(self, step: float | None, statement: str, front: float, floor: Callable[[float, float], float]) -> Bound:
        """front·‖x_0 − x*‖²/(η̃R) + floor(η̃)."""
        L, assumptions = smooth(self.name, self.constants)
        eta, star = step_within(self.name, "η̃", step, largest_step(L), "1/(6L)"), self.zeta_star_sq()
        rest = floor(eta, float(star))
        assumptions = (*assumptions, convex_losses(self.name, self.constants), known("ζ*²", star))

        def values(t: np.ndarray, start: float) -> np.ndarray:
            return front * start / (eta * t) + rest

        return self._bound("gap of the weighted mean", statement, eta, assumptions, values, rest, all_alike)

    def nonconvex(self, step: float | None, statement: str, floor: Callable[[float, float], float]) -> Bound:
        """3(f(x_0) − f*)/(η̃R) + floor(η̃) bounds min_{r≤R} E‖∇f(x_r)‖²."""
        L, assumptions = smooth(self.name, self.constants)
        B_sq, zeta_sq = self.dissimilarity()
        limit = largest_step(L) / (float(B_sq) + 1)
        eta = step_within(self.name, "η̃", step, limit, "1/(6L(B² + 1))")
        rest = floor(eta, float(zeta_sq))
        assumptions = (*assumptions, known(DISSIMILARITY, B_sq, zeta_sq))

        def values(t: np.ndarray, start: float) -> np.ndarray:
            return 3 * start / (eta * t) + rest

        return self._bound("smallest sq_gradient", statement, eta, assumptions, values, rest, all_alike)

    def _bound(
        self,
        subject: Subject,
        statement: str,
        eta: float,
        assumptions: tuple[Assumption, ...],
        values: Callable[[np.ndarray, float], np.ndarray],
        floor: float,
        weights: Callable[[int], np.ndarray],
        rate: float | None = None,
    ) -> Bound:
        noise = known(VARIANCE, self.constants.sigma_sq if self.constants.sigma_sq is not None else 0.0)
        return Bound(
            theorem=self.name,
            statement=statement,
            method=self.method,
            subject=subject,
            numbers={"eta": eta / self.per_client},
            assumptions=(*assumptions, noise, *self.assumptions),
            rate=rate,
            floor=float(floor),
            values=values,
            in_expectation=self.random or self.sigma_sq > 0,
            weights=weights,
            steps=self.K,
        )


def theorem(
    name: str, method: str, constants: Constants, steps: Any, per_client: Callable[[int], float], random: bool
) -> Theorem:
    """The setting of a theorem: equal weights, K local steps everywhere."""
    K = longest(steps)
    weights = Assumption("equal weights of the clients", "holds" if constants.equal_weights else "fails")
    return Theorem(name, method, constants, K, per_client(K), random, (same_steps(steps), weights))


def tuned_strongly_convex(mu: float, L: float, start: float, rounds: int, c1: float, c2: float) -> float:
    """Lemma 7's step for R rounds: min{1/(6L), ln(max{2, min(a²r₀R/c₁, a³r₀R²/c₂)})/(aR)}, a = μ/2, r₀ = ‖x_0 − x*‖².

    The lemma tunes against c₁ alone; the second entry does the same for the η̃³ term (Koloskova et al. 2020).
    """
    require_positive("the tuned step", "at least one round", "R", rounds, "give the number of rounds")
    a = mu / 2
    ratios = [a**2 * start * rounds / c1] if c1 > 0 else []
    ratios += [a**3 * start * rounds**2 / c2] if c2 > 0 else []
    if not ratios:
        return largest_step(L)
    return min(largest_step(L), math.log(max(2.0, min(ratios))) / (a * rounds))


def tuned_convex(L: float, start: float, rounds: int, c1: float, c2: float) -> float:
    """Lemma 8's step for R rounds: min{1/(6L), (r₀/(c₁(R + 1)))^{1/2}, (r₀/(c₂(R + 1)))^{1/3}}."""
    require_positive("the tuned step", "at least one round", "R", rounds, "give the number of rounds")
    steps = [largest_step(L)]
    steps += [math.sqrt(start / (c1 * (rounds + 1)))] if c1 > 0 else []
    steps += [(start / (c2 * (rounds + 1))) ** (1 / 3)] if c2 > 0 else []
    return min(steps)


def all_alike(R: int) -> np.ndarray:
    """w_r = 1 for x_0, …, x_R, scaled to sum to one."""
    return np.full(R + 1, 1 / (R + 1))
