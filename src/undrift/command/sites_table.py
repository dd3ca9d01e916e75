"""The live table of a deployed run: who is there, how far it is, who is slow."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from rich.console import Group
from rich.table import Table
from rich.text import Text

from ..deploy.watch import Line
from ..engine.history import History
from ..report.plain import plain_table

MOST = 24  # sites that are shown
UNITS = ("kB", "MB", "GB", "TB")


class Board:
    """What the table shows, brought up to date as events come."""

    def __init__(self, lines: Mapping[str, Line], rounds: int, label: str) -> None:
        self.lines, self.rounds, self.label = lines, rounds, label
        self.history: History | None = None
        self.began = time.monotonic()

    def __rich__(self) -> Group:
        return Group(self._headline(), sites_table(self.lines, time.monotonic()))

    def _headline(self) -> Text:
        if self.history is None:
            there = sum(line.connected for line in self.lines.values())
            return Text(f"{self.label}: waiting for the sites, {there} of {len(self.lines)} are here", style="bold")
        done = self.history.length - 1
        seconds = time.monotonic() - self.began
        filled = int(20 * done / max(self.rounds, 1))
        shown = f"{self.label}  {'━' * filled}{'─' * (20 - filled)}  round {done} of {self.rounds}"
        loss = self.history["loss"][-1]
        return Text(f"{shown}   loss {loss:.6g}   {seconds:.0f} s", style="bold")


def sites_table(lines: Mapping[str, Line], now: float) -> Table:
    """One row a site; those that are away or slow first, if there are too many."""
    table = plain_table()
    for name in ("site", ""):
        table.add_column(name, no_wrap=True)
    for name in ("last heard", "answers", "answers take", "received", "sent"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("said last", no_wrap=True)
    slowest = max(lines.values(), key=lambda line: line.seconds, default=None)
    shown = list(lines.items())
    if len(shown) > MOST:
        shown.sort(key=lambda one: (one[1].connected, -one[1].seconds))
    for site, line in shown[:MOST]:
        mark = Text("● connected", style="green") if line.connected else Text("○ away", style="red")
        ago = "never" if line.heard is None else f"{now - line.heard:.0f} s ago"
        mean = f"{1000 * line.seconds:.1f} ms" if line.answers else "–"
        if line is slowest and line.answers and len(lines) > 1:
            mean = f"slowest {mean}"
        table.add_row(site, mark, ago, str(line.answers), mean, size(line.received), size(line.sent), line.said[:40])
    if len(lines) > MOST:
        table.caption = f"and {len(lines) - MOST} more that are here and faster"
    return table


def size(count: int) -> str:
    """Bytes for people.

    >>> size(999), size(123_456), size(5_000_000_000)
    ('999 B', '123.5 kB', '5.0 GB')
    """
    if count < 1000:
        return f"{count} B"
    power = min(int(math.log10(count)) // 3, len(UNITS))
    return f"{count / 1000**power:.1f} {UNITS[power - 1]}"
