"""SCAFFOLD: control variates, so that local steps follow the gradient of f."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...engine.description import Run
from ...errors import InputError
from ...plan import ChangingSteps, Uniform
from .. import round_map, scaffold
from ..bound import Bound, known_steps, longest
from ..certificates.record import Certifiable
from ..constants import Constants
from ..known import Chosen, Known
from ..needs import constants_of, need_bounded_variance, need_everyone, need_plain, number, smoothness

PRINTED = "SCAFFOLD, Theorem VII (Karimireddy et al. 2020)"


def _step(run: Run) -> Chosen:
    """Ours where gradients are exact and all clients take K steps; else that of the paper."""
    need_plain(run, PRINTED)
    need_bounded_variance(run, PRINTED)
    if run.failures > 0:
        need_everyone(run, PRINTED)
    server = number(run, "server_eta")
    if server < 1:
        raise InputError(f"{PRINTED} assumes server_eta ≥ 1, got {server:g}: give eta")
    who, c = run.participation, constants_of(run)
    if not run.every_round and not (isinstance(who, Uniform) and (c.equal_weights or not who.renormalise)):
        raise InputError(f"{PRINTED} assumes uniformly drawn cohorts, got {who}: give eta")
    ours = _ours(run, c, server) if run.oracle.exact and _alike(run.steps) else None
    return ours or _printed(run, c, server)


def _ours(run: Run, c: Constants, server: float) -> Chosen | None:
    """None where the theorem for convex losses lacks a minimiser."""
    settings = {**_cohort(run), "server_eta": server}
    L, mu = smoothness(run, c), float(c.mu if c.mu is not None else -1)
    if mu < 0 and c.C is None:  # the step does not depend on C and D, the guarantee does
        at = scaffold.Sampling.of(c, *_cohort(run).values())
        step = scaffold.nonconvex_step(L, at) / (longest(run.steps) * server)
        return Chosen({"eta": step}, "SCAFFOLD with exact gradients, non-convex (ours)")
    if mu < 0:
        return Chosen.of(scaffold.nonconvex(c, run.steps, **settings))
    if c.zeta_star_sq is None:
        return None
    strong = c.mu_mean is not None and c.mu_mean > 0
    return Chosen.of((scaffold.strongly_convex if strong else scaffold.convex)(c, run.steps, **settings))


def _cohort(run: Run) -> dict[str, Any]:
    who = run.participation
    heaviest = run.problem.clients * float(np.max(np.asarray(run.problem.weights, np.float64)))
    if run.every_round or not isinstance(who, Uniform):
        return {"cohort": None, "replace": False, "heaviest": heaviest}
    return {"cohort": who.count, "replace": who.replace, "heaviest": heaviest}


def _alike(steps: Any) -> bool:
    return not isinstance(steps, ChangingSteps) and len(np.unique(known_steps(steps))) == 1


def _printed(run: Run, c: Constants, server: float) -> Chosen:
    """η ≤ min{1/(81LKη_s), S/(15μMKη_s)} for convex losses; (S/M)^{2/3}/(24LKη_s) without convexity; η_s ≥ 1."""
    L, K, who = smoothness(run, c), longest(run.steps), run.participation
    share = min(1.0, who.count / run.problem.clients) if isinstance(who, Uniform) and not run.every_round else 1.0
    mu = float(c.mu or 0.0)
    if mu < 0:
        return Chosen({"eta": share ** (2 / 3) / (24 * L * K * server)}, f"{PRINTED}, non-convex, K = {K}")
    limits = [1 / (81 * L * K * server)] + ([share / (15 * mu * K * server)] if mu > 0 else [])
    return Chosen({"eta": min(limits)}, f"{PRINTED}, K = {K}")


def _bound(run: Run, constants: Constants) -> Bound | None:
    return scaffold.strongly_convex(constants, run.steps) if _alike(run.steps) else None


SCAFFOLD = Known(
    step=_step,
    bound=_bound,
    round_map=lambda q, v, steps: round_map.scaffold(q, v["eta"], steps, v["option"], v["server_eta"]),
    certified=Certifiable("scaffold", "SCAFFOLD", told=("option",)),
    rule="Kηη_s = min{1/(6(1 + 6ρ)L), p/μ} with exact gradients and equal τ_i (ours); else "
    "min{1/(81LKη_s), S/(15μMKη_s)} (Karimireddy et al. 2020, Theorem VII)",
    colour="#0072B2",
)
