"""From a factory function to a method whose numbers are traced.

    @method
    def fedavg(eta: float, server: ... = None) -> Algorithm: ...

`fedavg(eta=0.1)` is a `Method`: the factory, its *numbers* (parameters annotated `float`, handed to the compiled program as
inputs) and its *settings* (everything else, part of the program). Two methods that differ in numbers only share one compiled
program, and a grid of step sizes is one program with a batch axis. `fedlin(eta="theorem")` and `fedlin(eta="certified")` leave
a number open until the method meets a problem (`theory.step_rule`); `fedavg(eta=schedule)` makes it a function of the round,
which is part of the program.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, overload

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InputError, unknown
from .oracles import Oracle
from .protocol import Algorithm, with_slots

THEOREM = "theorem"  # in place of a number: let the theorem that covers the method on the problem choose it
CERTIFIED = "certified"  # in place of a number: let the certificate of the worst case over all such problems choose it
RULES = (THEOREM, CERTIFIED)
PLACEHOLDER = 1.0  # of such a number until the problem is known


class Surroundings(NamedTuple):
    """What a factory may ask of a run, by naming a parameter so; interpreters fill it in, not users."""

    halves: Any = None  # the two halves of the problem's model, where it is cut
    every_round: bool = True  # nobody ever misses a round
    diagnose: bool = False  # somebody asked for the method's diagnostics
    oracle: Any = None  # what clients get when they ask for a gradient; None: the whole one


ANYWHERE = Surroundings()


class Build(Protocol):
    """A factory of algorithms: numbers and settings in, an `Algorithm` out."""

    def __call__(self, *args: Any, **kwargs: Any) -> Algorithm: ...


class Schedule(Protocol):
    """A number of the round: 0 in the first round, as Optax counts."""

    def __call__(self, count: Any, /) -> Any: ...


class DrawsSteps(Protocol):
    """How a method draws its local steps itself: a plan's steps (hashable) from its parameters."""

    def __call__(self, parameters: Mapping[str, Any], /) -> Any: ...


class Wrapper(Protocol):
    """An algorithm made from another; hashable. Its `numbers`, if it has some, are names of those that it takes: traced."""

    def __call__(self, algorithm: Algorithm, /, **numbers: Any) -> Algorithm: ...


@dataclasses.dataclass(frozen=True)
class Bare:
    """The factory of an algorithm that was given as it is; two of the same algorithm are the same factory."""

    algorithm: Algorithm

    def __call__(self) -> Algorithm:
        return self.algorithm


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The hashable half of a method: what the compiled program depends on."""

    factory: Build
    settings: tuple[tuple[str, Any], ...]
    name: str
    centralised: bool = False  # runs on the pooled problem
    wrap: tuple[Wrapper, ...] = ()
    oracle: Oracle | None = None  # used where the user names none
    ordered: bool = False  # clients in turn: a fresh random order every round
    asks: tuple[str, ...] = ()  # the surroundings it wants to know
    schedules: tuple[tuple[str, Schedule], ...] = ()  # numbers that change by round
    known: Any = dataclasses.field(default=None, compare=False)  # a `theory.Known`; decides nothing that is computed
    draws: DrawsSteps | None = None  # the local steps, where they are part of the method; None: the user says them

    @property
    def split(self) -> bool:
        """Whether it needs to know where the problem's model is cut."""
        return "halves" in self.asks

    def build(self, numbers: Mapping[str, Any], surroundings: Surroundings = ANYWHERE, round: Any = None) -> Algorithm:
        """The algorithm of this round with these numbers (concrete or traced); round=None: of no round in particular."""
        told = {name: getattr(surroundings, name) for name in self.asks}
        scheduled = {name: _at(schedule, round) for name, schedule in self.schedules}
        around = [(wrapper, {name: numbers[name] for name in _taken_by(wrapper)}) for wrapper in self.wrap]
        own = {name: value for name, value in numbers.items() if not any(name in taken for _, taken in around)}
        algorithm = with_slots(self.factory(**dict(self.settings), **own, **scheduled, **told))
        for wrapper, taken in around:
            algorithm = wrapper(algorithm, **taken)
        return algorithm


@dataclasses.dataclass(frozen=True)
class Method:
    """A method with concrete numbers, ready to run."""

    recipe: Recipe
    numbers: Mapping[str, float]
    waiting: Mapping[str, str] = dataclasses.field(
        default_factory=dict
    )  # numbers that wait for a problem: the rule for each
    chosen_by: str = ""  # the theorem or the certificate that has

    @property
    def name(self) -> str:
        return self.recipe.name

    @property
    def parameters(self) -> dict[str, Any]:
        """Settings and numbers, by name."""
        return {**dict(self.recipe.settings), **self.numbers, **dict(self.recipe.schedules)}

    @property
    def by_theorem(self) -> tuple[str, ...]:
        """The numbers that wait for the theorem that covers the method."""
        return tuple(name for name, rule in self.waiting.items() if rule == THEOREM)

    def build(self, surroundings: Surroundings = ANYWHERE, round: Any = None) -> Algorithm:
        return self.recipe.build(self.numbers, surroundings, round)

    @property
    def drawn_steps(self) -> Any:
        """The local steps that the method draws itself, for a plan; None where the user says them."""
        return None if self.recipe.draws is None else self.recipe.draws(self.parameters)

    def given(self, steps: Any) -> dict[str, Any]:
        """The argument `steps` of a run, for whoever serves all methods alike: left out where the method draws them itself."""
        return {"steps": steps} if self.recipe.draws is None else {}

    def wrapped(self, wrapper: Wrapper, **numbers: float) -> Method:
        """The same method with its algorithm passed through `wrapper` (hashable), which takes these numbers."""
        for name in numbers:
            if name in self.parameters:
                raise InputError(
                    f"{self.name} has a parameter {name} itself, which the one of {wrapper} would hide: rename it"
                )
        recipe = dataclasses.replace(self.recipe, wrap=(*self.recipe.wrap, wrapper))
        return dataclasses.replace(self, recipe=recipe, numbers={**self.numbers, **numbers})

    def with_numbers(self, **numbers: float) -> Method:
        """The same method with other numbers, which keeps wrappers."""
        for name in numbers:
            if name not in self.numbers:
                raise unknown(f"number of {self.name}", name, self.numbers)
        waiting = {name: rule for name, rule in self.waiting.items() if name not in numbers}
        values = {**self.numbers, **{k: _number(self.name, k, v) for k, v in numbers.items()}}
        changed = dataclasses.replace(self, numbers=values, waiting=waiting)
        changed.build()  # lets the factory refuse a bad value now
        changed.drawn_steps  # noqa: B018 (and one that its steps cannot be drawn with)
        return changed

    def left_to(self, rule: str, names: Iterable[str]) -> Method:
        """The same method with these of its numbers left to a rule."""
        open_ = [name for name in names if name in self.numbers]
        return dataclasses.replace(self, waiting={**self.waiting, **dict.fromkeys(open_, rule)}, chosen_by="")

    def __str__(self) -> str:
        settings = [f"{k}={v}" for k, v in self.recipe.settings if v is not None and v is not False]
        numbers = [f"{k}={self.waiting.get(k) or format(v, 'g')}" for k, v in self.numbers.items()]
        changing = [f"{k}={_schedule_words(schedule)}" for k, schedule in self.recipe.schedules]
        inside = ", ".join(numbers + changing + settings)
        around = "".join(f" + {wrapper}" for wrapper in self.recipe.wrap)
        return f"{self.name}({inside}){around}"


class Factory:
    """What `@method` returns: call it for a `Method`, read its signature for the parameters."""

    def __init__(
        self, function: Build, centralised: bool, ordered: bool, known: Any = None, draws: DrawsSteps | None = None
    ) -> None:
        self.function, self.centralised, self.ordered, self.known = function, centralised, ordered, known
        self.draws = draws
        self.name: str = getattr(function, "__name__", "method")
        given = inspect.signature(function)
        self.asks = tuple(name for name in given.parameters if name in Surroundings._fields)
        self.signature = given.replace(parameters=[p for n, p in given.parameters.items() if n not in self.asks])
        self.traced = tuple(
            name for name, parameter in self.signature.parameters.items() if _is_float(parameter.annotation)
        )
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Method:
        name = self.name
        for given in kwargs:
            if given not in self.signature.parameters:
                raise unknown(f"parameter of {name}", given, self.signature.parameters)
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputError(f"{name}{self.signature}: {error}") from None
        bound.apply_defaults()
        for needed in (k for k in self.traced if bound.arguments[k] is None and not self._optional(k)):
            raise InputError(f"{name}: {needed} must be a number, got None (or a function of the round)")
        given_numbers = {k: v for k, v in bound.arguments.items() if k in self.traced and v is not None}
        waiting = {k: v for k, v in given_numbers.items() if isinstance(v, str) and v in RULES}
        schedules = tuple((k, _schedule(name, k, v)) for k, v in given_numbers.items() if callable(v))
        numbers = {
            k: PLACEHOLDER if k in waiting else _number(name, k, v) for k, v in given_numbers.items() if not callable(v)
        }
        settings = tuple((k, _frozen(v)) for k, v in bound.arguments.items() if k not in given_numbers)
        recipe = Recipe(
            self.function,
            settings,
            name,
            self.centralised,
            ordered=self.ordered,
            asks=self.asks,
            schedules=schedules,
            known=self.known,
            draws=self.draws,
        )
        made = Method(recipe, numbers, waiting)
        made.build()  # lets the factory refuse bad values now, not inside a compiled program
        made.drawn_steps  # noqa: B018 (and those that its steps cannot be drawn with)
        for key, value in settings:
            _check_hashable(name, key, value)
        return made

    def _optional(self, name: str) -> bool:
        """Whether a number may be left out."""
        return self.signature.parameters[name].annotation in ("float | None", float | None)


class MethodDecorator(Protocol):
    def __call__(self, function: Build, /) -> Factory: ...


@overload
def method(function: Build) -> Factory: ...


@overload
def method(
    *, centralised: bool = False, ordered: bool = False, known: Any = None, draws: DrawsSteps | None = None
) -> MethodDecorator: ...


def method(
    function: Build | None = None,
    *,
    centralised: bool = False,
    ordered: bool = False,
    known: Any = None,
    draws: DrawsSteps | None = None,
) -> Factory | MethodDecorator:
    """Turn a function that returns an `Algorithm` into a method factory.

    centralised: it runs on the pooled problem. ordered: clients play in turn, so full participation means a fresh random order.
    known: what is known of it (`ud.Known`), which makes `eta="theorem"`, `advise`, `compare` and `explain` serve it.
    draws: parameters -> local steps, where the method says how many there are (a coin, in Scaffnew); `steps` is then refused.

    >>> from undrift import fedavg
    >>> fedavg(eta=0.5).numbers
    {'eta': 0.5, 'server_eta': 1.0}
    """
    if function is None:
        return functools.partial(Factory, centralised=centralised, ordered=ordered, known=known, draws=draws)
    return Factory(function, centralised, ordered, known, draws)


def as_method(given: Any) -> Method:
    """A `Method` from a `Method` or from a bare `Algorithm`."""
    if isinstance(given, Method):
        return given
    if isinstance(given, Algorithm):
        return Method(Recipe(Bare(given), (), "own"), {})
    hint = " (call the factory: ud.fedlin(eta=…))" if isinstance(given, Factory) else ""
    raise InputError(f"a method is what ud.fedlin(…) and its kin return, or an Algorithm; got {given!r}{hint}")


def positive(**values: Any) -> None:
    """Refuse numbers that are not finite and > 0; those inside a program were checked when the method was made."""
    for name, value in values.items():
        if not _traced(value) and not (np.isfinite(value) and value > 0):
            raise InputError(f"{name} must be a finite number > 0, got {value}: choose a step such as 1/L")


def not_negative(**values: Any) -> None:
    """Refuse numbers that are not finite and ≥ 0."""
    for name, value in values.items():
        if not _traced(value) and not (np.isfinite(value) and value >= 0):
            raise InputError(f"{name} must be a finite number ≥ 0, got {value}")


def _taken_by(wrapper: Wrapper) -> tuple[str, ...]:
    taken: tuple[str, ...] = getattr(wrapper, "numbers", ())
    return taken


def _check_hashable(method_name: str, name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError as error:
        raise InputError(
            f"{method_name}: {name} is a setting, part of the compiled program, and must be hashable, got {value!r} ({error}): "
            "give a tuple, a frozen dataclass or a function, or annotate it `float` if it is a number"
        ) from None


def _frozen(value: Any) -> Any:
    """Settings are part of a program's identity and so must be hashable."""
    if isinstance(value, np.ndarray | jax.Array):
        value = value.tolist()
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _traced(value: Any) -> bool:
    """Whether it belongs to a program, compiled or not: an input of it, or what a schedule says (0 where it warms up)."""
    return isinstance(value, jax.Array)


def _is_float(annotation: Any) -> bool:
    return annotation in (float, "float", "float | None", float | None)


def _number(method_name: str, name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number | np.ndarray | jnp.ndarray):
        raise InputError(f"{method_name}: {name} must be a number, got {value!r} (or a function of the round)")
    if np.ndim(value):
        raise InputError(f"{method_name}: {name} must be one number, got an array of shape {np.shape(value)}")
    return float(value)


def _schedule(method_name: str, name: str, given: Schedule) -> Schedule:
    try:
        shape = jax.eval_shape(lambda count: jnp.asarray(given(count)), jax.ShapeDtypeStruct((), jnp.int32))
    except Exception as error:
        raise InputError(
            f"{method_name}: a schedule of {name} is a function of the round's number in jax.numpy, such as an Optax "
            f"schedule; this one fails: {error}"
        ) from error
    if type(given).__hash__ is None:
        raise InputError(
            f"{method_name}: a schedule of {name} is part of the program and must be hashable, which {type(given).__name__} is "
            "not: make it a function, or a dataclass with frozen=True"
        )
    real = jnp.issubdtype(shape.dtype, jnp.floating) or jnp.issubdtype(shape.dtype, jnp.integer)
    if shape.shape != () or not real:
        raise InputError(f"{method_name}: a schedule of {name} returns one number, this one {shape}")
    return given


def _at(schedule: Schedule, round: Any) -> Any:
    return PLACEHOLDER if round is None else jnp.asarray(schedule(jnp.maximum(jnp.asarray(round, int) - 1, 0)))


def _schedule_words(schedule: Schedule) -> str:
    if type(schedule).__str__ is not object.__str__ and not hasattr(schedule, "__qualname__"):
        return str(schedule)
    name: str = getattr(schedule, "__qualname__", type(schedule).__name__)
    return f"schedule {name.removesuffix('.<locals>.schedule').removesuffix('.schedule')}"
