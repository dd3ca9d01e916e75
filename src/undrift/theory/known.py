"""What is known of a method, in one record: step rule, bound, round map, usual parameters, colour, words.

Records of the library's own methods stand in `theory.methods`. A user's method brings its own:

    @ud.method(known=ud.Known(bound=my_bound, colour="#882255"))
    def mine(eta: float) -> ud.Algorithm: ...

and then `eta="theorem"`, `advise`, `compare` and `explain` serve it as they serve the others.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from ..engine.description import Run
from ..errors import InputError
from ..plan import ChangingSteps
from ..problems.base import Problem
from .bound import Bound, known_steps
from .certificates.record import Certifiable
from .constants import Constants
from .paths import Path, Recursion, predicted
from .quadratics import Quadratics
from .round_map import RoundMap

Steps = Any  # one number of local steps, or one per client


class Chosen(NamedTuple):
    """Numbers of a method, the theorem they come from, and its guarantee where it gives one."""

    numbers: dict[str, float]
    theorem: str
    bound: Bound | None = None

    @classmethod
    def of(cls, bound: Bound) -> Chosen:
        """The numbers of a theorem, which says what it does not cover."""
        failing = [f"{a.name}: {a.detail}" if a.detail else a.name for a in bound.assumptions if a.status == "fails"]
        beyond = f" (not covered: {'; '.join(failing)})" if failing else ""
        return cls(dict(bound.numbers), bound.theorem + beyond, bound)


class Usual(NamedTuple):
    """A usual value of a parameter, and the reason for it."""

    value: Any
    why: str


def per_local_step(L: float, mu: float, steps: Steps) -> float:
    """1/(Lτ), τ the largest: a round's local steps together are as long as one step of gradient descent."""
    return 1 / (L * float(np.max(steps)))


def per_round(L: float, mu: float, steps: Steps) -> float:
    """1/L, whatever τ."""
    return 1 / L


@dataclasses.dataclass(frozen=True)
class Known:
    """What is known of a method. Every field may be left out; a `run` has the method, problem and plan that it speaks of.

    | field | what it says |
    |---|---|
    | step(run) | numbers by a theorem, or a refusal where none covers the run; left out: those of `bound` |
    | bound(run, constants) | the guarantee on strongly convex losses, with the theorem's own numbers; None: none here |
    | round_map(q, values, steps) | one round on quadratics, `values` being the method's parameters (see below) |
    | path(recursion) | a prediction where a round is no affine map; without either the adviser can only measure |
    | number, scale(L, μ, τ) | the step size that is searched for, and its order of magnitude |
    | usual_step(problem, steps, given) | its value, with the reason, where it was not given; left out: by its scale |
    | usual(problem, steps, given) | the same of other parameters |
    | advised(problem, steps, step) | parameters that go with a step size in the adviser, where not the usual ones |
    | without_prox | parameters that may be left out only where clients know their proximal operator in closed form |
    | variants, suits(problem) | further settings to advise ("name+variant"), and whether to consider it at all |
    | with_settings(given) | the record of what these settings make of it, where that is another method; None: this one |
    | local, local_words | clients take each their τ_i steps, all the mean of them, or none but one; what these are called |
    | drifts | whether local steps lead it away from x* and nothing corrects that |
    | certified | what the table of certificates is asked about it; None: there are none |
    | rule, colour | the step rule in words, with its source; "#rrggbb" |

    Where a round map has no diagonal form, numbers among `values` are arrays (k,), one entry for each of k columns of states.

    >>> import undrift as ud
    >>> @ud.method(known=ud.Known(step=lambda run: Chosen({"eta": 1 / run.problem.constants.L}, "the descent lemma")))
    ... def mine(eta: float) -> ud.Algorithm:
    ...     return ud.fedsgd.function(eta)
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> ud.run(mine(eta="theorem"), p, rounds=1).setting["theorem"]
    'the descent lemma'
    """

    step: Callable[[Run], Chosen] | None = None
    bound: Callable[[Run, Constants], Bound | None] | None = None
    round_map: Callable[[Quadratics, Mapping[str, Any], Steps], RoundMap] | None = None
    path: Callable[[Recursion], Path | None] | None = None
    number: str = "eta"
    scale: Callable[[float, float, Steps], float] = per_local_step
    usual_step: Callable[[Problem, Steps, Mapping[str, Any]], Usual] | None = None
    usual: Callable[[Problem, Steps, Mapping[str, Any]], Mapping[str, Usual]] = lambda problem, steps, given: {}
    advised: Callable[[Problem, Steps, float], Mapping[str, Any]] | None = None
    without_prox: tuple[str, ...] = ()
    variants: Mapping[str, Callable[[Problem], list[dict[str, Any]]]] = dataclasses.field(default_factory=dict)
    suits: Callable[[Problem], bool] = lambda problem: True
    with_settings: Callable[[Mapping[str, Any]], Known | None] = lambda given: None
    local: Literal["each", "mean", "none"] = "each"
    local_words: str = "local steps"
    drifts: bool = False
    certified: Certifiable | None = None
    rule: str = ""
    colour: str | None = None

    def __post_init__(self) -> None:
        if self.colour is not None and not re.fullmatch("#[0-9A-Fa-f]{6}", self.colour):
            raise InputError(f"a colour is written #rrggbb, got {self.colour!r}: for example #882255")

    def under(self, given: Mapping[str, Any]) -> Known:
        """What is known of the method with these settings."""
        return self.with_settings(given) or self

    def choose(self, run: Run, constants: Callable[[], Constants]) -> Chosen | None:
        """The numbers that a theorem asks for; None where there is no rule."""
        if self.step is not None:
            return self.step(run)
        bound = None if self.bound is None else self.bound(run, constants())
        return None if bound is None else Chosen.of(bound)

    def values(self, problem: Problem, steps: Steps, given: Mapping[str, Any]) -> dict[str, Usual]:
        """Usual values for all parameters."""
        if self.usual_step is None:
            step = step_of_scale(self.scale, problem, steps)
        else:
            step = self.usual_step(problem, steps, given)
        return {self.number: step, **self.usual(problem, steps, given)}

    def parameters(self, problem: Problem, steps: Steps, step: float) -> dict[str, Any]:
        """All that a factory needs to make the method with this step size."""
        if self.advised is not None:
            return {self.number: step, **self.advised(problem, steps, step)}
        others = {name: usual.value for name, usual in self.usual(problem, steps, {self.number: step}).items()}
        return {**others, self.number: step}

    def predict(self, recursion: Recursion) -> Path | None:
        """The path of a method on quadratics; None where only measuring can tell."""
        return self.path(recursion) if self.path is not None else predicted(recursion, self.round_map)


def step_of_scale(scale: Callable[[float, float, Steps], float], problem: Problem, steps: Steps) -> Usual:
    """A step size of the right order."""
    L, mu, counts = problem.constants.L, problem.constants.mu, steps_beforehand(steps)
    words: dict[Callable[[float, float, Steps], float], str] = {
        per_round: f"1/L, L = {L:.3g}",
        per_local_step: f"1/(L τ), L = {L:.3g}, longest τ = {float(np.max(counts)):g}",
    }
    return Usual(three_digits(scale(L, mu, counts)), words.get(scale, "the order of magnitude that is known of it"))


def steps_beforehand(steps: Steps) -> np.ndarray:
    """τ as far as it is known before the run: the largest where it is drawn anew in every round (the mean where there is
    none), 1 where nobody knows."""
    if isinstance(steps, ChangingSteps) and steps.largest is None:
        return np.asarray(1 if steps.mean is None else round(steps.mean))
    return np.asarray(1) if callable(steps) else known_steps(steps)


def three_digits(value: float) -> float:
    """What is said is what is used."""
    return float(f"{value:.3g}")
