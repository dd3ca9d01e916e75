"""The process of a site in ticket mode: `python -m undrift.flower.worker FOLDER`, started by the client app."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from ..deploy.frames import Frame, FromServer
from ..deploy.member import Member, TurnedAway
from ..errors import InputError, UndriftError
from ..studies.agreement import Agreement
from ..studies.joining import Membership
from .node import DONE, JOB, SERVER_GONE, TURNED_AWAY, Job, Settings

log = logging.getLogger("undrift.flower")
LIMIT = 2**31  # bytes of a frame from the server
PATIENCE = 10.0  # seconds without the server: a SuperNode handles one message at a time and must be free for the next


class ServerGone(UndriftError):
    """The server has been away for longer than a node waits."""


def site_of(settings: Settings, state: Path) -> AbstractContextManager[Member]:
    """The site that a node's settings describe, which owns its state directory in this block."""

    def data(agreement: Agreement) -> Any:
        if settings.data is not None:
            return agreement.source.read(settings.data)
        if agreement.source.public is None:
            raise InputError("this run wants data of the node's own: --node-config 'data=\"/srv/data/heart.csv\"'")
        return None

    def accept(agreement: Agreement) -> bool:
        return settings.accept is None or agreement.contract.is_called(settings.accept)

    files = [] if settings.method_file is None else [Path(settings.method_file)]
    return Membership(state, data, accept, files=files, note=log.info).member()


class Patience:
    """Ends a site's attempts to connect when the server has been away for a while."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self.seconds = seconds
        self.away_since: float | None = time.monotonic()

    def listening(self, talk: Callable[..., bool]) -> Callable[..., bool]:
        """`talk`, noticed."""

        def noticed(send: Callable[[Frame], None], incoming: Iterator[FromServer]) -> bool:
            try:
                return talk(send, self._passing(incoming))
            finally:
                if self.away_since is None:
                    self.away_since = time.monotonic()

        return noticed

    def _passing(self, incoming: Iterator[FromServer]) -> Iterator[FromServer]:
        for frame in incoming:
            self.away_since = None
            yield frame

    def check(self) -> None:
        """Called now and then."""
        since = self.away_since
        if since is not None and time.monotonic() - since > self.seconds:
            raise ServerGone(f"the server has been away for {self.seconds:g} s")


def work(folder: Path) -> int:
    """Take part in the run that the ticket in this folder is for; how it ended."""
    from ..deploy.grpc_site import stay_connected

    job = msgspec.json.decode((folder / JOB).read_bytes(), type=Job)
    try:
        with site_of(job.settings, Path(job.state)) as site:
            patience = Patience()
            stay_connected(job.address, folder, patience.listening(site.talk), limit=LIMIT, check=patience.check)
    except ServerGone as error:
        log.warning("%s", error)
        return SERVER_GONE
    except (TurnedAway, UndriftError) as error:
        log.error("%s", error)
        return TURNED_AWAY
    return DONE


def _end_with_parent() -> None:
    while os.read(0, 1):  # nothing is ever sent: the pipe closes when the process that holds it dies
        pass
    os._exit(SERVER_GONE)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(work(Path(sys.argv[1])))
