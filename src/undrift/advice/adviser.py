"""The adviser: every method with several numbers of local steps, its cost to the target, and which to take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.setup import prepare
from ..errors import InputError, unknown
from ..oracles import Oracle
from ..plan import Everyone, Participation
from ..problems.base import Problem
from ..resources import Resources
from ..theory.round_map import per_client
from .costs import Costs, Tariff, tariff
from .guarantee import Guarantee, Guarantees
from .measure import Goal, Measured, measure
from .options import Option, describe_steps, options_for
from .predict import SAFETY, Forecast, Models
from .words import reasons

LOCAL_STEPS = (1, 2, 5, 10, 20, 50)
CRITERIA = ("seconds", "bytes", "rounds", "gradients")
CURVE_ROUNDS = 5000  # of predicted curves that are kept for figures
PER_METHOD = 2  # numbers of local steps per method that are measured where there is a prediction


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One method with one choice of local steps."""

    option: Option
    steps: np.ndarray  # τ_i
    tariff: Tariff
    how: str  # exact, estimated or unknown
    forecast: Forecast | None = None
    guarantee: Guarantee | None = None
    measured: Measured | None = None
    curve: np.ndarray | None = None  # predicted gaps, relative, of the best candidate of each method

    @property
    def label(self) -> str:
        return self.option.label

    @property
    def local_steps(self) -> str:
        return describe_steps(self.steps) if self.option.local else "1"

    @property
    def predicted(self) -> Costs | None:
        """What it costs by prediction; None if it is not predicted to arrive."""
        if self.forecast is None or self.forecast.rounds is None:
            return None
        return self.tariff.after(self.forecast.rounds)

    @property
    def spent(self) -> Costs | None:
        """What it cost by measurement; None if it was not measured or did not arrive."""
        if self.measured is None or self.measured.rounds is None:
            return None
        return self.tariff.after(self.measured.rounds)

    @property
    def costs(self) -> Costs | None:
        """Measured where it was measured, else predicted."""
        return self.spent if self.measured is not None else self.predicted

    @property
    def reaches(self) -> bool | None:
        """Whether it reaches the target; None: nothing is known."""
        if self.measured is not None:
            return self.measured.rounds is not None
        return None if self.forecast is None else self.forecast.rounds is not None

    @property
    def step(self) -> float | None:
        """The step size to take."""
        if self.measured is not None:
            return self.measured.step
        return None if self.forecast is None else self.forecast.step

    def method_word(self) -> str:
        """As it is written on the command line."""
        if self.step is None:
            return self.option.name
        made = self.option.make(self.step, self.steps)
        settings = {k: v for k, v in made.recipe.settings if v is not None and k in ("inner_steps", "start")}
        numbers = {**made.numbers, **settings}
        numbers.pop("server_eta", None)
        inside = ",".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in numbers.items())
        down = f" --down top_k:{self.option.down.k}" if self.option.down is not None else ""
        return f"--method {self.option.name}:{inside}{down}"

    def words(self) -> dict[str, Any]:
        """For machines."""
        guarantee = self.guarantee
        return {
            "method": self.option.name,
            "label": self.label,
            "local_steps": [int(t) for t in self.steps] if self.option.local else [1],
            "reference": self.option.reference,
            "compression": None if self.option.down is None else str(self.option.down),
            "prediction": self.how,
            "reaches": self.reaches,
            "step": self.step,
            "predicted_step": None if self.forecast is None else self.forecast.step,
            "relative_floor": None if self.forecast is None else _finite(self.forecast.floor),
            "predicted": None if self.predicted is None else self.predicted.words(),
            "measured": None if self.spent is None else self.spent.words(),
            "measured_step": None if self.measured is None else self.measured.step,
            "rounds_played": None if self.measured is None else self.measured.played,
            "theorem": None if guarantee is None else guarantee.theorem,
            "guaranteed_rounds": None if guarantee is None else guarantee.rounds,
            "guaranteed_step": None if guarantee is None else guarantee.numbers,
        }


@dataclasses.dataclass(frozen=True)
class Advice:
    """All candidates, the one to take, and why."""

    problem: Problem
    goal: Goal
    relative: float | None  # the target as a share of the first gap, where it was given so
    start: float  # of the goal's column
    resources: Resources
    by: str
    how: str  # exact, estimated, or why there is no prediction
    candidates: tuple[Candidate, ...]
    recommended: Candidate | None
    why: tuple[str, ...] = ()
    x0: np.ndarray | None = None  # the start, where x* is known

    def price(self, candidate: Candidate) -> float:
        """What decides; ∞ for candidates that do not arrive."""
        costs = candidate.costs
        return float("inf") if costs is None else float(getattr(costs, self.by))

    def costs_rounds(self, candidate: Candidate) -> int:
        """Rounds to the target, or those that were played."""
        if candidate.costs is not None:
            return int(candidate.costs.rounds)
        return candidate.measured.played if candidate.measured is not None else CURVE_ROUNDS

    @property
    def distance(self) -> float | None:
        """‖x_0 − x*‖², where x* is known."""
        return None if self.x0 is None else float(np.sum((self.x0 - np.asarray(self.problem.optimum.x, float)) ** 2))

    @property
    def smoothness(self) -> float | None:
        return _smoothness(self.problem)

    def best_of_each(self) -> list[Candidate]:
        """The cheapest candidate of every method, in the order in which methods are listed."""
        found: dict[str, Candidate] = {}
        for candidate in self.candidates:
            known = found.get(candidate.label)
            if known is None or _order(self, candidate) < _order(self, known):
                found[candidate.label] = candidate
        return list(found.values())

    @property
    def target_text(self) -> str:
        if self.goal.column != "gap":
            return f"{self.goal.column} {'≥' if self.goal.upwards else '≤'} {self.goal.value:g}"
        return f"f − f* ≤ {self.goal.value:.3g}" + (
            f" = {self.relative:g}·(f₀ − f*)" if self.relative is not None else ""
        )

    def words(self) -> dict[str, Any]:
        """For machines."""
        return {
            "problem": repr(self.problem).strip("<>"),
            "target": {"column": self.goal.column, "value": self.goal.value, "relative": self.relative},
            "start": _finite(self.start),
            "resources": dataclasses.asdict(self.resources),
            "by": self.by,
            "prediction": self.how,
            "recommended": None if self.recommended is None else self.recommended.words(),
            "why": list(self.why),
            "candidates": [candidate.words() for candidate in self.candidates],
        }


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
    methods: Sequence[str] | None = None,
    measure: bool = False,
    rounds: int = 2000,
    seed: int = 0,
    x0: Any = None,
    oracle: Oracle | None = None,
    participation: Participation | None = None,
    failures: float = 0.0,
    measured_local_steps: int = PER_METHOD,
    factors: tuple[float, ...] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Advice:
    """Which method, step size, local steps and compression reach the target at the least cost, and why.

    target: f(x) − f* ≤ target·(f(x_0) − f*), or absolutely; on="loss" or "accuracy": a value that only measuring can tell
    about. steps: numbers of local steps to consider, each one number or one per client. speeds, link: see `Resources`. by:
    what is minimised. measure: run the candidates (for each method those `measured_local_steps` local steps that are predicted
    to be cheapest) for at most `rounds` rounds, over step sizes around the predicted ones or by `factors` of them.

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
    options = options_for(problem, methods)
    setup = prepare(options[0].make(1.0, 1), problem, rounds=0, seed=seed, x0=x0, oracle=oracle)
    plan = {"oracle": oracle, "participation": participation, "failures": failures}
    goal, start = _goal(problem, setup.x0, on, target, absolute)
    models, how = _models(problem, setup.x0, goal, plan)
    if models is None and not measure:
        raise InputError(f"{how}: only measuring can tell; ask for it (measure=True, or --measure)")
    guarantees = None if models is None else _guarantees(problem, setup.x0, start, goal)
    jobs = [(option, tau) for option in options for tau in _local_steps(option, steps, resources, problem.clients)]
    candidates: list[Candidate] = []
    shapes: dict[str, Any] = {}
    for number, (option, tau) in enumerate(jobs):
        if progress is not None:
            progress("predicting", number, len(jobs))
        candidates.append(_candidate(option, tau, problem, resources, models, guarantees, oracle, seed, shapes))
    made = Advice(
        problem, goal, None if absolute or on != "gap" else target, start, resources, by, how, tuple(candidates), None,
        x0=None if on != "gap" else np.asarray(setup.x0, float),
    )  # fmt: skip
    if measure:
        made = _measured(made, rounds, seed, x0, plan, measured_local_steps, factors, progress)
    return _decided(made, models, seed)


def _goal(problem: Problem, x0: np.ndarray, on: str, target: float, absolute: bool) -> tuple[Goal, float]:
    if on not in problem.columns:
        raise InputError(f"a {problem.name} problem has no {on}; its columns are {', '.join(problem.columns)}")
    if on != "gap":
        return Goal(on, float(target)), problem.value(x0) if on == "loss" else float("nan")
    reference = problem.reference()
    if reference is None:
        raise InputError(
            f"f* of this {problem.name} problem is not known, so no gap can be a target: give a loss (on='loss', --on loss)"
        )
    start = problem.value(x0) - float(reference.value)
    if not start > 0:
        raise InputError("x_0 is the minimiser already: there is nothing to advise")
    return Goal("gap", float(target) * (1.0 if absolute else start)), start


def _models(problem: Problem, x0: np.ndarray, goal: Goal, plan: dict[str, Any]) -> tuple[Models | None, str]:
    """The models that predictions are made from, or why there are none."""
    oracle = plan["oracle"] or problem.default_oracle
    if goal.column != "gap":
        return None, f"no theory predicts when the {goal.column} is reached"
    if not oracle.exact:
        return None, f"gradients are {oracle}, and predictions are made for exact ones"
    if plan["failures"] or not isinstance(plan["participation"], Everyone | None):
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
    if resources.unequal and option.name not in ("gd", "fedsplit"):
        found += [resources.steps_by_speed(int(tau[0])) for tau in found if np.all(tau == tau[0]) and tau[0] > 1]
    distinct = {tuple(int(t) for t in tau): tau for tau in found}
    return list(distinct.values())


def _candidate(
    option: Option,
    tau: np.ndarray,
    problem: Problem,
    resources: Resources,
    models: Models | None,
    guarantees: Guarantees | None,
    oracle: Oracle | None,
    seed: int,
    shapes: dict[str, Any],
) -> Candidate:
    prices = tariff(option.make(1.0, tau), problem, tau, resources, oracle, shapes)
    if models is None:
        return Candidate(option, tau, prices, "unknown")
    forecast = models.forecast(option, tau, seed)
    promise = None if guarantees is None else guarantees.of(option, tau)
    return Candidate(option, tau, prices, models.how, forecast, promise)


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
        mine.sort(key=lambda i: _order(made, made.candidates[i]))
        chosen += mine if made.candidates[mine[0]].forecast is None else mine[:per_method]
    found = list(made.candidates)
    L = _smoothness(made.problem)
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
    best = min(able, key=lambda c: _order(made, c)) if able else None
    made = dataclasses.replace(made, recommended=best)
    return dataclasses.replace(made, why=tuple(reasons(made)))


def _curve(candidate: Candidate, models: Models, made: Advice, seed: int) -> np.ndarray | None:
    forecast = candidate.forecast
    step = None if forecast is None else forecast.step or forecast.at_floor
    if forecast is None or step is None:
        return None
    rounds = min(CURVE_ROUNDS, max(20, int(1.2 * (forecast.rounds or CURVE_ROUNDS // 10))))
    return models.curve(candidate.option, candidate.steps, step, rounds, seed) / made.start


def _order(made: Advice, candidate: Candidate) -> tuple[float, float, float]:
    """Cheapest first, then fewest rounds, then nearest to the target."""
    costs = candidate.costs
    floor = float("inf") if candidate.forecast is None else candidate.forecast.floor
    unmeasured = 0.0 if candidate.measured is not None or not _any_measured(made) else 1.0
    return made.price(candidate), unmeasured + (float("inf") if costs is None else costs.rounds), floor


def _any_measured(made: Advice) -> bool:
    return any(candidate.measured is not None for candidate in made.candidates)


def _smoothness(problem: Problem) -> float | None:
    try:
        return float(problem.constants.L)
    except InputError:
        return None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


__all__ = ["SAFETY", "Advice", "Candidate", "advise"]
