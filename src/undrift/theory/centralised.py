"""Gradient descent and SGD with all data in one place: the baselines that federated rates are held against.

The step is that of f itself: L and μ of the mean, not of the worst client.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..problems.base import Problem
from ..problems.pooled import Pooled
from .assume import MEASURE
from .bound import Bound, known, longest, require_positive, required, step_within
from .closed_form import component_smoothness
from .constants import Constants, known_without_measuring, variance_at_optimum

SMOOTH, PL = "L-smoothness of f", "strong convexity of f, or its Polyak-Łojasiewicz condition"


def gd(constants: Constants, steps: Any = 1) -> Bound:
    """η = 1/L gives f(x_T) − f* ≤ (1 − 1/κ)^{τT} (f(x_0) − f*) after T rounds of τ steps, κ = L/μ of f.

    Each step gains η‖∇f‖²/2 ≥ ημ(f − f*) (Karimi, Nutini, Schmidt, "Linear convergence of gradient and proximal-gradient
    methods under the Polyak-Łojasiewicz condition", 2016, Theorem 1). FedSGD is the case τ = 1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> b = gd(ud.theory.constants(p))
    >>> f"{b.numbers['eta']:.4f} {b.rate:.1f}"
    '0.6667 0.0'
    """
    name = "gradient descent"
    L, mu, assumptions = _of_f(name, constants)
    tau = longest(steps)
    rate = (1 - mu / L) ** tau
    return Bound(
        theorem=name,
        statement="f(x_T) − f* ≤ (1 − 1/κ)^(τT) (f(x_0) − f*)",
        method="gd",
        subject="gap",
        numbers={"eta": 1 / L},
        assumptions=assumptions,
        rate=rate,
        values=lambda t, start: rate**t * start,
        steps=tau,
    )


def sgd(constants: Constants, steps: Any = 1, eta: float | None = None, gradients: int = 1) -> Bound:
    """η ≤ 1/L gives E gap_{t+1} ≤ (1 − ημ) E gap_t + η²Lσ²/(2g) for every step along the mean of g independent gradients.

    Bottou, Curtis, Nocedal, "Optimization methods for large-scale machine learning" (2018), Theorem 4.6. σ² is that of one
    gradient: for `ud.sgd` take constants of `problem.pooled()` with its oracle, for FedSGD g = m.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> f"{sgd(ud.theory.constants(p, oracle=ud.oracles.noisy(0.3)), eta=0.1).floor:.4f}"
    '0.0150'
    """
    name = "stochastic gradient descent"
    L, mu, assumptions = _of_f(name, constants)
    noise = "unbiased gradients of variance ≤ σ²"
    sigma_sq = required(name, noise, "σ²", constants.sigma_sq, "name the oracle")
    step, tau = step_within(name, "η", eta, 1 / L, "1/L"), longest(steps)
    rate, floor = (1 - step * mu) ** tau, float(step * L * sigma_sq / (2 * mu * gradients))
    return Bound(
        theorem=name,
        statement="E gap_{t+1} ≤ (1 − ημ) E gap_t + η²Lσ²/2 at every step",
        method="sgd",
        subject="gap",
        numbers={"eta": step},
        assumptions=(*assumptions, known(noise, sigma_sq)),
        rate=rate,
        floor=floor,
        values=lambda t, start: rate**t * start + (1 - rate**t) * floor,
        in_expectation=bool(sigma_sq > 0),
        steps=tau,
    )


def sgd_minibatch(problem: Problem, batch: int, steps: Any = 1, eta: float | None = None) -> Bound:
    """Mini-batches of the pooled data with replacement, convex components: for η ≤ 1/(2𝓛), 𝓛 = (1 − 1/b)L + max_j L_j/b,

    E‖x_k − x*‖² ≤ (1 − ημ)^k ‖x_0 − x*‖² + 2ησ*²/μ after k steps, σ*² the variance at x*.

    No bound on the variance elsewhere is asked for: that of least squares grows with ‖x‖². L_j is the smoothness of
    N·w_i f̂_ij, so that f is the mean of these. Gower, Loizou, Qian, Sailanbayev, Shulgin, Richtárik, "SGD: general analysis
    and improved rates" (2019), Theorem 3.1.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.least_squares(np.array([[[1.0], [2.0]], [[3.0], [1.0]]]), np.ones((2, 2)))
    >>> f"{sgd_minibatch(p, batch=1).numbers['eta']:.5f}"       # 1/(2·4·9/2)
    '0.02778'
    """
    name = "SGD, Theorem 3.1 (Gower et al. 2019)"
    source = problem.source if isinstance(problem, Pooled) else problem
    parts = required(name, "smooth components", "max_j L_j", component_smoothness(source), "give eta")
    c, weights = known_without_measuring(source), np.asarray(source.weights, np.float64)
    L, mu, assumptions = _of_f(name, c)
    mu = float(required(name, "strong convexity of f", "μ of f", c.mu_mean, "give eta"))
    require_positive(name, "strong convexity of f", "μ", mu, "add a regulariser")
    count = int(source.sizes.sum())
    top = count * max(float(w) * float(part.max()) for w, part in zip(weights, parts, strict=True))
    expected = (1 - 1 / batch) * L + top / batch
    step, tau = step_within(name, "η", eta, 1 / (2 * expected), "1/(2𝓛)"), longest(steps)
    rate, floor = (1 - step * mu) ** tau, 2 * step * variance_at_optimum(source) / (batch * mu)
    return Bound(
        theorem=name,
        statement="E‖x_k − x*‖² ≤ (1 − ημ)^k ‖x_0 − x*‖² + 2ησ*²/μ",
        method="sgd",
        subject="sq_distance",
        numbers={"eta": step},
        assumptions=assumptions,
        rate=rate,
        floor=floor,
        values=lambda t, start: rate**t * start + floor,
        in_expectation=True,
        steps=tau,
    )


def _of_f(name: str, constants: Constants) -> tuple[float, float, Any]:
    L = required(name, SMOOTH, "L of f", constants.L_mean if constants.L_mean is not None else constants.L, MEASURE)
    require_positive(name, SMOOTH, "L", L, "a constant f needs no optimisation")
    mu = required(name, PL, "μ of f", constants.pl, MEASURE)
    require_positive(name, PL, "μ", mu, "add a regulariser")
    return float(L), float(mu), (known(SMOOTH, L), known(PL, mu))
