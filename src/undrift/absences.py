"""The plan of some rounds as arrays, and who was silent in them beyond what the plan says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError


class Draw(NamedTuple):
    """The plan of some consecutive rounds."""

    ids: np.ndarray | None  # (rounds, n); None: everyone, in order
    steps: np.ndarray  # (rounds, n)
    answered: np.ndarray | None  # (rounds, n); None: everyone

    def rows(self, start: int, stop: int) -> Draw:
        """The plan of some of these rounds."""

        def cut(part: Any) -> Any:
            return None if part is None else part[start:stop]

        return Draw(cut(self.ids), cut(self.steps), cut(self.answered))

    def without(self, silent: Iterable[int], row: int, clients: int) -> Draw:
        """The same plan with these clients silent in the round of this row.

        >>> Draw(None, np.array([[2, 2, 2]]), None).without({1}, 0, clients=3).answered
        array([[ True, False,  True]])
        """
        members = np.arange(clients) if self.ids is None else self.ids[row]
        answered = np.ones(self.steps.shape, bool) if self.answered is None else self.answered.copy()
        answered[row] &= ~np.isin(members, list(silent))
        return self._replace(answered=answered)


class Traced(NamedTuple):
    """One round of a deployed run."""

    ids: tuple[int, ...]  # whom the plan asked
    steps: tuple[int, ...]
    silent: frozenset[int]
    resets: tuple[int, ...] = ()  # who began it with the memory of the very beginning


@dataclasses.dataclass(frozen=True, eq=False)
class Absences:
    """Who was silent in which round of a deployed run, beyond what the plan itself says; see `plan.trace`.

    `possible`: whether anybody could be left out (there was a deadline): methods that rest on everybody's presence know it.
    Without `rounds` it says only that: the description of a run that is still to be played by machines.
    """

    rounds: Mapping[int, Traced] = dataclasses.field(default_factory=dict)
    possible: bool = True

    @property
    def resets(self) -> Mapping[int, tuple[int, ...]]:
        """round -> the clients that began it with the memory of the very beginning."""
        return {t: row.resets for t, row in self.rounds.items() if row.resets}

    def check(self, rounds: int) -> None:
        """Refuse to play more rounds than were traced."""
        if self.rounds and rounds > len(self.rounds):
            raise InputError(
                f"the trace holds {len(self.rounds)} rounds, and {rounds} are to be played: ask for at most those"
            )

    def apply(self, draw: Draw, first: int, clients: int) -> Draw:
        """The plan of rounds from `first` on, with the absences."""
        for row in range(len(draw.steps)):
            traced = self.rounds.get(first + row)
            if traced is not None:
                self._compare(draw, row, first + row, traced, clients)
                draw = draw.without(traced.silent, row, clients)
        return draw.without((), 0, clients)  # the same arrays whether somebody is silent or not

    def _compare(self, draw: Draw, row: int, t: int, traced: Traced, clients: int) -> None:
        ids = np.arange(clients) if draw.ids is None else draw.ids[row]
        silent = set() if draw.answered is None else set(ids[~draw.answered[row]].tolist())
        for what, theirs, ours in (
            ("asks the clients", traced.ids, tuple(ids.tolist())),
            ("has the local steps", traced.steps, tuple(draw.steps[row].tolist())),
            ("lets fail the clients", tuple(sorted(silent & traced.silent)), tuple(sorted(silent))),
        ):
            if theirs != ours:
                raise InputError(
                    f"the trace belongs to another run: in round {t} it {what} {_some(theirs)}, this plan {_some(ours)}; take "
                    "the problem, the seed, the steps, the participation and the failures of the traced run"
                )

    def __str__(self) -> str:
        if not self.rounds:
            return "absences" if self.possible else "no absences"
        silent = sum(len(row.silent) for row in self.rounds.values())
        return f"trace of {len(self.rounds)} rounds, {silent} answers missing"


def _some(numbers: tuple[int, ...]) -> str:
    more = ", …" if len(numbers) > 10 else ""
    return f"[{', '.join(map(str, numbers[:10]))}{more}]"
