"""The dialogue that split learning is made of: its exchanges, and what both ends keep while it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ..local import Local, as_solver
from ..protocol import Account, Algorithm, Cohort, Exchange, HearThenSpeak, Program, ResetThenAnswer, no_work, once
from ..recipe import positive
from ..signatures import Tree as Message

if TYPE_CHECKING:
    import optax

    from ..problems.client import ClientLoss


class Server(NamedTuple):
    x_c: jax.Array
    x_s: jax.Array
    variates: Any = ()  # of both halves, where they are corrected


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


def _plain_steps(eta: Any) -> optax.GradientTransformation:
    import optax  # here, as everywhere, only when it is needed: it takes a while

    return optax.sgd(eta)


class Dialogue:
    """The exchanges that all three methods are made of."""

    after: Program = ()  # what follows when all have had their turn

    def __init__(self, eta: Any, solver: Any, halves: Any, clients_in_turn: bool = True) -> None:
        positive(eta=eta)
        self.clients_in_turn = clients_in_turn  # False: clients' halves are averaged, so their steps are not scaled
        self.solver: optax.GradientTransformation = as_solver(solver, eta) or _plain_steps(eta)
        self.halves = halves  # of the problem, given by the interpreter

    def algorithm(self, program: Program) -> Algorithm:
        return Algorithm(program, self._server, self._client, model=lambda server: jnp.concatenate(server[:2]))

    def with_model(self, now: Server, moved: Server) -> Server:
        """The server's memory with the model of another."""
        return moved

    def begin(self) -> Exchange:
        client = HearThenSpeak(self._open, self._activations)
        return Exchange("begin", send_model, client, ResetThenAnswer(self._fresh, self._answer), Account(no_work))

    def step(self) -> Exchange:
        client = HearThenSpeak(self._backward, self._activations)
        return Exchange("step", send_gradient, client, self._answer, Account(once))

    def end(self) -> Exchange:
        client = HearThenSpeak(self._backward, client_model)
        return Exchange("end", send_gradient, client, average_halves, Account(once))

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


def send_model(server: Server, slot: Slot) -> Message:
    return {"client_model": server.x_c}


def client_model(memory: Client, local: Local) -> Message:
    return {"client_model": memory.x_c}


def send_gradient(server: Server, slot: Slot) -> Message:
    return {"activation_gradients": slot.gradient}


def average_halves(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
    return cohort.mean(Server(ups["client_model"], slots.x_s), around=server), slots
