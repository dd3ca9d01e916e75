"""FedDyn: exact with any number of local steps; a rule is known for one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...engine.description import Run
from ...errors import InputError
from ...problems.base import Problem
from .. import centralised, round_map
from ..bound import Bound, longest
from ..constants import Constants
from ..known import Chosen, Known, Usual, three_digits
from ..needs import constants_of, need_everyone, need_plain, number

THEOREM = "FedDyn with one local step is gradient descent"


def descent(run: Run, constants: Constants, alpha: float | None = None) -> Bound:
    """τ = 1, η = 1/(2α), α ≥ L of f (L where none is given): f(x_T) − f* ≤ (1 − μ/α)^T (f(x_0) − f*).

    With one step y_i − x = −η(∇f_i(x) − λ_i), so for h = Σ w_i λ_i a round is h⁺ = h + αη(∇f(x) − h) and
    x⁺ = x − η(∇f(x) − h) − h⁺/α = x − 2η(∇f(x) − h) − h/α. Where η = 1/(2α), h cancels out: x⁺ = x − ∇f(x)/α.
    """
    need_everyone(run, THEOREM)
    need_plain(run, THEOREM)
    if not run.oracle.exact:
        raise InputError(f"{THEOREM}, with exact gradients; here the oracle is {run.oracle}: give eta and alpha")
    if longest(run.steps) > 1:
        raise InputError(f"{THEOREM}; here clients take up to {longest(run.steps)}: use steps=1, or give eta and alpha")
    found = centralised.gd(constants)
    L = 1 / found.numbers["eta"]
    a = L if alpha is None else alpha
    if a < L * (1 - 1e-9):
        raise InputError(f"{THEOREM}, with steps 1/α that must not exceed 1/L: alpha ≥ {L:.6g}, got {a:g}")
    rate = 1 - (1 - float(found.rate or 0.0)) * L / a  # 1 − μ/α
    return dataclasses.replace(
        found,
        theorem=THEOREM,
        statement="f(x_T) − f* ≤ (1 − μ/α)^T (f(x_0) − f*)",
        method="feddyn",
        numbers={"eta": 1 / (2 * a), "alpha": a},
        rate=rate,
        values=lambda t, start: rate**t * start,
    )


def _step(run: Run) -> Chosen:
    if "alpha" not in run.method.by_theorem:
        alpha: float | None = number(run, "alpha")
    else:
        alpha = None if "eta" in run.method.by_theorem else 1 / (2 * number(run, "eta"))
    return Chosen.of(descent(run, constants_of(run), alpha))


def _usual(problem: Problem, steps: Any, given: Mapping[str, Any]) -> dict[str, Usual]:
    L = problem.constants.L
    return {"alpha": Usual(three_digits(L), f"L = {L:.3g}")}


FEDDYN = Known(
    step=_step,
    bound=descent,
    round_map=lambda q, v, steps: round_map.feddyn(q, v["eta"], steps, v["alpha"]),
    usual=_usual,
    rule="η = 1/(2α), α = L of f, for one local step: gradient descent with step 1/α",
    colour="#882255",
)
