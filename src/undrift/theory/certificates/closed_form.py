"""Worst cases that are known in closed form: what quadratics attain, and what seems to be all there is."""

from __future__ import annotations

from collections.abc import Sequence

from .rounds import METHODS


def quadratic_rate(method: str, eta: float, kappa: float, steps: Sequence[int]) -> float:
    """The contraction of ‖x − x*‖² on f_i(x) = (a/2)x² at all clients, the worse of a = μ = 1/κ and a = L = 1.

    A worst case from below: no certificate can promise more. η is in units of 1/L. With τ steps FedLin contracts x by
    (1 − η̄a/τ)^τ, as SCAFFOLD does with η̄ = ητ; FedSplit by (1 − sa)/(1 + sa).

    >>> f"{quadratic_rate('fedlin', 2.0, 10.0, [2]):.4f}"  # (1 − 0.1)⁴
    '0.6561'
    """
    factor = METHODS[method].quadratic
    return max(abs(factor(eta, a, tau)) for a in (1 / kappa, 1.0) for tau in steps) ** 2
