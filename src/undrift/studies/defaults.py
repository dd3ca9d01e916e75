"""Step sizes where the user gives none: the rule of the theorem that covers the method, or the usual choice; always said."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..engine.setup import prepare
from ..errors import InputError
from ..plan import RandomSteps
from ..problems.base import Constants, Problem
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
    missing = maker.missing
    if maker.spec.name == "fedsplit" and maker.spec.parameters.get("inner_steps") is None and not _has_prox(problem):
        missing = [*missing, "inner_steps", "inner_eta"]
    missing = [name for name in dict.fromkeys(missing) if name not in maker.spec.parameters]
    if not missing:
        return {}
    if isinstance(problem, Network):
        return {name: _network_choice(name, maker, problem) for name in missing}
    try:
        constants = problem.constants
    except InputError as error:
        raise InputError(f"{maker.spec.name} needs {', '.join(missing)}, and there is no default: {error}") from error
    return {name: _choice(name, maker, problem, constants, steps) for name in missing}


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


def _choice(name: str, maker: MethodMaker, problem: Problem, constants: Constants, steps: Any) -> Choice:
    L, mu = constants.L, constants.mu
    method = maker.spec.name
    if name == "eta":
        return _step(maker, problem.dim, L, longest(steps))
    if method == "fedprox" and name == "beta":
        return Choice(_rounded(L / 10), f"L/10, L = {L:.3g}")
    if method == "fedsplit":
        s = maker.spec.parameters.get("s")
        if name == "s":
            best = 1 / math.sqrt(L * mu) if mu > 0 else 1 / L
            return Choice(_rounded(best), "1/√(Lμ), the paper's choice" if mu > 0 else "1/L, as μ = 0")
        if name == "inner_steps":
            return Choice(max(2, round(average(steps))), "the mean of the local steps")
        if name == "inner_eta":
            s = s if isinstance(s, int | float) else (1 / math.sqrt(L * mu) if mu > 0 else 1 / L)
            return Choice(_rounded(2 / (L + mu + 2 / s)), "2/(L + μ + 2/s), the paper's choice")
    raise InputError(f"{method} needs {name}: give it in the study file, or as --method {method}:{name}=…")


def _step(maker: MethodMaker, dim: int, L: float, tau: float) -> Choice:
    method = maker.spec.name
    if method in ("fedsgd", "gd"):
        return Choice(_rounded(1 / L), f"1/L, L = {L:.3g}")
    if method == "fedlin":
        return _fedlin_step(maker, dim, L)
    if method == "fedtrack":
        return Choice(_rounded(1 / (18 * L * tau)), f"1/(18 L τ), FedTrack's Theorem 1, L = {L:.3g}, τ = {tau:g}")
    return Choice(_rounded(1 / (L * tau)), f"1/(L τ), L = {L:.3g}, longest τ = {tau:g}")


def _fedlin_step(maker: MethodMaker, dim: int, L: float) -> Choice:
    if maker.up is None and maker.down is None:
        return Choice(_rounded(1 / (6 * L)), f"1/(6L), FedLin's Theorem 1, L = {L:.3g}")
    deltas = [c.contraction(dim) for c in (maker.up, maker.down) if c is not None]
    delta = float(np.prod([d if math.isfinite(d) else dim for d in deltas]))
    if maker.up is None and maker.down is not None and not maker.down.memory:
        return Choice(
            _rounded(1 / (2 * (2 + math.sqrt(delta)) * L)), f"1/(2(2 + √δ)L), FedLin's Theorem 6, δ = {delta:.3g}"
        )
    theorem = "Theorem 7" if maker.up is None else "Theorem 8"
    return Choice(_rounded(1 / (72 * L * delta)), f"1/(72 L δ), FedLin's {theorem}, L = {L:.3g}, δ = {delta:.3g}")


def longest(steps: Any) -> float:
    """The largest τ_i that is known beforehand."""
    if isinstance(steps, RandomSteps):
        return float(steps.high)
    return 1.0 if callable(steps) else float(np.max(np.asarray(steps)))


def average(steps: Any) -> float:
    if isinstance(steps, RandomSteps):
        return (steps.low + steps.high) / 2
    return 1.0 if callable(steps) else float(np.mean(np.asarray(steps)))


def _has_prox(problem: Problem) -> bool:
    """Whether clients know their proximal operator in closed form (those with a quadratic loss do)."""
    return "hessian" in problem.stack if isinstance(problem.stack, dict) else False


def _rounded(value: float) -> float:
    """Three digits: what is said is what is used."""
    return float(f"{value:.3g}")
