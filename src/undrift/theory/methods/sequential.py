"""Clients in turn: sequential FL and sequential split learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engine.description import Run
from ...errors import InputError
from ...plan import Permuted
from .. import ssl
from ..bound import required
from ..known import Chosen, Known, per_local_step, step_of_scale
from ..needs import constants_of, need_bounded_variance, need_plain, need_whole_server_step, not_in_closed_form
from ..paths import InTurn, InTurnCorrected
from .averaging import by_convexity, with_equal_steps


def _step(run: Run) -> Chosen:
    theorem = "SSL's Theorem 1"
    need_plain(run, theorem)
    need_whole_server_step(run, theorem)
    need_bounded_variance(run, theorem)
    who, c = run.participation, constants_of(run)
    if run.failures > 0 or not (run.every_round or isinstance(who, Permuted)):
        raise InputError(
            f"{theorem} assumes full passes over all clients in random order; here participation is {who}, failures "
            f"{run.failures:g}: use ud.plan.permuted(S), or give eta"
        )
    mu = required(theorem, "L-smooth losses", "L", c.mu, not_in_closed_form(run))
    return Chosen.of(by_convexity(ssl, run, c, mu))


def _scale(L: float, mu: float, steps: Any) -> float:
    """A round is as long as all clients' steps together."""
    return 1 / (L * float(np.sum(steps)))


# No theorem is known to us for it: neither a step rule nor a bound. Its steps are of the order of one client's, not of all.
CORRECTED = Known(path=InTurnCorrected)
SSL_CORRECTED = Known()


def _is_corrected(given: Mapping[str, Any]) -> bool:
    return bool(given.get("corrected", False))


SEQUENTIAL_FL = Known(
    step=_step,
    bound=lambda run, constants: with_equal_steps(ssl, run, constants),
    path=InTurn,
    scale=_scale,
    usual_step=lambda problem, steps, given: step_of_scale(per_local_step, problem, steps),
    drifts=True,
    variants={"corrected": lambda problem: [{"corrected": True}]},
    with_settings=lambda given: CORRECTED if _is_corrected(given) else None,
    rule="1/(6LMK) (SSL paper, (6), (7))",
    colour="#117733",
)
SSL = Known(
    step=_step,
    rule=SEQUENTIAL_FL.rule,
    with_settings=lambda given: SSL_CORRECTED if _is_corrected(given) else None,
    colour="#332288",
)
