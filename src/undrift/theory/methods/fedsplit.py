"""FedSplit: a step of the proximal operator, and gradient steps inside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engine.description import Run
from ...plan import ChangingSteps
from ...problems.base import Problem
from .. import round_map
from ..bound import require_positive, required
from ..certificates.record import Certifiable
from ..known import Chosen, Known, Usual, steps_beforehand, three_digits
from ..needs import constants_of, not_in_closed_form, number, smoothness


def prox_step(L: float, mu: float, steps: Any = None) -> float:
    """s = 1/√(Lμ), the paper's choice; 1/L where μ = 0."""
    return 1 / math.sqrt(L * mu) if mu > 0 else 1 / L


def inner_step(L: float, mu: float, s: float) -> float:
    """2/(L + μ + 2/s), the paper's choice: the inner losses are (L + 1/s)-smooth and (μ + 1/s)-strongly convex."""
    return 2 / (L + mu + 2 / s)


def _step(run: Run) -> Chosen:
    theorem, convex = "FedSplit (Pathak, Wainwright 2020), s = 1/√(Lμ)", "strong convexity of every f_i"
    c = constants_of(run)
    L, mu = smoothness(run, c), required(theorem, convex, "μ", c.mu, not_in_closed_form(run))
    require_positive(theorem, convex, "μ", mu, "give s")
    s = prox_step(L, float(mu)) if "s" in run.method.by_theorem else number(run, "s")
    return Chosen({"s": s, "inner_eta": inner_step(L, float(mu), s)}, theorem)


def _usual_step(problem: Problem, steps: Any, given: Mapping[str, Any]) -> Usual:
    L, mu = problem.constants.L, problem.constants.mu
    return Usual(three_digits(prox_step(L, mu)), "1/√(Lμ), the paper's choice" if mu > 0 else "1/L, as μ = 0")


def _usual(problem: Problem, steps: Any, given: Mapping[str, Any]) -> dict[str, Usual]:
    L, mu, s = problem.constants.L, problem.constants.mu, given.get("s")
    known = steps.mean if isinstance(steps, ChangingSteps) else None
    mean = float(np.mean(steps_beforehand(steps))) if known is None else known
    inner = inner_step(L, mu, s if isinstance(s, int | float) else prox_step(L, mu))
    return {
        "inner_steps": Usual(max(2, round(mean)), "the mean of the local steps"),
        "inner_eta": Usual(three_digits(inner), "2/(L + μ + 2/s), the paper's choice"),
    }


def _advised(problem: Problem, steps: Any, s: float) -> dict[str, Any]:
    """As many gradient steps inside as other methods take local steps, from the model."""
    inner = inner_step(problem.constants.L, problem.constants.mu, s)
    return {"inner_steps": max(1, round(float(np.mean(steps)))), "inner_eta": inner, "start": "model"}


FEDSPLIT = Known(
    step=_step,
    round_map=lambda q, v, steps: round_map.fedsplit(q, v["s"], v["inner_steps"], v.get("inner_eta"), v["start"]),
    number="s",
    scale=prox_step,
    usual_step=_usual_step,
    usual=_usual,
    advised=_advised,
    without_prox=("inner_steps", "inner_eta"),
    local="mean",
    local_words="gradient step(s) for each proximal step",
    certified=Certifiable(
        "fedsplit",
        "FedSplit",
        told=("inner_steps", "start"),
        only_with={"start": "inner_steps"},
        steps="one",
        at_start=lambda numbers: numbers["s"] ** 2,  # V = Σ w_i‖z_i − x* + s∇f_i(x*)‖², and z_i = x_0 at the start
    ),
    rule="s = 1/√(Lμ), inner steps 2/(L + μ + 2/s) (Pathak, Wainwright 2020)",
    colour="#009E73",
)
