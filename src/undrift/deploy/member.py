"""A site's side of a connection, from hello to the end of the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ..errors import UndriftError
from . import faults
from .contract import Contract
from .frames import (
    PROTOCOL,
    Answer,
    Committed,
    Frame,
    FrameError,
    FromServer,
    Hello,
    Refused,
    Terms,
    Unable,
    Welcome,
    plain,
)
from .site import Site


class TurnedAway(UndriftError):
    """The server does not take this site, or a person at the site does not take the contract."""


@dataclasses.dataclass
class Member:
    """What a site knows and does. `accept` looks at the contract (and may ask a person); `build` makes the client of the run.

    `build(contract, number, population, reset)` is called once; later connections go on with the same client.
    """

    version: str
    state: str
    accept: Callable[[Contract], bool]
    facts: Callable[[Contract], bytes]
    build: Callable[[Contract, int, bytes, bool], Site]
    reset: bool = False
    note: Callable[[str], None] = lambda text: None
    contract: Contract | None = None
    site: Site | None = None
    taken: bool = False  # on this connection

    def talk(self, send: Callable[[Frame], None], incoming: Iterator[FromServer]) -> bool:
        """One connection; True when the run is over."""
        self.connect(send)
        return any(self.hear(frame, send) for frame in incoming)

    def connect(self, send: Callable[[Frame], None]) -> None:
        """A new connection begins."""
        self.taken = False
        send(self._hello())

    def hear(self, frame: FromServer, send: Callable[[Frame], None]) -> bool:
        """One frame of a connection; True when the run is over."""
        if isinstance(frame, Refused):
            raise TurnedAway(f"the server refuses this site: {plain(frame.reason)}")
        if isinstance(frame, Terms):
            self._agree(Contract.read(frame.contract))
            send(self._hello())
        elif isinstance(frame, Welcome):
            self.taken = self._join(frame)
        elif self.taken and self.site is not None:
            self._answer(self.site, frame, send)
            return self.site.finished
        else:
            raise FrameError(f"the server sent {type(frame).__name__} before it welcomed this site")
        return False

    def _hello(self) -> Hello:
        if self.contract is None:
            return Hello(PROTOCOL, self.version, "", self.state, self.reset, b"")
        return Hello(PROTOCOL, self.version, self.contract.hash, self.state, self.reset, self.facts(self.contract))

    def _agree(self, contract: Contract) -> None:
        if self.contract is not None and contract.hash != self.contract.hash:
            raise TurnedAway("the server's contract has changed since this site accepted it: join again to look at it")
        if not self.accept(contract):
            raise TurnedAway(f"the contract {contract.hash} was not accepted at this site: nothing was sent")
        self.contract = contract

    def _join(self, welcome: Welcome) -> bool:
        if not welcome.population:
            self.note("waiting for the other sites")
            return False
        if self.contract is None:
            raise FrameError("the server welcomed this site before it showed its contract")
        if self.site is None:
            self.site = self.build(self.contract, welcome.number, welcome.population, welcome.reset)
        if welcome.reset:
            self.site.forget()
            self.note("begins without the memory that it had (--reset); the trace says so")
        self.site.rejoin()
        self.note(f"taking part as client {welcome.number}")
        return True

    def _answer(self, site: Site, frame: FromServer, send: Callable[[Frame], None]) -> None:
        try:
            reply = site.hear(frame)
        except UndriftError as error:
            send(Unable(str(error)[:4000]))
            raise
        if isinstance(reply, Answer):
            faults.point("site:before-reply")
        if reply is not None:
            send(reply)
        if isinstance(reply, Committed):
            self.reset = False  # what it has from here on counts
        if isinstance(reply, Answer):
            faults.point("site:after-reply")
        elif isinstance(reply, Committed):
            faults.point("site:after-committed")
