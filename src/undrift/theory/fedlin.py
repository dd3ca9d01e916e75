"""FedLin: what its theorems promise.

Mitra, Jaafar, Pappas, Hassani, "Linear convergence in federated learning: tackling client heterogeneity and sparse gradients"
(2021). `numbers["eta"]` is η̄: client i steps with η̄/τ_i. The proofs only use Jensen's inequality on the mean over clients, so
they hold for weighted means too, and for τ_i that change by round.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from ..errors import InputError
from ..schedules import Inverse
from .assume import MEASURE, convex_losses, smooth, smooth_and_strongly_convex
from .bound import (
    Assumption,
    Bound,
    Subject,
    known,
    known_steps,
    longest,
    required,
    same_steps,
    step_within,
    telescoping,
)
from .constants import Constants

Assumptions = tuple[Assumption, ...]
VARIANCE = "unbiased gradients of variance ≤ σ²"


def plain_step(L: float) -> float:
    """η̄ = 1/(6L) of Theorem 1, and the largest of Theorem 4."""
    return 1 / (6 * L)


def sparse_step(L: float, delta: float) -> float:
    """η̄ = 1/(2(2 + √δ)L) of Theorem 6."""
    return 1 / (2 * (2 + math.sqrt(delta)) * L)


def memory_step(L: float, delta: float, C: float = 1.0) -> float:
    """η̄ = 1/(72LδC) of Theorems 7 (where C is 1) and 8."""
    return 1 / (72 * L * delta * C)


def strongly_convex(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 1 (and 9): η_i = 1/(6Lτ_i) gives f(x_T) − f* ≤ (1 − 1/(6κ))^T (f(x_0) − f*).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> bound = strongly_convex(ud.theory.constants(p), steps=[50, 30])
    >>> print(ud.theory.check(ud.run(ud.fedlin(**bound.numbers), p, rounds=50, steps=[50, 30]), bound).holds)
    True
    """
    theorem = "FedLin, Theorem 1"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    statement = "f(x_T) − f* ≤ (1 − 1/(6κ))^T (f(x_0) − f*)"
    return _linear(theorem, statement, plain_step(L), steps, assumptions, rate=1 - mu / (6 * L))


def homogeneous(constants: Constants, steps: Any = 1) -> Bound:
    """Proposition 3, all f_i equal: η = 1/L gives f(x_T) − f* ≤ (1 − 1/κ)^{TH} (f(x_0) − f*), H local steps everywhere.

    In the paper's notation η_i = 1/L; here η̄ = H/L, as client i steps with η̄/H.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[2.0]], [[2.0]]]), np.array([[3.0], [3.0]]))
    >>> homogeneous(ud.theory.constants(p), steps=5).numbers
    {'eta': 2.5}
    """
    theorem = "FedLin, Proposition 3"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    if not constants.identical:
        raise InputError(
            f"{theorem} assumes that all f_i are equal, and here they differ: use Theorem 1 (strongly_convex)"
        )
    H, alike = longest(steps), same_steps(steps)
    if alike.status == "fails":
        raise InputError(f"{theorem} assumes τ_i = H for all clients, got {steps}: use Theorem 1 (strongly_convex)")
    statement = "f(x_T) − f* ≤ (1 − 1/κ)^(TH) (f(x_0) − f*)"
    assumptions = (*assumptions, Assumption("all f_i are equal", "holds"), alike)
    found = _linear(theorem, statement, H / L, H, assumptions, rate=(1 - mu / L) ** H)
    return dataclasses.replace(found, steps=H)


def convex(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 2: η_i = 1/(10Lτ_i) gives f((1/T) Σ_{t<T} x_t) − f* ≤ (10L/T)(‖x_0 − x*‖² − ‖x_T − x*‖²).

    `curve` drops the last term, which a run tells only afterwards; `telescoped` keeps it.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[0.0]]]), np.array([[3.0], [0.0]]))
    >>> b = convex(ud.theory.constants(p))
    >>> b.numbers["eta"], b.curve(10, start=9.0)[10]
    (0.1, np.float64(9.0))
    """
    theorem = "FedLin, Theorem 2"
    L, assumptions = smooth(theorem, constants)
    assumptions = (*assumptions, convex_losses(theorem, constants))
    statement = "f(mean of x_0 … x_{T−1}) − f* ≤ (10L/T)(‖x_0 − x*‖² − ‖x_T − x*‖²)"
    promise = telescoping(10 * L, "sq_distance")
    return _bound(theorem, statement, "gap of the running mean", 1 / (10 * L), steps, assumptions, **promise)


def nonconvex(constants: Constants, steps: Any = 1) -> Bound:
    """Theorem 3: η_i = 1/(26Lτ_i) gives min_{t<T} ‖∇f(x_t)‖² ≤ (52L/T)(f(x_0) − f(x_T)).

    `curve` puts f* for f(x_T); `telescoped` keeps the theorem's own right-hand side, which needs no f*.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[-0.5]]]), np.array([[3.0], [0.0]]))
    >>> f"{nonconvex(ud.theory.constants(p)).numbers['eta']:.6f}"
    '0.038462'
    """
    theorem = "FedLin, Theorem 3"
    L, assumptions = smooth(theorem, constants)
    statement, promise = "min_{t<T} ‖∇f(x_t)‖² ≤ (52L/T)(f(x_0) − f(x_T))", telescoping(52 * L, "loss")
    return _bound(theorem, statement, "smallest sq_gradient", 1 / (26 * L), steps, assumptions, **promise)


def noisy(constants: Constants, steps: Any = 1, eta_bar: float | None = None) -> Bound:
    """Theorem 4, stochastic gradients: E‖x_{t+1} − x*‖² ≤ (1 − η̄μ/2) E‖x_t − x*‖² + 25η̄²σ² for η̄ < 1/(6L).

    The printed condition is η̄ < 1/(6L), but the proof uses 12η̄L ≤ 1 (in its last two lines), so η̄ = 1/(12L) is what is chosen
    where none is given; larger steps up to 1/(6L) are accepted as printed. The proof also takes q_i(x_t) as drawn afresh at
    every local step, while the algorithm keeps it through the round.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> b = noisy(ud.theory.constants(p, oracle=ud.oracles.noisy(0.1)))
    >>> f"{b.rate:.4f} {b.floor:.4f}"
    '0.9792 0.2083'
    """
    theorem = "FedLin, Theorem 4"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    sigma_sq = required(theorem, VARIANCE, "σ²", constants.sigma_sq, "name the oracle")
    limit = plain_step(L)
    eta = limit / 2 if eta_bar is None else step_within(theorem, "η̄", eta_bar, limit, "1/(6L)")
    rate, floor = 1 - eta * mu / 2, 50 * eta * sigma_sq / mu
    covered = eta <= (1 + 1e-9) / (12 * L)
    proof = Assumption(
        "12η̄L ≤ 1, used by the proof", "holds" if covered else "fails", "" if covered else "the statement says 6η̄L < 1"
    )
    return _bound(
        theorem,
        "E‖x_{t+1} − x*‖² ≤ (1 − η̄μ/2) E‖x_t − x*‖² + 25η̄²σ²",
        "sq_distance",
        eta,
        steps,
        (*assumptions, known(VARIANCE, sigma_sq), proof),
        rate=rate,
        floor=floor,
        values=lambda t, start: rate**t * start + (1 - rate**t) * floor,
        in_expectation=sigma_sq > 0,
    )


def decreasing(constants: Constants, steps: Any = 1) -> Bound:
    """After Theorem 4: with η̄_t = O(1/t) its recursion gives the rate O(1/T), with no floor.

    With e_t = E‖x_t − x*‖², η̄_t = 4/(μ(t + γ)) and γ = 48L/μ (so that 12η̄_t L ≤ 1, as the proof needs), (8) says
    e_{t+1} ≤ (1 − 2/(t + γ)) e_t + 400σ²/(μ(t + γ))², and by induction e_t ≤ max{γe_0, 400σ²/μ²}/(t + γ), as for SGD
    (Bottou, Curtis, Nocedal, "Optimization methods for large-scale machine learning" (2018), Theorem 4.7).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> b = decreasing(ud.theory.constants(p, oracle=ud.oracles.noisy(0.1)))
    >>> print(ud.fedlin(**b.numbers))
    fedlin(eta=4/(t + 96))
    """
    theorem = "FedLin, Theorem 4 with η̄_t = O(1/t)"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    sigma_sq = required(theorem, VARIANCE, "σ²", constants.sigma_sq, "name the oracle")
    offset = 48 * L / mu
    schedule = Inverse(float(4 / mu), float(offset))
    return _bound(
        theorem,
        "E‖x_T − x*‖² ≤ max{γ‖x_0 − x*‖², 400σ²/μ²}/(T + γ), γ = 48L/μ",
        "sq_distance",
        schedule,
        steps,
        (*assumptions, known(VARIANCE, sigma_sq)),
        values=lambda t, start: np.maximum(offset * start, 400 * sigma_sq / mu**2) / (t + offset),
        in_expectation=sigma_sq > 0,
    )


def lower_bound(steps: int = 2) -> Bound:
    """Theorem 5: on its two-client instance ‖x_T − x*‖² ≥ exp(−4T)‖x_0 − x*‖² for every stable η and every H ≥ 2.

    The instance and its round map are in `ud.theory.stability`; for other problems the curve means nothing. The gap obeys the
    same bound.

    >>> import numpy as np
    >>> bool(np.isclose(lower_bound().curve(1, start=1.0)[1], np.exp(-4)))
    True
    """
    rate = math.exp(-4)
    return Bound(
        theorem="FedLin, Theorem 5",
        statement="‖x_T − x*‖² ≥ exp(−4T) ‖x_0 − x*‖² on the theorem's instance",
        method="fedlin",
        subject="sq_distance",
        numbers={},
        assumptions=(Assumption("the theorem's own instance and a stable step", "unknown"), same_steps(steps)),
        rate=rate,
        values=lambda t, start: rate**t * start,
        lower=True,
        steps=longest(steps),
    )


def server_sparse(constants: Constants, delta: float, steps: Any = 1) -> Bound:
    """Theorem 6, TOP-k at the server without memory, δ = d/k: η_i = 1/(2(2 + √δ)Lτ_i), rate 1 − 1/(2δ(2 + √δ)κ).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> f"{server_sparse(ud.theory.constants(p), delta=4.0).numbers['eta']:.4f}"
    '0.0625'
    """
    theorem = "FedLin, Theorem 6"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    d = _level(theorem, delta)
    statement, rate = "f(x_T) − f* ≤ (1 − 1/(2δ(2 + √δ)κ))^T (f(x_0) − f*)", 1 - mu / (2 * d * (2 + math.sqrt(d)) * L)
    return _linear(theorem, statement, sparse_step(L, d), steps, assumptions, rate)


def server_sparse_memory(constants: Constants, delta: float, steps: Any = 1) -> Bound:
    """Theorem 7, TOP-k at the server with memory: η_i = 1/(72Lδτ_i), f(x_T) − f* ≤ 2κ(1 − 1/(96δκ))^T (f(x_0) − f*).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> f"{server_sparse_memory(ud.theory.constants(p), delta=2.0).rate:.6f}"
    '0.997396'
    """
    theorem = "FedLin, Theorem 7"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    d = _level(theorem, delta)
    statement, rate = "f(x_T) − f* ≤ 2κ (1 − 1/(96δκ))^T (f(x_0) − f*)", 1 - mu / (96 * d * L)
    return _linear(theorem, statement, memory_step(L, d), steps, assumptions, rate, front=2 * (L / mu))


def client_sparse_memory(constants: Constants, delta: float, steps: Any = 1, eta_bar: float | None = None) -> Bound:
    """Theorem 8, TOP-k at the clients with memory, η̄ ≤ 1/(72LδC):

    ‖x_T − x*‖² ≤ 2(1 − ¾η̄μ)^T ‖x_0 − x*‖² + (16/3) η̄ (6/(δC) + δ) D/μ.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[1.0]]]), np.array([[3.0], [100.0]]))
    >>> b = client_sparse_memory(ud.theory.constants(p), delta=2.0)       # equal Hessians: C = 1
    >>> f"{b.numbers['eta']:.6f} {b.floor:.1f}"
    '0.006944 435.6'
    """
    theorem = "FedLin, Theorem 8"
    L, mu, assumptions = smooth_and_strongly_convex(theorem, constants)
    assumption = "bounded gradient dissimilarity (Assumption 1)"
    C = required(theorem, assumption, "C", constants.C, MEASURE)
    D = required(theorem, assumption, "D", constants.D, MEASURE)
    d = _level(theorem, delta)
    eta = step_within(theorem, "η̄", eta_bar, memory_step(L, d, C), "1/(72LδC)")
    rate, floor = 1 - 0.75 * eta * mu, 16 / 3 * eta * (6 / (d * C) + d) * D / mu
    return _bound(
        theorem,
        "‖x_T − x*‖² ≤ 2(1 − ¾η̄μ)^T ‖x_0 − x*‖² + (16/3) η̄ (6/(δC) + δ) D/μ",
        "sq_distance",
        eta,
        steps,
        (*assumptions, known(assumption, C, D)),
        rate=rate,
        floor=float(floor),
        values=lambda t, start: 2 * rate**t * start + floor,
    )


def _linear(
    theorem: str, statement: str, eta: float, steps: Any, assumptions: Assumptions, rate: float, front: float = 1.0
) -> Bound:
    """f(x_T) − f* ≤ front·rate^T (f(x_0) − f*)."""

    def values(t: np.ndarray, start: float) -> np.ndarray:
        return front * rate**t * start

    return _bound(theorem, statement, "gap", eta, steps, assumptions, rate=rate, values=values)


def _bound(
    theorem: str, statement: str, subject: Subject, eta: Any, steps: Any, assumptions: Assumptions, **promise: Any
) -> Bound:
    """A theorem on rounds in which client i steps with η̄/τ_i."""
    return Bound(
        theorem=theorem,
        statement=statement,
        method="fedlin",
        subject=subject,
        numbers={"eta": eta},
        divided_by=known_steps(steps),
        assumptions=assumptions,
        **promise,
    )


def _level(theorem: str, delta: float) -> float:
    if not (np.isfinite(delta) and delta >= 1):
        raise InputError(f"{theorem} speaks of TOP-k with δ = d/k ≥ 1, got δ = {delta}")
    return float(delta)
