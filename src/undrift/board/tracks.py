"""Curves as the board keeps them: a bounded number of rounds, evenly along the run, of which no peak is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..progressfile import Line, Number

MOST_POINTS = 2400
MOST_COLUMNS = 32
BEGINNING = 200  # points that always stay: much happens there
FIRST = ("relative", "accuracy", "loss")  # what is drawn first is what peaks are looked for in

Row = tuple[int, dict[str, Number]]


class Track:
    """The rounds of one curve. `epoch` goes up when rounds are dropped: then all of them are told again.

    Of every `width` rounds the lowest and the highest are kept; the width doubles when there are too many points.

    >>> track = Track()
    >>> for t in range(20_000):
    ...     track.add(Line(0.0, round=[t], columns={"loss": [5.0 if t == 7777 else 1.0 / (t + 1)]}))
    >>> len(track.rounds) <= MOST_POINTS + 1, track.rounds[:3], track.rounds[-1], 7777 in track.rounds, track.epoch > 1
    (True, [0, 1, 2], 19999, True, True)
    >>> gaps = [b - a for a, b in zip(track.rounds[BEGINNING:], track.rounds[BEGINNING + 1 :])]
    >>> max(gaps) <= 4 * track.width
    True
    """

    def __init__(self) -> None:
        self.epoch, self.width, self.played = 1, 1, -1
        self.sure = 0  # points that stay where they are until the next epoch: all but the last
        self.rounds: list[int] = []
        self.columns: dict[str, list[Number]] = {}
        self._waiting: list[Row] = []  # rounds of the next width, the last of which is shown

    def add(self, line: Line) -> None:
        """The rounds of a line that come behind those that are here and were evaluated."""
        known = {name: values for name, values in line.columns.items() if len(values) == len(line.round)}
        last = self.rounds[-1] if self.rounds else -1
        for i, t in enumerate(line.round):
            if t > last and any(known[name][i] is not None for name in FIRST if name in known):
                self.put(t, {name: values[i] for name, values in known.items()})
                last = t
        if line.played is not None:
            self.played = max(self.played, line.played)

    def put(self, t: int, row: Mapping[str, Number]) -> None:
        """A round behind those that are here."""
        self.played = max(self.played, t)
        self._forget_last()
        self._waiting.append((t, dict(row)))
        if len(self._waiting) < self.width:
            self._show(*self._waiting[-1])
            return
        for one in _extremes(self._waiting):
            self._show(*one)
        self._waiting = []
        self.sure = len(self.rounds)
        if self.sure > MOST_POINTS:
            self._thin()

    def _forget_last(self) -> None:
        del self.rounds[self.sure :]
        for column in self.columns.values():
            del column[self.sure :]

    def _show(self, t: int, row: Mapping[str, Number]) -> None:
        for name in row:
            if name not in self.columns and len(self.columns) < MOST_COLUMNS:
                self.columns[name] = [None] * len(self.rounds)
        self.rounds.append(t)
        for name, column in self.columns.items():
            value = row.get(name)
            column.append(value if value is not None and math.isfinite(value) else None)

    def _thin(self) -> None:
        """Of four neighbours behind the beginning the lowest and the highest stay."""
        rows = [(t, {name: column[i] for name, column in self.columns.items()}) for i, t in enumerate(self.rounds)]
        self.rounds, self.columns = [], {name: [] for name in self.columns}
        for one in rows[:BEGINNING]:
            self._show(*one)
        for i in range(BEGINNING, len(rows), 4):
            for one in _extremes(rows[i : i + 4]):
                self._show(*one)
        self.sure, self.width, self.epoch = len(self.rounds), 2 * self.width, self.epoch + 1

    def last(self, name: str) -> Number:
        column = self.columns.get(name)
        return next((value for value in reversed(column) if value is not None), None) if column else None


def _extremes(rows: Sequence[Row]) -> list[Row]:
    """The lowest and the highest of some rounds, in their order; of equal ones the first and the last."""
    if len(rows) < 3:
        return list(rows)
    name = next((name for name in FIRST if rows[0][1].get(name) is not None), "")
    heights = [value if (value := row.get(name)) is not None else math.inf for _, row in rows]
    low = min(range(len(rows)), key=lambda i: heights[i])
    high = max(range(len(rows)), key=lambda i: (heights[i], i))
    return [rows[i] for i in sorted({low, high})]


def sparkline(values: Sequence[Number], most: int = 60) -> list[Number]:
    """A few of the values, evenly, with the last one.

    >>> sparkline([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]
