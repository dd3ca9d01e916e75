"""Processes of a rehearsal: started, killed, started again, and not left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from ..errors import UndriftError

TAIL = 5  # lines of a log that are shown
GRACE = 10.0  # seconds in which a process may end by itself


class Ended(UndriftError):
    """A process of the rehearsal has failed."""


class Troupe:
    """Commands of undrift as processes, each with a log of its own, as a context: at its end all are gone."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.commands: dict[str, list[str]] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self._over_at: float | None = None

    def __enter__(self) -> Troupe:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def add(self, name: str, words: list[str]) -> None:
        """A command of undrift, not yet started."""
        self.commands[name] = words

    def start(self, name: str, **environment: str) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", "undrift", *self.commands[name]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C at the terminal is for the rehearsal, which ends them in order
            )

    def kill(self, name: str) -> None:
        """As a power cut would."""
        self.running[name].kill()
        self.running[name].wait()
        self.kills += 1

    def all_ended(self) -> bool:
        return all(process.poll() == 0 for process in self.running.values())

    def is_over(self, leader: str) -> bool:
        """Whether this one has ended well, and all others too, or have had some seconds to do so."""
        if self.running[leader].poll() != 0:
            return False
        if self._over_at is None:
            self._over_at = time.monotonic()
        return self.all_ended() or time.monotonic() - self._over_at > GRACE

    def failed(self) -> str | None:
        """What is to be said of a process that ended with an error, if there is one."""
        for name, process in self.running.items():
            if process.poll() not in (None, 0):
                tail = (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace").strip()
                last = "\n".join(tail.splitlines()[-TAIL:])
                return f"{name} ended with code {process.returncode}:\n{last}"
        return None
