"""For which step sizes a method's rounds settle on quadratics: Theorem 5 of FedLin, made computable.

A round is s⁺ = M(η, H) s + v, and it settles from everywhere if and only if the spectral radius of M is below 1. Step sizes
here are the method's own number: for FedLin η̄, of which client i takes η̄/τ_i in each local step.

What was found about the proof of Theorem 5. It replaces (1 − ηL)^H by (1 − η)^H, which is right for η ≤ 2/(L + 1) and for odd
H. For even H and larger η the term is positive and grows without bound, so λ_1 comes back through (−1, 1): there is
a second, narrow interval of stable step sizes near η ≈ 2/L. For L = 14 and H = 10 it is 0.1552 < η < 0.1634, beyond 1/H; for
L = 14 and H = 20 it is 0.1502 < η < 0.1530, where ‖x_{t+1}‖² ≈ 0.0015‖x_t‖² < e⁻⁴‖x_t‖² from x_1 = (0, β). The necessary
condition η < 1/H and the bound e^{−4T} hold as printed below the end of the first interval, and for every η if H is odd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..algorithms import METHODS
from ..errors import InputError, unknown
from ..problems.base import Problem
from ..problems.quadratic import quadratic
from . import round_map
from .known import Known
from .methods import KNOWN
from .quadratics import Quadratics
from .round_map import RoundMap

SCAN = 1.04  # factor between step sizes of the scan for the first crossing
DIGITS = 1e-12  # relative precision of a limit


def fedlin_round_map(problem: Any, eta: float, steps: Any) -> RoundMap:
    """M(η̄, τ) of FedLin without compression: x⁺ − x* = (I − Σ w_i (η̄/τ_i) S_i H)(x − x*) (appendix E, eq. 57).

    >>> M = fedlin_round_map(theorem5_instance(L=14.0), eta=0.1, steps=2).matrix
    >>> bool(np.isclose(M[1, 1], 0.95**2))
    True
    """
    return round_map.fedlin(problem, eta, steps)


def theorem5_instance(L: float = 14.0, b: Sequence[float] = (1.0, 1.0)) -> Problem:
    """f_1 = ½‖x‖² + bᵀx, f_2 = ½xᵀdiag(L, 1)x − bᵀx: x* = 0 for every b (FedLin, appendix E).

    >>> theorem5_instance(20.0).optimum.x
    array([0., 0.])
    """
    if not (np.isfinite(L) and L >= 1):
        raise InputError(f"the instance of Theorem 5 needs a finite L ≥ 1 (the theorem L ≥ 14), got {L}")
    shift = np.asarray(b, float)
    return quadratic(np.array([np.eye(2), np.diag([float(L), 1.0])]), np.stack([-shift, shift]))


def theorem5_eigenvalues(eta: Any, steps: int, L: float) -> tuple[np.ndarray, np.ndarray]:
    """(λ_1, λ_2) of M on the instance, as the paper prints them; here `eta` is the client's step η, not η̄ = Hη.

    λ_1 = ((1 − η)^H + (1 − ηL)^H/L)(L + 1)/4 − (L − 1)²/(4L),  λ_2 = (1 − η)^H.
    """
    eta = np.asarray(eta, float)
    second = (1 - eta) ** steps
    first = (second + (1 - eta * L) ** steps / L) * (L + 1) / 4 - (L - 1) ** 2 / (4 * L)
    return first, second


def spectral_radii(problem: Any, etas: Sequence[float], steps: Sequence[Any], method: str = "fedlin") -> np.ndarray:
    """The spectral radius over a grid: one row for each entry of `steps` (a number or τ_i), one column for each η.

    >>> spectral_radii(theorem5_instance(14.0), [0.1, 2.0], [2, 50]).round(3)
    array([[ 0.902, 42.25 ],
           [ 0.905,  2.531]])
    """
    _, made = _known(method)
    family = Quadratics.of(problem)
    return np.array([[made(family, float(eta), count).spectral_radius for eta in etas] for count in steps])


def largest_stable_eta(problem: Any, steps: Any = 1, method: str = "fedlin") -> float:
    """The end of the first interval of stable step sizes: the rounds settle for every smaller η, and not just above it.

    The set of stable η can have further parts beyond it (see `stable_intervals`), so the first crossing of radius 1 is found
    by a scan in steps of 4 % and then bisected. A stable part narrower than that between two crossings would be missed.

    >>> eta = largest_stable_eta(theorem5_instance(14.0), steps=10)
    >>> eta / 10 < 1 / 10                  # Theorem 5: the client's step must stay below 1/H
    True
    """
    intervals = stable_intervals(problem, steps, method, first_only=True)
    if not intervals:
        raise InputError(f"{method} has no stable step size here that the scan could see: is f bounded below?")
    return intervals[0][1]


def stable_intervals(
    problem: Any, steps: Any = 1, method: str = "fedlin", first_only: bool = False, up_to: float | None = None
) -> list[tuple[float, float]]:
    """Intervals of step sizes on which the spectral radius is below 1, from a scan up to `up_to`, their ends bisected.

    By default the scan ends where every client's own local steps blow up for certain: at 4τ times the order of magnitude of the
    method's step, that is at 4τ/L for FedLin, whose clients take η/τ, and at 4/L where they take η.
    """
    known, made = _known(method)
    family = Quadratics.of(problem)
    scale = known.scale(family.smoothness, 0.0, np.asarray(steps))
    top = 4 * float(np.max(np.asarray(steps))) * scale if up_to is None else float(up_to)

    def stable(eta: float) -> bool:
        return made(family, eta, steps).spectral_radius < 1

    def crossing(low: float, high: float) -> float:
        before = stable(low)
        while high - low > DIGITS * high:
            middle = (low + high) / 2
            if not low < middle < high:
                break
            low, high = (middle, high) if stable(middle) == before else (low, middle)
        return low if before else high

    found: list[tuple[float, float]] = []
    eta = begin = scale / 100
    inside = stable(eta)
    if inside:
        begin = 0.0  # small enough steps are stable where any are
    while eta < top:
        following = eta * SCAN
        now = stable(following)
        if now != inside:
            edge = crossing(eta, following)
            if inside:
                found.append((begin, edge))
                if first_only:
                    return found
            else:
                begin = edge
        eta, inside = following, now
    return [*found, (begin, eta)] if inside else found


def _known(method: str) -> tuple[Known, Callable[[Quadratics, float, Any], RoundMap]]:
    """The record of a method, and its round map as a function of its step size, other parameters at their defaults."""
    known = KNOWN.get(method, Known())
    rounds = known.round_map
    if rounds is None:
        able = [name for name, one in KNOWN.items() if one.round_map is not None]
        raise unknown("method with a step size and a round map", method, able)

    def made(q: Quadratics, step: float, steps: Any) -> RoundMap:
        return rounds(q, METHODS[method](**{known.number: step}).parameters, steps)

    return known, made
