"""The server of a deployed run: plays its rounds with whoever is there, and survives its own death.

A round that somebody left silent is begun anew without them: everybody goes back to where the round began, and the number of
the attempt goes up, so that late answers are known. At the end of a round first the sites bring their memory to the disk, then
the server its own: either may die in between.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import precision
from ..engine.chronicle import Chronicle
from ..engine.description import Run
from ..engine.history import History, Result
from ..engine.nodes import ServerNode
from ..engine.parts import Parts
from ..errors import InputError, NotFiniteError, WireError
from ..plan import Draw
from ..problems.evaluation import Reference
from . import faults
from .conversation import Anew, Conversation
from .trace import Trace

DIVERGED = 3  # times that numbers of one site are not finite in one round, until the run is taken to diverge


@dataclasses.dataclass
class State:
    """All that the server must not lose: where the run stands after a round."""

    server: ServerNode
    chronicle: Chronicle
    conversation: Conversation
    trace: Trace


Keep = Callable[[State], None]


class Coordinator:
    """A run on its way. `keep` brings the state to the disk after every round; `observe` sees the history so far.

    `parts`: of the contract, where somebody has compiled them.
    """

    def __init__(
        self,
        contract: Run,
        conversation: Conversation,
        *,
        keep: Keep = lambda state: None,
        observe: Callable[[History], Any] | None = None,
        reference: Reference | None = None,
        server_data: Any = None,
        parts: Parts | None = None,
    ) -> None:
        if conversation.deadline is not None and (contract.absences is None or not contract.absences.possible):
            raise InputError("a deadline leaves sites out: the run must be described with plan=ud.plan.Absences()")
        self.run, self.conversation = contract, conversation
        self.keep, self.observe = keep, observe
        with precision.scope(contract.population.dtype):
            server = ServerNode(
                parts or Parts(contract), conversation, reference, server_data, refuse=conversation.refuse
            )
        self.state = State(server, Chronicle(contract), conversation, Trace())

    def play(self) -> Result:
        """All rounds that are left, and the result."""
        with precision.scope(self.run.population.dtype):
            return self._play()

    def _play(self) -> Result:
        server, chronicle = self.state.server, self.state.chronicle
        while not chronicle.over:
            t = chronicle.recorder.length
            draw = _Round(self, t).play()
            faults.point("server:after-commit")
            chronicle.note(t, draw, server)
            if self.observe is not None and self.observe(chronicle.recorder.history()):
                chronicle.recorder.stopped = chronicle.recorder.stopped or f"it was asked for after round {t}"
            self.keep(self.state)
            faults.point("server:after-checkpoint")
        return chronicle.result(server.x)


class _Round:
    """One round, begun as often as it takes."""

    def __init__(self, coordinator: Coordinator, t: int) -> None:
        self.t, self.talk, self.state = t, coordinator.conversation, coordinator.state
        self.clients = coordinator.run.population.clients
        self.planned = coordinator.run.plan.draw(max(t, 1), 1)
        self.asked = self._members()
        self.not_finite: Counter[int] = Counter()
        self.out: dict[int, str] = {}  # those that it is played without, and why

    def _members(self) -> set[int]:
        """Those that the plan wants an answer from; before round 1 everybody."""
        if self.t == 0:
            return set(range(self.clients))
        ids = np.arange(self.clients) if self.planned.ids is None else self.planned.ids[0]
        return set(ids[slice(None) if self.planned.answered is None else self.planned.answered[0]].tolist())

    @property
    def _needs_all(self) -> bool:
        return self.t == 0 or self.talk.deadline is None

    def play(self) -> Draw:
        """The round with those that answer; what it was like."""
        talk, server, before = self.talk, self.state.server, self.state.server.state
        talk.stretch, attempt = 1, 0
        talk.wait_for(self.asked, None if self._needs_all else 1)
        self.out = {} if self._needs_all else talk.left_out(self.asked, self.t)
        while True:
            draw = self.planned.without(self.out, 0, self.clients) if self.out else self.planned
            talk.begin(self.t, attempt)
            try:
                server.play_round(self.t, draw)
                faults.point("server:after-last-answer")
                talk.commit()
                break
            except Anew as error:
                trouble = error
            except WireError as error:
                trouble = self._blame(error)
            server.state = before
            attempt += 1
            talk.begin(self.t, attempt)
            self._leave_out(trouble)
        if self.t > 0:
            self.state.trace.add(self.t, draw, attempt + 1, self.clients, self.out, talk.resets)
        talk.resets.clear()
        return draw

    def _blame(self, error: WireError) -> Anew:
        """What a site sent is nonsense. Numbers that overflow again and again are a divergence, whoever sends them."""
        client = error.client
        if isinstance(error, NotFiniteError):
            self.not_finite[-1 if client is None else client] += 1
        if client is None or self.not_finite[client] >= DIVERGED:
            if isinstance(error, NotFiniteError) and self.t > 0:
                raise self.state.chronicle.ends_diverged(self.t, client) from error
            raise error
        self.talk.refuse(client, str(error))
        return Anew([client], "refused")

    def _leave_out(self, trouble: Anew) -> None:
        if self._needs_all:
            return  # whoever is missing is told everything when it comes
        for i in trouble.clients:
            self.talk.patience.missed(i, self.t)
            self.out[i] = trouble.why
            self.talk.watch(self.talk.sites[i], f"left out of round {self.t}: {trouble.why}")
        if self.asked and self.asked <= set(self.out):  # nobody is left: wait for whoever comes back, and longer
            self.talk.stretch *= 2
            self.talk.wait_for(self.asked, 1)
            self.out = {i: "away" for i in self.asked if i not in self.talk.present}
