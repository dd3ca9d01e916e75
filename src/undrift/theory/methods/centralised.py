"""Gradient steps on f itself: FedSGD, EF21, and the baselines that hold all data in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...compression import DIFFERENCE, Quantise, RandomK, TopK, top_k
from ...engine.description import Run
from ...errors import InputError
from ...oracles import MiniBatch
from ...problems.base import Problem
from ...problems.pooled import Pooled
from .. import centralised, closed_form, ef21, round_map
from ..bound import Bound, require_positive, required
from ..certificates.record import Certifiable
from ..constants import Constants
from ..known import Chosen, Known, Usual, per_round, three_digits
from ..needs import constants_of, need_bounded_variance, need_everyone, need_plain, not_in_closed_form, setting
from ..paths import Differing, Path, Recursion

GREY = "#8C8C8C"


def _gd_step(run: Run) -> Chosen:
    return _descent(run, run.steps)


def _descent(run: Run, steps: Any) -> Chosen:
    c = constants_of(run)
    rule, top = f"the step rule of {run.method.name}", c.L_mean if c.L_mean is not None else c.L
    L = float(required(rule, "L-smoothness of f", "L", top, not_in_closed_form(run)))
    if isinstance(run.oracle, MiniBatch) and run.method.recipe.centralised:
        return Chosen.of(centralised.sgd_minibatch(run.problem, run.oracle.size, steps))
    need_bounded_variance(run, "SGD's rule 1/L")
    if c.pl is not None and c.pl > 0:
        return Chosen.of((centralised.gd if run.oracle.exact else centralised.sgd)(c, steps))
    return Chosen({"eta": 1 / L}, "gradient descent, η = 1/L of f (descent lemma)")


def _fedsgd_step(run: Run) -> Chosen:
    need_everyone(run, "FedSGD's rule 1/L")
    need_plain(run, "FedSGD's rule 1/L")
    return _descent(run, 1)


def _iag_step(run: Run) -> Chosen:
    """η = γ̄/2, γ̄ = (8/25) μ/(N L(μ + L)) for f = Σ_j f̂_j with N components, L = Σ L_j and delays of at most N steps."""
    theorem = "IAG, Theorem 3.3 (Gürbüzbalaban, Ozdaglar, Parrilo 2017)"
    source = run.problem.source if isinstance(run.problem, Pooled) else run.problem
    order = setting(run, "order")
    if order not in ("cyclic",):
        raise InputError(f"{theorem}: the delay of a component is known for the cyclic order, got {order!r}: give eta")
    parts = closed_form.component_smoothness(source, int(setting(run, "batch") or 1))
    parts = required(theorem, "smoothness of every component", "L_j", parts, "give eta")
    weights, c = np.asarray(source.weights, np.float64), constants_of(run)
    L = float(sum(w * part.sum() for w, part in zip(weights, parts, strict=True)))
    mu = required(theorem, "strong convexity of f", "μ of f", c.mu_mean, "give eta")
    require_positive(theorem, "strong convexity of f", "μ", mu, "add a regulariser, or give eta")
    count = sum(len(part) for part in parts)
    return Chosen({"eta": 4 / 25 * float(mu) / (count * L * (float(mu) + L))}, theorem)


GD = Known(
    step=_gd_step,
    bound=lambda run, constants: centralised.gd(constants, round(float(np.mean(np.asarray(run.steps))))),
    round_map=lambda q, v, steps: round_map.gd(q, v["eta"], steps),
    scale=per_round,
    local="mean",
    certified=Certifiable("fedsgd", "gradient descent", losses="mean", steps="mean"),
    rule="1/L of f (descent lemma)",
    colour=GREY,
)
FEDSGD = Known(
    step=_fedsgd_step,
    bound=lambda run, constants: centralised.gd(constants, 1),
    round_map=lambda q, v, steps: round_map.fedsgd(q, v["eta"]),
    scale=per_round,
    local="none",
    certified=Certifiable("fedsgd", "FedSGD", losses="mean", steps="one"),
    rule=GD.rule,
    colour="#000000",
)


def _ef21_delta(run: Run) -> float:
    return float(setting(run, "up").with_memory(DIFFERENCE).contraction(run.problem.dim))


def _ef21_bound(run: Run, constants: Constants) -> Bound:
    return ef21.pl(constants, _ef21_delta(run), in_expectation=isinstance(setting(run, "up"), RandomK | Quantise))


def _ef21_step(run: Run) -> Chosen:
    theorem = "EF21, Theorem 2"
    need_everyone(run, theorem)
    need_plain(run, theorem)
    if not run.oracle.exact:
        raise InputError(f"{theorem} assumes exact gradients, got {run.oracle}: give eta")
    c = constants_of(run)
    L = required(theorem, "L-smoothness of every f_i", "L", c.L, not_in_closed_form(run))
    if c.pl is not None and c.pl > 0 and c.mu is not None and c.mu >= 0 and c.zeta_star_sq is not None:
        return Chosen.of(_ef21_bound(run, c))
    return Chosen({"eta": ef21.step_size(float(L), 0.0, _ef21_delta(run))}, f"{theorem}, its step for smooth f")


def _ef21_usual_step(problem: Problem, steps: Any, given: Mapping[str, Any]) -> Usual:
    L, up = problem.constants.L, given.get("up") or _ef21_link(problem)
    delta = up.with_memory(DIFFERENCE).contraction(problem.dim)
    why = f"1/(L(1 + √(2β/θ))), EF21's Theorem 2, L = {L:.3g}, δ = {delta:.3g}"
    return Usual(three_digits(ef21.step_size(L, 0.0, delta)), why)


def _ef21_link(problem: Problem) -> TopK:
    return top_k(max(1, problem.dim // 4))


def _ef21_path(recursion: Recursion) -> Path | None:
    known = isinstance(recursion.values(recursion.step)["up"], TopK)
    return Differing(recursion, leads=True) if known else None


EF21 = Known(
    step=_ef21_step,
    bound=_ef21_bound,
    path=_ef21_path,
    scale=per_round,
    usual_step=_ef21_usual_step,
    usual=lambda problem, steps, given: {"up": Usual(_ef21_link(problem), "TOP-k with k = d/4")},
    local="none",
    rule="min{1/(L(1 + √(2β/θ))), θ/(2μ)}, θ = 1 − √(1 − 1/δ), β = (1 − 1/δ)/θ (EF21, Theorem 2)",
    colour="#44AA99",
)
SGD = Known(step=_gd_step, rule="1/(2𝓛), 𝓛 = (1 − 1/b)L + max_j L_j/b (Gower et al. 2019, Theorem 3.1)", colour=GREY)
IAG = Known(
    step=_iag_step,
    rule="(4/25)μ/(N L(μ + L)), L = Σ L_j (Gürbüzbalaban, Ozdaglar, Parrilo 2017, Theorem 3.3)",
    colour=GREY,
)
