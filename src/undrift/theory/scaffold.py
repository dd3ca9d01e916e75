"""SCAFFOLD: what can be proved of it with exact gradients, both options, cohorts of S of M clients.

The theorems are ours; their plan is that of Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated
learning" (2020), with drift bounded by the fact that a gradient step on a convex loss brings no two points further apart.

**Setting.** K local steps everywhere, f = Σ w_i f_i, every f_i L-smooth, h_i = ∇f_i(x*), c_i = 0 at the start. With
g_i = (1/K) Σ_k ∇f_i(y_i^k) a round is x⁺ = x − η̃v, v = (1/S) Σ_{i∈S} M w_i (g_i − c_i + c), η̃ = Kηη_s, η_s ≥ 1, c = Σ w_i c_i;
c_i⁺ = g_i (option 2) or ∇f_i(x) (option 1) in the cohort. p is the probability to be in it, and ρ = r·M·max w_i with
r = (M − S)/(S(M − 1)), or 1/S with replacement: E v = Σ w_i g_i = ḡ and E‖v − ḡ‖² ≤ ρ Σ w_i‖g_i − c_i + c‖². All take part:
p = 1, ρ = 0. C = Σ w_i‖c_i − h_i‖², G = Σ w_i‖g_i − h_i‖², D = Σ w_i (1/K) Σ_k ‖y_i^k − x‖², z = η̃L.

**Convex f_i**, z ≤ 1/(6(1 + 6ρ)), η̃ ≤ p/μ; A = (4ρ + 1/3)/p:
E[‖x⁺ − x*‖² + Aη̃²C⁺] ≤ ‖x − x*‖² − η̃(f(x) − f*) + (1 − μη̃/2)Aη̃²C.                                                        (1)
 1. Σ w_i‖∇f_i(x) − h_i‖² ≤ 2L(f(x) − f*) by cocoercivity, as Σ w_i h_i = 0.
 2. For η ≤ 2/L, ‖y^{k+1} − x‖ ≤ ‖y^k − x‖ + η‖u_i‖ with u_i = ∇f_i(x) − c_i + c = (∇f_i(x) − h_i) − (c_i − h_i − c), and
    c = Σ w_i(c_i − h_i): D ≤ ((Kη)²/3) Σ w_i‖u_i‖² ≤ (η̃²/3)(4L(f(x) − f*) + 2C).
 3. ‖g_i − ∇f_i(x)‖² ≤ L²(1/K) Σ_k ‖y_i^k − x‖², so G ≤ 4L(f(x) − f*) + 2L²D by 1.
 4. ‖ḡ‖² ≤ G, Σ w_i‖g_i − c_i + c‖² ≤ 2G + 2C as in 2, so E‖v‖² ≤ (1 + 2ρ)G + 2ρC.
    And E C⁺ ≤ (1 − p)C + p(4L(f(x) − f*) + 2L²D), by 3 or by 1.
 5. ⟨∇f_i(y), x − x*⟩ ≥ f_i(x) − f_i(x*) − (L/2)‖x − y‖² by smoothness and convexity, so ⟨ḡ, x − x*⟩ ≥ f(x) − f* − (L/2)D.
 6. Together, with q = 1 + 2ρ + Ap = 4/3 + 6ρ, hence zq ≤ 2/9: f(x) − f* has the coefficient
    η̃(−2 + 4zq + (4/3)z²(1 + 2zq)) ≤ η̃(−2 + 8/9 + 13/243) ≤ −η̃, and C has η̃²(A(1 − p) + 2ρ + (2/3)z(1 + 2zq)), where
    2ρ + (2/3)z(1 + 2zq) ≤ 2ρ + 13/81 ≤ Ap/2 ≤ A(p − μη̃/2).

**L-smooth f_i**, z ≤ p/(6(1 + ρ)); Ξ = Σ w_i‖c_i − ∇f_i(x)‖²:
E[f(x⁺) + (η̃/(2p))Ξ⁺] ≤ f(x) + (η̃/(2p))Ξ − (η̃/4)‖∇f(x)‖².                                                                (2)
 1. U = Σ w_i‖u_i‖² ≤ ‖∇f(x)‖² + Ξ, as Σ w_i u_i = ∇f(x). ‖y^{k+1} − x‖ ≤ (1 + ηL)‖y^k − x‖ + η‖u_i‖, so
    ‖y^k − x‖ ≤ kη e^z‖u_i‖ and L²D ≤ εU, ε = e^{2z}z²/3.
 2. E‖v‖² ≤ ‖ḡ‖² + 2ρ(L²D + U), and 2⟨∇f(x), ḡ⟩ ≥ ‖∇f(x)‖² + ‖ḡ‖² − L²D, so
    E f(x⁺) ≤ f(x) − (η̃/2)‖∇f(x)‖² − (η̃/2)(1 − z)‖ḡ‖² + η̃(ε/2 + zρ(1 + ε))U.
 3. E Ξ⁺ ≤ (1 − p/2)Ξ + 2pL²D + (3/p)L² E‖x⁺ − x‖², by ‖a + b‖² ≤ (1 + p/2)‖a‖² + (1 + 2/p)‖b‖² outside the cohort.
 4. Together: ‖ḡ‖² has the coefficient −(η̃/2)(1 − z − 3z²/p²) ≤ 0, and U has η̃(3ε/2 + zρ(1 + ε) + 3(z/p)²ρ(1 + ε)) ≤ η̃/4,
    as z ≤ 1/6, ε < 0.013, zρ ≤ 1/6 and (z/p)²ρ ≤ 1/144. With 1, ‖∇f(x)‖² keeps −η̃/2 + η̃/4 and Ξ has η̃((1 − p/2)/(2p) + 1/4).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import InputError
from ..gate import whole
from .assume import MEASURE, convex_losses, smooth
from .bound import Assumption, Bound, known, longest, require_positive, required, same_steps, step_within
from .constants import Constants

METHOD = "scaffold"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """Who takes part: p, the probability of each client, and ρ, what the choice adds to the variance of a step."""

    p: float = 1.0
    rho: float = 0.0
    drawn: bool = False

    @classmethod
    def of(cls, constants: Constants, cohort: int | None, replace: bool, heaviest: float | None) -> Sampling:
        """A uniform cohort; `heaviest`: M max w_i, which need not be given where weights are equal."""
        M = constants.clients
        if cohort is None or (cohort == M and not replace):
            return cls()
        S = whole("a cohort is a whole number of clients", cohort, 1)
        if S > M and not replace:
            raise InputError(f"a cohort of {cohort} cannot be drawn from {M} clients: 1 ≤ S ≤ {M}")
        if heaviest is None and not constants.equal_weights:
            raise InputError("cohorts of clients with unequal weights: give heaviest = M·max w_i")
        if heaviest is not None and not 1 - 1e-9 <= heaviest <= M * (1 + 1e-9):
            raise InputError(f"heaviest = M·max w_i is between 1 (equal weights) and M = {M}, got {heaviest}")
        r = 1 / S if replace else (M - S) / (S * (M - 1))
        return cls(1 - (1 - 1 / M) ** S if replace else S / M, r * (heaviest or 1.0), drawn=True)


def strongly_convex(
    constants: Constants,
    steps: Any = 1,
    *,
    cohort: int | None = None,
    replace: bool = False,
    heaviest: float | None = None,
    server_eta: float = 1.0,
    effective: float | None = None,
) -> Bound:
    """Convex f_i and a μ-strongly convex f; η̃ = Kηη_s ≤ min{1/(6(1 + 6ρ)L), p/μ}, η_s ≥ 1:

    E‖x_T − x*‖² ≤ (1 − μη̃/2)^T (‖x_0 − x*‖² + (4ρ + 1/3)η̃²ζ*²/p), by (1) and f(x) − f* ≥ (μ/2)‖x − x*‖².

    ζ*² = Σ w_i‖∇f_i(x*)‖² is there because control variates start at 0 and have to learn ∇f_i(x*) first.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> bound = strongly_convex(ud.theory.constants(p), steps=5)
    >>> print(ud.theory.check(ud.run(ud.scaffold(**bound.numbers), p, rounds=50, steps=5), bound).holds)
    True
    """
    theorem = "SCAFFOLD with exact gradients, strongly convex (ours)"
    at = Sampling.of(constants, cohort, replace, heaviest)
    L, star, assumptions = _convex(theorem, constants)
    of_f = "strong convexity of f"
    mu = required(theorem, of_f, "μ of f", constants.mu_mean, MEASURE)
    require_positive(theorem, of_f, "μ of f", mu, "use the theorem for convex losses (convex)")
    limit = min(1 / (6 * (1 + 6 * at.rho) * L), at.p / float(mu))
    step = step_within(theorem, "η̃", effective, limit, "min{1/(6(1 + 6ρ)L), p/μ}")
    rate, more = 1 - float(mu) * step / 2, (4 * at.rho + 1 / 3) * step**2 * star / at.p
    return _bound(
        theorem,
        "E‖x_T − x*‖² ≤ (1 − μη̃/2)^T (‖x_0 − x*‖² + (4ρ + 1/3)η̃²ζ*²/p)",
        "sq_distance",
        at,
        step,
        steps,
        server_eta,
        (*assumptions, known(of_f, mu)),
        rate=rate,
        values=lambda t, start: rate**t * (start + more),
    )


def convex(
    constants: Constants,
    steps: Any = 1,
    *,
    cohort: int | None = None,
    replace: bool = False,
    heaviest: float | None = None,
    server_eta: float = 1.0,
    effective: float | None = None,
) -> Bound:
    """Convex f_i; η̃ = Kηη_s ≤ 1/(6(1 + 6ρ)L), η_s ≥ 1:

    E f((1/T) Σ_{t<T} x_t) − f* ≤ (‖x_0 − x*‖² + (4ρ + 1/3)η̃²ζ*²/p)/(η̃T), the sum of (1) with μ = 0.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[0.0]]]), np.array([[3.0], [0.0]]))
    >>> f"{convex(ud.theory.constants(p)).curve(10, start=9.0)[10]:.2f}"
    '5.40'
    """
    theorem = "SCAFFOLD with exact gradients, convex (ours)"
    at = Sampling.of(constants, cohort, replace, heaviest)
    L, star, assumptions = _convex(theorem, constants)
    limit = 1 / (6 * (1 + 6 * at.rho) * L)
    step = step_within(theorem, "η̃", effective, limit, "1/(6(1 + 6ρ)L)")
    more = (4 * at.rho + 1 / 3) * step**2 * star / at.p
    return _bound(
        theorem,
        "E f(mean of x_0 … x_{T−1}) − f* ≤ (‖x_0 − x*‖² + (4ρ + 1/3)η̃²ζ*²/p)/(η̃T)",
        "gap of the running mean",
        at,
        step,
        steps,
        server_eta,
        assumptions,
        values=lambda t, start: (start + more) / (step * t),
    )


def nonconvex(
    constants: Constants,
    steps: Any = 1,
    *,
    cohort: int | None = None,
    replace: bool = False,
    heaviest: float | None = None,
    server_eta: float = 1.0,
    effective: float | None = None,
) -> Bound:
    """L-smooth f_i; η̃ = Kηη_s ≤ p/(6(1 + ρ)L), η_s ≥ 1:

    min_{t<T} E‖∇f(x_t)‖² ≤ (4/(η̃T))(f(x_0) − E f(x_T)) + (2/(pT)) Σ w_i‖∇f_i(x_0)‖², the sum of (2) with c_i = 0 at the start.

    The last sum is at most C‖∇f(x_0)‖² + D (FedLin's Assumption 1), and ‖∇f(x_0)‖² ≤ 2L(f(x_0) − f*): that is what `curve`
    says, with f* for f(x_T). `telescoped` takes ‖∇f(x_0)‖² and f(x_T) from the run.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[-0.5]]]), np.array([[3.0], [0.0]]))
    >>> f"{nonconvex(ud.theory.constants(p)).numbers['eta']:.6f}"
    '0.166667'
    """
    theorem = "SCAFFOLD with exact gradients, non-convex (ours)"
    at = Sampling.of(constants, cohort, replace, heaviest)
    L, assumptions = smooth(theorem, constants)
    spread = "Σ w_i‖∇f_i‖² ≤ C‖∇f‖² + D"
    C, D = (required(theorem, spread, name, getattr(constants, name), MEASURE) for name in ("C", "D"))
    step = step_within(theorem, "η̃", effective, nonconvex_step(L, at), "p/(6(1 + ρ)L)")

    def along(run: dict[str, np.ndarray]) -> np.ndarray:
        t = np.arange(run["loss"].shape[-1], dtype=float)
        t[0] = np.nan  # no round was played
        first = float(C) * run["grad_norm"][0] ** 2 + float(D)
        return (4 / step * (run["loss"][0] - run["loss"]) + 2 / at.p * first) / t

    return _bound(
        theorem,
        "min_{t<T} E‖∇f(x_t)‖² ≤ (4/(η̃T))(f(x_0) − f*) + (2/(pT))(2LC(f(x_0) − f*) + D)",
        "smallest sq_gradient",
        at,
        step,
        steps,
        server_eta,
        (*assumptions, known(spread, C, D)),
        values=lambda t, start: (4 / step * start + 2 / at.p * (2 * L * float(C) * start + float(D))) / t,
        telescoped=along,
    )


def nonconvex_step(L: float, at: Sampling) -> float:
    """η̃ = p/(6(1 + ρ)L)."""
    return at.p / (6 * (1 + at.rho) * L)


def _convex(theorem: str, constants: Constants) -> tuple[float, float, tuple[Assumption, ...]]:
    L, assumptions = smooth(theorem, constants)
    convexity = convex_losses(theorem, constants)
    what = "a minimiser x* with known ζ*² = Σ w_i‖∇f_i(x*)‖²"
    star = required(theorem, what, "ζ*²", constants.zeta_star_sq, "f has no known minimiser")
    return L, float(star), (*assumptions, convexity, known("ζ*²", star))


def _bound(
    theorem: str,
    statement: str,
    subject: Any,
    at: Sampling,
    step: float,
    steps: Any,
    server_eta: float,
    assumptions: tuple[Assumption, ...],
    **promise: Any,
) -> Bound:
    if not 1 <= server_eta < np.inf:
        raise InputError(f"{theorem} assumes server_eta ≥ 1, got {server_eta:g}: choose 1")
    K = longest(steps)
    numbers = {"eta": step / (K * server_eta), **({} if server_eta == 1 else {"server_eta": float(server_eta)})}
    return Bound(
        theorem=theorem,
        statement=statement,
        method=METHOD,
        subject=subject,
        numbers=numbers,
        assumptions=(*assumptions, same_steps(steps)),
        in_expectation=at.drawn,
        steps=K,
        **promise,
    )
