"""Scaffnew: local steps by a coin, and rounds that grow like √κ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engine.description import Run
from ...problems.base import Problem
from .. import scaffnew
from ..bound import Bound
from ..certificates.record import Certifiable
from ..constants import Constants
from ..known import Chosen, Known, Usual, per_round, steps_beforehand, three_digits
from ..needs import constants_of, need_bounded_variance, need_everyone, need_plain, number
from ..paths import Coins


def _step(run: Run) -> Chosen:
    """γ = 1/L and p = √(γμ), or those given, where the theorem covers them."""
    need_everyone(run, scaffnew.THEOREM)
    need_plain(run, scaffnew.THEOREM)
    need_bounded_variance(run, scaffnew.THEOREM)
    given = {name: None if name in run.method.by_theorem else number(run, name) for name in ("eta", "p")}
    return Chosen.of(scaffnew.strongly_convex(constants_of(run), **given))


def _bound(run: Run, constants: Constants) -> Bound:
    return scaffnew.strongly_convex(constants, p=number(run, "p"))


def _usual(problem: Problem, steps: Any, given: Mapping[str, Any]) -> dict[str, Usual]:
    L, mu = problem.constants.L, problem.constants.mu
    if mu > 0:
        return {
            "p": Usual(three_digits(scaffnew.best_chance(1 / L, mu)), f"1/√κ, the paper's choice, κ = {L / mu:.3g}")
        }
    return {"p": Usual(_by_steps(steps), "as many local steps on average as other methods take, for μ = 0")}


def _by_steps(steps: Any) -> float:
    return three_digits(1 / float(np.mean(steps_beforehand(steps))))


SCAFFNEW = Known(
    step=_step,
    bound=_bound,
    path=Coins,
    scale=per_round,
    usual=_usual,
    advised=lambda problem, steps, step: {"p": _by_steps(steps)},
    local="mean",
    local_words="local step(s) on average, drawn by its coin,",
    certified=Certifiable("scaffnew", "Scaffnew", steps="drawn"),
    rule="1/L, p = 1/√κ (Mishchenko et al. 2022, ProxSkip's theorem)",
    colour="#A6761D",
)
