"""Split learning: the model is cut, x = [x_c ; x_s], and a local step is a dialogue.

    begin   ↓ x_c                        client: activations of its first batch          ↑ activations, labels
    step    ↓ activation gradients       client: backward, update, next activations      ↑ activations, labels
    end     ↓ activation gradients       client: backward, update                        ↑ x_c

The server answers every (activations, labels) with a forward and a backward pass through its half, updates it, and keeps the
gradient of the activations for the next message down. A client keeps the number of its batch and repeats its forward pass
when the gradient arrives. Both halves take the same step, so the dialogue equals local steps on the uncut model:
SFLV1 = FedAvg, and one client after the other, SSL = sequential FL, wherever the cut is. (A solver that looks at the whole
vector, such as clipping by the global norm, acts on each half by itself and breaks the equality.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from ..errors import unknown
from ..local import as_solver
from ..protocol import Algorithm, Cohort, Exchange, Memory, OneByOne, Program, Repeat
from ..protocol import Tree as Message
from ..recipe import method, positive

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
    return dialogue.algorithm((dialogue.begin(), Repeat((dialogue.step(),), _all_but_one), dialogue.end()))


@method(ordered=True)
def ssl(eta: float, mode: str = "central", solver: Any = None, halves: Any = None) -> Algorithm:
    """Sequential split learning: SFLV1's dialogue, one client after the other in a fresh random order.

    mode: how x_c is handed on — "peer" (client → client) or "central" (client → server → client): the same numbers, other
    bytes. Li, Lyu, "Convergence analysis of sequential split learning on heterogeneous data" (2023), appendix D. Equals
    sequential FL on the uncut model.
    """
    if mode not in MODES:
        raise unknown("mode of ssl", mode, MODES)
    dialogue = _Dialogue(eta, solver, halves)
    begin, end = dialogue.begin(), dialogue.end()
    if mode == "peer":  # the predecessor has brought x_c already
        begin, end = begin._replace(down_link="none"), end._replace(up_link="peer")
    return dialogue.algorithm((OneByOne((begin, Repeat((dialogue.step(),), _all_but_one), end)),))


@method(ordered=True)
def sflv2(eta: float, solver: Any = None, halves: Any = None) -> Algorithm:
    """Clients' halves start equal and are averaged; one server half is updated by the clients in turn, in random order.

    Thapa et al., "SplitFed: when federated learning meets split learning" (2022), version 2.
    """
    dialogue = _Dialogue(eta, solver, halves)

    def keep(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_s=cohort.mean(slots.x_s)), slots._replace(x_c=ups["client_model"])

    def average(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        return server._replace(x_c=cohort.mean(slots.x_c)), slots

    turn = (dialogue.begin(), Repeat((dialogue.step(),), _all_but_one), dialogue.end()._replace(receive=keep))
    nothing = Exchange("average", lambda s, slot: (), lambda memory, down, local: (memory, ()), average, on_wire=False)
    return dialogue.algorithm((OneByOne(turn), nothing))


def _all_but_one(steps: Any) -> Any:
    return steps - 1


class _Dialogue:
    """The exchanges that all three methods are made of."""

    def __init__(self, eta: Any, solver: Any, halves: Any) -> None:
        positive(eta=eta)
        self.solver: optax.GradientTransformation = as_solver(solver, eta) or optax.sgd(eta)
        self.halves = halves  # of the problem, given by the interpreter

    def algorithm(self, program: Program) -> Algorithm:
        return Algorithm(init=self._init, round=program, model=lambda server: jnp.concatenate(server))

    def begin(self) -> Exchange:
        return Exchange("begin", lambda server, slot: {"client_model": server.x_c}, self._open, self._answer_first)

    def step(self) -> Exchange:
        return Exchange("step", _send_gradient, self._go_on, self._answer, work=lambda steps: 0 * steps + 1)

    def end(self) -> Exchange:
        return Exchange("end", _send_gradient, self._finish, _average_halves, work=lambda steps: 0 * steps + 1)

    def _init(self, x: jax.Array) -> Memory:
        x_c, x_s = x[: self.halves.boundary], x[self.halves.boundary :]
        blank = jnp.zeros(self.halves.activation_shape, x.dtype)
        slot = Slot(x_s, self.solver.init(x_s), blank, x_c)
        return Memory(Server(x_c, x_s), slot, Client(x_c, self.solver.init(x_c), jnp.asarray(0, jnp.int32)))

    # ----- at the client
    def _open(self, memory: Client, down: Message, local: Any) -> tuple[Client, Message]:
        memory = Client(down["client_model"], self.solver.init(down["client_model"]), jnp.asarray(0, jnp.int32))
        return memory, self._activations(memory, local)

    def _go_on(self, memory: Client, down: Message, local: Any) -> tuple[Client, Message]:
        memory = self._backward(memory, down["activation_gradients"], local)
        return memory, self._activations(memory, local)

    def _finish(self, memory: Client, down: Message, local: Any) -> tuple[Client, Message]:
        memory = self._backward(memory, down["activation_gradients"], local)
        return memory, {"client_model": memory.x_c}

    def _activations(self, memory: Client, local: Any) -> Message:
        inputs, labels = self.halves.batch_of(local, memory.step)
        return {"activations": self.halves.client(memory.x_c, inputs), "labels": labels}

    def _backward(self, memory: Client, gradient: jax.Array, local: Any) -> Client:
        inputs, _ = self.halves.batch_of(local, memory.step)
        _, pull_back = jax.vjp(lambda x_c: self.halves.client(x_c, inputs), memory.x_c)
        updates, state = self.solver.update(pull_back(gradient)[0], memory.state, memory.x_c)
        return Client(memory.x_c + updates, state, memory.step + 1)

    # ----- at the server
    def _answer_first(self, server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        def fresh(slot: Slot) -> Slot:
            return slot._replace(x_s=server.x_s, state=self.solver.init(server.x_s))

        return self._answer(server, jax.vmap(fresh)(slots), ups, cohort)

    def _answer(self, server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
        def one(slot: Slot, up: Message) -> Slot:
            loss = jax.grad(self.halves.server_loss, argnums=(0, 1))
            gradient, back = loss(slot.x_s, up["activations"], up["labels"])
            updates, state = self.solver.update(gradient, slot.state, slot.x_s)
            return slot._replace(x_s=slot.x_s + updates, state=state, gradient=back)

        return server, jax.vmap(one)(slots, ups)


def _send_gradient(server: Server, slot: Slot) -> Message:
    return {"activation_gradients": slot.gradient}


def _average_halves(server: Server, slots: Slot, ups: Message, cohort: Cohort) -> tuple[Server, Slot]:
    return Server(cohort.mean(ups["client_model"]), cohort.mean(slots.x_s)), slots
