"""A node's side: what its client app does with a message of the server's app."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from .messages import TALK, replay
from .roll import WHO
from .tickets import TICKET, Ticket

log = logging.getLogger("undrift.flower")
STATE = "undrift-state"  # the record of a context that keeps a state directory
HASH = re.compile("[0-9a-f]{64}")
PAUSE = 1.0  # seconds before a worker that was killed is started again


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a node is given by --node-config. `part` is its number in Flower's simulation, and can be given elsewhere too."""

    site: str = ""
    part: int | None = None
    data: str | None = None
    state: str | None = None
    method_file: str | None = None  # of a method that is not undrift's
    accept: str | None = None  # the hash of the contract; without it, whatever the federation's operator starts

    @classmethod
    def read(cls, config: Mapping[str, Any], data: str | None = None) -> Settings:
        """`data`: where they are if the node does not say; {part} in it is the node's number."""
        part = config.get("partition-id")
        if part is not None and (type(part) is not int or part < 0):
            raise InputError(f"partition-id of --node-config is a whole number ≥ 0, got {part!r}")
        words = {key: _word(config, key) for key in ("site", "data", "state", "method-file", "accept")}
        own = words["data"] or (data.replace("{part}", str(part)) if data else None)
        return cls(words["site"] or "", part, own, words["state"], words["method-file"], words["accept"])

    def folder(self, run: object) -> Path:
        """The state directory for the run whose contract has this hash; a node's settings serve many runs."""
        if not self.state:
            raise InputError(
                "in ticket mode a node needs a state directory: --node-config 'state=\"/var/lib/undrift\"'"
            )
        if not isinstance(run, str) or not HASH.fullmatch(run):
            raise InputError(f"the server's app names its run by the hash of the contract, got {run!r}")
        return Path(self.state) / run[:32]


def _word(config: Mapping[str, Any], key: str) -> str | None:
    entry = config.get(key)
    if entry is not None and (not isinstance(entry, str) or not entry):
        raise InputError(f"{key} of --node-config is a word in quotation marks, got {entry!r}")
    return entry


def answer(content: Mapping[str, Any], settings: Settings, state: Any) -> dict[str, Any]:
    """The reply to a message of the server's app."""
    ask = content.get("ask")
    if ask == WHO:
        part = {} if settings.part is None else {"part": settings.part}
        return {"site": settings.site, **part}
    if ask == TALK:
        return _talk(content, settings, state)
    if ask == TICKET:
        return {"end": _use(Ticket.read(content), settings)}
    raise InputError(f"the server's app asks for {ask!r}, which this version of undrift does not know")


# ----- message mode
def _talk(content: Mapping[str, Any], settings: Settings, state: Any) -> dict[str, Any]:
    from .worker import site_of

    frames, run = content.get("frames"), content.get("run")
    if not isinstance(frames, list) or not all(isinstance(frame, bytes) for frame in frames):
        raise InputError("a message of the server's app holds no frames")
    with state_folder(settings, run, state) as folder, site_of(settings, folder) as site:
        return dict(replay(site.talk, frames))


@contextlib.contextmanager
def state_folder(settings: Settings, run: object, state: Any) -> Iterator[Path]:
    """The site's state directory: one of the node's disk, or, where none is given, one that Flower keeps for the run.

    Flower keeps it as long as the SuperNode lives, and takes it over only together with the reply.
    """
    if settings.state:
        yield settings.folder(run)
        return
    from flwr.app import ConfigRecord

    with tempfile.TemporaryDirectory(prefix="undrift-") as name:
        folder = Path(name)
        for file, content in dict(state.config_records.get(STATE) or {}).items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        yield folder
        files: dict[str, Any] = {
            str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()
        }
        state[STATE] = ConfigRecord(files)


# ----- ticket mode
def _use(ticket: Ticket, settings: Settings) -> str:
    """Let a process below this one take part in the run until it ends; a process that was killed is started again.

    The client app's own process is watched by Flower, which needs a minute to notice its death; the worker's takes a second.
    """
    state = settings.folder(ticket.run)
    with tempfile.TemporaryDirectory(prefix="undrift-") as name:
        folder = Path(name)
        ticket.unpack(folder)
        job = Job(ticket.address, str(state), settings)
        (folder / JOB).write_bytes(msgspec.json.encode(job))
        while True:
            code = _work(folder)
            if code >= 0:
                return _END.get(code, f"the worker ended with {code}: see the node's log")
            log.warning("the worker was killed by signal %s; starting it again", -code)
            time.sleep(PAUSE)


@dataclasses.dataclass(frozen=True)
class Job:
    """What a worker must know besides its certificate."""

    address: str
    state: str
    settings: Settings


JOB = "job.json"
DONE, SERVER_GONE, TURNED_AWAY = 0, 3, 4  # how a worker ends
_END = {DONE: "the run is over", SERVER_GONE: "the server is gone", TURNED_AWAY: "this site does not take part"}


def _work(folder: Path) -> int:
    """A worker's end. It ends with this process, because it listens to the pipe that this one holds."""
    command = [sys.executable, "-m", "undrift.flower.worker", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "JAX_PLATFORMS": "cpu"}) as worker:
        try:
            return worker.wait()
        except BaseException:
            worker.kill()
            raise
