"""The server of a deployed run: plays its rounds with whoever is there, and survives its own death.

A round that somebody left silent is begun anew without them: everybody goes back to where the round began, and the number of
the attempt goes up, so that late answers are known. At the end of a round first the sites bring their memory to the disk, then
the server its own: either may die in between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.chronicle import Chronicle
from ..engine.description import Run
from ..engine.history import History, Result
from ..engine.nodes import Parts, ServerNode
from ..plan import Draw
from ..problems.evaluation import Reference
from .conversation import Conversation, Silent
from .trace import Trace


@dataclasses.dataclass
class State:
    """All that the server must not lose: where the run stands after a round."""

    server: ServerNode
    chronicle: Chronicle
    conversation: Conversation
    trace: Trace


Keep = Callable[[State], None]


class Coordinator:
    """A run on its way. `keep` brings the state to the disk after every round; `observe` sees the history so far."""

    def __init__(
        self,
        contract: Run,
        conversation: Conversation,
        *,
        keep: Keep = lambda state: None,
        observe: Callable[[History], Any] | None = None,
        reference: Reference | None = None,
        server_data: Any = None,
    ) -> None:
        self.run, self.conversation = contract, conversation
        self.keep, self.observe = keep, observe
        server = ServerNode(Parts(contract), conversation, reference, server_data)
        self.state = State(server, Chronicle(contract), conversation, Trace())

    def play(self) -> Result:
        """All rounds that are left, and the result."""
        server, chronicle = self.state.server, self.state.chronicle
        while not chronicle.over:
            t = chronicle.recorder.length
            draw = self._round(t)
            chronicle.note(t, draw, server)
            if self.observe is not None and self.observe(chronicle.recorder.history()):
                chronicle.recorder.stopped = chronicle.recorder.stopped or f"it was asked for after round {t}"
            self.keep(self.state)
        return chronicle.result(server.x)

    def _round(self, t: int) -> Draw:
        """Round t with those that answer; what it was like."""
        talk, server, before = self.conversation, self.state.server, self.state.server.state
        planned = self.run.plan.draw(max(t, 1), 1)
        clients = self.run.population.clients
        members = np.arange(clients) if t == 0 or planned.ids is None else planned.ids[0]
        talk.wait_for(members, None if t == 0 or talk.deadline is None else lambda present: bool(present))
        silent: frozenset[int] = frozenset() if t == 0 else talk.absent(members)
        attempt = 0
        while True:
            draw = planned.without(silent, 0, clients) if silent else planned
            talk.begin(t, attempt)
            try:
                server.play_round(t, draw)
                talk.commit()
                break
            except Silent as error:
                server.state = before
                attempt += 1
                silent = frozenset() if t == 0 else silent | error.clients
                if silent >= set(members.tolist()):  # nobody is left: wait for whoever comes back
                    talk.wait_for(members, lambda present: bool(present))
                    silent = frozenset(members.tolist()) - set(talk.present)
        if t > 0:
            self.state.trace.add(t, draw, attempt + 1, clients)
        return draw
