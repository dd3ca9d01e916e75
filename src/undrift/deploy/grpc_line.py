"""One connection of a site, at the server: what waits to be sent, what has come, and how long either may take."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import logging
import queue
from collections.abc import AsyncIterator
from typing import Any

from cryptography import x509

from .carrier import Event, Heard
from .chunks import Assembly, chunks
from .frames import FACTS, HEADROOM, FrameError, plain

log = logging.getLogger("undrift.deploy")
FRAME = 1024  # bytes that a frame is counted for besides its content
LEAST_ROOM = 2**20
FRAMES_OUT = 4  # of the greatest length, or as many smaller ones, wait to be sent to a site


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds. `hello`: until the first frame is complete; `stall`: without progress inside a frame, either way; `farewell`:
    for what is still to be sent to a site that is sent away; `certificates`: between two looks at revoked and expired ones."""

    hello: float = 30.0
    stall: float = 60.0
    farewell: float = 5.0
    certificates: float = 10.0


class Line:
    """Lives in the event loop, except `taken`, which the run calls."""

    def __init__(self, site: str, number: int, certificate: x509.Certificate, limit: int, times: Times) -> None:
        self.site, self.number, self.certificate, self.limit, self.times = site, number, certificate, limit, times
        self.loop = asyncio.get_running_loop()
        self.over: asyncio.Future[str] = self.loop.create_future()
        self.ended_by_us = False
        self.out: collections.deque[bytes] = collections.deque()
        self.out_bytes, self.out_limit = 0, FRAMES_OUT * max(limit, LEAST_ROOM)
        self.losing = False
        self.last_words: str | None = None  # once set, the connection ends when everything has been sent
        self.something = asyncio.Event()  # to send
        self.came, self.left, self.room_for = (
            0,
            0,
            max(limit, LEAST_ROOM) + FRAME,
        )  # bytes; each has one thread that writes it
        self.starved, self.room = False, asyncio.Event()
        self.read_due: float | None = self.loop.time() + times.hello
        self.late = f"it did not say hello within {times.hello:g} s"
        self.write_due: float | None = None

    async def talk(self, requests: AsyncIterator[bytes], context: Any, events: queue.SimpleQueue[Event]) -> str:
        """Until one side ends it; why."""
        tasks = {asyncio.ensure_future(self._write(context)), asyncio.ensure_future(self._read(requests, events))}
        try:
            done, _ = await asyncio.wait({*tasks, self.over}, return_when=asyncio.FIRST_COMPLETED)
            if self.over not in done:
                self._conclude(next(iter(done)))
            return self.over.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _conclude(self, task: asyncio.Future[str]) -> None:
        error = task.exception()
        if isinstance(error, FrameError):
            self.end(str(error))
        elif not self.over.done():
            self.over.set_result(f"broken off ({type(error).__name__})" if error else task.result())

    def end(self, why: str) -> None:
        """At once, by the server."""
        if not self.over.done():
            log.warning("the connection of %s is ended: %s", self.site, plain(why))
            self.ended_by_us = True
            self.over.set_result(plain(why))

    def finish(self, why: str) -> None:
        """By the server, when everything has been sent."""
        self.last_words, self.ended_by_us = why, True
        self.write_due = self.loop.time() + self.times.farewell
        self.something.set()

    def end_if_overdue(self, now: float) -> None:
        if self.read_due is not None and now > self.read_due:
            self.end(self.late)
        elif self.write_due is not None and now > self.write_due:
            self.end(self.last_words or f"it did not take what was sent to it for {self.times.stall:g} s")

    # ----- to the site
    def put(self, content: bytes) -> None:
        """To be sent; lost if too much waits. What waits is not queued again: on a slow link frames are repeated."""
        if self.out_bytes and self.out_bytes + len(content) > self.out_limit:
            if not self.losing:
                log.warning("%s is too slow for what is sent to it: some of it must be sent again", self.site)
            self.losing = True
        elif self.last_words is None and not any(content == waiting for waiting in self.out):
            self.out.append(content)
            self.out_bytes += len(content) + FRAME
            self.something.set()

    async def _write(self, context: Any) -> str:
        while True:
            while self.out:
                content = self.out.popleft()  # the same again is not the same any more: this one may have been answered
                for part in chunks(content):
                    if self.last_words is None:
                        self.write_due = self.loop.time() + self.times.stall
                    await context.write(part)
                self.out_bytes -= len(content) + FRAME
                del content
            if self.last_words is not None:
                return self.last_words
            self.write_due, self.losing = None, False
            self.something.clear()
            await self.something.wait()

    # ----- from the site
    async def _read(self, requests: AsyncIterator[bytes], events: queue.SimpleQueue[Event]) -> str:
        assembly = Assembly(min(self.limit, FACTS + HEADROOM))  # nothing long before hello
        async for part in requests:
            whole = assembly.add(part)
            if whole is None:
                await self._wait_for_room(assembly.length)
                if assembly.limit == self.limit:
                    self.read_due = self.loop.time() + self.times.stall
                continue
            await self._wait_for_room(len(whole))
            assembly.limit, self.read_due = self.limit, None
            self.late = f"a frame of its did not go on for {self.times.stall:g} s"
            self.came += len(whole) + FRAME
            events.put(Heard(self.site, self.number, whole))
            del whole
        return "closed by the site"

    async def _wait_for_room(self, length: int) -> None:
        """Read no further while the run has not taken what came before: the site then waits too."""
        while self._full(length):
            self.read_due, self.starved = None, True
            self.room.clear()
            if self._full(length):  # the run may have taken something before it could see that somebody waits
                await self.room.wait()
        self.starved = False

    def _full(self, length: int) -> bool:
        unread = self.came - self.left
        return unread > 0 and unread + length > self.room_for

    def taken(self, length: int) -> bool:
        """A frame has left the queue; whether somebody waits for that. Called by the run's thread."""
        self.left += length + FRAME
        return self.starved
