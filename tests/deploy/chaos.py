"""A carrier that loses, repeats, delays and reorders frames, cuts connections and kills either side, all by a seed.

Everything is in this process, on a clock of its own: events wait in a heap, and time jumps to the next one. Nothing sleeps.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import heapq
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import undrift as ud
from undrift import precision
from undrift.deploy import faults
from undrift.deploy.carrier import Connected, Event, Heard, Lost
from undrift.deploy.contract import Contract
from undrift.deploy.conversation import Conversation
from undrift.deploy.coordinator import Coordinator, State
from undrift.deploy.faults import Struck
from undrift.deploy.frames import PROTOCOL, Frame, FrameError, FromServer, read_at_site, write
from undrift.deploy.member import Member
from undrift.deploy.memory import NEVER, InProcess, Snapshots
from undrift.deploy.reception import Reception
from undrift.deploy.site import Site
from undrift.engine.loopback import pass_messages
from undrift.engine.nodes import ClientNode
from undrift.engine.parts import Parts
from undrift.errors import UndriftError


class ServerDies(BaseException):
    """The server's process ends here."""


@dataclasses.dataclass(frozen=True)
class Odds:
    """How often what happens: to a frame, or (cut, kill, …) with every event."""

    lose: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0  # by up to ten seconds, so that frames overtake one another
    cut: float = 0.0
    kill: float = 0.0  # a site
    kill_at_point: float = 0.0  # whoever passes a numbered point of the protocol
    kill_server: float = 0.0


CALM = Odds()
BAD = Odds(lose=0.03, repeat=0.05, delay=0.1, cut=0.01, kill=0.007, kill_at_point=0.004, kill_server=0.003)
LATENCY, AWAY = 0.01, 1.0
TOO_LONG = 1e5  # virtual seconds of a run in a test
TICK = 1e-6  # seconds: no shorter time passes, or the last bit of a sum could stop the clock


class Chaos:
    """Sites in this process behind a bad network. `slow`: seconds that a site takes for an answer; `hung`: for ever."""

    def __init__(self, make: dict[str, Callable[[], Member]], seed: int, odds: Odds = CALM) -> None:
        self.make, self.random, self.odds = make, random.Random(seed), odds
        self.now = 0.0
        self.members: dict[str, Member] = {}
        self.connection = dict.fromkeys(make, 0)
        self.online: set[str] = set()
        self.down: set[str] = set()  # sites that do not come back by themselves
        self.hung: set[str] = set()
        self.slow: dict[str, float] = {}
        self.said: list[tuple[str, str]] = []  # what sites complained about
        self.counts: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.ignores: Callable[[str, FromServer], bool] = lambda site, frame: False  # whether a frame gets no answer
        self.spoil: Callable[[str, Frame], Frame | bytes | None] = lambda site, frame: frame
        self._heap: list[
            tuple[float, int, bool, Callable[[], Event | None]]
        ] = []  # when, order, outlives a server, what
        self._order = 0
        for site in make:
            self._connect_after(site, 0.0)

    def clock(self) -> float:
        return self.now

    # ----- the server's end
    def send(self, site: str, content: bytes) -> None:
        self.sent[site] += len(content)
        if site in self.online:
            connection = self.connection[site]
            self._post(lambda: self._at_site(site, connection, content))

    def drop(self, site: str, why: str) -> None:
        """What was sent before still arrives."""
        connection = self.connection.get(site)
        self._later(2 * LATENCY, lambda: self._cut(site, why) if self.connection.get(site) == connection else None)

    def stay_away(self, site: str) -> None:
        """Its process ends, and nobody starts it again before `come_back`."""
        self.down.add(site)
        self.kill(site)

    def receive(self, seconds: float | None) -> Event | None:
        until = None if seconds is None else self.now + max(seconds, TICK)
        while True:
            self._misfortune()
            assert self.now < TOO_LONG, "time passes and nothing happens: the protocol is stuck"
            if not self._heap or (until is not None and self._heap[0][0] > until):
                assert until is not None, "nothing can happen any more: the protocol is stuck"
                self.now = until
                return None
            self.now, _, _, act = heapq.heappop(self._heap)
            event = act()
            if event is not None:
                return event

    # ----- what happens
    def restart_server(self) -> None:
        """All connections are gone; sites live on."""
        for site in sorted(self.online):
            self._cut(site, "the server died")
        self._heap = [entry for entry in self._heap if entry[2]]
        heapq.heapify(self._heap)

    def kill(self, site: str, why: str = "killed") -> None:
        """The process of a site ends; what is on its disk stays."""
        self.members.pop(site, None)
        self._cut(site, why)

    def come_back(self, site: str) -> None:
        self.down.discard(site)
        self.hung.discard(site)
        self._connect_after(site, 0.0)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Something that happens by itself."""
        self._later(seconds, act, lasting=True)

    def strike(self, name: str) -> None:
        """At every point of the protocol."""
        if self._chance("kill_at_point"):
            raise Struck(name)

    def _misfortune(self) -> None:
        if self.online and self._chance("cut"):
            self._cut(self.random.choice(sorted(self.online)), "cut")
        if self.online and self._chance("kill"):
            self.kill(self.random.choice(sorted(self.online)))
        if self._chance("kill_server"):
            raise ServerDies

    def _connect(self, site: str) -> Event | None:
        if site in self.online or site in self.down:
            return None
        if site not in self.members:
            self.members[site] = self.make[site]()
        self.connection[site] += 1
        self.online.add(site)
        number = self.connection[site]
        self.members[site].connect(lambda frame: self._later(LATENCY, lambda: Heard(site, number, write(frame))))
        return Connected(site, number)

    def _cut(self, site: str, why: str) -> None:
        if site in self.online:
            self.online.remove(site)
            number = self.connection[site]
            self._later(0.0, lambda: Lost(site, number, why))
            self._connect_after(site, self.random.uniform(0.1, AWAY))

    def _at_site(self, site: str, connection: int, content: bytes) -> None:
        if site in self.hung or site not in self.online or connection != self.connection[site]:
            return
        frame = read_at_site(content)
        if self.ignores(site, frame) or site not in self.online:
            return
        took = self.slow.get(site, 0.0)

        def send(frame: Frame) -> None:
            spoilt = self.spoil(site, frame)
            if spoilt is not None:
                event = Heard(site, connection, spoilt if isinstance(spoilt, bytes) else write(spoilt))
                self._post(lambda: event, took)

        try:
            self.members[site].hear(frame, send)
        except Struck:
            self.kill(site)
        except FrameError as error:  # as a network does: a frame was lost before the welcome
            self._cut(site, str(error))
        except UndriftError as error:
            self.said.append((site, str(error)))
            self.members.pop(site, None)
            self.down.add(site)
            # its last words are still on their way
            self._later(1.0, lambda: self._cut(site, "ended"))

    def _post(self, arrive: Callable[[], Any], took: float = 0.0) -> None:
        if self._chance("lose"):
            return
        times = 2 if self._chance("repeat") else 1
        for _ in range(times):
            late = self.random.uniform(0.0, 10.0) if self._chance("delay") else 0.0
            self._later(took + LATENCY + late, arrive)

    def _connect_after(self, site: str, seconds: float) -> None:
        self._later(seconds, lambda: self._connect(site), lasting=True)

    def _later(self, seconds: float, act: Callable[[], Any], lasting: bool = False) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now + seconds, self._order, lasting, act))

    def _chance(self, what: str) -> bool:
        odds = getattr(self.odds, what)
        happens = odds > 0 and self.random.random() < odds
        self.counts[what] += happens
        return happens


class Book:
    """The server's disk, in this process: what it last kept of its state, and the file of its trace if there is one."""

    def __init__(self, trace: Path | None = None, deadline: float | None = None) -> None:
        self.kept: Any = None
        self.trace = trace
        self.states: dict[str, str] = {}  # site -> its state directory
        if trace is not None:
            from undrift import tracefile

            tracefile.begin(trace, deadline)

    def keep(self, state: State) -> None:
        if self.trace is not None:
            state.trace.append(self.trace)
        else:
            faults.point("server:after-trace")
        recorder = state.chronicle.recorder
        tables = tuple(
            {name: rows[: recorder.length].copy() for name, rows in table.items()}
            for table in (recorder.columns, recorder.clients)
        )
        kept = recorder.kept._replace(drawn=recorder.kept.drawn.copy())
        rest = (list(state.conversation.base), state.chronicle.rule, state.chronicle.x_good, recorder.stopped)
        self.kept = (state.server.state, kept, tables, *rest)

    def restore(self, state: State) -> None:
        if self.kept is None:
            return
        state.server.state, kept, (columns, clients), base, rule, x_good, stopped = self.kept
        recorder = state.chronicle.recorder
        kept = kept._replace(drawn=kept.drawn.copy())
        recorder.restore(kept, copy.deepcopy(columns), copy.deepcopy(clients), None)
        recorder.stopped, state.chronicle.rule, state.chronicle.x_good = stopped, rule, x_good
        state.conversation.base = list(base)


class Federation:
    """A run, its sites and its server, all in this process. What compiles, compiles once for all schedules."""

    def __init__(self, method: Any, problem: Any, **arguments: Any) -> None:
        self.method, self.problem, self.arguments = method, problem, arguments
        self.run = ud.describe(method, problem, **arguments).to_play()
        self.names = [f"s{i}" for i in range(self.run.population.clients)]
        self.contract = Contract(PROTOCOL, "test", {}, self.names, True, {})
        with precision.scope(self.run.population.dtype):
            self.parts = Parts(self.run.contract)
            self.own = [self.run.problem.only(i) for i in range(len(self.names))]
        self.disks: dict[str, Snapshots] = {}
        self.states = {name: name for name in self.names}
        self.reset: set[str] = set()  # sites that begin without memory when they are started next
        self.lives = 0
        self.watched: list[tuple[str, str]] = []

    def simulated(self, **changes: Any) -> ud.Result:
        return ud.run(self.method, self.problem, **{**self.arguments, **changes})

    def passed(self, **changes: Any) -> ud.Result:
        """By message passing, with the same compiled parts."""
        run = self.run if not changes else ud.describe(self.method, self.problem, **{**self.arguments, **changes})
        return pass_messages(run, parts=self.parts)

    def member(self, name: str) -> Member:
        def build(contract: Contract, number: int, population: bytes, reset: bool) -> Site:
            with precision.scope(self.run.population.dtype):
                return Site(ClientNode(number, self.own[number], self.parts), self.disks[name])

        reset, self.reset = name in self.reset, self.reset - {name}
        return Member(
            "test", self.states[name], lambda c: True, lambda c: b"", build, reset=reset, contract=self.contract
        )

    def chaos(self, seed: int, odds: Odds = CALM, disk: Callable[[str], Snapshots] = lambda name: InProcess()) -> Chaos:
        self.disks = {name: disk(name) for name in self.names}
        return Chaos({name: lambda name=name: self.member(name) for name in self.names}, seed, odds)

    def play(self, chaos: Chaos, book: Book | None = None, watch: Any = None, **talk: Any) -> ud.Result:
        """The whole run, however often its server dies."""
        book = book or Book()
        self.lives, self.watched = 0, []
        with faults.armed(chaos.strike) if chaos.odds.kill_at_point else contextlib.nullcontext():
            while True:
                self.lives += 1
                coordinator = self.serve(chaos, book, watch, **talk)
                try:
                    return coordinator.play()
                except (ServerDies, Struck):
                    chaos.restart_server()

    def serve(self, chaos: Chaos, book: Book, watch: Any = None, **talk: Any) -> Coordinator:
        """A server as it is after a restart."""
        hall = Reception(self.contract, lambda site, facts: None, b"all", book.states)
        conversation = Conversation(
            chaos,
            self.names,
            hall.greet,
            clock=chaos.clock,
            watch=watch or (lambda site, what: self.watched.append((site, what))),
            **{"resend": 5.0, **talk},
        )

        def keep(state: State) -> None:
            book.keep(state)
            note_memory()

        def note_memory() -> None:
            bases = zip(self.names, conversation.base, strict=True)
            hall.with_memory = {name for name, base in bases if base != NEVER}

        coordinator = Coordinator(
            self.run.contract,
            conversation,
            keep=keep,
            reference=self.run.reference,
            server_data=self.run.problem.server_data,
            parts=self.parts,
        )
        book.restore(coordinator.state)
        note_memory()
        return coordinator
