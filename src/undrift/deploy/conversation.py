"""The server's talk with all sites, one round at a time: the transport of a `ServerNode` that survives what networks do.

Messages are numbered; a site that came back is told the round so far again; answers that come twice are compared. Nothing is
decided here: a deadline that passes becomes `Silent`, and `coordinator` says what then.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..engine.nodes import MEASURE, Call
from ..errors import UndriftError
from .carrier import Carrier, Connected, Event, Heard, Lost
from .frames import (
    Answer,
    Ask,
    Behind,
    Commit,
    Committed,
    Finished,
    Frame,
    FrameError,
    Hello,
    Look,
    Saw,
    Unable,
    Welcome,
    read_at_server,
    write,
)
from .memory import NEVER

Clock = Callable[[], float]
Greet = Callable[[str, Hello], Frame]  # what a site that says hello is told: Welcome, Refused or Terms


class Silent(UndriftError):
    """Some sites let a deadline pass."""

    def __init__(self, clients: Iterable[int]) -> None:
        self.clients = frozenset(clients)
        super().__init__(f"no answer from the clients {sorted(self.clients)}")


class Deviation(UndriftError):
    """A site gave two different answers to one message."""


@dataclasses.dataclass
class Told:
    """What one site was told in this round, and what it answered."""

    asks: list[Ask] = dataclasses.field(default_factory=list)
    digests: list[bytes] = dataclasses.field(default_factory=list)  # of its answers, in order
    commit: Commit | None = None


class Conversation:
    """Frames to and from all sites of a run, one round at a time."""

    def __init__(
        self,
        carrier: Carrier,
        sites: list[str],
        greet: Callable[[str, Hello], tuple[Frame, bool]],
        *,
        deadline: float | None = None,
        resend: float | None = None,
        clock: Clock = time.monotonic,
        watch: Callable[[str, str], None] = lambda site, what: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.carrier, self.sites, self.greet = carrier, sites, greet
        self.number = {site: i for i, site in enumerate(sites)}
        self.deadline, self.resend, self.clock, self.watch, self.check = deadline, resend, clock, watch, check
        self.base = [NEVER] * len(sites)  # the last round of each site that counts
        self.present: dict[int, int] = {}  # client -> its connection, once it was welcomed
        self.waiting: dict[int, tuple[Heard, Hello]] = {}  # those that were greeted before the run could begin
        self.gone: dict[int, float] = {i: clock() for i in range(len(sites))}  # client -> since when it is away
        self.round, self.attempt = 0, 0
        self.told: dict[int, Told] = {}
        self._answers: dict[int, bytes] = {}
        self._views: dict[int, bytes] = {}
        self._committed: set[int] = set()

    # ----- the transport of a `ServerNode`
    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        """One answer from everybody; `Silent` where a deadline passes."""
        if call.place == MEASURE:
            return self._look({i: payload for i, (_, payload) in messages.items()})
        self._answers = {}
        for i, (steps, payload) in messages.items():
            told = self.told.setdefault(i, Told())
            ask = Ask(self.round, self.attempt, len(told.asks), self.base[i], call.place, call.repeat, steps, payload)
            told.asks.append(ask)
            self._send(i, ask)
        self._wait(lambda: set(messages) - set(self._answers), self._repeat_asks)
        return {i: self._answers[i] for i in messages}

    def begin(self, round: int, attempt: int) -> None:
        """Forget what was said: a round begins, or begins anew."""
        self.round, self.attempt, self.told = round, attempt, {}
        self._answers, self._views, self._committed = {}, {}, set()

    def commit(self) -> None:
        """Let everybody that was asked something in this round keep its memory."""
        for i, told in self.told.items():
            told.commit = Commit(self.round, self.attempt, len(told.asks))
            self._send(i, told.commit)
        self._wait(lambda: set(self.told) - self._committed, self._repeat_commits)
        for i in self.told:
            self.base[i] = self.round

    def finish(self, words: str, until: float) -> None:
        """Tell everybody that the run is over; those that are away may come back until then to hear it."""
        told: set[int] = set()
        while True:
            for i in set(self.present) - told:
                self._send(i, Finished(words))
                told.add(i)
            now = self.clock()
            if len(told) == len(self.sites) or now >= until:
                return
            self._one_event(until - now)

    def absent(self, clients: Iterable[int]) -> frozenset[int]:
        """Those that have been away for longer than a deadline: waiting for them again would cost one each round."""
        if self.deadline is None:
            return frozenset()
        now = self.clock()
        return frozenset(i for i in clients if i in self.gone and now - self.gone[i] >= self.deadline)

    def gather(self, complete: Callable[[], bool]) -> None:
        """Greet whoever comes until everybody has been there; then those that wait can be let in by `admit`."""
        while not complete():
            self._one_event(None)

    def admit(self) -> None:
        """Greet those again that came before the run could begin."""
        for i, (event, hello) in list(self.waiting.items()):
            self._welcome(i, event, hello)

    def wait_for(self, clients: Iterable[int], enough: Callable[[set[int]], bool] | None = None) -> None:
        """Until these clients are there, or enough of them, however long it takes."""
        wanted = set(clients)
        while missing := wanted - set(self.present):
            if enough is not None and enough(wanted & set(self.present)):
                return
            self._one_event(None)
            del missing

    # ----- waiting
    def _look(self, messages: dict[int, bytes]) -> dict[int, bytes]:
        """What those that are there make of a model; whoever is away, or lets a deadline pass, is left out."""
        self._views, self._looking = {}, messages
        asked = set(messages) & set(self.present) if self.deadline is not None else set(messages)
        for i in asked:
            self._send(i, Look(self.round, messages[i]))

        def again(missing: set[int]) -> None:
            for i in missing:
                self._send(i, Look(self.round, messages[i]))

        with contextlib.suppress(Silent):
            self._wait(lambda: asked - set(self._views), again)
        self._looking = {}
        return dict(self._views)

    _looking: Mapping[int, bytes] = {}

    def _wait(self, missing: Callable[[], set[int]], again: Callable[[set[int]], None]) -> None:
        began = last = self.clock()
        while still := missing():
            now = self.clock()
            if self.deadline is not None and now - began >= self.deadline:
                raise Silent(still)
            if self.resend is not None and now - last >= self.resend:
                again(still)
                last = now
            until = [began + self.deadline - now] if self.deadline is not None else []
            until += [last + self.resend - now] if self.resend is not None else []
            self._one_event(min(until) if until else None)

    def _one_event(self, seconds: float | None) -> None:
        self.check()
        event = self.carrier.receive(seconds)
        self.check()
        if event is not None:
            self._take(event)

    def _take(self, event: Event) -> None:
        i = self.number.get(event.site)
        if i is None:
            self.carrier.drop(event.site, "this site does not belong to the run")
        elif isinstance(event, Connected):
            self.waiting.pop(i, None)
            self.present.pop(i, None)  # the old connection is over, the new one has not said hello
        elif isinstance(event, Lost):
            self._lose(i, event)
        else:
            self._hear(i, event)

    def _lose(self, i: int, event: Lost) -> None:
        if i in self.waiting and self.waiting[i][0].connection == event.connection:
            del self.waiting[i]
        if self.present.get(i) == event.connection:
            del self.present[i]
            self.gone[i] = self.clock()
            self.watch(event.site, f"disconnected {event.why}".rstrip())

    def _hear(self, i: int, event: Heard) -> None:
        try:
            frame = read_at_server(event.content)
            if isinstance(frame, Hello):
                self._welcome(i, event, frame)
            elif self.present.get(i) == event.connection:
                self._frame(i, frame)
        except FrameError as error:
            self.watch(event.site, f"refused: {error}")
            self.carrier.drop(event.site, str(error))

    def _welcome(self, i: int, event: Heard, hello: Hello) -> None:
        reply, taken = self.greet(event.site, hello)
        self.carrier.send(event.site, write(reply))
        self.waiting.pop(i, None)
        if not taken:
            if isinstance(reply, Welcome):
                self.waiting[i] = (event, hello)  # until all others are there too
            return
        self.present[i] = event.connection
        self.gone.pop(i, None)
        self.watch(event.site, "connected")
        told = self.told.get(i, Told())
        for ask in told.asks:
            self._send(i, ask)
        if told.commit is not None:
            self._send(i, told.commit)
        if i in self._looking:
            self._send(i, Look(self.round, self._looking[i]))

    def _frame(self, i: int, frame: Any) -> None:
        if isinstance(frame, Unable):
            self.watch(self.sites[i], f"cannot go on: {frame.reason}")
            self.carrier.drop(self.sites[i], frame.reason)
        elif isinstance(frame, Saw):
            if frame.round == self.round:
                self._views.setdefault(i, frame.payload)
        elif (frame.round, frame.attempt) != (self.round, self.attempt):
            return  # of an attempt that was given up
        elif isinstance(frame, Answer):
            self._answer(i, frame)
        elif isinstance(frame, Committed):
            self._committed.add(i)
        elif isinstance(frame, Behind):
            for ask in self.told.get(i, Told()).asks[frame.number :]:
                self._send(i, ask)

    def _answer(self, i: int, answer: Answer) -> None:
        told = self.told.get(i)
        if told is None or answer.number >= len(told.asks):
            raise FrameError(f"an answer to message {answer.number} of round {answer.round}, which was not sent")
        digest = hashlib.sha256(answer.payload).digest()
        if answer.number < len(told.digests):
            if told.digests[answer.number] != digest:
                raise Deviation(
                    f"{self.sites[i]} gave two different answers to message {answer.number} of round {answer.round}: its "
                    "data, its software or its machine have changed since; look at that site before going on"
                )
        elif answer.number == len(told.digests):
            told.digests.append(digest)
            self._answers[i] = answer.payload
        else:
            raise FrameError(f"answer {answer.number} came before answer {len(told.digests)}")

    def _repeat_asks(self, missing: set[int]) -> None:
        for i in missing:
            self._send(i, self.told[i].asks[-1])

    def _repeat_commits(self, missing: set[int]) -> None:
        for i in missing:
            commit = self.told[i].commit
            assert commit is not None
            self._send(i, commit)

    def _send(self, i: int, frame: Frame) -> None:
        if i in self.present:
            self.carrier.send(self.sites[i], write(frame))
