"""A theorem, evaluated: its step size, its curve, and what it assumes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ..errors import InputError
from ..plan import ChangingSteps
from .quantity import Quantity

Status = Literal["holds", "measured", "fails", "unknown"]
Subject = Literal[
    "gap",  # f(x_t) − f*
    "sq_distance",  # ‖x_t − x*‖²
    "gap of the running mean",  # f((1/t) Σ_{s<t} x_s) − f*
    "gap of the weighted mean",  # f(Σ w_r x_r / W_R) − f*
    "smallest sq_gradient",  # min_{s<t} ‖∇f(x_s)‖², or min_{s≤t} where `weights` say so
    "mean gap of the shadow sequence",  # (1/(τT)) Σ_t Σ_k f(x̄^{t,k}) − f*
]


@dataclasses.dataclass(frozen=True)
class Assumption:
    """One thing a theorem asks for, and whether it is so here."""

    name: str  # as papers call it: "μ-strong convexity"
    status: Status
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.status}{f' ({self.detail})' if self.detail else ''}"


@dataclasses.dataclass(frozen=True)
class Bound:
    """What a theorem promises for a method with this step size.

    `numbers` are the method's own parameters (`ud.fedlin(**bound.numbers)`), `eta` the step each client takes. `curve` bounds
    `subject` after 0, 1, …, T rounds, from above, or from below if `lower`; it starts from `start`. `weights(R)` are those of
    x_0, …, x_R in the averaged iterate, scaled to sum to one, where the theorem speaks of one. `telescoped` is the sharper
    right-hand side that the proof gives along a run.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> b = ud.theory.fedlin.strongly_convex(ud.theory.constants(p), steps=[50, 30])
    >>> print(b)
    FedLin, Theorem 1: f(x_T) − f* ≤ (1 − 1/(6κ))^T (f(x_0) − f*) [eta = 0.08333]
    >>> b.rounds_to(1e-6, start=1.0), b.holds_here
    (159, True)
    """

    theorem: str  # "FedLin, Theorem 1"
    statement: str
    method: str
    subject: Subject
    numbers: dict[str, Any]  # floats, or schedules of the round
    assumptions: tuple[Assumption, ...]
    values: Callable[[np.ndarray, float], np.ndarray]  # (rounds ≥ 1, start) -> guarantee
    rate: float | None = None  # the factor per round, where the guarantee is linear
    floor: float = 0.0  # what the guarantee tends to as T grows
    divided_by: Any = 1  # τ_i, where client i steps with numbers["eta"]/τ_i
    in_expectation: bool = False
    weights: Callable[[int], np.ndarray] | None = None  # R -> (R + 1,), summing to one
    lower: bool = False  # the curve bounds from below
    certified: bool = False  # shown by a certificate of the worst case, not by a paper's theorem
    steps: int | None = None  # K, where the theorem asks for the same number of local steps everywhere
    telescoped: Callable[[dict[str, np.ndarray]], np.ndarray] | None = None  # columns of a run -> sharper right side

    @property
    def start(self) -> Literal["gap", "sq_distance"]:
        """What `curve` starts from."""
        return "gap" if self.subject in ("gap", "smallest sq_gradient") else "sq_distance"

    @property
    def eta(self) -> np.ndarray:
        """The step each client takes: (m,), or () where all step alike; of a schedule the first."""
        given = self.numbers.get("eta", np.nan)
        return np.asarray((given(0.0) if callable(given) else given) / np.asarray(self.divided_by, float))

    def curve(self, rounds: int, start: float) -> np.ndarray:
        """The guarantee after 0 … rounds rounds, for a run that starts with this gap or ‖x_0 − x*‖² (see `start`).

        Entry 0 is NaN where the theorem says nothing before the first round.
        """
        if not (np.isfinite(start) and start >= 0):
            raise InputError(f"the start of a curve is {self.start} at round 0, a finite number ≥ 0; got {start}")
        t = np.arange(1, rounds + 1, dtype=float)
        before = float(start) if self.subject == self.start else np.nan
        return np.concatenate([[before], np.asarray(self.values(t, float(start)), float)])

    def rounds_to(self, target: float, start: float, at_most: int = 10**9) -> int | None:
        """The first round by which the theorem promises `subject` ≤ target; None if it never does."""
        return first_round(lambda t: bool(self.values(np.array([float(t)]), float(start))[0] <= target), at_most)

    @property
    def holds_here(self) -> bool:
        """Whether every assumption is known to hold: exact, not only measured."""
        return all(a.status == "holds" for a in self.assumptions)

    def __str__(self) -> str:
        steps = ", ".join(f"{k} = {v if callable(v) else format(v, '.4g')}" for k, v in self.numbers.items())
        return f"{self.theorem}: {self.statement} [{steps}]"


def first_round(reached: Callable[[int], bool], at_most: int) -> int | None:
    """The first round of 1, …, at_most at which something is reached that then stays so; None if it never is.

    >>> first_round(lambda t: t * t > 50, at_most=100)
    8
    """
    if not reached(at_most):
        return None
    low, high = 0, 1
    while not reached(min(high, at_most)):
        low, high = high, high * 2
    high = min(high, at_most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def require_positive(theorem: str, assumption: str, name: str, value: float, remedy: str) -> None:
    """Refuse a problem without the property a theorem needs, by the name of the assumption."""
    if not (np.isfinite(value) and value > 0):
        raise InputError(f"{theorem} assumes {assumption}, but here {name} = {float(value):g}: {remedy}")


def known(name: str, *quantities: float) -> Assumption:
    """An assumption that is as good as the constants it rests on."""
    found = [q for q in quantities if isinstance(q, Quantity) and q.how != "exact"]
    detail = "; ".join(f"{q.how} {q.where}" for q in found)
    return Assumption(name, "measured" if found else "holds", detail)


def required(theorem: str, assumption: str, name: str, value: Any, remedy: str) -> Any:
    """A constant that the theorem cannot do without; refused by the name of the assumption if nobody knows it."""
    if value is None:
        raise InputError(f"{theorem} assumes {assumption}, and {name} is not known here: {remedy}")
    return value


def known_steps(steps: Any) -> np.ndarray:
    """τ as numbers; the largest ones where they are drawn anew in every round."""
    if isinstance(steps, ChangingSteps) and steps.largest is not None:
        return np.asarray(steps.largest)
    if isinstance(steps, ChangingSteps):
        raise InputError(
            f"a theorem needs to know the local steps beforehand, and nobody knows the largest of {steps}: give a number"
        )
    if callable(steps):
        raise InputError("a theorem needs to know the local steps beforehand: give the largest τ as a number")
    found = np.asarray(steps)
    if found.ndim > 1 or np.any(found < 1) or np.any(found != np.floor(found)):
        raise InputError(f"local steps are whole numbers ≥ 1, one or one per client; got {steps!r}")
    return found


def longest(steps: Any) -> int:
    """The largest τ_i.

    >>> longest([5, 20, 10])
    20
    """
    return int(np.max(known_steps(steps)))


def same_steps(steps: Any) -> Assumption:
    """That all clients take K local steps in every round."""
    found = known_steps(steps)
    equal = not isinstance(steps, ChangingSteps) and bool(np.all(found == found.flat[0]))
    detail = "" if equal else f"they differ; evaluated with the largest, {int(found.max())}"
    return Assumption("the same number of local steps everywhere", "holds" if equal else "fails", detail)


def step_within(theorem: str, name: str, given: float | None, limit: float, formula: str) -> float:
    """The step asked for, or the largest one allowed; a larger one is refused."""
    if given is None:
        return float(limit)
    if not (np.isfinite(given) and 0 < given <= limit * (1 + 1e-9)):
        raise InputError(
            f"{theorem} holds for 0 < {name} ≤ {formula} = {limit:.6g}; got {given}: choose a smaller step"
        )
    return float(given)


def telescoping(factor: float, column: str) -> dict[str, Any]:
    """`values` and `telescoped` of a guarantee (factor/T)(c_0 − c_T), c a column of a run: the former drops or bounds c_T."""

    def along(run: dict[str, np.ndarray]) -> np.ndarray:
        c = run[column]
        t = np.arange(c.shape[-1], dtype=float)
        t[0] = np.nan  # no round was played
        return factor * (c[0] - c) / t

    return {"values": lambda t, start: factor / t * start, "telescoped": along}
