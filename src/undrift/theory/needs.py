"""What theorems ask of a run, each refused by name. A run has method, problem, steps, oracle, participation, failures."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..engine.description import Run
from ..errors import InputError
from ..oracles import MiniBatch
from .bound import required
from .constants import Constants, known_without_measuring
from .quantity import measured


def setting(run: Run, key: str) -> Any:
    """A setting of the run's method, None where it has none of this name."""
    return dict(run.method.recipe.settings).get(key)


def number(run: Run, key: str) -> float:
    """A number of the run's method; theorems speak of one that stays the same in every round."""
    if key in dict(run.method.recipe.schedules):
        raise InputError(
            f"{key} of {run.method.name} changes by round here, and its step rule is about one that does not: give all numbers"
        )
    return float(run.method.numbers[key])


def constants_of(run: Run) -> Constants:
    """What closed forms tell about the run's problem."""
    found = known_without_measuring(run.problem)
    # Steps do not depend on σ², bounds do: any value will do to ask for the former.
    return dataclasses.replace(found, sigma_sq=measured(0.0, "not asked for")) if found.sigma_sq is None else found


def smoothness(run: Run, constants: Constants) -> float:
    """L of the clients, which the rule cannot do without."""
    rule = f"the step rule of {run.method.name}"
    return float(required(rule, "L-smoothness of every f_i", "L", constants.L, not_in_closed_form(run)))


def not_in_closed_form(run: Run) -> str:
    """The remedy where nobody knows L."""
    return (
        f"a {run.problem.name} problem has no L in closed form; measure it (ud.theory.constants(problem, path=…)), evaluate "
        "the theorem with that (ud.theory), and give the number"
    )


def need_everyone(run: Run, theorem: str) -> None:
    """Full participation, and no failures."""
    if not run.every_round:
        raise InputError(
            f"{theorem} assumes that every client takes part in every round; here participation is {run.participation}, "
            f"failures {run.failures:g}: give a number for eta"
        )


def need_plain(run: Run, theorem: str) -> None:
    """No solver, server optimiser or compressed link in place of plain steps."""
    extra = [key for key in ("solver", "server") if setting(run, key) is not None]
    extra += [str(wrapper) for wrapper in run.method.recipe.wrap]
    if extra:
        raise InputError(f"{theorem} is about plain steps and whole messages, here with {', '.join(extra)}: give eta")


def need_whole_server_step(run: Run, theorem: str) -> None:
    """The server takes the mean itself."""
    given = run.method.parameters.get("server_eta")  # sequential methods have none unless it is asked for
    if given is not None and number(run, "server_eta") != 1.0:
        raise InputError(f"{theorem} assumes server_eta = 1, got {given:g}: give eta")


def need_bounded_variance(run: Run, theorem: str) -> None:
    """Mini-batches of quadratic losses have a variance that grows with ‖x‖², so no σ² bounds it everywhere."""
    if isinstance(run.oracle, MiniBatch) and run.problem.constant_hessians:
        raise InputError(
            f"{theorem} assumes gradients of variance ≤ σ² everywhere, and that of mini-batches of a {run.problem.name} "
            "problem grows without bound: give eta (or oracle=ud.oracles.full())"
        )


def need_minimiser(run: Run, constants: Constants) -> None:
    """Some x* that is known."""
    if constants.zeta_star_sq is None:
        raise InputError(
            f"the theorem for {run.method.name} on convex losses assumes that f has a minimiser x*, and none is known here: "
            "give eta, or add a regulariser"
        )
