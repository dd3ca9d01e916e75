"""`eta="theorem"`: the step size of the theorem that covers a method on a problem, or a refusal that says what is missing.

Each method's rule stands in its record (`theory.methods`, or the user's own); `undrift explain` shows it in words.
`eta="certified"`: that of a certificate (`theory.certificates.choice`).
"""

from __future__ import annotations

import dataclasses
from typing import Unpack

import numpy as np

from ..engine.description import Arguments, Run
from ..errors import InputError
from ..problems.base import Problem
from ..recipe import CERTIFIED, THEOREM, Method
from .bound import Bound
from .certificates.choice import certified
from .known import Chosen
from .methods import KNOWN, known_of
from .needs import constants_of

CHOSEN = ("eta", "s", "inner_eta", "p", "alpha")  # numbers that rules choose; others (β, η_s) are the user's


def resolve(run: Run) -> Method:
    """The run's method with every number that was left to a rule filled in; `chosen_by` says which theorem it was by, or that
    a certificate has chosen it."""
    method = run.method
    if not method.waiting:
        return method
    chosen = _chosen(run)
    missing = [name for name in method.waiting if name not in chosen.numbers]
    if missing:
        raise InputError(f"{chosen.theorem} says nothing about {', '.join(missing)} of {method.name}: give a number")
    made = method.with_numbers(**{name: chosen.numbers[name] for name in method.waiting})
    return dataclasses.replace(made, chosen_by=chosen.theorem)


def _chosen(run: Run) -> Chosen:
    """By the one rule that numbers wait for: those of a theorem or of a certificate belong together."""
    waiting = run.method.waiting
    if len(set(waiting.values())) > 1:
        asked = ", ".join(f'{name}="{rule}"' for name, rule in waiting.items())
        raise InputError(
            f"numbers of a theorem belong together, and so do those of a certificate; got {asked} of {run.method.name}: "
            "choose one rule for all"
        )
    return certified(run) if CERTIFIED in waiting.values() else choose(run)


def promise(method: Method, problem: Problem, **arguments: Unpack[Arguments]) -> Bound | None:
    """The guarantee for this very run: where the method's numbers are those of the theorem that covers it, and it has no noise.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> promise(ud.fedlin(eta=1 / 12), p, steps=5).theorem, promise(ud.fedlin(eta=0.1), p, steps=5)
    ('FedLin, Theorem 1', None)
    """
    return promised(Run.of(method, problem, 0, **arguments))


def promised(run: Run) -> Bound | None:
    """The same for a run that is described already: a theorem's guarantee, or else a certificate's."""
    if not run.oracle.exact:
        return None  # the curve would need σ², which closed forms do not know
    for rule in (choose, lambda run: certified(_left_open(run, CERTIFIED))):
        try:
            chosen = rule(run)
        except InputError:
            continue
        if chosen.bound is not None and _same(run.method, chosen):
            return chosen.bound
    return None


def by_theorem(run: Run) -> Bound | None:
    """What the theorem would promise with its own numbers in place of the run's, for comparison; None where it does not."""
    try:
        return choose(_left_open(run, THEOREM)).bound
    except InputError:
        return None


def _left_open(run: Run, rule: str) -> Run:
    """The run with its method's step sizes left to a rule; what a rule does not choose (β, η_s) stays."""
    names = [name for name in run.method.numbers if name in CHOSEN]
    return run.but(method=run.method.left_to(rule, names))


def _same(method: Method, chosen: Chosen) -> bool:
    """Whether the method has the numbers that were chosen."""
    return all(np.isclose(method.numbers.get(k, np.nan), v, rtol=1e-9) for k, v in chosen.numbers.items())


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
            f"{', '.join(run.method.waiting) or known.number} (there are rules for {', '.join(rules)})"
        )
    return chosen
