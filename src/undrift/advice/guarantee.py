"""The rounds after which a theorem promises the target, beside those that are predicted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import InputError
from ..problems.base import Problem
from ..theory import centralised, fedavg, fedlin, fedtrack, ssl
from ..theory.bound import Bound
from ..theory.constants import Constants, constants
from .options import Option


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """A theorem with its own step size; `rounds` is None where it never promises the target."""

    theorem: str
    rounds: int | None
    floor: float  # relative
    numbers: dict[str, float]
    bound: Bound

    def curve(self, rounds: int, start_gap: float, start_sq_distance: float, L: float) -> np.ndarray:
        """The promised f(x_t) − f*, relative to the first."""
        start = start_gap if self.bound.start == "gap" else start_sq_distance
        values = self.bound.curve(rounds, start)
        return values * (L / 2 if self.bound.subject == "sq_distance" else 1) / start_gap


class Guarantees:
    """Bounds for a problem and a start; the constants are found once."""

    def __init__(self, problem: Problem, x0: np.ndarray, start_gap: float, target: float) -> None:
        self.start_gap, self.target = start_gap, target
        self.sq_distance = float(np.sum((x0 - np.asarray(problem.optimum.x, float)) ** 2))
        self.constants: Constants = constants(problem, x0=x0)
        self.L = float(problem.constants.L)
        self.dim = problem.dim

    def of(self, option: Option, steps: Any) -> Guarantee | None:
        """The strongly convex theorem that covers this method, if one does."""
        try:
            bound = self._bound(option, steps)
        except (InputError, TypeError):
            return None  # an assumption fails here; the page of the theory says which
        if bound is None or bound.subject not in ("gap", "sq_distance", "gap of the weighted mean"):
            return None
        start = self.start_gap if bound.start == "gap" else self.sq_distance
        wanted = 2 * self.target / self.L if bound.subject == "sq_distance" else self.target
        floor = bound.floor * (self.L / 2 if bound.subject == "sq_distance" else 1)
        return Guarantee(
            bound.theorem, bound.rounds_to(wanted, start), floor / self.start_gap, dict(bound.numbers), bound
        )

    def _bound(self, option: Option, steps: Any) -> Bound | None:
        counts = np.asarray(steps)
        longest = int(np.max(counts))
        equal = int(np.min(counts)) == longest
        if option.down is not None:
            return fedlin.server_sparse_memory(self.constants, option.down.contraction(self.dim), counts)
        if option.name == "fedlin":
            return fedlin.strongly_convex(self.constants, counts)
        if option.name == "fedtrack":
            return fedtrack.strongly_convex(self.constants, counts)
        if option.name == "fedsgd":
            return centralised.gd(self.constants, 1)
        if option.name == "gd":
            return centralised.gd(self.constants, round(float(np.mean(counts))))
        if option.name == "fedavg" and equal:
            return fedavg.strongly_convex(self.constants, longest)
        if option.name == "sequential_fl" and equal:
            return ssl.strongly_convex(self.constants, longest)
        return None
