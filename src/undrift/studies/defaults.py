"""Step sizes where the user gives none: the rule of the theorem that covers the method, or the usual choice; always said."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..engine.setup import prepare
from ..errors import InputError
from ..problems.base import Problem
from ..problems.network import Network
from ..recipe import THEOREM
from .build import MethodMaker

# How far beyond (and below) the rule a grid looks, in factors: theorems are careful, so it looks upwards more.
GRID = (0.5, 2.0, 8.0, 32.0)
# Networks have no rule: usual values, and a grid on both sides.
NETWORK_STEP, CONVOLUTIONAL_STEP = 0.1, 0.01
NETWORK_GRID = (0.1, 0.3, 1.0, 3.0)


class Choice(NamedTuple):
    """A value and the reason for it."""

    value: Any
    why: str
    factors: tuple[float, ...] = GRID
    how: str = "was not given"


def choose(maker: MethodMaker, problem: Problem, steps: Any) -> dict[str, Choice]:
    """Values for the parameters that a method needs and was not given."""
    known, given = maker.known, maker.spec.parameters
    inexact = known.without_prox if not problem.has_prox else ()
    missing = [*maker.missing, *(inexact if inexact and given.get(inexact[0]) is None else ())]
    missing = [name for name in dict.fromkeys(missing) if name not in given]
    if not missing:
        return {}
    if isinstance(problem, Network):
        return {name: _network_choice(name, maker, problem) for name in missing}
    try:
        problem.constants  # noqa: B018
    except InputError as error:
        raise InputError(f"{maker.spec.name} needs {', '.join(missing)}, and there is no default: {error}") from error
    usual = known.values(problem, steps, {**given, "up": maker.up, "down": maker.down})
    for name in missing:
        if name not in usual:
            word = maker.spec.name
            raise InputError(f"{word} needs {name}: give it in the study file, or as --method {word}:{name}=…")
    return {name: Choice(*usual[name]) for name in missing}


def by_theorem(maker: MethodMaker, problem: Problem, setting: dict[str, Any]) -> tuple[MethodMaker, dict[str, Choice]]:
    """The method with the word "theorem" replaced by the number that its theorem asks for, and which theorem that was."""
    asked = {key: entry for key, entry in maker.spec.parameters.items() if THEOREM in _entries(entry)}
    if not asked:
        return maker, {}
    # What else is missing is filled in first: FedProx's rule depends on β.
    open_still = {key: entry[0] for key, entry in maker.grid.items() if key not in asked}
    waiting = maker.make(**open_still, **dict.fromkeys(asked, THEOREM))
    made = prepare(waiting, problem, **setting).method
    chosen = {key: Choice(made.numbers[key], made.chosen_by, how="by theorem") for key in asked}
    values = {
        key: [chosen[key].value if one == THEOREM else one for one in entry]
        if isinstance(entry, list)
        else chosen[key].value
        for key, entry in asked.items()
    }
    return maker.with_parameters(**values), chosen


def _entries(entry: Any) -> list[Any]:
    return entry if isinstance(entry, list) else [entry]


def grid_around(choice: Choice) -> list[float]:
    """Values around a chosen one."""
    return [float(f"{choice.value * factor:.3g}") for factor in choice.factors]


def _network_choice(name: str, maker: MethodMaker, problem: Network) -> Choice:
    method = maker.spec.name
    if name != "eta":
        raise InputError(f"{method} needs {name}, and networks have no rule for it: give --method {method}:{name}=…")
    why = "a usual value for networks {}, whose constants are not known; try others"
    if problem.architecture.convolutional:
        return Choice(CONVOLUTIONAL_STEP, why.format("with convolutions"), NETWORK_GRID)
    return Choice(NETWORK_STEP, why.format("without convolutions"), NETWORK_GRID)
