"""`eta="theorem"`: the step size of the theorem that covers a method on a problem, or a refusal that says what is missing.

Each method's rule stands in its record (`theory.methods`, or the user's own); `undrift explain` shows it in words.
"""

from __future__ import annotations

import dataclasses
from typing import Unpack

import numpy as np

from ..engine.description import Arguments, Run
from ..errors import InputError
from ..problems.base import Problem
from ..recipe import Method
from .bound import Bound
from .known import Chosen
from .methods import KNOWN, known_of
from .needs import constants_of


def resolve(run: Run) -> Method:
    """The run's method with every number that was left to the theorem filled in; `chosen_by` says which theorem it was."""
    method = run.method
    if not method.by_theorem:
        return method
    chosen = choose(run)
    missing = [name for name in method.by_theorem if name not in chosen.numbers]
    if missing:
        raise InputError(f"{chosen.theorem} says nothing about {', '.join(missing)} of {method.name}: give a number")
    made = method.with_numbers(**{name: chosen.numbers[name] for name in method.by_theorem})
    return dataclasses.replace(made, chosen_by=chosen.theorem)


def promise(method: Method, problem: Problem, **arguments: Unpack[Arguments]) -> Bound | None:
    """The guarantee for this very run: where the method's numbers are those of the theorem that covers it, and it has no noise.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> promise(ud.fedlin(eta=1 / 12), p, steps=5).theorem, promise(ud.fedlin(eta=0.1), p, steps=5)
    ('FedLin, Theorem 1', None)
    """
    return promised(Run.of(method, problem, 0, **arguments))


def promised(run: Run) -> Bound | None:
    """The same for a run that is described already."""
    if not run.oracle.exact:
        return None  # the curve would need σ², which closed forms do not know
    try:
        chosen = choose(run)
    except InputError:
        return None
    numbers = run.method.numbers
    same = all(np.isclose(numbers.get(name, np.nan), value, rtol=1e-9) for name, value in chosen.numbers.items())
    return chosen.bound if same else None


def choose(run: Run) -> Chosen:
    """The numbers that the rule of the run's method gives."""
    known, name = known_of(run.method), run.method.name
    chosen = known.choose(run, lambda: constants_of(run))
    if chosen is None:
        rules = sorted(name for name, one in KNOWN.items() if one.step is not None)
        chosen_so = [key for key, value in run.method.recipe.settings if value is True and name in rules]  # a variant
        variant = f" with {', '.join(chosen_so)}" if chosen_so else ""
        raise InputError(
            f"no theorem is known here that gives {name}{variant} a step size: give a number for "
            f"{', '.join(run.method.by_theorem)} (there are rules for {', '.join(rules)})"
        )
    return chosen
