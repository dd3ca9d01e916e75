"""What a semidefinite programme has shown of a method."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from ...errors import InputError

Measure = Literal["sq_distance", "gap", "sq_gradient"]


@dataclasses.dataclass(frozen=True)
class Certificate:
    """`measure` after a round is at most `rate` times what it was, for all L-smooth, μ-strongly convex losses of the clients.

    `eta` is the method's own number (for FedLin η̄, of which a client takes η̄/τ_i a step), and `numbers` are all of them
    (`ud.fedlin(**c.numbers)`). Where a method has memory, what contracts is a Lyapunov function V that is at least `measure`,
    so that measure_T ≤ rate^T V_0; `memory` says which. `residual` is the distance of the rate to the worst case that was
    found from below: how well the certificate closes. `exact`: the inequality was checked in rational arithmetic.
    """

    method: str
    measure: Measure
    eta: float
    rate: float
    residual: float
    L: float
    mu: float
    steps: tuple[int, ...]  # the numbers of local steps that clients may take, in any mixture
    numbers: dict[str, float]
    scope: str  # the clients it speaks of: "any number of clients, any weights", …
    exact: bool
    source: str  # "solved", or "table: κ = 12.6 covers κ = 10"
    memory: str | None = None
    worst: Any = dataclasses.field(
        default=None, repr=False
    )  # the worst case that was found from below (`finite.WorstCase`), where it was solved here
    per: str = "round"
    P: Any = dataclasses.field(
        default=None, repr=False
    )  # of V, where a method has memory and was solved here; gradients in its state are told in units of L

    def rounds_to(self, target: float) -> int | None:
        """Rounds (of `per`) after which `measure` (or V) is promised to be at most target, from 1; None where the rate is ≥ 1.

        >>> Certificate("gd", "sq_distance", 1.0, 0.5, 0.0, 1.0, 0.5, (1,), {}, "", True, "solved").rounds_to(0.1)
        4
        """
        if not 0 < target < 1:
            raise InputError(f"a target is a share of what was there at the start, between 0 and 1; got {target}")
        return None if not self.rate < 1 else math.ceil(math.log(target) / math.log(self.rate))
