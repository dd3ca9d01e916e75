"""Whom a round is played without from its beginning: sites that let one deadline after the other pass.

A site that is connected and always late would cost a deadline every round. It is tried again after 1, 2, 4, … rounds, at most
`LONGEST`; one answer in time and it is asked every round again. A server that starts anew tries everybody.
"""

from __future__ import annotations

LONGEST = 64  # rounds until a site is tried again


class Patience:
    """Who rests until when, in rounds.

    >>> patience = Patience()
    >>> tried = [t for t in range(1, 40) if not patience.rests(7, t) and patience.missed(7, t) is None]
    >>> tried
    [1, 2, 4, 8, 16, 32]
    """

    def __init__(self) -> None:
        self._times: dict[int, int] = {}  # deadlines missed in a row
        self._last: dict[int, int] = {}  # the round of the last one
        self._until: dict[int, int] = {}

    def missed(self, client: int, round: int) -> None:
        """It let a deadline of this round pass (once more in the same round does not count)."""
        if self._last.get(client) != round:
            self._last[client] = round
            self._times[client] = self._times.get(client, 0) + 1
            self._until[client] = round + min(2 ** (self._times[client] - 1), LONGEST)

    def met(self, client: int) -> None:
        """It answered a whole round in time."""
        for known in (self._times, self._last, self._until):
            known.pop(client, None)

    def has_missed(self, client: int) -> bool:
        """Whether it missed the last deadline that it was given."""
        return client in self._times

    def rests(self, client: int, round: int) -> bool:
        """Whether this round is played without it."""
        return round < self._until.get(client, 0)
