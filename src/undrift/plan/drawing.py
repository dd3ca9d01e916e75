"""The plan of a run: participation, local steps, failures and absences, drawn for any range of rounds."""

from __future__ import annotations

import dataclasses
import os
from functools import cached_property
from typing import Any

import numpy as np

from .. import randomness
from ..absences import Absences, Draw
from ..errors import InputError
from ..gate import LARGEST
from ..tracefile import read_trace
from .availability import Availability
from .cohorts import Everyone, Participation, Permuted, Uniform, Weighted, takes_all
from .steps import ChangingSteps, DrawnSteps, PiecewiseSteps, Steps
from .user import numbers_from, user_key


def trace(file: str | os.PathLike[str]) -> Absences:
    """The absences of a deployed run, from the file trace.jsonl in its directory: `ud.run(…, plan=trace(file))` plays them.

    Seed, participation, steps and failures must be those of the traced run, and at most its rounds are played. A run in which a
    site lost its memory (`--reset`) is played by message passing, as `ud.loopback` does: without checkpoints.
    """
    return read_trace(file)


@dataclasses.dataclass(frozen=True)
class Plan:
    """Participation, local steps and failures of a run."""

    clients: int
    participation: Participation
    steps: Steps
    failures: float
    seed: int
    most_steps: int = LARGEST  # that the clients' oracle can tell apart
    absences: Absences | None = None
    availability: Availability | None = None  # None: everyone is always there

    def __post_init__(self) -> None:
        if not 0 <= self.failures < 1:
            raise InputError(f"the probability of not answering must be in [0, 1), got {self.failures}")
        self.participation.size(self.clients)  # refuses a cohort that is too large
        self._check(self.steps)

    def _check(self, steps: Any) -> None:
        """Refuse what are no steps, as far as that is known before any are drawn."""
        if isinstance(steps, PiecewiseSteps):
            for _, piece in steps.pieces:
                self._check(piece)
        elif isinstance(steps, ChangingSteps):
            known = steps.mean if steps.largest is None else steps.largest
            self._countable(np.asarray(1 if known is None else known))
        elif not callable(steps):
            self._checked(steps, 0)

    @property
    def cohort_size(self) -> int:
        return self.participation.size(self.clients)

    @property
    def everyone_every_round(self) -> bool:
        """Nobody ever misses a round."""
        may_miss = self.failures > 0 or (self.absences is not None and self.absences.possible)
        may_miss = may_miss or self.availability is not None
        return not may_miss and takes_all(self.participation, self.clients)

    @property
    def renormalise(self) -> bool:
        """Whether means run over the members' own weights: all are there, or somebody asked for it."""
        return self.everyone_every_round or self.participation.renormalise

    @property
    def same_for_all_seeds(self) -> bool:
        drawn = callable(self.steps) or getattr(self.steps, "seeded", False)
        return isinstance(self.participation, Everyone) and self.failures == 0 and not drawn and self.absences is None

    @property
    def settled(self) -> bool:
        """Whether the library draws it: then it follows from numbers; no function of a user's and no deployed run has a say."""
        by_words = not callable(self.steps) and getattr(self.steps, "said_by_words", True)
        drawn = by_words and type(self.participation) in (Everyone, Uniform, Weighted, Permuted)
        return drawn and self.absences is None

    @property
    def typical_steps(self) -> np.ndarray:
        """τ_i of all clients where one round stands for all: the first one's, or the mean of a coin's tosses."""
        if isinstance(self.steps, ChangingSteps) and self.steps.largest is None and self.steps.mean is not None:
            return np.full(self.clients, round(self.steps.mean))
        everyone = dataclasses.replace(self, participation=Everyone(), failures=0.0, absences=None, availability=None)
        return everyone.draw(1, 1).steps[0]

    def cohorts(self, rounds: range) -> np.ndarray | None:
        """The members of these rounds, one row for each; None: everyone, in order."""
        if isinstance(self.participation, Everyone):
            return None
        if self.availability is not None and self.availability.undrawn:
            there = self.availability.rows(rounds)
            return self.participation.cohorts_there(self.seed, rounds, self.clients, there)
        return self.participation.cohorts(self.seed, rounds, self.clients)

    def draw(self, first: int, count: int) -> Draw:
        """The plan of rounds first, …, first + count − 1 (round 1 is the first)."""
        rounds = range(first, first + count)
        ids = self.cohorts(rounds)
        members = np.broadcast_to(np.arange(self.clients), (count, self.clients)) if ids is None else ids
        answered = None
        if self.failures > 0:
            chance = randomness.uniform(self.seed, randomness.tag("failure"), np.asarray(rounds)[:, None], members)
            answered = chance >= self.failures
        if self.availability is not None:
            here = self.availability.there(rounds, members)
            answered = here if answered is None else answered & here
        draw = Draw(ids, self._steps(self.steps, np.asarray(rounds), members), answered)
        return draw if self.absences is None else self.absences.apply(draw, first, self.clients)

    def asked(self, rounds: range, members: np.ndarray) -> np.ndarray | None:
        """Which members of these rounds are spoken to; None: all of them. Who is not there and cannot be drawn is not."""
        if self.availability is None or not self.availability.undrawn:
            return None
        return self.availability.there(rounds, members)

    def _steps(self, steps: Any, rounds: np.ndarray, members: np.ndarray) -> np.ndarray:
        if isinstance(steps, PiecewiseSteps):
            found = np.empty(members.shape, np.int64)
            for piece, rows in steps.split(rounds):
                found[rows] = self._steps(piece, rounds[rows], members[rows])
            return found
        if isinstance(steps, DrawnSteps):
            drawn = steps.draw(self.seed, rounds, members)
            if steps.said_by_words:
                return self._countable(drawn)
            checked = [self._checked(row[0], int(t)) for t, row in zip(rounds, drawn, strict=True)]  # the same for all
            return np.broadcast_to(np.reshape(checked, (-1, 1)), members.shape)
        if callable(steps):
            own = [self._checked(steps(t, user_key(self.seed, "steps", t)), t) for t in map(int, rounds)]
            everyone = np.stack([np.broadcast_to(row, (self.clients,)) for row in own])
        else:
            given = self._given_steps if steps is self.steps else self._checked(steps, 0)
            everyone = np.broadcast_to(given, (len(rounds), self.clients))
        return np.take_along_axis(everyone, members, axis=1)

    @cached_property
    def _given_steps(self) -> np.ndarray:
        """τ, or τ_i of all clients, where no function of the round says them."""
        return self._checked(self.steps, 0)

    def _checked(self, given: Any, round: int) -> np.ndarray:
        where = f" in round {round}" if round else ""
        steps = numbers_from(given, "local steps must be whole numbers ≥ 1", round)
        if steps.shape not in ((), (self.clients,)):
            raise InputError(
                f"local steps must be one number or one per client ({self.clients}), got shape {steps.shape}{where}"
            )
        if not np.all(np.isfinite(steps) & (steps == np.floor(steps))):
            raise InputError(f"local steps must be whole numbers, got {steps}{where}")
        if np.any(steps < 1):
            client = int(np.argmin(steps)) if steps.ndim else "every client"
            raise InputError(f"local steps τ_i must be ≥ 1, got {steps.min()} for client {client}{where}")
        return self._countable(steps, where).astype(np.int64)

    def _countable(self, steps: np.ndarray, where: str = "") -> np.ndarray:
        if np.any(steps > self.most_steps):
            raise InputError(
                f"local steps τ_i must be ≤ {self.most_steps}, the most that can be counted here, got {steps.max()}{where}: "
                "play more rounds of fewer steps"
            )
        return steps

    def __str__(self) -> str:
        steps = self.steps if not callable(self.steps) else getattr(self.steps, "__name__", "function")
        return f"participation={self.participation}, steps={steps}, failures={self.failures:g}"
