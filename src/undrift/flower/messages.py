"""Message mode: every exchange is a message of the federation, for where no second port can be opened.

A node's process ends after each message, so each message tells the connection's story so far: the greeting and the frames of
the present round. The site plays it again from its snapshot, which gives the same answers as before, and answers what is new.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..deploy.carrier import Connected, Event, Heard, Lost
from ..deploy.contract import Contract
from ..deploy.frames import (
    Ask,
    Commit,
    Finished,
    Frame,
    FrameError,
    FromServer,
    Look,
    Refused,
    Terms,
    Welcome,
    read_at_site,
    write,
)
from .post import Post, Reply
from .roll import Roll

log = logging.getLogger("undrift.flower")
TALK = "talk"
PAUSE = 0.1  # seconds between two looks for replies; Flower's own pauses are 3 s
LOOK_ROUND = 3.0  # seconds between two looks for nodes
AGAIN = 10.0  # seconds until a site that failed is tried again
Talk = Callable[[Callable[[Frame], None], Iterator[FromServer]], bool]


@dataclasses.dataclass(eq=False)
class _Told:
    """A frame of the story."""

    content: bytes
    kind: type[FromServer]
    heard: bool = False

    @property
    def greeting(self) -> bool:
        return self.kind in (Terms, Welcome, Refused)

    @property
    def awaited(self) -> bool:
        """Calls for an answer, so that it must travel; what does not goes with the next that does."""
        return self.kind not in (Welcome, Finished) and not self.heard


@dataclasses.dataclass(eq=False)
class _Line:
    """A connection of a site."""

    node: int
    number: int
    story: list[_Told] = dataclasses.field(default_factory=list)
    place: tuple[int, int] = (-1, -1)  # round and attempt that the story has come to
    open: bool = False  # it has said hello
    letter: str | None = None
    carried: list[_Told] = dataclasses.field(default_factory=list)  # by that letter

    @property
    def due(self) -> bool:
        return self.letter is None and (not self.open or any(told.awaited for told in self.story))


class MessageCarrier:
    """A `Carrier` whose frames travel in the messages of a federation."""

    def __init__(self, post: Post, contract: Contract, *, pause: float = PAUSE) -> None:
        self.post, self.roll, self.pause = post, Roll(post, contract.sites), pause
        self.run = contract.hash
        self.exchanges = 0  # messages that were answered
        self._lines: dict[str, _Line] = {}
        self._count: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._events: collections.deque[Event] = collections.deque()
        self._looked = -LOOK_ROUND

    # ----- what a `Conversation` asks for
    def send(self, site: str, content: bytes) -> None:
        line = self._lines.get(site)
        if line is None:
            return
        frame = read_at_site(content)
        over = any(told.kind is Commit and told.heard for told in line.story)
        if isinstance(frame, Ask) and (frame.round, frame.attempt) > line.place:
            line.place, over = (frame.round, frame.attempt), True
        if over:  # a round begins where the site's snapshot is
            line.story = [told for told in line.story if told.greeting]
        line.story = [
            told for told in line.story if not (told.kind is Look and told.heard)
        ]  # changes nothing at a site
        line.story.append(_Told(content, type(frame)))

    def receive(self, seconds: float | None) -> Event | None:
        end = None if seconds is None else time.monotonic() + seconds
        while not self._events:
            self._work()
            if self._events:
                break
            if end is not None and time.monotonic() >= end:
                return None
            time.sleep(self.pause)
        return self._events.popleft()

    def drop(self, site: str, why: str) -> None:
        line = self._lines.get(site)
        if line is not None:
            log.info("%s is sent away: %s", site, why)
            self._lose(site, line, why)

    def close(self) -> None:
        """Nothing is left open: a node keeps no connection between two messages."""

    # ----- letters
    def _work(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_ROUND:
            self._looked = now
            self._look_round(now)
        for line in self._lines.values():
            if line.due:
                line.carried = list(line.story)
                frames = [told.content for told in line.carried]
                line.letter = self.post.send(line.node, {"ask": TALK, "run": self.run, "frames": frames})
        by_letter = {line.letter: site for site, line in self._lines.items() if line.letter is not None}
        for reply in self.post.collect(by_letter) if by_letter else []:
            self._take(by_letter[reply.letter], reply)

    def _look_round(self, now: float) -> None:
        present = self.roll.present()
        for site, node in present.items():
            if site not in self._lines and now >= self._not_before.get(site, now):
                self._count[site] = self._count.get(site, 0) + 1
                self._lines[site] = _Line(node, self._count[site])

    def _take(self, site: str, reply: Reply) -> None:
        line = self._lines[site]
        carried, line.letter, line.carried = line.carried, None, []
        try:
            said, trouble = _read_reply(reply, len(carried))
        except FrameError as error:
            said, trouble = [], str(error)
        if said and not line.open:
            line.open = True
            self._events.append(Connected(site, line.number))
            self._hear(site, line, said[0])
        for told, answers in zip(carried, said[1:], strict=False):
            if not (told.greeting and told.heard):  # answers that were given before are compared, greetings are not
                self._hear(site, line, answers)
            told.heard = True
        self.exchanges += 1
        if trouble:
            log.warning("%s: %s", site, trouble)
            self._lose(site, line, trouble)

    def _hear(self, site: str, line: _Line, frames: list[bytes]) -> None:
        self._events.extend(Heard(site, line.number, content) for content in frames)

    def _lose(self, site: str, line: _Line, why: str) -> None:
        del self._lines[site]
        self._not_before[site] = time.monotonic() + AGAIN
        if line.open:
            self._events.append(Lost(site, line.number, why))


def _read_reply(reply: Reply, frames: int) -> tuple[list[list[bytes]], str]:
    """(what the site said at first and to each frame, why it went no further)."""
    if reply.trouble:
        return [], reply.trouble
    counts: Any = reply.content.get("counts")
    said: Any = reply.content.get("said")
    trouble = reply.content.get("trouble")
    if not (_all(counts, int) and _all(said, bytes) and isinstance(trouble, str)):
        raise FrameError("a reply holds no frames: the site runs another client app")
    if min(counts, default=0) < 0 or sum(counts) != len(said) or len(counts) > frames + 1:
        raise FrameError("a reply does not fit the message that it answers")
    pieces = iter(said)
    return [[next(pieces) for _ in range(count)] for count in counts], trouble


def _all(entries: Any, kind: type) -> bool:
    return isinstance(entries, list) and all(type(entry) is kind for entry in entries)


# ----- at the site
def replay(talk: Talk, frames: list[bytes]) -> Mapping[str, Any]:
    """Tell a site the story of its connection; what it said, as `MessageCarrier` reads it."""
    said: list[list[bytes]] = [[]]

    def incoming() -> Iterator[FromServer]:
        for content in frames:
            said.append([])
            yield read_at_site(content)

    trouble = ""
    try:
        talk(lambda frame: said[-1].append(write(frame)), incoming())
    except Exception as error:  # whatever it is, the server must know that this site goes no further
        log.exception("this site cannot go on")
        trouble = f"{type(error).__name__}: {error}"[:4000]
    return {
        "said": [content for answers in said for content in answers],
        "counts": [len(answers) for answers in said],
        "trouble": trouble,
    }
