"""FedSplit: operator splitting with (inexact) proximal steps."""

from __future__ import annotations

from typing import Any

import jax

from ..errors import InputError, unknown
from ..local import Local, descend
from ..protocol import Account, Algorithm, Cohort, Exchange, Gradients
from ..recipe import method, positive

STARTS = ("prox-point", "model")


@method
def fedsplit(
    s: float, inner_steps: int | None = None, inner_eta: float | None = None, start: str = "prox-point"
) -> Algorithm:
    """Client memory z_i, equal to x at the start.
    ↓x; u = 2x − z_i; y ≈ prox_{s f_i}(u); z_i ← z_i + 2(y − x); ↑z_i; x ← mean z_i.

    The proximal step is `inner_steps` gradient steps of size `inner_eta` on f_i(y) + ‖y − u‖²/(2s), from y = u
    (start="prox-point") or from y = x (start="model"); `inner_steps=None` is the exact one, where a closed form exists. The
    paper's choice: s = 1/√(Lμ), inner_eta = 2/(L + μ + 2/s). The local steps τ_i of the plan are not used.

    Pathak, Wainwright, "FedSplit: an algorithmic framework for fast federated optimization" (2020); FedLin, appendix J.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> bool(np.allclose(ud.run(ud.fedsplit(s=0.7), p, rounds=60).x, p.optimum.x))
    True
    """
    positive(s=s)
    if start not in STARTS:
        raise unknown("start of fedsplit", start, STARTS)
    if inner_steps is not None:
        if int(inner_steps) != inner_steps or inner_steps < 1:
            raise InputError(f"inner_steps must be a whole number ≥ 1 (or None for the exact prox), got {inner_steps}")
        if inner_eta is None:
            raise InputError("fedsplit with inner_steps needs inner_eta, for example 2/(L + μ + 2/s)")
        positive(inner_eta=inner_eta)

    def prox(local: Local, centre: jax.Array, x: jax.Array) -> jax.Array:
        if inner_steps is None:
            exact = local.loss.prox(centre, s)
            if exact is None:
                raise InputError("this problem has no proximal operator in closed form: give inner_steps and inner_eta")
            return exact
        begin = centre if start == "prox-point" else x
        return descend(local, begin, inner_eta, steps=inner_steps, pull=1 / s, anchor=centre)

    def client(z: jax.Array, x: jax.Array, local: Local) -> tuple[jax.Array, jax.Array]:
        y = prox(local, 2 * x - z, x)
        z = z + 2 * (y - x)
        return z, z

    def receive(x: jax.Array, slots: Any, z: jax.Array, cohort: Cohort) -> tuple[jax.Array, Any]:
        return cohort.mean(z, around=x), slots

    splitting = Exchange(
        "split",
        send=lambda x, slot: x,
        client=client,
        receive=receive,
        account=Account(lambda steps, sizes: Gradients(0 * steps + (inner_steps or 0)), endpoint=lambda x, z: z),
        centre=lambda memory, x: x,
    )
    return Algorithm((splitting,), client=lambda x, loss: x)
