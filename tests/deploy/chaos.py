"""A carrier that loses, repeats, delays and reorders frames, cuts connections and kills either side, all by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable

from undrift.deploy.carrier import Connected, Event, Heard, Lost
from undrift.deploy.frames import Hello, Refused, Welcome, read_at_site, write
from undrift.deploy.site import Site


class Killed(BaseException):
    """The server died."""


class Chaos:
    """Sites in this process behind a bad network. Time passes by one with every event, or when nothing can happen."""

    def __init__(
        self,
        sites: dict[str, Callable[[], Site]],
        seed: int,
        *,
        lose: float = 0.0,
        repeat: float = 0.0,
        reorder: float = 0.0,
        cut: float = 0.0,
        kill: float = 0.0,
        kill_server: float = 0.0,
    ) -> None:
        self.make, self.random = sites, random.Random(seed)
        self.odds = {"lose": lose, "repeat": repeat, "reorder": reorder, "cut": cut, "kill": kill}
        self.kill_server = kill_server
        self.now = 0.0
        self.alive: dict[str, Site] = {}
        self.connection = dict.fromkeys(sites, 0)
        self.online: set[str] = set()
        self.hung: set[str] = set()
        self.to_site: list[tuple[str, int, bytes]] = []
        self.to_server: list[Event] = []
        self.counts = dict.fromkeys([*self.odds, "kill_server"], 0)

    def clock(self) -> float:
        return self.now

    # ----- the server's end
    def send(self, site: str, content: bytes) -> None:
        if site in self.online:
            self._post(self.to_site, (site, self.connection[site], content))

    def drop(self, site: str, why: str) -> None:
        self._cut(site, why)

    def receive(self, seconds: float | None) -> Event | None:
        deadline = None if seconds is None else self.now + seconds
        while True:
            self._misfortune()
            if self.to_server:
                self.now += 0.001
                return self.to_server.pop(self._place(self.to_server))
            if self.to_site:
                self._step()
            else:
                self._reconnect_all()
                if not self.to_server:
                    self.now += 1.0
            if deadline is not None and self.now >= deadline:
                return None

    # ----- what happens
    def restart_server(self) -> None:
        """All connections are gone; sites live on."""
        for site in list(self.online):
            self._cut(site, "server died")
        self.to_server.clear()

    def _misfortune(self) -> None:
        if self._chance("cut") and self.online:
            self._cut(self.random.choice(sorted(self.online)), "cut")
        if self._chance("kill") and self.online:
            site = self.random.choice(sorted(self.online))
            self._cut(site, "killed")
            self.alive.pop(site, None)
        if self.random.random() < self.kill_server:
            self.counts["kill_server"] += 1
            raise Killed
        for site in self.make:
            if site not in self.online and self.random.random() < 0.3:
                self._connect(site)

    def _step(self) -> None:
        site, connection, content = self.to_site.pop(self._place(self.to_site))
        if site in self.hung or site not in self.online or connection != self.connection[site]:
            return
        frame = read_at_site(content)
        if isinstance(frame, Welcome):
            self.alive[site].rejoin()
            return
        assert not isinstance(frame, Refused), frame.reason
        reply = self.alive[site].hear(frame)
        if reply is not None:
            self._post(self.to_server, Heard(site, connection, write(reply)))

    def _reconnect_all(self) -> None:
        for site in self.make:
            if site not in self.online:
                self._connect(site)

    def _connect(self, site: str) -> None:
        if site in self.hung:
            return
        if site not in self.alive:
            self.alive[site] = self.make[site]()
        self.connection[site] += 1
        self.online.add(site)
        number = self.connection[site]
        self.to_server.append(Connected(site, number))
        self.to_server.append(Heard(site, number, write(Hello(1, "", "", site, False, b""))))

    def _cut(self, site: str, why: str) -> None:
        if site in self.online:
            self.online.remove(site)
            self.to_site = [letter for letter in self.to_site if letter[0] != site]
            self.to_server.append(Lost(site, self.connection[site], why))

    def _post(self, box: list, letter: object) -> None:
        if self._chance("lose"):
            return
        box.append(letter)
        if self._chance("repeat"):
            box.append(letter)

    def _place(self, box: list) -> int:
        """Mostly the oldest letter; of a connection's greeting nothing is changed."""
        steady = any(isinstance(letter, Connected | Lost) for letter in box)
        return 0 if steady or not self._chance("reorder") else self.random.randrange(len(box))

    def _chance(self, what: str) -> bool:
        happens = self.random.random() < self.odds[what]
        self.counts[what] += happens
        return happens
