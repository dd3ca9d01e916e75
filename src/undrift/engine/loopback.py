"""Message passing in one process: slow, obvious, the referee.

A server and m clients, every one with its own problem and nothing else, that share nothing but encoded messages. Every message
really becomes bytes and is decoded again at the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import precision
from ..envelope import DOWN, Envelope, must_be, seal, unseal
from ..errors import InputError
from .chronicle import Chronicle
from .description import Run
from .history import Result
from .nodes import ClientNode, ServerNode
from .parts import Call, Parts
from .simulate import Observer


class Direct:
    """The transport that calls its clients directly; what it hands over are sealed frames, as on a network.

    Everyone is told before anyone is listened to: while one client computes, the next one's message is on its way.
    """

    def __init__(self, clients: Sequence[ClientNode]) -> None:
        self.clients = clients

    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        answers = [self._tell(self.clients[i], call, steps, payload) for i, (steps, payload) in messages.items()]
        return {i: answer() for i, answer in zip(messages, answers, strict=True)}

    @staticmethod
    def _tell(client: ClientNode, call: Call, steps: int, payload: bytes) -> Callable[[], bytes]:
        told = Envelope(DOWN, client.parts.run_name, client.number, 0, call.place, call.round, call.repeat, steps)
        answer = client.begin(seal(told, payload))

        def reply() -> bytes:
            came, payload = unseal(answer())
            must_be(came, told.reply())
            return payload

        return reply


def pass_messages(run: Run, *, observe: Observer | None = None, parts: Parts | None = None) -> Result:
    """Play a run by message passing; see `undrift.loopback`."""
    run = run.to_play()
    with precision.scope(run.population.dtype):
        return _play(run, nodes_for(run, parts), observe)


def nodes_for(run: Run, parts: Parts | None = None) -> ServerNode:
    """A server whose clients are called directly; `parts`: of the contract, where somebody has compiled them."""
    parts = parts or Parts(run.contract)
    clients = [ClientNode(i, run.problem.only(i), parts, not_finite=True) for i in range(run.population.clients)]
    return ServerNode(parts, Direct(clients), run.reference, run.problem.server_data, not_finite=True)


def _play(run: Run, server: ServerNode, observe: Observer | None) -> Result:
    chronicle = Chronicle(run)
    recorder, resets = chronicle.recorder, {} if run.absences is None else run.absences.resets
    for t in range(run.rounds + 1):
        for i in resets.get(t, ()):
            _forget(server, i)
        plan = server.play_round(t, run.plan.draw(max(t, 1), 1))
        chronicle.note(t, plan, server)
        if observe is not None and observe(recorder.history()) and recorder.stopped is None:
            recorder.stopped = f"the observer asked for it after round {t}"
        if chronicle.over:
            break
    chronicle.compare_with_ledger(server)
    return chronicle.result(server.x)


def _forget(server: ServerNode, client: int) -> None:
    """What happened to a site that lost its memory."""
    assert isinstance(server.transport, Direct)
    if client >= len(server.transport.clients):
        raise InputError(f"the trace belongs to another run: in it client {client} lost its memory, here is none")
    server.transport.clients[client].forget()
