"""What passes between the server and its sites, counted for people, who may also want to end it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable

from .carrier import Carrier, Connected, Event, Lost

TICK = 0.2  # seconds
NEW = 0.1  # share of a new answer in the moving average


@dataclasses.dataclass
class Line:
    """What is known of one site."""

    connected: bool = False
    connections: int = 0
    sent: int = 0  # bytes
    received: int = 0
    heard: float | None = None  # when, by the clock
    answers: int = 0
    seconds: float = 0.0  # that its last answers took, a moving average
    said: str = ""  # the last thing that happened
    asked: float | None = None  # when it was told what it has not yet answered


class Watched:
    """A carrier that counts what another one carries. `tick` is called several times a second, and may raise to end it all.

    >>> class Silent:
    ...     def send(self, site, content): ...
    ...     def receive(self, seconds): return Connected("a", 1)
    ...     def drop(self, site, why): ...
    >>> carrier = Watched(Silent(), ["a"])
    >>> carrier.receive(None); carrier.send("a", b"12345")
    Connected(site='a', connection=1)
    >>> carrier.lines["a"].connected, carrier.lines["a"].sent
    (True, 5)
    """

    def __init__(
        self,
        carrier: Carrier,
        sites: Iterable[str],
        tick: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.carrier, self.tick, self.clock = carrier, tick, clock
        self._ticked = clock()
        self.lines = {site: Line() for site in sites}

    def send(self, site: str, content: bytes) -> None:
        line = self.lines.get(site)
        if line is not None:
            line.sent += len(content)
            line.asked = self.clock() if line.asked is None else line.asked
        self.carrier.send(site, content)

    def receive(self, seconds: float | None) -> Event | None:
        event = self._next(seconds)
        line = None if event is None else self.lines.get(event.site)
        if event is None or line is None:
            return event
        if isinstance(event, Connected):
            line.connected, line.connections = True, line.connections + 1
        elif isinstance(event, Lost):
            line.connected, line.asked = False, None
        else:
            self._answered(line, len(event.content))
        return event

    def drop(self, site: str, why: str) -> None:
        self.carrier.drop(site, why)

    def _next(self, seconds: float | None) -> Event | None:
        """The next event of the other carrier, waited for in slices."""
        until = None if seconds is None else self.clock() + seconds
        while True:
            now = self.clock()
            if now - self._ticked >= TICK:
                self.tick()
                self._ticked = now
            left = TICK if until is None else min(TICK, until - now)
            event = self.carrier.receive(max(left, 0.0))
            if event is not None or (until is not None and self.clock() >= until):
                return event

    def _answered(self, line: Line, size: int) -> None:
        now = self.clock()
        line.received, line.heard = line.received + size, now
        if line.asked is not None:
            share = max(1 / (line.answers + 1), NEW)
            line.seconds += share * (now - line.asked - line.seconds)
            line.answers, line.asked = line.answers + 1, None
