"""Curves as the board keeps them: a bounded number of rounds, of which no peak is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..progressfile import Line, Number

MOST_POINTS = 2400
MOST_COLUMNS = 32
FIRST = ("relative", "accuracy", "loss")  # what is drawn first is what peaks are looked for in


class Track:
    """The rounds of one curve. `epoch` goes up when rounds are dropped: then all of them are told again.

    >>> track = Track()
    >>> for t in range(10_000):
    ...     track.add(Line(0.0, round=[t], columns={"loss": [5.0 if t == 777 else 1.0]}))
    >>> len(track.rounds) <= MOST_POINTS, track.rounds[0], track.rounds[-1], 777 in track.rounds, track.epoch > 1
    (True, 0, 9999, True, True)
    """

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.columns: dict[str, list[Number]] = {}
        self.epoch = 1
        self.played = -1

    def add(self, line: Line) -> None:
        """The rounds of a line that come behind those that are here and were evaluated."""
        known = {name: values for name, values in line.columns.items() if len(values) == len(line.round)}
        last = self.rounds[-1] if self.rounds else -1
        for i, t in enumerate(line.round):
            if t > last and self._evaluated(known, i):
                self.put(t, {name: values[i] for name, values in known.items()})
                last = t
        if line.played is not None:
            self.played = max(self.played, line.played)

    @staticmethod
    def _evaluated(columns: dict[str, list[Number]], i: int) -> bool:
        return any(columns[name][i] is not None for name in FIRST if name in columns)

    def put(self, t: int, row: Mapping[str, Number]) -> None:
        """A round behind those that are here."""
        self.played = max(self.played, t)
        for name in row:
            if name not in self.columns and len(self.columns) < MOST_COLUMNS:
                self.columns[name] = [None] * len(self.rounds)
        self.rounds.append(t)
        for name, column in self.columns.items():
            value = row.get(name)
            column.append(value if value is not None and math.isfinite(value) else None)
        if len(self.rounds) > MOST_POINTS:
            self._thin()

    def _thin(self) -> None:
        """Of four neighbours the lowest and the highest stay; of all, the first and the last."""
        leading = next((self.columns[name] for name in FIRST if name in self.columns), [])
        kept = {0, len(self.rounds) - 1}
        for i in range(0, len(self.rounds), 4):
            four = [j for j in range(i, min(i + 4, len(self.rounds))) if leading[j] is not None] or [i]
            kept |= {min(four, key=lambda j: leading[j] or 0), max(four, key=lambda j: leading[j] or 0)}
        places = sorted(kept)
        self.rounds = [self.rounds[j] for j in places]
        self.columns = {name: [column[j] for j in places] for name, column in self.columns.items()}
        self.epoch += 1

    def last(self, name: str) -> Number:
        column = self.columns.get(name)
        return next((value for value in reversed(column) if value is not None), None) if column else None


def sparkline(values: Sequence[Number], most: int = 60) -> list[Number]:
    """A few of the values, evenly, with the last one.

    >>> sparkline([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(values) <= most:
        return list(values)
    return [values[round(i * (len(values) - 1) / (most - 1))] for i in range(most)]
