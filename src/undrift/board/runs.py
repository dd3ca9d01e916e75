"""What the board knows of one run: what its progress says while it goes on, and what it left when it has ended."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from typing import Any

import msgspec

from ..progressfile import FORMAT, NAME, Claim, Curve, Head, Line
from ..report.lanes import Lanes
from .folder import Folder, Place, Seen
from .owner import is_owned
from .stored import LARGEST, document_in
from .tail import Tail
from .tracks import Track

LOOKS = 8  # parts of a long file that are read in one go
SUMMARY, PAGE = "summary.json", "page.html"
LARGEST_SUMMARY = 16 * 2**20
ENDS = ("finished", "diverged", "interrupted")
PACE = 40  # lines over which the pace is taken


class BoardRun:
    """A run below the folder. `version` goes up with everything that changes."""

    def __init__(self, folder: Folder, place: Place) -> None:
        self.folder, self.place = folder, place
        self.name = "/".join(place) or folder.root.name
        self.key = hashlib.sha256("\0".join(place).encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.version, self.status, self.damage = 0, "", ""
        self.summary: dict[str, Any] = {}
        self.changed = 0.0  # when its files last did, by the clock
        self._tail = Tail(folder, place, NAME)
        self._seen: dict[str, Seen | None] = {}
        self._clear()

    def _clear(self) -> None:
        self.head: Head | None = None
        self.tracks: dict[str, Track] = {}
        self.bounds: list[Curve] = []
        self.claims: list[Claim] = []
        self.lanes = Lanes()
        self.pace: deque[tuple[float, int]] = deque(maxlen=PACE)

    @property
    def is_live(self) -> bool:
        return self.status == "running"

    @property
    def tells(self) -> bool:
        """Whether its progress is what there is to show: it goes on, or nobody wrote down how it ended."""
        return self.head is not None and (self.is_live or not self.summary or not self.has_page)

    @property
    def has_page(self) -> bool:
        return self._seen.get(PAGE) is not None

    @property
    def played(self) -> int:
        """Rounds, of all curves together."""
        return sum(max(track.played, 0) for track in self.tracks.values())

    @property
    def total(self) -> int:
        """Rounds that were asked for, of all curves together."""
        return 0 if self.head is None else self.head.rounds * max(1, len(self.head.curves))

    def seconds_per_round(self) -> float | None:
        """By the clock, over the last lines."""
        if len(self.pace) < 2:
            return None
        (first, few), (last, many) = self.pace[0], self.pace[-1]
        return (last - first) / (many - few) if many > few and last > first else None

    # ----- looking
    def look(self) -> bool:
        """Read what is new; whether anything is."""
        before = self.version
        self._look_at_summary()
        self._look_at_progress()
        self._note(PAGE)
        status = self._status()
        if status != self.status:
            self.status = status
            self.version += 1
        return self.version != before

    def _note(self, name: str) -> bool:
        """Whether a file has changed since it was looked at last."""
        seen = self.folder.seen(self.place, name)
        if name in self._seen and seen == self._seen[name]:
            return False
        self._seen[name] = seen
        self.version += 1
        if seen is not None:
            self.changed = max(self.changed, min(seen.changed / 1e9, time.time()))
        return True

    def _look_at_summary(self) -> None:
        if not self._note(SUMMARY):
            return
        self.summary = {}
        if self._seen[SUMMARY] is None:
            return
        try:
            found = json.loads(self.folder.read(self.place, SUMMARY, LARGEST_SUMMARY) or b"")
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            self.summary, self.damage = found, ""
        else:
            self.damage = f"{SUMMARY} cannot be read"

    def _look_at_progress(self) -> None:
        for _ in range(LOOKS):
            anew, lines, more = self._tail.look()
            if anew:
                self._clear()
                self.damage = ""
            for line in lines:
                self._take(line)
            if anew or lines:
                self.version += 1
                self.changed = max(self.changed, self.pace[-1][0] if self.pace else 0.0)
            if not more:
                return

    def _take(self, line: bytes) -> None:
        try:
            if self.head is None:
                self._begin(msgspec.json.decode(line, type=Head))
            else:
                self._add(msgspec.json.decode(line, type=Line))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self.damage = f"a line of {NAME} cannot be read"

    def _begin(self, head: Head) -> None:
        if head.format != FORMAT:
            raise ValueError("another format")
        self.head = head
        self.tracks = {curve.label: Track() for curve in head.curves}

    def _add(self, line: Line) -> None:
        track = None if line.curve is None else self.tracks.get(line.curve)
        if track is not None:
            track.add(line)
            self.pace.append((min(line.at, time.time()), self.played))
        if line.bounds is not None:
            self.bounds = line.bounds
        if line.claims is not None:
            self.claims = line.claims
        if line.clients is not None:
            self.lanes.add(line.clients)

    def _status(self) -> str:
        if is_owned(self.folder, self.place):
            return "running"
        said = self.summary.get("status")
        if said in ENDS:
            return str(said)
        if self.summary:
            return "finished"  # a result that somebody saved
        return "stopped" if self.head is not None else "damaged" if self.damage else "not begun"

    # ----- what it left
    def page(self) -> dict[str, Any] | None:
        """The document of its page, read now: what has ended is not kept in memory."""
        return document_in(self.folder.read(self.place, PAGE, LARGEST) or b"")
