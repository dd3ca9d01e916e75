"""`eta="theorem"`: the step size of the theorem that covers a method on a problem, or a refusal that says what is missing.

Each method's rule stands in its record (`theory.methods`, or the user's own); `undrift explain` shows it in words.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..errors import InputError
from ..oracles import Oracle
from ..plan import Everyone, Participation
from ..problems.base import Problem
from ..recipe import Method
from .bound import Bound
from .known import Chosen
from .methods import KNOWN, known_of
from .needs import constants_of
from .situation import Situation


def resolve(
    method: Method,
    problem: Problem,
    *,
    steps: Any,
    oracle: Oracle,
    participation: Participation,
    failures: float = 0.0,
) -> Method:
    """The method with every number that was left to the theorem filled in; `chosen_by` says which theorem it was."""
    if not method.by_theorem:
        return method
    chosen = choose(Situation(method, problem, steps, oracle, participation, failures))
    missing = [name for name in method.by_theorem if name not in chosen.numbers]
    if missing:
        raise InputError(f"{chosen.theorem} says nothing about {', '.join(missing)} of {method.name}: give a number")
    numbers = {name: chosen.numbers[name] for name in method.by_theorem}
    made = method.with_numbers(**numbers)
    return dataclasses.replace(made, chosen_by=chosen.theorem)


def promise(
    method: Method,
    problem: Problem,
    *,
    steps: Any = 1,
    oracle: Oracle | None = None,
    participation: Participation | None = None,
    failures: float = 0.0,
) -> Bound | None:
    """The guarantee for this very run: where the method's numbers are those of the theorem that covers it, and it has no noise.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> promise(ud.fedlin(eta=1 / 12), p, steps=5).theorem, promise(ud.fedlin(eta=0.1), p, steps=5)
    ('FedLin, Theorem 1', None)
    """
    oracle = oracle or method.recipe.oracle or problem.default_oracle
    if not oracle.exact:
        return None  # the curve would need σ², which closed forms do not know
    try:
        who = participation or Everyone()
        chosen = choose(Situation(method, problem, steps, oracle, who, failures))
    except InputError:
        return None
    same = all(np.isclose(method.numbers.get(name, np.nan), value, rtol=1e-9) for name, value in chosen.numbers.items())
    return chosen.bound if same else None


def choose(run: Any) -> Chosen:
    """The numbers that the rule of the run's method gives."""
    known, name = known_of(run.method), run.method.name
    chosen = known.choose(run, lambda: constants_of(run))
    if chosen is None:
        rules = sorted(name for name, one in KNOWN.items() if one.step is not None)
        raise InputError(
            f"no theorem is known here that gives {name} a step size: give a number for "
            f"{', '.join(run.method.by_theorem)} (there are rules for {', '.join(rules)})"
        )
    return chosen
