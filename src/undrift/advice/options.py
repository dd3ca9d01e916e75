"""The methods that are considered: a factory with what is known of it, up to its step size and its local steps."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..algorithms import METHODS
from ..compression import Compressor
from ..errors import InputError, unknown
from ..problems.base import Problem
from ..recipe import Factory, Method
from ..theory.known import Known
from ..theory.methods import ADVISED, ADVISED_ON_NETWORKS, ADVISED_WITH_COHORTS, NAMED, known_of


@dataclasses.dataclass(frozen=True)
class Option:
    """A method on a problem, up to its step size and its local steps."""

    name: str
    factory: Callable[..., Method]
    known: Known
    problem: Problem
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of a variant: compression at the server

    @property
    def label(self) -> str:
        return " ".join([self.name, *(f"{ARROWS.get(key, key + '=')}{value}" for key, value in self.settings.items())])

    @property
    def number(self) -> str:
        """What its step size is called."""
        return self.known.number

    @property
    def local(self) -> bool:
        """Whether local steps matter."""
        return self.known.local != "none"

    @property
    def links(self) -> dict[str, Compressor]:
        """The compressors of up- and down-link, where there are any."""
        made = self.make(1.0, 1).parameters
        return {name: made[name] for name in ARROWS if made.get(name) is not None}

    @property
    def draws_steps(self) -> bool:
        """Whether the method draws its local steps itself."""
        return getattr(self.factory, "draws", None) is not None

    @property
    def reference(self) -> bool:
        """Not federated: shown for comparison, never recommended."""
        return bool(getattr(self.factory, "centralised", False))

    @property
    def in_turn(self) -> bool:
        """Whether clients play one after the other."""
        return bool(getattr(self.factory, "ordered", False))

    def make(self, step: float, steps: Any) -> Method:
        """The method with this step size, and with what goes with it."""
        return self.factory(**{**self.known.parameters(self.problem, steps, step), **self.settings})

    def scale(self, L: float, mu: float, steps: np.ndarray) -> float:
        """A step size of the right order."""
        return self.known.scale(L, mu, steps)

    def written(self, step: float, steps: Any) -> dict[str, Any]:
        """Parameters as a command line takes them: those that are words or numbers, and not what they are anyway."""
        defaults = inspect.signature(inspect.unwrap(self.factory)).parameters
        made = self.make(step, steps)
        values = {**made.numbers, **dict(made.recipe.settings)}
        return {
            name: value
            for name, value in values.items()
            if isinstance(value, int | float | str) and value != defaults[name].default
        }


ARROWS = {"up": "↑", "down": "↓"}


def options_for(problem: Problem, names: Sequence[str | Factory] | None = None, everyone: bool = True) -> list[Option]:
    """The options that make sense on this problem: methods of the library by name, a user's own by their factories.

    `everyone`: whether all clients take part in every round; elsewhere those are considered too that remember the absent.
    """
    measured = smoothness_of(problem) is None
    usual = (*(ADVISED_ON_NETWORKS if measured else ADVISED), *(() if everyone else ADVISED_WITH_COHORTS))
    wanted: Sequence[Any] = names or usual
    found = [option for given in wanted for option in _options(given, problem)]
    if measured:  # where nobody knows L, some have no rule for their other parameters
        found = [option for option in found if _can_be_made(option)]
    if not found:
        raise InputError(
            f"none of {', '.join(map(_name, wanted))} can be advised on a {problem.name} problem: name other methods"
        )
    return found


def _options(given: str | Factory, problem: Problem) -> list[Option]:
    if isinstance(given, Method):
        raise InputError(
            f"the adviser chooses numbers itself, got {given}: name the method ({given.name!r}), or give its factory"
        )
    if not isinstance(given, str):
        return [Option(_name(given), given, _with_its_number(given), problem)]
    nameable = (*ADVISED, *ADVISED_WITH_COHORTS, *NAMED)
    if given not in nameable:
        raise unknown("method that the adviser knows", given, nameable)
    name, _, variant = given.partition("+")
    known = known_of(METHODS[name])
    if not known.suits(problem):
        return []
    settings = known.variants[variant](problem) if variant else [{}]
    return [Option(name, METHODS[name], known.under(one), problem, one) for one in settings]


def _with_its_number(factory: Factory) -> Known:
    """What is known of a user's method, which must have the step size that is searched over."""
    known, names = known_of(factory), list(inspect.signature(inspect.unwrap(factory)).parameters)
    if known.number not in names:
        raise InputError(
            f"the adviser searches over {known.number!r}, and {_name(factory)} has {', '.join(names) or 'no parameter'}: say "
            "which one is its step size, @ud.method(known=ud.Known(number=…))"
        )
    return known


def _name(given: Any) -> str:
    return given if isinstance(given, str) else given.__name__


def smoothness_of(problem: Problem) -> float | None:
    """L, where it is known without measuring."""
    try:
        return float(problem.constants.L)
    except InputError:
        return None


def _can_be_made(option: Option) -> bool:
    try:
        option.make(1.0, 1)
    except InputError:
        return False
    return True


def describe_steps(steps: Any) -> str:
    """τ in a few letters.

    >>> describe_steps(np.array([5, 5])), describe_steps(np.array([1, 3, 20]))
    ('5', '1…20')
    """
    counts = np.atleast_1d(np.asarray(steps))
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low}…{high}"
