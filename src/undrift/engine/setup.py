"""The arguments of a run, checked once for all interpreters."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import InputError, unknown
from ..oracles import Oracle
from ..plan import Everyone, Participation, Plan, RandomSteps, uniform
from ..problems.base import Problem
from ..protocol import Algorithm
from ..recipe import Method, as_method
from ..resources import Resources

ON_DIVERGENCE = ("stop", "continue")


@dataclasses.dataclass(frozen=True)
class Setup:
    """A run, before it starts."""

    method: Method
    problem: Problem
    plan: Plan
    oracle: Oracle
    rounds: int
    seed: int
    x0: np.ndarray
    keep_iterates: bool
    record_every: int
    on_divergence: str
    resources: Resources

    @property
    def algorithm(self) -> Algorithm:
        return self.method.build(self.problem)

    def describe(self) -> dict[str, Any]:
        """The setting in words, for records."""
        theorem = {"theorem": self.method.chosen_by} if self.method.chosen_by else {}
        return {
            "method": str(self.method),
            **theorem,
            "problem": repr(self.problem),
            "rounds": self.rounds,
            "steps": str(self.plan.steps) if not callable(self.plan.steps) else "a function of the round",
            "participation": str(self.plan.participation),
            "failures": self.plan.failures,
            "oracle": str(self.oracle),
            "seed": self.seed,
            "record_every": self.record_every,
            "resources": str(self.resources),
        }


def prepare(
    method: Any,
    problem: Problem,
    *,
    rounds: int,
    steps: Any = 1,
    seed: int = 0,
    x0: Any = None,
    participation: Participation | None = None,
    failures: float = 0.0,
    oracle: Oracle | None = None,
    keep_iterates: bool = False,
    record_every: int = 1,
    on_divergence: str = "stop",
    resources: Resources | None = None,
) -> Setup:
    """Check everything a user can get wrong, and lay the run out."""
    method = as_method(method)
    if not isinstance(problem, Problem):
        raise InputError(f"a problem is what ud.problems.… returns, got {type(problem).__name__}")
    _whole("rounds", rounds, 0)
    _whole("record_every", record_every, 1)
    _whole("seed", seed, 0)
    if seed >= 2**32:
        raise InputError(f"seed must be below 2**32, got {seed}")
    if on_divergence not in ON_DIVERGENCE:
        raise unknown("on_divergence", on_divergence, ON_DIVERGENCE)
    if participation is not None and not isinstance(participation, Participation):
        raise InputError(f"participation is one of ud.plan.full(), uniform(n), rule(f, n); got {participation!r}")
    oracle = oracle or method.recipe.oracle or problem.default_oracle
    if not isinstance(oracle, Oracle):
        raise InputError(f"an oracle is one of ud.oracles.full(), minibatch(b), noisy(variance); got {oracle!r}")
    start = _start(x0, problem, seed)
    if participation is None:
        participation = uniform(problem.clients) if method.recipe.ordered else Everyone()
    resources = _resources_for(problem.clients, resources)
    plan = Plan(problem.clients, participation, steps, float(failures), int(seed))
    if method.by_theorem:
        method = _by_theorem(method, problem, plan, oracle)
    if method.recipe.split:
        problem.check_dialogue(oracle)
    if method.recipe.centralised:
        problem = problem.pooled()
        plan = Plan(1, Everyone(), _pooled_steps(steps), 0.0, int(seed))
        resources = resources.pooled()
    return Setup(
        method,
        problem,
        plan,
        oracle,
        int(rounds),
        int(seed),
        start,
        keep_iterates,
        int(record_every),
        on_divergence,
        resources,
    )


def _by_theorem(method: Method, problem: Problem, plan: Plan, oracle: Oracle) -> Method:
    from ..theory.step_rule import resolve  # only where somebody asks for it

    return resolve(
        method,
        problem,
        steps=plan.steps,
        oracle=oracle,
        participation=plan.participation,
        failures=plan.failures,
    )


def _resources_for(clients: int, given: Resources | None) -> Resources:
    """What turns work and bytes into seconds; equal clients with an ordinary link where nobody says."""
    if given is None:
        return Resources.of(clients)
    if not isinstance(given, Resources):
        raise InputError(f"resources are ud.Resources.of(clients, speeds, link), got {given!r}")
    if len(given.speeds) != clients:
        raise InputError(f"resources hold the speeds of {len(given.speeds)} clients, the problem has {clients}")
    return given


def _start(x0: Any, problem: Problem, seed: int) -> np.ndarray:
    if x0 is None:
        return problem.initial(seed)
    start = np.asarray(x0, problem.dtype)
    if start.shape != (problem.dim,):
        raise InputError(f"x0 must have shape (d,) = ({problem.dim},), got {start.shape}")
    if not np.all(np.isfinite(start)):
        raise InputError(f"x0 must be finite, entry {int(np.argmin(np.isfinite(start)))} is not")
    return start


def _pooled_steps(steps: Any) -> Any:
    """One machine in place of m: it takes as many steps as a client does on average."""
    if isinstance(steps, RandomSteps):
        return steps
    if callable(steps):
        return lambda round, key: max(1, round_mean(steps(round, key)))
    return round_mean(steps)


def round_mean(steps: Any) -> int:
    return int(np.rint(np.mean(np.asarray(steps))))


def _whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{name} must be a whole number ≥ {least}, got {value!r}")
