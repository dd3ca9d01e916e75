"""All runs below the folder, by their keys: the only way from an address to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .folder import Folder, Place
from .rows import row_of
from .runs import BoardRun

SCAN = 1.0  # seconds between two looks for new runs
SHARE = 20  # looking for runs takes at most this part of the time
PATIENCE = 0.05  # seconds in one look for rows of runs that have ended: their pages are read
LIVE_AGAIN = 1.0  # seconds between two looks at a run that does not go on


class Index:
    """Looks again and again; `look` is never called twice at a time."""

    def __init__(self, root: Path) -> None:
        self.folder = Folder(root)
        self.runs: dict[str, BoardRun] = {}
        self.rows: dict[str, tuple[int, dict[str, Any]]] = {}  # key -> (version that it is of, row)
        self._places: dict[Place, str] = {}
        self._scan_at = 0.0
        self._quiet_at = 0.0

    def look(self) -> None:
        """Read what is new of all runs."""
        now = time.monotonic()
        if now >= self._scan_at:
            self._scan()
            took = time.monotonic() - now
            self._scan_at = now + max(SCAN, SHARE * took)
        quiet = now >= self._quiet_at
        if quiet:
            self._quiet_at = now + LIVE_AGAIN
        for run in list(self.runs.values()):
            if quiet or run.is_live:
                run.look()
        self._write_rows()

    def _scan(self) -> None:
        found = self.folder.runs()
        for place in found:
            if place not in self._places:
                run = BoardRun(self.folder, place)
                run.look()
                self._places[place], self.runs[run.key] = run.key, run
        for place in set(self._places) - set(found):
            key = self._places.pop(place)
            self.runs.pop(key, None)
            self.rows.pop(key, None)

    def _write_rows(self) -> None:
        """Rows of what has changed, those of runs that go on first; the rest next time, if it takes too long."""
        began = time.monotonic()
        waiting = [run for run in self.runs.values() if self.rows.get(run.key, (-1, {}))[0] != run.version]
        for run in sorted(waiting, key=lambda one: not one.is_live):
            if not run.is_live and time.monotonic() - began > PATIENCE:
                return
            self.rows[run.key] = run.version, row_of(run)
