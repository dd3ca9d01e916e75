"""What carries frames: the seam between the protocol and a network.

A carrier knows connections and bytes, nothing of rounds. It may lose, repeat, delay and reorder frames and break connections;
it must not invent frames, and a frame never crosses from one connection of a site to the next.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol


@dataclasses.dataclass(frozen=True)
class Connected:
    """A site whose name was authenticated is there."""

    site: str
    connection: int  # of this site; counted up


@dataclasses.dataclass(frozen=True)
class Lost:
    """A connection has ended."""

    site: str
    connection: int
    why: str = ""


@dataclasses.dataclass(frozen=True)
class Heard:
    """A frame from a site, not yet read."""

    site: str
    connection: int
    content: bytes | bytearray


Event = Connected | Lost | Heard


class Carrier(Protocol):
    """The server's end."""

    def send(self, site: str, content: bytes) -> None:
        """To the site's present connection; without one, the frame is lost (whoever reconnects is told again)."""

    def receive(self, seconds: float | None) -> Event | None:
        """The next event; None after so many seconds without one."""

    def drop(self, site: str, why: str) -> None:
        """End the site's connection."""
