"""A run, described: the one value that interpreters, records, run directories, theory and adviser read.

`Run.of(method, problem, rounds=…, …)` checks everything a user can get wrong. What decides a run's numbers is all in here;
what it has no influence on (checkpoints, observers) is not. Without the data, `run.contract`, it is what a server and its
clients must agree on.

As a JAX tree a run is what its compiled program depends on. Data, numbers, start, key and weights are inputs; the recipe, the
oracle and what is recorded are part of the program; plan and resources stay on the host. So runs that differ in the former
share one compiled program, and nobody has to say so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from functools import cached_property
from typing import Any, TypedDict, Unpack

import jax
import numpy as np

from ..errors import InputError, unknown
from ..gate import LARGEST, Failures, check_value, shown, whole
from ..oracles import Oracle
from ..plan import (
    Absences,
    Availability,
    ChangingSteps,
    Everyone,
    Participation,
    PiecewiseSteps,
    Plan,
    Steps,
    piecewise_steps,
    uniform,
)
from ..problems.base import Problem
from ..problems.evaluation import AGAINST_OPTIMUM, Reference
from ..problems.population import Population
from ..protocol import Algorithm
from ..randomness import key_of
from ..recipe import Method, Recipe, Surroundings, as_method
from ..resources import Resources
from ..stop import Stop
from .layout import Shapes, known_shapes, message_shapes

ON_DIVERGENCE = ("stop", "continue")
# Arguments of a run that are plain values
KINDS = {
    "failures": Failures, "keep_iterates": bool, "per_client": bool, "diagnostics": bool, "on_divergence": str,
}  # fmt: skip
# What the compiled program depends on besides the shapes of its inputs; the names of fields and properties
STATIC = (
    "recipe", "oracle", "every_round", "renormalise", "distinct", "keep_iterates", "record_every", "per_client", "diagnostics",
    "stop",
)  # fmt: skip


class Arguments(TypedDict, total=False):
    """What a run can be told besides method, problem and rounds."""

    steps: (
        Steps  # τ: one number, one per client, `plan.random_steps(low, high)`, `geometric_steps(p)`, `piecewise_steps({…})`,
        # `scheduled_steps(f)`, or a function (round, key) -> m numbers
    )
    seed: int
    x0: Any  # where to start; zeros, or a network's initial weights, by default
    participation: (
        Participation | None
    )  # `plan.full()` (default), `uniform(n)`, `weighted(n)`, `permuted(n)`, `rule(f, n)`
    failures: float  # probability that a member of the cohort does not answer
    oracle: Oracle | None  # `oracles.full()` (default), `minibatch(b)`, `noisy(variance)`
    keep_iterates: bool
    record_every: int  # evaluate f and its gradients every so many rounds (NaN in between)
    per_client: bool  # record losses, accuracies and drift of each client too
    diagnostics: bool  # record what the method says about itself too
    stop: Stop | None  # `stop.at(gap=1e-6)`, `stop.patience(20)`: when to end before the last round
    on_divergence: str  # "stop" raises `DivergenceError`, which carries the result so far; "continue" plays on
    plan: Absences | None  # `plan.trace(file)`: who was silent in a deployed run
    availability: Availability | None  # `plan.availability(file)`: who is there in which round
    resources: Resources | None  # `Resources.of(m, speeds, link)`, from which virtual seconds are counted


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """A run, before it starts; see the module's docstring."""

    method: Method
    data: Problem | None  # None: a contract
    population: Population
    rounds: int
    steps: Steps
    seed: int
    x0: np.ndarray
    participation: Participation
    failures: float
    oracle: Oracle
    keep_iterates: bool
    record_every: int
    per_client: bool
    diagnostics: bool
    stop: Stop | None
    on_divergence: str
    resources: Resources
    given_x0: bool = False  # by the user, not by the problem
    absences: Absences | None = None
    availability: Availability | None = None  # None: everyone is always there

    def __post_init__(self) -> None:
        drawn = self.method.drawn_steps
        if drawn is not None:  # they follow from the method's numbers, which a theorem or a sweep may change
            object.__setattr__(self, "steps", drawn)

    @classmethod
    def of(cls, method: Any, problem: Problem | Population, rounds: int, **arguments: Unpack[Arguments]) -> Run:
        """The run that these arguments mean, checked; of a population, without its data, the contract of one."""
        for name in arguments:
            if name not in Arguments.__annotations__:
                raise unknown("argument of a run", name, [*Arguments.__annotations__, "rounds"])
            if name in KINDS:
                check_value(name, arguments[name], KINDS[name])  # type: ignore[literal-required]
        method = as_method(method)
        if not isinstance(problem, Problem | Population):
            raise InputError(f"a problem is what ud.problems.… returns, got {type(problem).__name__}")
        if "steps" in arguments and method.recipe.draws is not None:
            raise InputError(refused_steps(method, arguments["steps"]))
        seed = _seed(arguments.get("seed", 0))
        data, population = (problem, problem.population) if isinstance(problem, Problem) else (None, problem)
        rounds = whole("rounds must be a whole number", rounds, 0, LARGEST - 1)  # round 0 is one more
        there = _availability(arguments.get("availability"), arguments.get("plan"), population.clients)
        run = cls(
            method,
            data,
            population,
            rounds if there is None else there.rounds_of(rounds),
            arguments.get("steps", 1),
            seed,
            _start(arguments.get("x0"), problem, seed),
            _participation(arguments.get("participation"), method.recipe, population),
            float(arguments.get("failures", 0.0)),
            _oracle(arguments.get("oracle"), method.recipe, population),
            bool(arguments.get("keep_iterates", False)),
            whole("record_every must be a whole number", arguments.get("record_every", 1), 1),
            bool(arguments.get("per_client", False)),
            bool(arguments.get("diagnostics", False)),
            _stop(arguments.get("stop")),
            _on_divergence(arguments.get("on_divergence", "stop")),
            _resources(arguments.get("resources"), population.clients),
            arguments.get("x0") is not None,
            _absences(arguments.get("plan"), rounds),
            None if there is None or there.always else there,
        )
        run.plan  # noqa: B018 (refuses steps and cohorts that do not fit)
        if method.recipe.split:
            population.check_dialogue(run.oracle)
        return run

    def but(self, **changes: Any) -> Run:
        """The same run with some fields changed (they are not checked again)."""
        return dataclasses.replace(self, **changes)

    @property
    def contract(self) -> Run:
        """The run without the data: all that a server and its clients must agree on."""
        return self.but(data=None)

    def to_play(self) -> Run:
        """The run as interpreters play it: on the pooled problem, where the method holds all data in one place."""
        if self.method.waiting:
            waiting = ", ".join(self.method.waiting)
            raise InputError(
                f"{waiting} of {self.method.name} still waits for a theorem or a certificate: call undrift.run, or give "
                "a number"
            )
        if not self.recipe.centralised or self.data is None or self.data.is_pooled:
            return self
        pooled = self.data.pooled()
        return self.but(
            data=pooled,
            population=pooled.population,
            participation=Everyone(),
            steps=_pooled_steps(self.steps),
            failures=0.0,
            absences=None,
            availability=None,
            resources=self.resources.pooled(),
        )

    def with_seed(self, seed: int) -> Run:
        """The same run with another seed (and the start that belongs to it, where the problem draws one)."""
        x0 = self.x0 if self.given_x0 else (self.data or self.population).initial(seed)
        return self.but(seed=_seed(seed), x0=x0)

    def with_inputs(self, numbers: Any, x0: Any, key: Any) -> Run:
        """Inside a program: the same run with these inputs."""
        (data, reference, _, _, _, *others), static = self.tree_flatten()
        return self.tree_unflatten(static, (data, reference, numbers, x0, key, *others))

    # ----- what follows from it
    @property
    def problem(self) -> Problem:
        """What is minimised, with all data."""
        if self.data is None:
            raise InputError("a contract holds no data: only the run itself has a problem")
        return self.data

    @property
    def recipe(self) -> Recipe:
        return self.method.recipe

    @cached_property
    def plan(self) -> Plan:
        """Who takes part, with how many steps, and who answers."""
        return Plan(
            self.population.clients, self.participation, self.steps, self.failures, self.seed, self.oracle.most_steps,
            self.absences, self.availability,
        )  # fmt: skip

    @cached_property
    def every_round(self) -> bool:
        """Nobody ever misses a round."""
        return self.plan.everyone_every_round

    @cached_property
    def renormalise(self) -> bool:
        """Whether means run over the members' own weights, see `plan`."""
        return self.plan.renormalise

    @cached_property
    def distinct(self) -> bool:
        """Whether nobody is drawn twice into one cohort."""
        return self.participation.distinct

    @cached_property
    def even_steps(self) -> np.ndarray | None:
        """τ where it is the same for everyone in every round: a loop of so many steps needs no mask for each client."""
        return np.asarray(self.steps, np.int32) if isinstance(self.steps, int) else None

    @property
    def drift_of_each(self) -> bool:
        """Whether every client's drift is recorded: one machine that holds all data has nobody to drift from."""
        return self.per_client and not self.recipe.centralised

    @cached_property
    def importance(self) -> np.ndarray:
        """a_i: what an answer of each client counts, see `plan`."""
        return self.participation.importance(self.population.relative_weights)

    @cached_property
    def numbers(self) -> dict[str, np.ndarray]:
        """The method's numbers in the problem's precision."""
        return {name: np.asarray(value, self.population.dtype) for name, value in self.method.numbers.items()}

    @cached_property
    def reference(self) -> Reference | None:
        """x* and f*, where they are known."""
        looked_at = () if self.stop is None else self.stop.columns
        return None if self.data is None else self.data.reference(asked=bool({*AGAINST_OPTIMUM} & {*looked_at}))

    @cached_property
    def key(self) -> jax.Array:
        """Of everything that is drawn on the device."""
        with jax.ensure_compile_time_eval():  # a run may be asked for it while a program is traced
            return key_of(self.seed)

    @property
    def surroundings(self) -> Surroundings:
        """What the method may ask about this run."""
        halves = self.population.halves if self.recipe.split else None
        return Surroundings(halves, self.every_round, self.diagnostics, self.oracle)

    def algorithm_at(self, round: Any) -> Algorithm:
        """The algorithm with the numbers of this round (concrete or traced)."""
        return self.recipe.build(self.numbers, self.surroundings, round)

    @cached_property
    def algorithm(self) -> Algorithm:
        """Of no round in particular: its program and the shapes of its memory."""
        return self.recipe.build(self.method.numbers, self.surroundings)

    @cached_property
    def shapes(self) -> list[Shapes]:
        """The messages of all exchanges, by place."""
        return known_shapes(self._of_messages, lambda: message_shapes(self.algorithm, self.population, self.oracle))

    def learn_shapes(self, found: dict[int, Shapes]) -> None:
        """Remember the messages of all exchanges, where the trace of a program showed them: see `layout.overhearing`."""
        places = range(len(self.algorithm.exchanges))
        if found and all(place in found for place in places):
            known_shapes(self._of_messages, lambda: [found[place] for place in places])

    @property
    def _of_messages(self) -> Hashable:
        """All that the shapes of messages follow from."""
        return self.recipe, self.every_round, self.diagnostics, self.oracle, self.population.outline

    def words(self) -> dict[str, Any]:
        """The setting in words, for records."""
        theorem = {"theorem": self.method.chosen_by} if self.method.chosen_by else {}
        ends = {} if self.stop is None else {"stop": str(self.stop)}
        absences = {} if self.absences is None else {"plan": str(self.absences)}
        there = {} if self.availability is None else {"availability": str(self.availability)}
        return {
            "method": str(self.method),
            **theorem,
            "problem": str(self.population) if self.data is None else repr(self.data),
            "rounds": self.rounds,
            "steps": str(self.steps) if not callable(self.steps) else "a function of the round",
            "participation": str(self.participation),
            "failures": self.failures,
            "oracle": str(self.oracle),
            "seed": self.seed,
            "record_every": self.record_every,
            "resources": str(self.resources),
            **ends,
            **absences,
            **there,
        }

    # ----- as a tree
    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        inputs = (self.data, self.reference, self.numbers, self.x0, self.key, self.importance, self.even_steps)
        return inputs, tuple(getattr(self, name) for name in STATIC)

    @classmethod
    def tree_unflatten(cls, static: tuple[Any, ...], inputs: tuple[Any, ...]) -> Run:
        known = dict(zip(STATIC, static, strict=True))
        recipe = known.pop("recipe")
        data, reference, numbers, x0, key, importance, even_steps = inputs
        run = object.__new__(cls)
        run.__dict__.update(
            method=Method(recipe, numbers), data=data, reference=reference, numbers=numbers, x0=x0, key=key,
            importance=importance, even_steps=even_steps, **known,
        )  # fmt: skip
        if isinstance(data, Problem):
            run.__dict__["population"] = data  # what is asked of a population inside a program, a problem knows too
        return run


def refused_steps(method: Method, given: Any) -> str:
    """Why a method that draws its local steps itself is given none."""
    return (
        f"{method.name} draws its local steps itself, {method.drawn_steps} here, as part of the method; got steps = "
        f"{shown(given)}: leave steps out, and choose how long rounds are by the method's own parameters"
    )


def _start(x0: Any, population: Problem | Population, seed: int) -> np.ndarray:
    if x0 is None:
        return population.initial(seed)
    given = np.asarray(x0)
    if given.dtype.kind not in "biuf":
        raise InputError(f"x0 must be an array of real numbers, got one of {given.dtype}: {shown(x0)}")
    start = given.astype(population.dtype)
    if start.shape != (population.dim,):
        raise InputError(f"x0 must have shape (d,) = ({population.dim},), got {start.shape}")
    if not np.all(np.isfinite(start)):
        raise InputError(f"x0 must be finite, entry {int(np.argmin(np.isfinite(start)))} is not")
    return start


def _participation(given: Any, recipe: Recipe, population: Population) -> Participation:
    if given is None:
        return uniform(population.clients) if recipe.ordered else Everyone()
    if not isinstance(given, Participation):
        raise InputError(f"participation is one of ud.plan.full(), uniform(n), weighted(n), rule(f, n); got {given!r}")
    return given.among(population.weights)


def _oracle(given: Any, recipe: Recipe, population: Population) -> Oracle:
    oracle = given or recipe.oracle or population.default_oracle
    if not isinstance(oracle, Oracle):
        raise InputError(f"an oracle is one of ud.oracles.full(), minibatch(b), noisy(variance); got {oracle!r}")
    return oracle


def _stop(given: Any) -> Stop | None:
    if given is not None and not isinstance(given, Stop):
        raise InputError(f"stop is a rule such as ud.stop.at(gap=1e-6) or ud.stop.patience(20), got {given!r}")
    return given


def _on_divergence(given: str) -> str:
    if given not in ON_DIVERGENCE:
        raise unknown("on_divergence", given, ON_DIVERGENCE)
    return given


def _absences(given: Any, rounds: int) -> Absences | None:
    if given is None:
        return None
    if not isinstance(given, Absences):
        raise InputError(f"plan is the trace of a deployed run, ud.plan.trace(file); got {given!r}")
    given.check(rounds)
    return given


def _availability(given: Any, traced: Any, clients: int) -> Availability | None:
    if given is None:
        return None
    if not isinstance(given, Availability):
        raise InputError(f"availability is a trace of who is there, ud.plan.availability(file); got {given!r}")
    if traced is not None:
        raise InputError("the trace of a deployed run says who was absent in it already: leave availability out")
    return given.among(clients)


def _resources(given: Any, clients: int) -> Resources:
    """What turns work and bytes into seconds; equal clients with an ordinary link where nobody says."""
    if given is None:
        return Resources.of(clients)
    if not isinstance(given, Resources):
        raise InputError(f"resources are ud.Resources.of(clients, speeds, link), got {given!r}")
    if len(given.speeds) != clients:
        raise InputError(f"resources hold the speeds of {len(given.speeds)} clients, the problem has {clients}")
    return given


def _pooled_steps(steps: Any) -> Any:
    """One machine in place of m: it takes as many steps as a client does on average."""
    if isinstance(steps, PiecewiseSteps):
        return piecewise_steps({first: _pooled_steps(piece) for first, piece in steps.pieces})
    if isinstance(steps, ChangingSteps):
        return steps
    if callable(steps):
        return lambda round, key: max(1, _rounded_mean(steps(round, key)))
    return _rounded_mean(steps)


def _rounded_mean(steps: Any) -> int:
    return int(np.rint(np.mean(np.asarray(steps))))


def _seed(given: Any) -> int:
    return whole("seed must be a whole number", given, 0, 2**32 - 1)
