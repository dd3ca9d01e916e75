"""The server's talk with all sites, one round at a time: the transport of a `ServerNode` that survives what networks do.

Messages are numbered; a site that came back is told the round so far again; answers that come twice are compared. Nothing is
decided here: where a round cannot go on as it was, that becomes `Anew`, and `coordinator` says what then.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..engine.parts import MEASURE, Call
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
    Refused,
    Saw,
    Unable,
    Welcome,
    plain,
    read_at_server,
    write,
)
from .memory import NEVER
from .patience import Patience

Clock = Callable[[], float]
Greet = Callable[[str, Hello], tuple[Frame, bool]]  # what a site that says hello is told, and whether it takes part now
AGAIN = 100  # times that a site may ask for messages of one round again; then it must reconnect


class Anew(UndriftError):
    """The round cannot go on: it begins anew, without these clients where they can be left out."""

    def __init__(self, clients: Iterable[int], why: str) -> None:
        self.clients, self.why = frozenset(clients), why
        super().__init__(f"{why}: clients {sorted(self.clients)}")


@dataclasses.dataclass
class Told:
    """What one site was told in this round, and what it answered."""

    asks: list[Ask] = dataclasses.field(default_factory=list)
    digests: list[bytes] = dataclasses.field(default_factory=list)  # of its answers, in order
    commit: Commit | None = None
    again: int = 0  # how often it asked to be told again


class Conversation:
    """Frames to and from all sites of a run, one round at a time."""

    def __init__(
        self,
        carrier: Carrier,
        sites: list[str],
        greet: Greet,
        *,
        deadline: float | None = None,
        resend: float | None = None,
        clock: Clock = time.monotonic,
        watch: Callable[[str, str], None] = lambda site, what: None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.carrier, self.sites, self.greet = carrier, sites, greet
        self.number = {site: i for i, site in enumerate(sites)}
        self.deadline, self.resend, self.clock, self.check = deadline, resend, clock, check
        self.watch: Callable[[str, str], None] = lambda site, what: watch(site, plain(what))  # sites choose some words
        self.base = [NEVER] * len(sites)  # the last round of each site that counts
        self.resets: set[int] = set()  # those that lost their memory since the trace was written
        self.present: dict[int, int] = {}  # client -> its connection, once it was welcomed
        self.waiting: dict[int, tuple[Heard, Hello]] = {}  # those that were greeted before the run could begin
        self.gone: dict[int, float] = {i: clock() for i in range(len(sites))}  # client -> since when it is away
        self.patience = Patience()
        self.stretch = 1  # deadlines are longer by this factor, where nobody could meet one
        self.round, self.attempt = 0, 0
        self.told: dict[int, Told] = {}  # empty between rounds
        self._awaited: set[int] = set()
        self._failed: set[int] = set()  # in this attempt
        self._answers: dict[int, bytes] = {}
        self._looking: Mapping[int, bytes] = {}
        self._views: dict[int, bytes] = {}

    # ----- the transport of a `ServerNode`
    def deliver(self, call: Call, messages: Mapping[int, tuple[int, bytes]]) -> dict[int, bytes]:
        """One answer from everybody; `Anew` where a deadline passes."""
        if call.place == MEASURE:
            return self._look({i: payload for i, (_, payload) in messages.items()})
        self._answers = {}
        for i, (steps, payload) in messages.items():
            told = self.told.setdefault(i, Told())
            ask = Ask(self.round, self.attempt, len(told.asks), self.base[i], call.place, call.repeat, steps, payload)
            told.asks.append(ask)
            self._send(i, ask)
        self._wait(set(messages), lambda i: self._send(i, self.told[i].asks[-1]))
        return self._answers

    def begin(self, round: int, attempt: int) -> None:
        """Forget what was said: a round begins, or begins anew."""
        self.round, self.attempt, self.told = round, attempt, {}
        self._answers, self._failed = {}, set()

    def commit(self) -> None:
        """Let everybody that was asked something in this round keep its memory."""
        for i, told in self.told.items():
            told.commit = Commit(self.round, self.attempt, len(told.asks))
            self._send(i, told.commit)
        self._wait(set(self.told), self._repeat_commit)
        for i in self.told:
            self.base[i] = self.round
            self.patience.met(i)
        self.told = {}

    def finish(self, words: str, until: float) -> None:
        """Tell everybody that the run is over; those that are away may come back until then to hear it."""
        told: dict[int, int] = {}  # client -> the connection over which it was told
        while True:
            for i, connection in self.present.items():
                if told.get(i) != connection:
                    self._send(i, Finished(words))
                    told[i] = connection
            now = self.clock()
            if len(told) == len(self.sites) or now >= until:
                return
            self._one_event(until - now)

    # ----- who is there
    def left_out(self, clients: Iterable[int], round: int) -> dict[int, str]:
        """Those that a round is played without from its beginning, and why: waiting for them would cost a deadline."""
        if self.deadline is None:
            return {}
        out = {i: why for i in clients if (why := self._why_out(i, round))}
        nobody = len(out) == len(set(clients))
        return {i: why for i, why in out.items() if i not in self.present} if nobody else out

    def _why_out(self, i: int, round: int) -> str:
        assert self.deadline is not None
        if i not in self.present:
            long = self.clock() - self.gone.get(i, -math.inf) >= self.deadline
            return "away" if long or self.patience.has_missed(i) else ""
        return "resting" if self.patience.rests(i, round) else ""

    def gather(self, complete: Callable[[], bool]) -> None:
        """Greet whoever comes until everybody has been there; then those that wait can be let in by `admit`."""
        while not complete():
            self._one_event(None)

    def admit(self) -> None:
        """Greet those again that came before the run could begin."""
        for i, (event, hello) in list(self.waiting.items()):
            self._welcome(i, event, hello)

    def wait_for(self, clients: Iterable[int], least: int | None = None) -> None:
        """Until these clients are there, or so many of them, however long it takes."""
        wanted = set(clients)
        least = len(wanted) if least is None else min(least, len(wanted))
        while len(wanted & set(self.present)) < least:
            self._one_event(None)

    def refuse(self, i: int, why: str) -> None:
        """This site cannot be used as it is: its connection ends, and it may come back."""
        self.watch(self.sites[i], f"refused: {why}")
        self.carrier.drop(self.sites[i], why)
        self.present.pop(i, None)
        self.gone[i] = -math.inf  # no deadline is spent on waiting for it
        self._failed.add(i)

    # ----- waiting
    def _look(self, messages: dict[int, bytes]) -> dict[int, bytes]:
        """What those that are there make of a model; whoever is away, or lets a deadline pass, is left out."""
        asked = set(messages)
        if self._limit() is not None:
            asked = {i for i in asked & set(self.present) if not self.patience.rests(i, self.round)}
        self._views, self._failed, self._looking = {}, set(), {i: messages[i] for i in asked}
        for i in asked:
            self._send_look(i)
        try:
            self._wait(asked, self._send_look)
        except Anew as late:
            for i in late.clients:
                self.patience.missed(i, self.round)
        self._looking = {}
        return self._views

    def _send_look(self, i: int) -> None:
        self._send(i, Look(self.round, self.base[i], self._looking[i]))

    def _limit(self) -> float | None:
        """Seconds that an answer may take; the beginning of a run needs everybody."""
        return None if self.deadline is None or self.round == 0 else self.deadline * self.stretch

    def _wait(self, awaited: set[int], again: Callable[[int], None]) -> None:
        self._awaited, limit = awaited, self._limit()
        began = last = self.clock()
        while self._awaited:
            if limit is not None and self._awaited & self._failed:
                self._give_up(self._awaited & self._failed, "failed")
                continue
            now = self.clock()
            if limit is not None and now - began >= limit:
                raise Anew(self._awaited, "late")
            if self.resend is not None and now - last >= self.resend:
                for i in self._awaited:
                    again(i)
                last = now
            until = [began + limit - now] if limit is not None else []
            until += [last + self.resend - now] if self.resend is not None else []
            self._one_event(min(until) if until else None)

    def _give_up(self, failed: set[int], why: str) -> None:
        """A round begins anew without those that failed; a look goes on without them."""
        if not self._looking:
            raise Anew(failed, why)
        self._awaited -= failed

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
            self._leave(i)  # the old connection is over, the new one has not said hello
        elif isinstance(event, Lost):
            self._lose(i, event)
        else:
            self._hear(i, event)

    def _lose(self, i: int, event: Lost) -> None:
        if i in self.waiting and self.waiting[i][0].connection == event.connection:
            del self.waiting[i]
        if self.present.get(i) == event.connection:
            self._leave(i)
            self.watch(event.site, f"disconnected {event.why}".rstrip())

    def _leave(self, i: int) -> None:
        if self.present.pop(i, None) is not None:
            self.gone[i] = self.clock()

    def _hear(self, i: int, event: Heard) -> None:
        here = self.present.get(i) == event.connection
        try:
            frame = read_at_server(event.content)
            if isinstance(frame, Hello):
                if not here:  # one hello is enough
                    self._welcome(i, event, frame)
            elif here:
                self._frame(i, frame)
        except FrameError as error:
            if here:
                self.refuse(i, str(error))
            else:
                self.watch(event.site, f"refused: {error}")
                self.carrier.drop(event.site, str(error))

    def _welcome(self, i: int, event: Heard, hello: Hello) -> None:
        reply, taken = self.greet(event.site, hello)
        self.carrier.send(event.site, write(reply))
        self.waiting.pop(i, None)
        if isinstance(reply, Refused):
            self.watch(event.site, f"refused: {reply.reason}")
            self.carrier.drop(event.site, reply.reason)
        if not taken:
            if isinstance(reply, Welcome):
                self.waiting[i] = (event, hello)  # until all others are there too
            return
        self.present[i] = event.connection
        self.gone.pop(i, None)
        self.watch(event.site, "connected")
        if isinstance(reply, Welcome) and reply.reset:
            self._reset(i)
        self._tell_again(i)

    def _reset(self, i: int) -> None:
        """The site has lost its memory, and its operator wants it to go on without."""
        if self.base[i] != NEVER:
            self.base[i] = NEVER
            self.resets.add(i)
            self.watch(self.sites[i], "begins without the memory that it had (--reset)")
            if i in self.told:  # what it was told and answered in this round rests on what it has lost
                raise Anew((), f"{self.sites[i]} begins without the memory that it has lost")

    def _tell_again(self, i: int) -> None:
        told = self.told.get(i, Told())
        for ask in told.asks:
            self._send(i, ask)
        if told.commit is not None:
            self._send(i, told.commit)
        if i in self._looking:
            self._send_look(i)

    def _frame(self, i: int, frame: Any) -> None:
        if isinstance(frame, Unable):
            self.refuse(i, f"it cannot go on: {frame.reason}")
        elif isinstance(frame, Saw):
            if frame.round == self.round and i in self._looking:
                self._views.setdefault(i, frame.payload)
                self._awaited.discard(i)
        elif (frame.round, frame.attempt) != (self.round, self.attempt) or not self.told:
            return  # of an attempt that was given up, or of a round that is over
        elif isinstance(frame, Answer):
            self._answer(i, frame)
        elif isinstance(frame, Committed):
            self._has_committed(i)
        elif isinstance(frame, Behind):
            self._is_behind(i, frame.number)

    def _answer(self, i: int, answer: Answer) -> None:
        told = self.told.get(i)
        if told is None or answer.number >= len(told.asks):
            raise FrameError(f"an answer to message {answer.number} of round {answer.round}, which was not sent")
        digest = hashlib.sha256(answer.payload).digest()
        if answer.number < len(told.digests):
            if told.digests[answer.number] != digest:
                self._deviates(i, answer)
        elif answer.number == len(told.digests):
            told.digests.append(digest)
            self._answers[i] = answer.payload
            self._awaited.discard(i)
        else:
            raise FrameError(f"answer {answer.number} came before answer {len(told.digests)}")

    def _deviates(self, i: int, answer: Answer) -> None:
        """Nobody can say which of the two answers is right, so neither counts."""
        why = (
            f"two different answers to message {answer.number} of round {answer.round}: its data, its software or its "
            "machine have changed since; look at that site"
        )
        self.refuse(i, why)
        raise Anew([] if self._limit() is None else [i], f"{self.sites[i]} gave {why}")

    def _has_committed(self, i: int) -> None:
        told = self.told.get(i)
        if told is None or told.commit is None:
            raise FrameError(f"it keeps the memory after round {self.round}, which nobody asked for")
        self._awaited.discard(i)

    def _is_behind(self, i: int, number: int) -> None:
        told = self.told.get(i)
        if told is None:
            raise FrameError(f"it misses messages of round {self.round}, in which it has no part")
        told.again += 1
        if told.again > AGAIN:
            raise FrameError(f"it asked for messages of round {self.round} more than {AGAIN} times")
        for ask in told.asks[number:]:
            self._send(i, ask)
        if told.commit is not None:
            self._send(i, told.commit)

    def _repeat_commit(self, i: int) -> None:
        commit = self.told[i].commit
        assert commit is not None
        self._send(i, commit)

    def _send(self, i: int, frame: Frame) -> None:
        if i in self.present:
            self.carrier.send(self.sites[i], write(frame))
