"""Split learning: the model is cut, x = [x_c ; x_s], and a local step is a dialogue.

    begin   ↓ x_c                        client: activations of its first batch          ↑ activations, labels
    step    ↓ activation gradients       client: backward, update, next activations      ↑ activations, labels
    end     ↓ activation gradients       client: backward, update                        ↑ x_c

The server answers every (activations, labels) with a forward and a backward pass through its half, updates it, and keeps the
gradient of the activations for the next message down. A client keeps the number of its batch and repeats its forward pass
when the gradient arrives (where both ends are one program and clients play in turn, it is computed once). Both halves take the
same step, so the dialogue equals local steps on the uncut model: SFLV1 = FedAvg, and one client after the other, SSL =
sequential FL, wherever the cut is. (A solver that looks at the whole vector, such as clipping by the global norm, acts on each
half by itself and breaks the equality.) In turn, both halves step m·w_i as far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..errors import InputError, unknown
from ..local import Local, as_solver
from ..protocol import (
    Account,
    Algorithm,
    AtServer,
    Cohort,
    Exchange,
    HearThenSpeak,
    OneByOne,
    Program,
    Repeat,
    ResetThenAnswer,
    all_but_one,
    once,
)  # fmt: skip
from ..recipe import method, positive
from ..signatures import Tree as Message
from .global_step import with_global_step

if TYPE_CHECKING:
    import optax

    from ..problems.client import ClientLoss

MODES = ("peer", "central")


class Server(NamedTuple):
    x_c: jax.Array
    x_s: jax.Array


class Slot(NamedTuple):
    """The server's side of one client's dialogue."""

    x_s: jax.Array
    state: Any  # of the solver of the server's half
    gradient: jax.Array  # of the activations that came last
    x_c: jax.Array  # the client's half after its turn (SFLV2)


class Client(NamedTuple):
    x_c: jax.Array
    state: Any  # of the solver of the client's half
    step: jax.Array  # number of the current batch


@method
def sflv1(eta: float, solver: Any = None, halves: Any = None) -> Algorithm:
    """All clients in parallel, each with its own copy of the server's half; both halves are averaged after the round.

    Thapa et al., "SplitFed: when federated learning meets split learning" (2022), version 1. Equals FedAvg on the uncut model.
    The problem must be cut: `ud.problems.network(…, cut=…)`.
    """
    dialogue = _Dialogue(eta, solver, halves)
    return dialogue.algorithm((dialogue.begin(), Repeat((dialogue.step(),), all_but_one), dialogue.end()))


@method(ordered=True)
def ssl(
    eta: float, mode: str = "central", server_eta: float | None = None, solver: Any = None, halves: Any = None
) -> Algorithm:
    """Sequential split learning: SFLV1's dialogue, one client after the other in a fresh random order.

    mode: how x_c is handed on — "peer" (client → client) or "central" (client → server → client): the same numbers, other
    bytes. server_eta: a global step after the last client's turn, x ← x + η_s(what it left − x), in mode "central" (the server
    must hold x_c for it). Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), app. D.
    Equals sequential FL on the uncut model.
    """
    if mode not in MODES:
        raise unknown("mode of ssl", mode, MODES)
    if mode == "peer" and server_eta is not None:
        raise InputError(
            "a global step is taken at the server, which does not hold x_c in mode 'peer': use mode='central'"
        )
    dialogue = _Dialogue(eta, solver, halves)
    begin, end = dialogue.begin(), dialogue.end()
    if mode == "peer":  # the predecessor has brought x_c already
        begin = begin._replace(account=begin.account._replace(down_link="none"))
        end = end._replace(account=end.account._replace(up_link="peer"))
    turns = dialogue.algorithm((OneByOne((begin, Repeat((dialogue.step(),), all_but_one), end)),))
    return with_global_step(turns, server_eta)


@method(ordered=True)
def sflv2(eta: float, solver: Any = None, halves: Any = None) -> Algorithm:
    """Clients' halves start equal and are averaged; one server half is updated by the clients in turn, in random order.

    With unequal weights the mean weighs the clients' halves, and the server's half steps m·w_i as far with client i.
    Thapa et al., "SplitFed: when federated learning meets split learning" (2022), version 2.
    """
    dialogue = _Dialogue(eta, solver, halves, clients_in_turn=False)

    def keep(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_s=cohort.mean(slots.x_s)), slots._replace(x_c=ups["client_model"])

    def average(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_c=cohort.mean(slots.x_c, around=server.x_c)), slots

    turn = (dialogue.begin(), Repeat((dialogue.step(),), all_but_one), dialogue.end()._replace(receive=keep))
    return dialogue.algorithm((OneByOne(turn), AtServer(average)))


def _plain_steps(eta: Any) -> optax.GradientTransformation:
    import optax  # here, as everywhere, only when it is needed: it takes a while

    return optax.sgd(eta)


class _Dialogue:
    """The exchanges that all three methods are made of."""

    def __init__(self, eta: Any, solver: Any, halves: Any, clients_in_turn: bool = True) -> None:
        positive(eta=eta)
        self.clients_in_turn = clients_in_turn  # False: clients' halves are averaged, so their steps are not scaled
        self.solver: optax.GradientTransformation = as_solver(solver, eta) or _plain_steps(eta)
        self.halves = halves  # of the problem, given by the interpreter

    def algorithm(self, program: Program) -> Algorithm:
        return Algorithm(program, self._server, self._client, model=lambda server: jnp.concatenate(server))

    def begin(self) -> Exchange:
        client = HearThenSpeak(self._open, self._activations)
        return Exchange("begin", _send_model, client, ResetThenAnswer(self._fresh, self._answer))

    def step(self) -> Exchange:
        client = HearThenSpeak(self._backward, self._activations)
        return Exchange("step", _send_gradient, client, self._answer, Account(once))

    def end(self) -> Exchange:
        client = HearThenSpeak(self._backward, _client_model)
        return Exchange("end", _send_gradient, client, _average_halves, Account(once))

    def _server(self, x: jax.Array) -> tuple[Server, Slot]:
        x_c, x_s = x[: self.halves.boundary], x[self.halves.boundary :]
        blank = jnp.zeros(self.halves.activation_shape, x.dtype)
        return Server(x_c, x_s), Slot(x_s, self.solver.init(x_s), blank, x_c)

    def _client(self, x: jax.Array, loss: ClientLoss) -> Client:
        x_c = x[: self.halves.boundary]
        return Client(x_c, self.solver.init(x_c), jnp.asarray(0, jnp.int32))

    # ----- at the client
    def _open(self, memory: Client, down: Message, local: Local) -> Client:
        return Client(down["client_model"], self.solver.init(down["client_model"]), jnp.asarray(0, jnp.int32))

    def _activations(self, memory: Client, local: Local) -> Message:
        inputs, labels = self.halves.batch_of(local, memory.step)
        return {"activations": self.halves.client(memory.x_c, inputs), "labels": labels}

    def _backward(self, memory: Client, down: Message, local: Local) -> Client:
        inputs, _ = self.halves.batch_of(local, memory.step)
        _, pull_back = jax.vjp(lambda x_c: self.halves.client(x_c, inputs), memory.x_c)
        gradient = pull_back(down["activation_gradients"])[0]
        updates, state = self.solver.update(gradient, memory.state, memory.x_c)
        step = local.strided(updates) if self.clients_in_turn else updates
        return Client(memory.x_c + step, state, memory.step + 1)

    # ----- at the server
    def _fresh(self, server: Server, slots: Slot) -> Slot:
        def fresh(slot: Slot) -> Slot:
            return slot._replace(x_s=server.x_s, state=self.solver.init(server.x_s))

        return jax.vmap(fresh)(slots)

    def _answer(self, server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        def one(slot: Slot, up: Message, stride: Any) -> Slot:
            loss = jax.grad(self.halves.server_loss, argnums=(0, 1))
            gradient, back = loss(slot.x_s, up["activations"], up["labels"])
            updates, state = self.solver.update(gradient, slot.state, slot.x_s)
            step = updates if stride is None else stride * updates
            return slot._replace(x_s=slot.x_s + step, state=state, gradient=back)

        return server, jax.vmap(one)(slots, ups, cohort.stride)


def _send_model(server: Server, slot: Slot) -> Message:
    return {"client_model": server.x_c}


def _client_model(memory: Client, local: Local) -> Message:
    return {"client_model": memory.x_c}


def _send_gradient(server: Server, slot: Slot) -> Message:
    return {"activation_gradients": slot.gradient}


def _average_halves(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
    return cohort.mean(Server(ups["client_model"], slots.x_s), around=server), slots
