"""The rounds after which a theorem or a certificate promises the target, beside those that are predicted."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..engine.description import Run
from ..errors import InputError
from ..oracles import Full
from ..problems.base import Problem
from ..theory.bound import Bound
from ..theory.certificates.choice import bound_of, certificate_of
from ..theory.constants import Constants, constants
from .options import Option


@dataclasses.dataclass(frozen=True)
class Guarantee:
    """A theorem or a certificate with its own step size; `rounds` is None where it never promises the target."""

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
        self.problem, self.L = problem, float(problem.constants.L)

    def of(self, option: Option, steps: Any) -> Guarantee | None:
        """The strongly convex theorem that covers this method, if one does."""
        if option.known.bound is None:
            return None
        run = self._run(option, steps)
        try:
            bound = option.known.bound(run, self.constants)
        except (InputError, TypeError):
            return None  # an assumption fails here; the page of the theory says which
        return self._to_target(bound)

    def certified(self, option: Option, steps: Any) -> Guarantee | None:
        """The certificate that covers this method with these local steps, if there is one without memory."""
        if option.known.certified is None:
            return None
        run = self._run(option, steps)
        try:
            found = certificate_of(run, lambda: self.constants)
        except InputError:
            return None  # the table has no entry, or the method is not covered; eta="certified" says why
        return self._to_target(bound_of(run, found, self.constants))

    def _run(self, option: Option, steps: Any) -> Run:
        """A run of the method; a bound has numbers of its own, those of this method do not matter to it."""
        method = option.make(option.scale(self.L, 0.0, steps), steps)
        return Run.of(method, self.problem, 0, oracle=Full(), **method.given(np.asarray(steps)))

    def _to_target(self, bound: Bound | None) -> Guarantee | None:
        if bound is None or bound.subject not in ("gap", "sq_distance", "gap of the weighted mean"):
            return None
        start = self.start_gap if bound.start == "gap" else self.sq_distance
        wanted = 2 * self.target / self.L if bound.subject == "sq_distance" else self.target
        floor = bound.floor * (self.L / 2 if bound.subject == "sq_distance" else 1)
        return Guarantee(
            bound.theorem, bound.rounds_to(wanted, start), floor / self.start_gap, dict(bound.numbers), bound
        )
