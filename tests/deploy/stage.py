"""A deployment inside one process: a server and its sites in threads, over real gRPC streams."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from undrift.deploy.carrier import Carrier, Event
from undrift.deploy.certs import make_certificates
from undrift.deploy.grpc_server import GrpcCarrier
from undrift.deploy.grpc_site import stay_connected
from undrift.deploy.watch import Watched
from undrift.engine.history import Result
from undrift.studies.agreement import Agreement
from undrift.studies.joining import Membership
from undrift.studies.serving import serve
from undrift.studies.study import study_from

PATIENCE = 60.0  # seconds
SMALL: dict[str, Any] = {
    "problem": {"name": "least_squares", "clients": 2, "samples": 6, "dim": 4},
    "run": {"rounds": 4, "steps": 2},
    "method": [{"name": "scaffold", "eta": 0.01}],
}


class Over(Exception):
    """The test wants the server to stop here."""


class Checked:
    """A carrier that looks before every event whether the test wants the server to stop."""

    def __init__(self, carrier: Carrier, check: Callable[[], None]) -> None:
        self.send, self.drop = carrier.send, carrier.drop
        self.carrier, self.check = carrier, check

    def receive(self, seconds: float | None) -> Event | None:
        self.check()
        return self.carrier.receive(seconds)


class Stage:
    """One deployment in a folder; servers come and go, sites come and go, the folder stays."""

    def __init__(self, folder: Path, tables: Mapping[str, Any] = SMALL) -> None:
        self.folder = folder
        self.agreement = Agreement.of(study_from(dict(tables), "test", folder))
        self.sites = self.agreement.contract.sites
        make_certificates(folder / "pki", self.sites)
        (folder / "run").mkdir()
        self.said: dict[str, list[str]] = {site: [] for site in self.sites}
        self.ended: dict[str, BaseException | None] = {}
        self.watched: list[tuple[str, str]] = []
        self.over = threading.Event()

    def _check(self) -> None:
        if self.over.is_set():
            raise Over

    @contextlib.contextmanager
    def carrier(self) -> Iterator[GrpcCarrier]:
        known = set(self.sites)
        made = GrpcCarrier(
            self.folder / "pki" / "server", 0, lambda site: None if site in known else "unknown", host="127.0.0.1"
        )
        with contextlib.closing(made):
            yield made

    def join(self, site: str, port: int, **options: Any) -> threading.Thread:
        """A site in a thread of its own; how it ended stands in `ended`."""
        state = options.pop("state", self.folder / f"state-{site}")
        data = options.pop("data", lambda agreement: None)
        accept = options.pop("accept", lambda agreement: True)

        def play() -> None:
            membership = Membership(state, data, accept, note=self.said[site].append, **options)
            try:
                with membership.member() as member:
                    stay_connected(
                        f"127.0.0.1:{port}", self.folder / "pki" / site, member.talk, limit=2**24, check=self._check
                    )
                self.ended[site] = None
            except BaseException as error:
                self.ended[site] = error

        thread = threading.Thread(target=play, daemon=True)
        thread.start()
        return thread

    def play(self, check: Callable[[], None] = lambda: None, **options: Any) -> Result:
        """All rounds, with every site, until the end, or until `check` raises."""
        self.over.clear()
        with self.carrier() as carrier:
            threads = [self.join(site, carrier.port, **options.get(site, {})) for site in self.sites]
            try:
                result = self.serve(Watched(Checked(carrier, check), self.sites))
                for thread in threads:  # they have been told that it is over
                    thread.join(PATIENCE)
                return result
            finally:
                self.over.set()
                for thread in threads:
                    thread.join()

    def serve(self, carrier: Carrier, **options: Any) -> Result:
        return serve(
            self.agreement,
            carrier,
            self.folder / "run",
            watch=lambda site, what: self.watched.append((site, what)),
            farewell=5.0,
            **options,
        )
