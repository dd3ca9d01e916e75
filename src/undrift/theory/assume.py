"""What theorems assume of the losses, refused by name where it is not so."""

from __future__ import annotations

from ..errors import InputError
from .bound import Assumption, known, require_positive, required
from .constants import Constants

MEASURE = "measure it along a path: ud.theory.constants(problem, path=run.iterates)"


def smooth(theorem: str, constants: Constants) -> tuple[float, tuple[Assumption, ...]]:
    """L, for f_i that are all L-smooth."""
    L = required(theorem, "L-smoothness of every f_i", "L", constants.L, MEASURE)
    require_positive(theorem, "L-smoothness of every f_i", "L", L, "a constant f needs no optimisation")
    return float(L), (known("L-smoothness of every f_i", L),)


def convex_losses(theorem: str, constants: Constants) -> Assumption:
    """That every f_i is convex."""
    mu = required(theorem, "convexity of every f_i", "μ", constants.mu, MEASURE)
    if mu < 0:
        raise InputError(
            f"{theorem} assumes convexity of every f_i, but here min_i μ_i = {float(mu):g} < 0: use the non-convex theorem"
        )
    return known("convexity of every f_i", mu)


def smooth_and_strongly_convex(theorem: str, constants: Constants) -> tuple[float, float, tuple[Assumption, ...]]:
    """L and μ, for f_i that are all L-smooth and μ-strongly convex."""
    L, assumptions = smooth(theorem, constants)
    mu = required(theorem, "strong convexity of every f_i", "μ", constants.mu, MEASURE)
    require_positive(
        theorem, "strong convexity of every f_i", "μ", mu, "add a regulariser, or use the theorem for convex losses"
    )
    return L, float(mu), (*assumptions, known("strong convexity of every f_i", mu))
