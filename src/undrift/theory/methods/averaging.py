"""FedAvg, FedProx and FedNova, and split learning in parallel: local steps, then a mean."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from ...engine.description import Run
from ...errors import InputError
from ...plan import Uniform
from ...problems.base import Problem
from ...problems.quadratic import QuadraticFamily
from .. import fedavg, round_map
from ..averaged import largest_step
from ..bound import Bound, known_steps, longest, required
from ..certificates.record import Certifiable
from ..constants import Constants
from ..known import Chosen, Known, Usual, three_digits
from ..needs import (
    constants_of,
    need_bounded_variance,
    need_everyone,
    need_minimiser,
    need_plain,
    need_whole_server_step,
    not_in_closed_form,
    number,
    smoothness,
)


def _fedavg_step(run: Run) -> Chosen:
    theorem = "FedAvg's Theorem 2 of the SSL paper"
    need_plain(run, theorem)
    need_whole_server_step(run, theorem)
    need_bounded_variance(run, theorem)
    c, who = constants_of(run), run.participation
    mu = required(theorem, "L-smooth convex losses", "L", c.mu, not_in_closed_form(run))
    if run.failures > 0:
        need_everyone(run, theorem)
    if run.every_round:
        return Chosen.of(by_convexity(fedavg, run, c, mu))
    if not isinstance(who, Uniform):
        raise InputError(f"Corollaries 2 and 3 assume uniformly drawn cohorts, got {who}: give eta")
    return Chosen.of(fedavg.sampled(c, who.count, run.steps, replace=who.replace))


def by_convexity(paper: ModuleType, run: Run, c: Constants, mu: float) -> Bound:
    """The theorem of the SSL paper, for FedAvg or SSL, that covers losses of this μ."""
    if mu < 0:
        return paper.nonconvex(c, run.steps)
    need_minimiser(run, c)
    return paper.strongly_convex(c, run.steps) if mu > 0 else paper.convex(c, run.steps)


def with_equal_steps(paper: ModuleType, run: Run, constants: Constants) -> Bound | None:
    """The theorem for strongly convex losses, which asks for the same τ at all clients."""
    steps: Any = run.steps
    low, high = int(np.min(steps)), int(np.max(steps))
    return paper.strongly_convex(constants, high) if low == high else None


FEDAVG = Known(
    step=_fedavg_step,
    bound=lambda run, constants: with_equal_steps(fedavg, run, constants),
    round_map=lambda q, v, steps: round_map.fedavg(q, v["eta"], steps, v.get("server_eta", 1.0)),
    drifts=True,
    certified=Certifiable("fedavg", "FedAvg"),
    rule="1/(6LK) (SSL paper, (80), (81), (108), (119))",
    colour="#E69F00",
)
SFLV1 = Known(step=_fedavg_step, rule=FEDAVG.rule, colour="#AA4499")
SFLV2 = Known(colour="#CC6677")  # no theorem is known


def _fedprox_step(run: Run) -> Chosen:
    """η = 1/(6(L + β)K): FedAvg's rule for the losses that clients descend on, f_i + (β/2)‖y − x‖²: (L + β)-smooth ones."""
    theorem = "FedProx's rule"
    need_everyone(run, theorem)
    need_bounded_variance(run, theorem)
    need_plain(run, theorem)
    need_whole_server_step(run, theorem)
    L, K = smoothness(run, constants_of(run)), longest(run.steps)
    return Chosen(
        {"eta": largest_step(L + number(run, "beta")) / K},
        f"FedAvg's rule 1/(6LK) with L + β in place of L (K = {K}; SSL paper, Theorem 2)",
    )


def _fedprox_usual(problem: Problem, steps: Any, given: Mapping[str, Any]) -> dict[str, Usual]:
    L = problem.constants.L
    return {"beta": Usual(three_digits(L / 10), f"L/10, L = {L:.3g}")}


FEDPROX = Known(
    step=_fedprox_step,
    round_map=lambda q, v, steps: round_map.fedprox(q, v["eta"], steps, v["beta"], v["server_eta"]),
    usual=_fedprox_usual,
    drifts=True,
    certified=Certifiable("fedprox", "FedProx", told=("beta",)),
    rule="1/(6(L + β)K) (FedAvg's, for the local losses with their pull)",
    colour="#CC79A7",
)


def _fednova_step(run: Run) -> Chosen:
    """η = 1/(L τ_eff), τ_eff = Σ w_i τ_i, on quadratics.

    A round is x ← x − M(x − x̃) with M = Σ w_i (τ_eff/τ_i)(I − (I − ηA_i)^{τ_i}) (FedLin, Proposition 2). For 0 ≤ ηλ ≤ 1,
    0 ≤ 1 − (1 − ηλ)^τ ≤ τηλ, so 0 ⪯ M ⪯ ητ_eff L·I ⪯ I: the distance to the surrogate's minimiser x̃ never grows, in any
    eigendirection of M, without oscillation.
    """
    theorem = "FedNova's rule 1/(L·mean τ_i) (FedLin, Proposition 2: quadratics)"
    need_everyone(run, theorem)
    need_plain(run, theorem)
    if not isinstance(run.problem, QuadraticFamily):
        raise InputError(
            "FedNova has a step rule without a dissimilarity constant on quadratics only; elsewhere its theorem (Wang et al. "
            "2020) asks for β² of bounded dissimilarity: give eta"
        )
    c = constants_of(run)
    if c.mu is not None and c.mu < 0:
        raise InputError(f"{theorem} assumes convexity of every f_i, but here min_i μ_i = {float(c.mu):g}: give eta")
    steps = np.broadcast_to(known_steps(run.steps), (run.problem.clients,))
    effective = float(np.asarray(run.problem.weights, np.float64) @ steps)
    return Chosen({"eta": 1 / (smoothness(run, c) * effective)}, theorem)


FEDNOVA = Known(
    step=_fednova_step,
    round_map=lambda q, v, steps: round_map.fednova(q, v["eta"], steps),
    drifts=True,
    certified=Certifiable("fednova", "FedNova"),
    rule="1/(L·mean τ_i) on quadratics (the round map is I − M with 0 ⪯ M ⪯ I)",
    colour="#56B4E9",
)
