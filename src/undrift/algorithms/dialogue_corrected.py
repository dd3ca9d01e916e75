"""The dialogue of split learning with control variates: cut as the model is, c = [c_c ; c_s], c_i = [c_ic ; c_is].

    begin   ↓ x_c, c_c                   client: activations of its first batch          ↑ activations, labels
    step    ↓ activation gradients       client: backward, corrected update, …           ↑ activations, labels
    end     ↓ activation gradients       client: backward, corrected update              ↑ x_c, c_ic⁺ − c_ic

c_ic stays at the client, c_s and c_is at the server, which corrects its own half.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local
from ..protocol import AtServer, Cohort, Exchange, HearThenSpeak
from ..signatures import Tree as Message
from .dialogue import Client, Dialogue, Server, Slot, average_halves, client_model, send_model
from .variates import begun, steered


class Variates(NamedTuple):
    """Of both halves, (client's, server's) each."""

    c: tuple[jax.Array, jax.Array]
    change: tuple[jax.Array, jax.Array]  # Σ w_i(c_i⁺ − c_i) over this round's turns so far


class CorrectedDialogue(Dialogue):
    """Both halves step along their part of G_i(y) − c_i + c. In turn only."""

    def __init__(self, eta: Any, solver: Any, halves: Any, between_clients: bool) -> None:
        super().__init__(eta, solver, halves)
        self.plain = self.solver
        self.solver = steered(self.plain, still=solver is None and eta == 0)
        self.between_clients = between_clients  # the client's half is handed on by the clients themselves
        self.after = (AtServer(_take_in),)

    def begin(self) -> Exchange:
        return super().begin()._replace(send=_send_model)

    def end(self) -> Exchange:
        client = HearThenSpeak(self._backward, self._handed_on)
        return super().end()._replace(client=client, receive=_receive)

    def with_model(self, now: Server, moved: Server) -> Server:
        return moved._replace(variates=now.variates)

    def _server(self, x: jax.Array) -> tuple[Server, Slot]:
        server, slot = super()._server(x)
        zero = jnp.zeros_like(server.x_c), jnp.zeros_like(server.x_s)
        return server._replace(variates=Variates(zero, zero)), slot

    # ----- at the client
    def _open(self, memory: Client, down: Message, local: Local) -> Client:
        x_c = down["client_model"]
        return Client(x_c, begun(memory.state, self.plain.init(x_c), down["variate"]), jnp.asarray(0, jnp.int32))

    def _handed_on(self, memory: Client, local: Local) -> Message:
        """To the server, x_c and what became of c_i. To the next client also c, which only they know.

        There the change stands for the sum of this round's weighted changes, which is as long.
        """
        said = {**client_model(memory, local), "change": memory.state.mean - memory.state.own}
        return {**said, "variate": memory.state.c} if self.between_clients else said

    # ----- at the server
    def _fresh(self, server: Server, slots: Slot) -> Slot:
        def fresh(slot: Slot) -> Slot:
            state = begun(slot.state, self.plain.init(server.x_s), server.variates.c[1])
            return slot._replace(x_s=server.x_s, state=state)

        return jax.vmap(fresh)(slots)


def _send_model(server: Server, slot: Slot) -> Message:
    return {**send_model(server, slot), "variate": server.variates.c[0]}


def _receive(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
    halves, slots = average_halves(server._replace(variates=()), slots, ups, cohort)
    changes = cohort.total((ups["change"], slots.state.mean - slots.state.own))
    change = jax.tree.map(jnp.add, server.variates.change, changes)
    return halves._replace(variates=server.variates._replace(change=change)), slots


def _take_in(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
    """c ← c + Σ w_i(c_i⁺ − c_i), both halves."""
    c, change = server.variates
    taken = jax.tree.map(jnp.add, c, change)
    return server._replace(variates=Variates(taken, jax.tree.map(jnp.zeros_like, change))), slots
