"""The adviser: every method with several numbers of local steps, its cost to the target, and which to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.description import Run
from ..errors import InputError, unknown
from ..oracles import Oracle
from ..plan import Availability, Everyone, Participation
from ..problems.base import Problem
from ..recipe import Factory, Recipe
from ..resources import Resources
from ..theory.round_map import per_client
from .costs import tariff
from .guarantee import Guarantees
from .measure import Goal, measure
from .options import Option, options_for, smoothness_of
from .predict import Models
from .result import CURVE_ROUNDS, Advice, Candidate, order
from .words import reasons

LOCAL_STEPS = (1, 2, 5, 10, 20, 50)
CRITERIA = ("seconds", "bytes", "rounds", "gradients")
ROUNDING = 64  # units in the last place by which two equal values of f may differ
PER_METHOD = 2  # numbers of local steps per method that are measured where there is a prediction


def advise(
    problem: Problem,
    target: float = 1e-6,
    *,
    on: str = "gap",
    absolute: bool = False,
    steps: Sequence[Any] = LOCAL_STEPS,
    speeds: Any = 100.0,
    link: Any = None,
    by: str = "seconds",
    methods: Sequence[str | Factory] | None = None,
    measure: bool = False,
    rounds: int = 2000,
    seed: int = 0,
    x0: Any = None,
    oracle: Oracle | None = None,
    participation: Participation | None = None,
    failures: float = 0.0,
    availability: Availability | None = None,
    measured_local_steps: int = PER_METHOD,
    factors: tuple[float, ...] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Advice:
    """Which method, step size, local steps and compression reach the target at the least cost, and why.

    target: f(x) − f* ≤ target·(f(x_0) − f*), or absolutely; on="loss" or "accuracy": a value that only measuring can tell
    about. steps: numbers of local steps to consider, each one number or one per client. speeds, link: see `Resources`. by:
    what is minimised. methods: names, or factories of your own (see `ud.Known`). measure: run the candidates (for each method
    those `measured_local_steps` local steps that are predicted to be cheapest) for at most `rounds` rounds, over step sizes
    around the predicted ones or by `factors` of them.

    >>> import undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> a = advise(p, 1e-6, steps=[10], methods=["fedavg", "fedlin"])
    >>> a.recommended.label, a.recommended.how, a.candidates[1].forecast.rounds
    ('fedlin', 'exact', 2)
    """
    if by not in CRITERIA:
        raise unknown("criterion", by, CRITERIA)
    if on not in ("gap", "loss", "accuracy"):
        raise unknown("target column", on, ("gap", "loss", "accuracy"))
    if not (np.isfinite(target) and (target > 0 or on == "loss")):
        raise InputError(f"the target must be a finite number > 0, got {target}")
    if not steps:
        raise InputError("name at least one number of local steps")
    for entry in steps:
        per_client(entry, problem.clients)  # refuses what are not local steps
    resources = Resources.of(problem.clients, speeds, link)
    options = options_for(problem, methods, everyone=_everyone(participation, failures, availability))
    run = Run.of(options[0].make(1.0, 1), problem, 0, seed=seed, x0=x0, oracle=oracle)
    plan = {"oracle": oracle, "participation": participation, "failures": failures, "availability": availability}
    goal, start = _goal(problem, run.x0, on, target, absolute)
    models, how = _models(problem, run.x0, goal, plan)
    if models is None and not measure:
        raise InputError(f"{how}: only measuring can tell; ask for it (measure=True, or --measure)")
    guarantees = None if models is None else _guarantees(problem, run.x0, start, goal)
    jobs = [(option, tau) for option in options for tau in _local_steps(option, steps, resources, problem.clients)]
    candidates: list[Candidate] = []
    shapes: dict[Recipe, Any] = {}
    for number, (option, tau) in enumerate(jobs):
        if progress is not None:
            progress("predicting", number, len(jobs))
        prices = tariff(option.make(1.0, tau), problem, tau, resources, oracle, shapes)
        forecast = None if models is None else models.forecast(option, tau, seed)
        promises = (
            [None, None] if guarantees is None else [guarantees.of(option, tau), guarantees.certified(option, tau)]
        )
        candidates.append(Candidate(option, tau, prices, "unknown" if forecast is None else how, forecast, *promises))
    made = Advice(
        problem, goal, None if absolute or on != "gap" else target, start, resources, by, how, tuple(candidates), None,
        x0=None if on != "gap" else np.asarray(run.x0, float),
    )  # fmt: skip
    if measure:
        made = _measured(made, rounds, seed, x0, plan, measured_local_steps, factors, progress)
    return _decided(made, models, seed)


def _everyone(participation: Participation | None, failures: float, availability: Availability | None) -> bool:
    return not failures and isinstance(participation, Everyone | None) and availability is None


def _goal(problem: Problem, x0: np.ndarray, on: str, target: float, absolute: bool) -> tuple[Goal, float]:
    columns = problem.evaluation_shapes(problem.reference(asked=True)).columns
    if on != "gap" and on not in columns:
        raise InputError(f"a {problem.name} problem has no {on}; its columns are {', '.join(columns)}")
    if on != "gap":
        return Goal(on, float(target)), problem.value(x0) if on == "loss" else float("nan")
    reference = problem.reference(asked=True)
    if reference is None:
        raise InputError(
            f"f* of this {problem.name} problem is not known, so no gap can be a target: give a loss (on='loss', --on loss)"
        )
    value, least = problem.value(x0), float(reference.value)
    start = value - least
    if not np.isfinite(start):
        raise InputError(f"f(x_0) − f* = {value:.6g} − {least:.6g} is not a finite number: give another x0")
    # A difference of this size may be rounding alone: it can be zero, of either sign, and differ from CPU to CPU.
    rounding = ROUNDING * float(np.finfo(problem.dtype).eps) * max(abs(value), abs(least))
    if np.array_equal(x0, reference.x) or not start > rounding:
        raise InputError(
            f"x_0 is the minimiser already, as far as {problem.dtype} can tell (f(x_0) = {value:.6g}, f* = {least:.6g}): there "
            "is nothing to advise; give another x0"
        )
    return Goal("gap", float(target) * (1.0 if absolute else start)), start


def _models(problem: Problem, x0: np.ndarray, goal: Goal, plan: dict[str, Any]) -> tuple[Models | None, str]:
    """The models that predictions are made from, or why there are none."""
    oracle = plan["oracle"] or problem.default_oracle
    if goal.column != "gap":
        return None, f"no theory predicts when the {goal.column} is reached"
    if not oracle.exact:
        return None, f"gradients are {oracle}, and predictions are made for exact ones"
    if not _everyone(plan["participation"], plan["failures"], plan["availability"]):
        return None, "not everyone takes part in every round, and predictions are made for full participation"
    try:
        models = Models(problem, np.asarray(x0, np.float64), goal.value)
    except InputError as error:
        return None, str(error)
    return models, models.how


def _guarantees(problem: Problem, x0: np.ndarray, start: float, goal: Goal) -> Guarantees | None:
    try:
        return Guarantees(problem, np.asarray(x0, np.float64), start, goal.value)
    except InputError:
        return None  # a constant that the theorems need is not known


def _local_steps(option: Option, steps: Sequence[Any], resources: Resources, clients: int) -> list[np.ndarray]:
    """τ_i to consider: as given, and where clients differ in speed also in proportion to it."""
    if not option.local:
        return [per_client(1, clients)]
    found = [per_client(entry, clients) for entry in steps]
    if resources.unequal and option.known.local == "each":
        found += [resources.steps_by_speed(int(tau[0])) for tau in found if np.all(tau == tau[0]) and tau[0] > 1]
    distinct = {tuple(int(t) for t in tau): tau for tau in found}
    return list(distinct.values())


def _measured(
    made: Advice,
    budget: int,
    seed: int,
    x0: Any,
    plan: dict[str, Any],
    per_method: int,
    factors: tuple[float, ...] | None,
    progress: Callable[[str, int, int], None] | None,
) -> Advice:
    """The same advice with the most promising candidates of every method measured."""
    chosen: list[int] = []
    for label in dict.fromkeys(candidate.label for candidate in made.candidates):
        mine = [i for i, candidate in enumerate(made.candidates) if candidate.label == label]
        mine.sort(key=lambda i: order(made, made.candidates[i]))
        chosen += mine if made.candidates[mine[0]].forecast is None else mine[:per_method]
    found = list(made.candidates)
    L = smoothness_of(made.problem)
    for number, i in enumerate(sorted(chosen)):
        if progress is not None:
            progress("measuring", number, len(chosen))
        candidate = found[i]
        option, forecast = candidate.option, candidate.forecast
        scale = None if L is None else option.scale(L, made.problem.constants.mu, candidate.steps)
        done = measure(
            option,
            made.problem,
            candidate.steps,
            made.goal,
            step=None if forecast is None else forecast.step or forecast.at_floor,
            scale=scale,
            exact=candidate.how == "exact",
            predicted=None if forecast is None else forecast.rounds,
            budget=budget,
            seed=seed,
            x0=x0,
            factors=factors,
            **(plan if not option.reference else {"oracle": plan["oracle"]}),
        )
        found[i] = dataclasses.replace(candidate, measured=done)
    return dataclasses.replace(made, candidates=tuple(found))


def _decided(made: Advice, models: Models | None, seed: int) -> Advice:
    """The recommendation, the curves that figures need, and the words."""
    if models is not None:
        shown = {id(candidate) for candidate in made.best_of_each()}
        made = dataclasses.replace(
            made,
            candidates=tuple(
                dataclasses.replace(c, curve=_curve(c, models, made, seed)) if id(c) in shown else c
                for c in made.candidates
            ),
        )
    able = [c for c in made.candidates if not c.option.reference and np.isfinite(made.price(c))]
    if made.how not in ("exact", "estimated") or any(c.measured is not None for c in able):
        able = [c for c in able if c.measured is not None]
    best = min(able, key=lambda c: order(made, c)) if able else None
    made = dataclasses.replace(made, recommended=best)
    return dataclasses.replace(made, why=tuple(reasons(made)))


def _curve(candidate: Candidate, models: Models, made: Advice, seed: int) -> np.ndarray | None:
    forecast = candidate.forecast
    step = None if forecast is None else forecast.step or forecast.at_floor
    if forecast is None or step is None:
        return None
    rounds = min(CURVE_ROUNDS, max(20, int(1.2 * (forecast.rounds or CURVE_ROUNDS // 10))))
    return models.curve(candidate.option, candidate.steps, step, rounds, seed) / made.start
