"""All that a step size may depend on, and what theorems ask of it."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from ..errors import InputError
from ..oracles import MiniBatch, Oracle
from ..plan import Everyone, Participation, Permuted, Uniform
from ..problems.base import Problem
from ..problems.least_squares import LeastSquares
from ..problems.quadratic import QuadraticFamily
from ..recipe import Method
from .bound import Bound
from .constants import Constants, known_without_measuring
from .quantity import measured

EVERYONE = "that every client takes part in every round"


@dataclasses.dataclass(frozen=True)
class Situation:
    """All that a step size may depend on."""

    method: Method
    problem: Problem
    steps: Any
    oracle: Oracle
    participation: Participation
    failures: float

    @property
    def name(self) -> str:
        return self.method.name

    def setting(self, key: str) -> Any:
        return dict(self.method.recipe.settings).get(key)

    def number(self, key: str) -> float:
        return float(self.method.numbers[key])

    @property
    def constants(self) -> Constants:
        found = known_without_measuring(self.problem)
        # Steps do not depend on σ², bounds do: any value will do to ask for the former.
        return dataclasses.replace(found, sigma_sq=measured(0.0, "not asked for")) if found.sigma_sq is None else found

    @property
    def exact(self) -> bool:
        return self.oracle.exact

    @property
    def takes_everyone(self) -> bool:
        who, m = self.participation, self.problem.clients
        whole = isinstance(who, Everyone) or (
            isinstance(who, Uniform | Permuted) and who.count == m and not getattr(who, "replace", False)
        )
        return whole and self.failures == 0

    def need_everyone(self, theorem: str) -> None:
        if not self.takes_everyone:
            raise InputError(
                f"{theorem} assumes {EVERYONE}; here participation is {self.participation}, failures {self.failures:g}: "
                "give a number for eta"
            )

    def need_plain(self, theorem: str) -> None:
        """No solver, server optimiser or compressed link in place of plain steps."""
        extra = [key for key in ("solver", "server") if self.setting(key) is not None]
        extra += [str(wrapper) for wrapper in self.method.recipe.wrap]
        if extra:
            raise InputError(
                f"{theorem} is about plain steps and whole messages, here with {', '.join(extra)}: give eta"
            )
        if self.method.numbers.get("server_eta", 1.0) != 1.0 and self.name in ("fedavg", "fedprox"):
            raise InputError(f"{theorem} assumes server_eta = 1, got {self.number('server_eta'):g}: give eta")

    def need_bounded_variance(self, theorem: str) -> None:
        """Mini-batches of least squares have a variance that grows with ‖x‖², so no σ² bounds it everywhere."""
        if isinstance(self.oracle, MiniBatch) and isinstance(self.problem, QuadraticFamily | LeastSquares):
            raise InputError(
                f"{theorem} assumes gradients of variance ≤ σ² everywhere, and that of mini-batches of a {self.problem.name} "
                "problem grows without bound: give eta (or oracle=ud.oracles.full())"
            )


class Chosen(NamedTuple):
    """Numbers of a method, the theorem they come from, and its guarantee where it gives one."""

    numbers: dict[str, float]
    theorem: str
    bound: Bound | None = None
