"""Bytes, gradients and virtual seconds, counted from the program, the shapes of its messages and the plan."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import wire
from ..errors import InputError
from ..oracles import Oracle
from ..plan import Draw, Plan
from ..protocol import Account, Algorithm, Exchange, OneByOne, Program, Repeat, exchanges, placed
from ..resources import Resources
from .description import Run
from .history import COST_COLUMNS
from .layout import Shapes

LINKS = ("up", "down", "peer")
SECONDS = COST_COLUMNS["seconds"]
COUNTABLE = 2.0**61  # of one exchange: a round adds up a few of them, and a run's totals are watched by the recorder
Counts = dict[str, np.ndarray]  # column -> what a stretch of rounds cost, one number per round


class Ledger:
    """Counts costs for an algorithm on a problem.

    The columns are bytes by link, gradients, and, where messages have named parts (dictionaries, as in split learning), bytes
    by part. With `resources` there are virtual seconds too, by cause: an exchange takes as long as its slowest client
    computes, plus one latency, plus its messages at the rates of a client's own link; clients that play in turn take the sum
    of that. `plan`: knows to whom nobody speaks, who only fills the row of a cohort.

    Work is counted in calls of a client's whole oracle: a component gradient of FedTrack is 1/n_i of one.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        shapes: list[Shapes],
        sizes: np.ndarray,
        oracle: Oracle,
        resources: Resources | None = None,
        plan: Plan | None = None,
    ) -> None:
        self.algorithm, self.shapes, self.sizes, self.plan = algorithm, shapes, sizes, plan
        self.oracle, self.resources = oracle, resources
        self._last: tuple[Any, Counts] = None, {}  # a round and what it cost
        messages = [message for shape in shapes for message in (shape.down, shape.up)]
        parts = sorted({name for message in messages if isinstance(message, dict) for name in message})
        self.columns = (
            *(f"bytes_{link}" for link in LINKS),
            "gradients",
            "component_gradients",
            *(f"bytes_{part}" for part in parts),
            *(SECONDS if resources is not None else ()),
        )

    @classmethod
    def of(cls, run: Run) -> Ledger:
        return cls(run.algorithm, run.shapes, run.population.sizes, run.oracle, run.resources, run.plan)

    def start(self) -> Counts:
        """The cost of the start program, played by all clients."""
        m = len(self.sizes)
        draw = Draw(None, np.ones((1, m), np.int64), None)
        return self._program(self.algorithm.start, 0, draw, None)

    def rounds(self, draw: Draw, first_round: int) -> Counts:
        """The cost of these rounds."""
        if len(draw.steps) != 1:
            return self._rounds(draw, first_round)
        # Whoever asks for one round after the other often asks for the same one again.
        spoken = self._spoken_to(draw, first_round)
        asked = first_round == 1, [None if part is None else part.tobytes() for part in (*draw, spoken)]
        if self._last[0] != asked:
            self._last = asked, self._rounds(draw, first_round)
        return {name: column.copy() for name, column in self._last[1].items()}

    def _rounds(self, draw: Draw, first_round: int) -> Counts:
        opening = len(exchanges(self.algorithm.start))
        special = self.algorithm.first or ()
        spoken = self._spoken_to(draw, first_round)
        counts = self._program(self.algorithm.round, opening + len(exchanges(special)), draw, spoken)
        if self.algorithm.first is not None and first_round == 1:
            own = None if spoken is None else spoken[:1]
            for name, column in self._program(special, opening, draw.rows(0, 1), own).items():
                counts[name][0] = column[0]
        return counts

    def _spoken_to(self, draw: Draw, first_round: int) -> np.ndarray | None:
        """Which members are told anything; None: all of them."""
        if self.plan is None:
            return None
        return self.plan.asked(range(first_round, first_round + len(draw.steps)), _members(draw))

    def _program(self, program: Program, place: int, draw: Draw, spoken: np.ndarray | None) -> Counts:
        (rounds, n), ids = draw.steps.shape, _members(draw)
        answered = np.ones((rounds, n), np.int64) if draw.answered is None else draw.answered.astype(np.int64)
        total = {name: np.zeros(rounds, float if name in SECONDS else np.int64) for name in self.columns}
        silent = 1 - answered if spoken is None else (1 - answered) * spoken
        stretch = _Stretch(draw.steps.astype(np.int64), answered, silent, ids, self.sizes[ids], total)
        self._walk(program, place, stretch, np.ones((rounds, n), np.int64), False)
        return total

    def _walk(self, program: Program, place: int, stretch: _Stretch, times: np.ndarray, in_turn: bool) -> None:
        for at, step in placed(program, place):
            if isinstance(step, Repeat):
                self._walk(step.program, at, stretch, times * step.counts(stretch.steps), in_turn)
            elif isinstance(step, OneByOne):
                self._walk(step.program, at, stretch, times, True)
            elif isinstance(step, Exchange):
                self._exchange(step.account, self.shapes[at], stretch, times, in_turn)

    def _exchange(self, account: Account, shapes: Shapes, stretch: _Stretch, times: np.ndarray, in_turn: bool) -> None:
        total = stretch.total
        played = times * stretch.answered
        # Whoever stays silent was told the first message of the round, once.
        told = played + stretch.silent if stretch.opening else played
        stretch.opening = False
        calls, components = account.work(stretch.steps, stretch.sizes)
        if components is None:
            components = calls * self.oracle.components(stretch.sizes)
        if account.on_wire:
            _count_message(total, account.down_link, shapes.down, shapes.down_bytes, told.sum(axis=1))
            _count_message(total, account.up_link, shapes.up, shapes.up_bytes, played.sum(axis=1))
        total["gradients"] += _summed("gradients", calls, played)
        total["component_gradients"] += _summed("component gradients", components, played)
        if self.resources is not None:
            work = components / self.oracle.components(stretch.sizes)
            spent = _seconds(self.resources, account, shapes, work, told, played, stretch.ids)
            for name, seconds in zip(SECONDS, spent, strict=True):
                total[name] += seconds.sum(axis=1) if in_turn else seconds.max(axis=1)


@dataclasses.dataclass
class _Stretch:
    """Some rounds that are being counted: one row per round, one column per member of the cohort."""

    steps: np.ndarray
    answered: np.ndarray
    silent: np.ndarray  # told the first message, without an answer
    ids: np.ndarray
    sizes: np.ndarray
    total: Counts
    opening: bool = True  # no message has been sent yet


def _members(draw: Draw) -> np.ndarray:
    return np.broadcast_to(np.arange(draw.steps.shape[1]), draw.steps.shape) if draw.ids is None else draw.ids


def _summed(what: str, work: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Σ work·times over the members of each round; refused where 64 bits might not hold it."""
    each, often, members = np.max(work, initial=0), np.max(times, initial=0), times.shape[1]
    _must_be_countable(what, float(each) * float(often) * members)
    counted: np.ndarray = (work * times).sum(axis=1)
    return counted


def _must_be_countable(what: str, at_most: float) -> None:
    if at_most >= COUNTABLE:
        raise InputError(
            f"the {what} of one round must stay below {COUNTABLE:.3g} to be counted, here they may be {at_most:.3g}: take "
            "fewer local steps"
        )


def _count_message(total: Counts, link: str, message: Any, size: int, times: np.ndarray) -> None:
    if link == "none":
        return
    _must_be_countable("bytes", float(np.max(times, initial=0)) * size)
    total[f"bytes_{link}"] += times * size
    for part, content in message.items() if isinstance(message, dict) else ():
        total[f"bytes_{part}"] += times * wire.size(content)


def _seconds(
    resources: Resources,
    account: Account,
    shapes: Shapes,
    work: np.ndarray,
    told: np.ndarray,
    played: np.ndarray,
    ids: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What an exchange takes each member of the cohort: computing, latency, transfer."""
    computing = played * work / resources.rates[ids]
    if not account.on_wire:
        return computing, np.zeros_like(computing), np.zeros_like(computing)
    down = resources.link_seconds(account.down_link, shapes.down_bytes)
    up = resources.link_seconds(account.up_link, shapes.up_bytes)
    return computing, told * resources.latency, told * down + played * up
