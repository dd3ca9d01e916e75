"""Ticket mode: one message of the federation gives a node what it needs to open undrift's own stream.

A ticket holds the address of the stream and a certificate made for this start of the server's app: an authority of its own,
which both sides pin, and the site's key. It comes over Flower's channel, which knows the node, so names cannot be exchanged.
Whoever copies a ticket gets in as that same site, and only while this server runs; another start has another authority.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..deploy.certs import AUTHORITY, CERTIFICATE, KEY, make_certificates, read_files
from ..deploy.contract import Contract
from ..errors import InputError
from ..files import write_bytes
from .post import Post
from .roll import Roll

log = logging.getLogger("undrift.flower")
TICKET = "ticket"
LOOK_ROUND = 1.0  # seconds between two looks for nodes and replies
AGAIN = 3.0  # seconds until a site whose ticket came back gets another
GOODBYE = 20.0  # seconds for nodes to say that they are done
FILES = (AUTHORITY, CERTIFICATE, KEY)


@dataclasses.dataclass(frozen=True)
class Ticket:
    """What a node gets."""

    run: str  # the hash of its contract
    address: str
    files: tuple[bytes, bytes, bytes]  # authority, certificate, key

    def words(self) -> dict[str, Any]:
        """As a message."""
        named = dict(zip(FILES, self.files, strict=True))
        return {"ask": TICKET, "run": self.run, "address": self.address, **named}

    @classmethod
    def read(cls, words: Mapping[str, Any]) -> Ticket:
        """From a message, checked."""
        try:
            return msgspec.convert({**words, "files": [words.get(name) for name in FILES]}, cls, builtin_types=[bytes])
        except msgspec.ValidationError as error:
            raise InputError(
                f"the server's ticket cannot be read: {error}: install the same undrift on both sides"
            ) from None

    def unpack(self, folder: Path) -> None:
        """Write the certificate where `stay_connected` finds it."""
        for name, content in zip(FILES, self.files, strict=True):
            write_bytes(folder / name, content, secret=True)


def make_tickets(folder: Path, contract: Contract, address: str, days: int = 30) -> dict[str, Ticket]:
    """An authority for one start of the server, and a ticket for each site; the server's own files are in `folder`/server."""
    make_certificates(folder, contract.sites, days=days)
    return {site: Ticket(contract.hash, address, read_files(folder / site)) for site in contract.sites}


class TicketOffice:
    """Gives every site that is there a ticket, and another one when it came back while the run goes on.

    Use it as `with TicketOffice(…):` around the run; it works in a thread.
    """

    def __init__(
        self, post: Post, tickets: Mapping[str, Ticket], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.post, self.tickets, self.clock = post, tickets, clock
        self.roll = Roll(post, list(tickets))
        self._out: dict[str, str] = {}  # site -> the letter that holds its ticket
        self._not_before: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="undrift-tickets", daemon=True)

    def __enter__(self) -> TicketOffice:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """The run is over, and sites have been told: let their nodes come to an end before Flower's run does."""
        self._over.set()
        self._thread.join(GOODBYE)

    def _work(self) -> None:
        while not self._over.is_set():
            self._safely(self._hand_out)
            self._safely(self._take_back)
            self._over.wait(LOOK_ROUND)
        while self._out:
            self._safely(self._take_back)
            time.sleep(LOOK_ROUND)

    def _safely(self, step: Callable[[], None]) -> None:
        """The federation may be away for a while; the streams do not need it."""
        try:
            step()
        except Exception:
            log.exception("the federation could not be asked; trying again")

    def _hand_out(self) -> None:
        now = self.clock()
        for site, node in self.roll.present().items():
            if site not in self._out and now >= self._not_before.get(site, now):
                self._out[site] = self.post.send(node, self.tickets[site].words())

    def _take_back(self) -> None:
        by_letter = {letter: site for site, letter in self._out.items()}
        for reply in self.post.collect(by_letter) if by_letter else []:
            site = by_letter[reply.letter]
            del self._out[site]
            self._not_before[site] = self.clock() + AGAIN
            log.info("the ticket of %s came back: %s", site, reply.trouble or reply.content.get("end", ""))
