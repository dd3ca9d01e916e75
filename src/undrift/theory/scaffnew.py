"""Scaffnew: what ProxSkip's theorem promises, by iteration and by round.

Mishchenko, Malinovsky, Stich, Richtárik, "ProxSkip: Yes! Local gradient steps provably lead to communication acceleration!
Finally!" (2022). An *iteration* is one local step of every client and one toss of the common coin. With

    Ψ_t = Σ w_i‖x_{i,t} − x*‖² + (γ/p)² Σ w_i‖h_{i,t} − ∇f_i(x*)‖²,      ζ = min{γμ, p²},      γ ≤ 1/L,

the theorem says E[Ψ_{t+1} | Ψ_t, …] ≤ (1 − ζ)Ψ_t, so that E Ψ_T ≤ (1 − ζ)^T Ψ_0 after T iterations.

*Why, with weights and noise too.* Norms and products are those of m vectors, weighted with w_i. Let a be the vectors
x̂_i − x*, x̂_i after the local step, and b the vectors (γ/p)(h_i − ∇f_i(x*)). After tails Ψ_{t+1} is N = ‖a‖² + ‖b‖². Heads put
the mean of the x̂_i for x_i and h_i + (p/γ)(mean − x̂_i) for h_i; as the b_i have mean zero, these are the parts of a − b in
consensus and orthogonal to it, and Ψ_{t+1} is H = ‖a − b‖². Hence pH + (1 − p)N = ‖a − pb‖² + (1 − p²)‖b‖², where a − pb is
(x_i − γ∇f_i(x_i)) − (x* − γ∇f_i(x*)), whose square is at most 1 − γμ times that of x_i − x*. Unbiased gradients of variance
≤ σ² add γ²σ² in expectation: pH + (1 − p)N ≤ R := (1 − ζ)Ψ_t + γ²σ².

*By round.* Here a round ends with heads, so x after k rounds is x at iteration T_k, that of the k-th heads. T_k is random, and
E Ψ_T for a fixed T does not say what E Ψ_{T_k} is, since heads change Ψ; but H = ‖a − b‖² ≤ 2N. Of all such H and N the sum
θpH + (1 − p)N, θ ≥ 1, is largest where H = 2N:

    θpH + (1 − p)N ≤ R·(1 + (θ − 1)·2p/(1 + p)).

With θ = 1 + ζ(1 + p)/(2p(1 − ζ)) the last factor is 1/(1 − ζ), and M_t = θ^{heads until t} Ψ_t obeys
E[M_{t+1} | past] ≤ M_t + θ^{heads until t} γ²σ²/(1 − ζ). It is not negative, so it may be stopped at T_k (Fatou's
lemma), and a round has 1/p iterations on average:

    E Ψ_{T_k} ≤ θ^{−k} Ψ_0 + (1 − θ^{−k}) · 2γ²σ²/(ζ(1 + p)).

For p = 1 this is gradient descent's 1 − γμ by round; for γ = 1/L and p = 1/√κ, θ ≈ 1 + 1/(2√κ): O(√κ log 1/ε) rounds.
The statement by round is derived here; the paper states the one by iteration.
"""

from __future__ import annotations

import math

import numpy as np

from ..plan import probability
from .assume import MEASURE, smooth_and_strongly_convex
from .bound import Assumption, Bound, known, required, step_within
from .constants import Constants

THEOREM = "Scaffnew, ProxSkip's theorem by round"


def best_chance(eta: float, mu: float) -> float:
    """p = √(γμ), where γμ = p²; 1/√κ for γ = 1/L."""
    return min(1.0, math.sqrt(eta * mu))


def per_iteration(eta: float, p: float, mu: float) -> float:
    """1 − ζ = 1 − min{γμ, p²}: the factor of every local step."""
    return 1 - min(eta * mu, p * p)


def per_round(eta: float, p: float, mu: float) -> float:
    """1/θ, θ = 1 + ζ(1 + p)/(2p(1 − ζ)): the factor of every round.

    >>> f"{per_round(0.5, 1.0, 0.2):.3f} {per_round(1.0, 0.01, 1e-4):.6f}"  # gradient descent's 1 − γμ; about 1 − p/2
    '0.900 0.994975'
    """
    factor = per_iteration(eta, p, mu)
    return factor / (factor + (1 - factor) * (1 + p) / (2 * p))


def strongly_convex(constants: Constants, eta: float | None = None, p: float | None = None) -> Bound:
    """E‖x_k − x*‖² ≤ θ^{−k} Ψ_0 after k rounds, Ψ_0 = ‖x_0 − x*‖² + (γ/p)² Σ w_i‖∇f_i(x*)‖², for γ ≤ 1/L and any p.

    γ = 1/L and p = √(γμ) where they are not given. With noise the floor 2γ²σ²/(ζ(1 + p)) is added, as the module derives.

    >>> import numpy as np, undrift as ud
    >>> problem = ud.problems.quadratic(np.array([[[1.0]], [[4.0]]]), np.array([[3.0], [100.0]]))
    >>> bound = strongly_convex(ud.theory.constants(problem))
    >>> bound.numbers, f"{bound.rate:.3f}"
    ({'eta': 0.25, 'p': 0.5}, '0.667')
    >>> runs = [ud.run(ud.scaffnew(**bound.numbers), problem, rounds=30, seed=seed) for seed in range(20)]
    >>> ud.theory.check(runs, bound).holds
    True
    """
    L, mu, assumptions = smooth_and_strongly_convex(THEOREM, constants)
    step = step_within(THEOREM, "γ", eta, 1 / L, "1/L")
    chance = best_chance(step, mu) if p is None else probability("p", p)
    at_optimum = float(required(THEOREM, "a minimiser", "Σ w_i‖∇f_i(x*)‖²", constants.zeta_star_sq, MEASURE))
    noise = 0.0 if constants.sigma_sq is None else float(constants.sigma_sq)
    rate, zeta = per_round(step, chance, mu), 1 - per_iteration(step, chance, mu)
    floor = 2 * step**2 * noise / (zeta * (1 + chance))
    away = (step / chance) ** 2 * at_optimum  # what h_i = 0 is worth in Ψ_0

    def values(rounds: np.ndarray, start: float) -> np.ndarray:
        left: np.ndarray = rate**rounds
        return left * (start + away) + (1 - left) * floor

    return Bound(
        theorem=THEOREM,
        statement="E‖x_k − x*‖² ≤ θ^(−k) Ψ_0, θ = 1 + ζ(1 + p)/(2p(1 − ζ)), ζ = min{γμ, p²}",
        method="scaffnew",
        subject="sq_distance",
        numbers={"eta": step, "p": chance},
        assumptions=(*assumptions, *_of_noise(constants)),
        values=values,
        rate=rate,
        floor=floor,
        in_expectation=True,
    )


def _of_noise(constants: Constants) -> tuple[Assumption, ...]:
    sigma_sq = constants.sigma_sq
    return () if sigma_sq is None or sigma_sq == 0 else (known("unbiased gradients of variance ≤ σ²", sigma_sq),)
