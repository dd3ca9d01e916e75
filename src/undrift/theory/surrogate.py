"""What FedAvg, FedProx and FedNova really minimise on quadratics (FedLin, Propositions 1 and 2).

With f_i(x) = ½(x − c_i)ᵀA_i(x − c_i), T rounds are T steps of gradient descent on

    f̃(x) = Σ w_i ½ (x − c_i)ᵀ Q_i A_i (x − c_i),    Q_i = α_i Σ_{ℓ<τ_i} (I − η(A_i + βI))^ℓ,

with α_i = 1 for FedAvg (β = 0) and FedProx, α_i = τ_eff/τ_i for FedNova. Q_i distorts how much each client counts in each
direction, and the minimiser of f̃ is in general not that of f, unless all clients have the same minimiser or curvature.
Nothing else is needed of A_i than symmetry: singular ones are allowed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import InputError
from . import round_map


@dataclasses.dataclass(frozen=True)
class Surrogate:
    """The problem ½xᵀKx − kᵀx that the method solves instead, where it ends, and how far that is from x*."""

    method: str
    x: np.ndarray  # argmin f̃: the limit of the rounds
    distance: float  # ‖x − x*‖
    gap: float  # f(x) − f*
    hessian: np.ndarray  # K = Σ w_i Q_i A_i
    linear: np.ndarray  # k = Σ w_i Q_i A_i c_i
    rate: float  # ‖x_{t+1} − x‖ ≤ rate ‖x_t − x‖: the spectral radius of I − ηK; ≥ 1: the rounds do not settle

    @property
    def settles(self) -> bool:
        """Whether the rounds converge to `x` from everywhere."""
        return self.rate < 1


def fedavg(problem: Any, eta: float, steps: Any = 1) -> Surrogate:
    """Proposition 1 with β = 0, for unequal τ_i too.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> s = fedavg(p, eta=0.1, steps=10)
    >>> f"{s.x[0]:.2f}, but x* = {p.optimum.x[0]:.2f}; a gap of {s.gap:.1f} is left"
    '30.17, but x* = 34.33; a gap of 13.0 is left'
    """
    return dataclasses.replace(fedprox(problem, eta, steps, 0.0), method="fedavg")


def fedprox(problem: Any, eta: float, steps: Any = 1, beta: float = 0.0) -> Surrogate:
    """Proposition 1, for unequal τ_i too.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> near, far = fedprox(p, 0.1, 50, beta=5.0), fedavg(p, 0.1, 50)
    >>> near.distance < far.distance
    True
    """
    _check(eta=eta, beta=beta)
    return _made(round_map.fedprox(problem, eta, steps, beta), eta)


def fednova(problem: Any, eta: float, steps: Any = 1) -> Surrogate:
    """Proposition 2.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> f"{fednova(p, eta=0.01, steps=[50, 30]).x[0]:.2f}"
    '33.89'
    """
    _check(eta=eta)
    return _made(round_map.fednova(problem, eta, steps), eta)


def _made(found: round_map.RoundMap, eta: float) -> Surrogate:
    assert found.surrogate is not None
    q, (hessian, linear) = found.family, found.surrogate
    return Surrogate(
        found.method,
        found.limit,
        float(np.linalg.norm(found.limit - q.x)),
        float(q.gap(found.limit)),
        hessian / eta,
        linear / eta,
        found.spectral_radius,
    )


def _check(**numbers: float) -> None:
    for name, value in numbers.items():
        least = value >= 0 if name == "beta" else value > 0
        if not (np.isfinite(value) and least):
            raise InputError(f"{name} must be a finite number {'≥' if name == 'beta' else '>'} 0, got {value}")
