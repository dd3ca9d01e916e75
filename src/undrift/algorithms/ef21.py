"""EF21: gradient descent with compressed differences of gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import DIFFERENCE, Compressor, feedback, sender_memory
from ..errors import InputError
from ..local import Local
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, once
from ..recipe import method, positive
from ..sums import weighted
from ..wire import dense

if TYPE_CHECKING:
    from ..problems.client import ClientLoss


class Server(NamedTuple):
    x: jax.Array
    g: jax.Array  # Σ w_i h_i


@method
def ef21(eta: float, up: Compressor) -> Algorithm:
    """Client memory h_i = 0, server memory g = 0.
    ↓x; c_i = C(G_i(x) − h_i); h_i ← h_i + c_i; ↑c_i; g ← g + Σ w_i c_i over those that answered; x ← x − ηg.

    FedSGD whose gradients travel with difference memory: where everyone answers, `ud.compressed(ud.fedsgd(eta), up=…)` with
    memory="difference" is the same. Here g = Σ w_i h_i runs over *all* clients, also those that did not take part (EF21-PP of
    Fatkhullin et al., "EF21 with bells & whistles" (2021), section 4), and the server keeps one vector, no slots. `up`: any
    compressor that is a contraction (δ < ∞); its memory is the difference, whatever it says.
    Diagnostic: `direction_error` = ‖g − Σ w_i G_i(x)‖ at the new x.

    Richtárik, Sokolov, Fatkhullin, "EF21: a new, simpler, theoretically better, and practically faster error feedback" (2021),
    Algorithm 2 with h_i = 0 at the start; its rates: `ud.theory.ef21`.

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.stack([np.eye(3), 2 * np.eye(3)]), np.array([[3.0, 1.0, 0.0], [0.0, 5.0, 9.0]]))
    >>> bool(np.allclose(ud.run(ud.ef21(eta=0.2, up=ud.top_k(1)), p, rounds=200).x, p.optimum.x))
    True
    """
    positive(eta=eta)
    link = differing(up)

    def client(h: jax.Array, x: jax.Array, local: Local) -> tuple[jax.Array, Any]:
        message, h = feedback(link, h, local.gradient(x), local.key)
        return h, message

    def receive(server: Server, slots: Any, messages: Any, cohort: Cohort) -> tuple[Server, Any]:
        g = server.g + cohort.total(jax.vmap(dense)(messages))
        return Server(server.x - eta * g, g), slots

    def memory(x: jax.Array, loss: ClientLoss) -> jax.Array:
        h: jax.Array = sender_memory(link, x)
        return h

    gradient = Exchange("gradient", lambda server, slot: server.x, client, receive, Account(once))
    return Algorithm(
        (gradient,),
        server=lambda x: (Server(x, jnp.zeros_like(x)), ()),
        client=memory,
        model=lambda server: server.x,
        diagnostics=Diagnostics(
            client=lambda h, x, loss: loss.gradient(x),
            server=lambda server, G, weights: {"direction_error": jnp.linalg.norm(server.g - weighted(weights, G))},
        ),
    )


def differing(up: Any) -> Compressor:
    """The compressor with difference memory."""
    if not isinstance(up, Compressor):
        raise InputError(f"ef21 compresses what clients send: up must be a compressor such as ud.top_k(10), got {up!r}")
    return up.with_memory(DIFFERENCE)
