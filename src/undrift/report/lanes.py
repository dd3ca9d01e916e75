"""What is known of clients as a run goes on, in a bounded number of places along it: a lane for each client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..progressfile import Clients, Number

MOST_CLIENTS = 48
MOST_PLACES = 96  # along the run; beyond that two become one
KEPT = ("steps", "answered")  # drawn along the run; of everything else the last is shown


class Lanes:
    """Grows with every line about clients, and does not grow beyond its places.

    >>> lanes = Lanes()
    >>> for t in range(1000):
    ...     lanes.add(Clients(["a", "b"], 2, t, steps=[5, 10], answered=[1.0, None]))
    >>> found = lanes.words()
    >>> 40 < len(found["rounds"]) <= MOST_PLACES, found["steps"][1][-1], found["answered"][0][0], found["answered"][1][0]
    (True, 10.0, 1.0, None)
    """

    def __init__(self) -> None:
        self.last: Clients | None = None
        self.places: list[Clients] = []
        self.width = 1  # lines in a place
        self._begun: list[Clients] = []  # lines of the next place

    def add(self, line: Clients) -> None:
        if self.last is not None and self.last.names != line.names:
            self.places, self._begun, self.width = [], [], 1  # another run
        self.last = line
        self._begun.append(line)
        if len(self._begun) >= self.width:
            self.places.append(_together(self._begun))
            self._begun = []
        if len(self.places) > MOST_PLACES:
            self.width *= 2
            pairs = [self.places[i : i + 2] for i in range(0, len(self.places) - 1, 2)]
            rest = self.places[len(pairs) * 2 :]
            self.places = [_together(pair) for pair in pairs]
            self._begun = [*rest, *self._begun]

    def words(self) -> dict[str, Any] | None:
        """For the page and the board; None where nothing is known."""
        if self.last is None:
            return None
        shown = [*self.places, *([_together(self._begun)] if self._begun else [])]
        found = {**msgspec.to_builtins(self.last), "rounds": [place.round for place in shown]}
        for name in KEPT:
            rows = [getattr(place, name) for place in shown]
            lanes = [[row[i] if i < len(row) else None for row in rows] for i in range(len(self.last.names))]
            found[name] = lanes if any(value is not None for lane in lanes for value in lane) else []
        return found


def _together(lines: Sequence[Clients]) -> Clients:
    """Several lines as one: means of what is drawn along the run."""
    if len(lines) == 1:
        return lines[0]
    steps, answered = (_means([getattr(line, name) for line in lines]) for name in KEPT)
    return Clients(lines[-1].names, lines[-1].total, lines[-1].round, steps, answered)


def _means(rows: Sequence[list[Number]]) -> list[Number]:
    longest = max(len(row) for row in rows)
    return [_mean([row[i] for row in rows if i < len(row)]) for i in range(longest)]


def _mean(values: Sequence[Number]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
