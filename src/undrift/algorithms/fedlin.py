"""FedLin: exact linear convergence under different data and different client speeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from ..compression import Compressor
from ..errors import InputError, unknown
from ..local import Local, descend
from ..protocol import Account, Algorithm, Cohort, Diagnostics, Exchange, Gradients, every_step, once
from ..recipe import method, positive
from ..sums import weighted
from ..wire import dense
from .correction import (
    Links,
    Sent,
    Server,
    Slot,
    check_flag,
    check_links,
    send_direction,
    send_x,
    with_differences_down,
)  # fmt: skip

if TYPE_CHECKING:
    from ..problems.client import ClientLoss

CORRECTIONS = ("fresh", "kept")


class Client(NamedTuple):
    x: Any  # the model; kept where nobody misses a round, so that it need not be sent again
    G: Any  # ∇f_i(x), where it need not be asked for again
    sent: Sent  # what was sent of it


DIAGNOSTICS = Diagnostics(
    client=lambda memory, x, loss: loss.gradient(x),
    server=lambda server, G, weights: {"direction_error": jnp.linalg.norm(dense(server.g) - weighted(weights, G))},
)


@method
def fedlin(
    eta: float,
    up: Compressor | None = None,
    down: Compressor | None = None,
    first_direction: Any = None,
    table: bool = False,
    exchanges: int | None = None,
    correction: Literal["fresh", "kept"] | None = None,
    up_model: Compressor | None = None,
    down_model: Compressor | None = None,
    every_round: bool = True,
) -> Algorithm:
    """Algorithm 1 of the paper, in full; η is η̄, client i steps with η̄/τ_i. The parameters behind `first_direction` go past it.

    Start: ↓x; G_i = G_i(x); ↑G_i; g = mean G_i, uncompressed. Then in every round
     1. ↓g; y ← y − (η̄/τ_i)(G_i(y) − G_i + g), τ_i steps from x; ↑y_i; x ← mean y_i
     2. ↓x; G_i = G_i(x); h_i = C_up(ρ_i + G_i); ρ_i ← ρ_i + G_i − h_i; ↑h_i; g = C_down(e + mean h_i); e ← e + mean h_i − g.

    `up`, `down`: compressors of h_i and g, with memory (Theorems 7, 8) or without (Theorem 6). `first_direction`: g_1 in place
    of the mean gradient (the paper allows any); nothing is sent up at the start then. G_i is also the gradient of the next
    round's first local step, so a round costs τ_i gradients and two vectors down. A client that may have missed the last round
    (partial participation, failures) is told (x, g) in 1 and asks for G_i(x) again: τ_i + 1 gradients.
    Diagnostic: `direction_error` = ‖g − ∇f(x)‖.

    Past the paper (docs/beyond.md), each alone or together:
     - `table=True`: the server keeps the last G_i of every client, and g = Σ w_i G_i(kept) over all clients in place of the
       cohort's mean: exact under partial participation, where the paper's rule has a floor.
     - `correction`: steps ∇f_i(y) − ∇f_i(x) + g ("fresh", as above) or ∇f_i(y) − G_i(kept) + g ("kept": as the server has it).
     - `exchanges=1`: ↓(x, g); G_i = G_i(x); y ← y − (η̄/τ_i)(G_i(y) − G_i(kept) + g); ↑(y_i, G_i); x ← mean y_i, g = mean G_i.
       One pass in place of two, τ_i gradients. It is SCAFFOLD's option 1 with steps η̄/τ_i (and sparse links).
     - `up=top_k(k, memory="difference")`: ↑C(G_i − h_i), both ends add it to h_i, and g = mean h_i: no floor (EF21).
     - `up_model`, `down_model`: y_i − x travels up compressed, and x down (both ends know what the client holds of it).

    Mitra, Jaafar, Pappas, Hassani, "Linear convergence in federated learning: tackling client heterogeneity and sparse
    gradients" (2021).

    >>> import numpy as np, undrift as ud
    >>> p = ud.problems.quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[3.0], [100.0]]))
    >>> r = ud.run(ud.fedlin(eta=0.1), p, rounds=300, steps=[50, 30])
    >>> bool(np.allclose(r.x, 103 / 3, rtol=1e-14))
    True
    >>> alone = {"rounds": 300, "steps": [50, 30], "participation": ud.plan.uniform(1)}  # one client a round
    >>> [f"{ud.run(m, p, **alone).history['sq_distance'][-1]:.0e}" for m in (ud.fedlin(0.3), ud.fedlin(0.3, table=True))]
    ['1e+01', '0e+00']
    """
    positive(eta=eta)
    check_links(up=up, down=down, up_model=up_model, down_model=down_model)
    check_flag("table", table)
    by_difference = down if down is not None and down.differs else None
    exchanges = 2 if exchanges is None else exchanges  # the paper's
    fresh = _check_exchanges(exchanges, correction, by_difference, down_model)
    if every_round and exchanges == 2 and up is None:
        fresh = True  # what the server holds of G_i is ∇f_i(x) itself
    links = Links(
        up,
        None if by_difference is not None else down,
        up_model,
        table=table and not every_round,
        kept=not fresh,
        moves=up_model is not None or down_model is not None,
        first=first_direction,
    )
    if exchanges == 1:
        return _one_exchange(eta, links, every_round, fresh)
    known = every_round  # a client that misses no round knows x and ∇f_i(x)

    def client(x: jax.Array, loss: ClientLoss) -> Client:
        return Client(x if known else (), jnp.zeros_like(x) if known else (), links.sent(x))

    def at(x: jax.Array, G: jax.Array, sent: Sent) -> Client:
        return Client(x if known else (), G if known else (), sent)

    def take_local_steps(memory: Client, message: Any, local: Local) -> tuple[Client, Any]:
        x, g = (memory.x, message) if known else message
        first = memory.G if known else local.gradient(x)
        y = descend(local, x, eta / local.steps, shift=dense(g) - (first if fresh else memory.sent.G), first=first)
        sent, end = links.upload_end(memory.sent, y, x, local.key)
        return memory._replace(sent=sent), end

    def upload_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        G = local.gradient(x)
        sent, h = links.upload(memory.sent, G, local.key)
        return at(x, G, sent), h

    def first_gradient(memory: Client, x: jax.Array, local: Local) -> tuple[Client, Any]:
        G = local.gradient(x)
        sent, h = links.upload_first(memory.sent, G)
        return at(x, G, sent), h

    work = (lambda steps, sizes: Gradients(steps - 1)) if known else every_step
    account = Account(work, links.endpoint(lambda up: up))
    centre = links.centre(lambda memory, message: memory.x if known else message[0])
    local_steps = Exchange("local", send_direction(known), take_local_steps, links.average, account, centre=centre)
    first_steps = local_steps._replace(send=send_direction(known, "g_1"))
    gradient = Exchange("gradient", send_x, upload_gradient, links.direct, Account(once))
    made = Algorithm(
        round=(local_steps, gradient),
        server=links.server,
        client=client,
        model=lambda server: server.x,
        start=(Exchange("first gradient", send_x, first_gradient, links.direct_first, Account(once)),),
        first=None if links.down is None else (first_steps, gradient),
        diagnostics=DIAGNOSTICS,
    )
    return with_differences_down(made, by_difference, down_model, every_round)


def _one_exchange(eta: Any, links: Links, every_round: bool, fresh: bool) -> Algorithm:
    """↓(x, g); local steps; ↑(y_i, G_i)."""

    def client(x: jax.Array, loss: ClientLoss) -> Sent:
        return links.sent(x)

    def take_turn(sent: Sent, message: Any, local: Local) -> tuple[Sent, Any]:
        x, g = message
        G = local.gradient(x)
        y = descend(local, x, eta / local.steps, shift=dense(g) - (G if fresh else sent.G), first=G)
        sent, end = links.upload_end(sent, y, x, local.key)
        sent, h = links.upload(sent, G, local.key)
        return sent, (end, h)

    def receive(server: Server, slots: Slot, ups: Any, cohort: Cohort) -> tuple[Server, Slot]:
        ends, messages = ups
        return links.direct(*links.average(server, slots, ends, cohort), messages, cohort)

    def first_gradient(sent: Sent, x: jax.Array, local: Local) -> tuple[Sent, Any]:
        return links.upload_first(sent, local.gradient(x))

    account = Account(every_step, links.endpoint(lambda up: up[0]))
    around = links.centre(lambda sent, message: message[0])
    turn = Exchange(
        "local",
        send_direction(False),
        take_turn,
        receive,
        account,
        centre=lambda sent, message: (around(sent, message), 0.0),
    )
    return Algorithm(
        round=(turn,),
        server=links.server,
        client=client,
        model=lambda server: server.x,
        start=(Exchange("first gradient", send_x, first_gradient, links.direct_first, Account(once)),),
        first=None if links.down is None else (turn._replace(send=send_direction(False, "g_1")),),
        diagnostics=DIAGNOSTICS,
    )


def _check_exchanges(exchanges: Any, correction: Any, by_difference: Any, down_model: Any) -> bool:
    """Refuse what does not go together; whether local steps are corrected by fresh gradients."""
    if isinstance(exchanges, bool) or exchanges not in (1, 2):
        raise InputError(f"a round of fedlin has exchanges=2 (the paper's) or exchanges=1, got {exchanges!r}")
    if correction is not None and correction not in CORRECTIONS:
        raise unknown("correction of fedlin", correction, CORRECTIONS)
    down = {"down": by_difference, "down_model": down_model}
    both = [f"{name}={link}" for name, link in down.items() if link is not None]
    if exchanges == 1 and both:
        raise InputError(
            f"with exchanges=1, x and g travel down in one message, and {both[0]} is about one of them: use exchanges=2, or "
            "compress both, ud.compressed(ud.fedlin(eta, exchanges=1), down=…)"
        )
    return correction == "fresh" if correction is not None else exchanges == 2
