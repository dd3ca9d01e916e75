"""`ud.theory.advise`: the adviser, whose measuring part needs the engine, opened only when it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..advice import Advice
    from ..problems.base import Problem


def advise(problem: Problem, target: float = 1e-6, **settings: Any) -> Advice:
    """Which method, step size, local steps and compression reach the target at the least cost, and why.

    The settings are those of `undrift.advice.advise`.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> advise(p, 1e-6, steps=[10], methods=["fedavg", "fedlin"]).recommended.label
    'fedlin'
    """
    from ..advice import advise as ask

    return ask(problem, target, **settings)
