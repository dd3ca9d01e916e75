"""Tells `progress.jsonl` what a run does while it does it: curves, what is promised of them, and the clients."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import precision
from ..absences import Draw
from ..engine.description import Run
from ..engine.history import History, Result, totals
from ..engine.ledger import Ledger
from ..progressfile import Claim, Clients, Curve, Line, Number, Writer, stride
from ..studies.relative import relative_gap
from .clients import Roll
from .lanes import MOST_CLIENTS, MOST_PLACES, Lanes
from .promise import Guarantee, guarantee_of, held

MEASURED = ("gap", "accuracy", "loss", "grad_norm", "drift", "epsilon", "loss_worst")
LONGEST_BOUND = 2_000_000  # rounds of which the promise is worked out beforehand
PAUSE = 0.5  # seconds between two verdicts, or two lines about clients, at least
SHARE = 50  # a verdict costs at most this part of the time
SAMPLE = 32  # rounds of the plan that a line about clients looks at
MOST_DRAWN = 2000  # clients up to which the plan is drawn once more for those who watch


@dataclasses.dataclass(frozen=True)
class _Played:
    """What a verdict needs of a run that is not over."""

    history: Mapping[str, np.ndarray]
    x: np.ndarray
    setting: dict[str, Any]


class LiveRun:
    """The observer of one run; `deployed`: somebody else tells of its clients (`command.live.LiveSites`)."""

    def __init__(self, writer: Writer, label: str, run: Run, resumed: bool, deployed: bool = False) -> None:
        self.writer, self.label, self.run = writer, label, run
        self.lanes, self._written, self._judged, self._cost = Lanes(), 0, 0.0, 0.0
        self._bounds: list[np.ndarray] | None = None
        self._fresh = not resumed
        if self._fresh:
            writer.begin()
        self.guarantee = _promised(run)
        self.clients = None if deployed else _Planned(run)
        self._lane_round, self._lane_time = 0, 0.0

    def __call__(self, history: History) -> None:
        """After every chunk of rounds."""
        length = history.length
        if (
            not self._fresh or length < self._written
        ):  # what is certain takes the place of what an earlier process wrote
            self._fresh, self._written, self._bounds = True, 0, None
            self.writer.begin()
        if length <= self._written:
            return
        if self._bounds is None:
            self._bounds = self._promises(history)
        rows = [t for t in range(self._written, length) if t % stride(t) == 0 or t == length - 1]
        self._written = length
        columns = curve_columns({name: column[None, :] for name, column in history.items()}, rows)
        columns |= {f"bound {i}": _numbers(values[rows]) for i, values in enumerate(self._bounds)}
        self.writer.add(curve=self.label, round=rows, columns=columns)
        self._judge(history)
        if self.clients is not None:
            self._look_at_clients(history)

    def _promises(self, history: History) -> list[np.ndarray]:
        """What is promised of every round, told once."""
        if self.guarantee is None:
            return []
        ahead = {name: column[:1] for name, column in history.items()}
        lines = self.guarantee.lines(self.label, {**ahead, "loss": np.empty(self.run.rounds + 1)})
        self.writer.add(bounds=[Curve(line.label, of=line.of, thin=line.thin) for line in lines])
        return [line.values for line in lines]

    def _judge(self, history: History) -> None:
        now = time.monotonic()
        if self.guarantee is None or history.length < 2 or now - self._judged < max(PAUSE, SHARE * self._cost):
            return
        promise = held(self.guarantee, _Played(history, np.asarray(self.run.x0), {}))
        if promise is not None:
            words = promise.claim()
            self.writer.add(
                claims=[Claim(words["sentence"], words["holds"], words["measured"], _finite(words["margin"]))]
            )
        self._judged = time.monotonic()
        self._cost = self._judged - now

    def _look_at_clients(self, history: History) -> None:
        t, now = history.length - 1, time.monotonic()
        late = t == self.run.rounds
        if t < 1 or (not late and (t - self._lane_round < t // 150 or now - self._lane_time < PAUSE)):
            return
        assert self.clients is not None
        line = self.clients.line(self._lane_round + 1, t, history.latest)
        self._lane_round, self._lane_time = t, now
        self.tell_clients(line)

    def tell_clients(self, line: Clients) -> None:
        self.lanes.add(line)
        self.writer.add(clients=line)

    def presence(self, result: Result) -> dict[str, Any] | None:
        """The clients along the run that ended so, for its page. Of a simulated run it depends on plan and result alone, not
        on when this process looked or from which round it went on."""
        return self.lanes.words() if self.clients is None else self.clients.along(result)


def _names(roll: Roll, clients: int, shown: int) -> list[str]:
    """As everywhere else in the run, where the clients have names; a centralised run has one client, who is none of them."""
    named = roll.names is not None and roll.clients == clients
    return [roll.name(i) if named else f"client {i}" for i in range(shown)]


class _Planned:
    """The clients of a simulated run, by its plan and by what is recorded of them."""

    def __init__(self, run: Run) -> None:
        self.run = run.to_play()
        self.shown = min(self.run.population.clients, MOST_CLIENTS)
        self.drawn = self.run.plan.settled and self.run.population.clients <= MOST_DRAWN
        self.seconds = self._seconds() if self.drawn else []
        self.names = _names(Roll.of(run), self.run.population.clients, self.shown)

    def _seconds(self) -> list[Number]:
        """What a round takes each client alone, by the rates of the plan."""
        with precision.scope(self.run.population.dtype):
            steps = self.run.plan.typical_steps[: self.shown, None]
            spent = Ledger.of(self.run).rounds(Draw(np.arange(self.shown)[:, None], steps, None), 2)
        return _numbers(np.asarray(totals(spent).get("seconds", np.full(self.shown, np.nan))))

    def line(self, first: int, last: int, recorded: Mapping[str, np.ndarray]) -> Clients:
        """These rounds, with what is `recorded` of every client in the last of them."""
        latest = {name: row[: self.shown] for name, row in recorded.items()}
        found = Clients(self.names, self.run.population.clients, last)
        found.drift, found.loss = (_numbers(latest[name]) if name in latest else [] for name in ("drift", "loss"))
        found.seconds = self.seconds
        if self.drawn:
            found.steps, found.answered = self._plan(max(first, last - SAMPLE + 1), last)
        return found

    def along(self, result: Result) -> dict[str, Any] | None:
        """The rounds of a result in evenly spaced places; only the last where the plan is not drawn again."""
        lanes, last = Lanes(), result.rounds
        recorded = {name: rows[-1] for name, rows in result.clients.items()}
        places = min(last, MOST_PLACES if self.drawn else 1)
        ends = [last * (place + 1) // places for place in range(places)]
        for before, end in zip([0, *ends], ends, strict=False):
            lanes.add(self.line(before + 1, end, recorded))
        return lanes.words()

    def _plan(self, first: int, last: int) -> tuple[list[Number], list[Number]]:
        draw = self.run.plan.draw(first, last - first + 1)
        members = np.broadcast_to(np.arange(draw.steps.shape[1]), draw.steps.shape) if draw.ids is None else draw.ids
        answered = np.ones(draw.steps.shape, bool) if draw.answered is None else draw.answered
        return shares(members, draw.steps, answered, self.shown)


def shares(members: Any, steps: Any, answered: Any, count: int) -> tuple[list[Number], list[Number]]:
    """Mean steps of each client in rounds it answered, and in which share of those it was asked for it did.

    >>> shares(np.array([[0, 1], [0, 2]]), np.array([[5, 7], [3, 9]]), np.array([[True, True], [True, False]]), 3)
    ([4.0, 7.0, None], [1.0, 1.0, 0.0])
    """
    asked, came, taken = np.zeros(count), np.zeros(count), np.zeros(count)
    known = members < count
    np.add.at(asked, members[known], 1)
    np.add.at(came, members[known], answered[known])
    np.add.at(taken, members[known], (steps * answered)[known])
    with np.errstate(invalid="ignore"):
        return _numbers(taken / np.where(came > 0, came, np.nan)), _numbers(came / np.where(asked > 0, asked, np.nan))


def curve_columns(history: Mapping[str, np.ndarray], rows: Sequence[int]) -> dict[str, list[Number]]:
    """The columns of these rounds, from those of several seeds: medians, and the range of what is drawn first."""
    found: dict[str, list[Number]] = {}
    for name in (name for name in MEASURED if name in history):
        values = np.asarray(history[name])
        if name == "gap":
            found["relative"] = _numbers(np.median(relative_gap(values), axis=0)[rows])
            found |= _range("relative", relative_gap(values)[:, rows])
        elif name in ("loss", "accuracy"):
            found |= _range(name, values[:, rows])
        found[name] = _numbers(np.median(values[:, rows], axis=0))
    return found | {name: _numbers(np.median(total, axis=0)[rows]) for name, total in totals(history).items()}


def curve_line(label: str, history: Mapping[str, np.ndarray]) -> Line:
    """All rounds of a method that is done; columns are (seeds, rounds + 1)."""
    length = next(iter(history.values())).shape[-1]
    rows = [t for t in range(length) if t % stride(t) == 0 or t == length - 1]
    return Line(time.time(), curve=label, round=rows, columns=curve_columns(history, rows))


def _range(name: str, values: np.ndarray) -> dict[str, list[Number]]:
    if len(values) == 1:
        return {}
    return {f"{name} low": _numbers(values.min(axis=0)), f"{name} high": _numbers(values.max(axis=0))}


def _promised(run: Run) -> Guarantee | None:
    """What is promised of a run, where that can be held against it as it goes on."""
    if run.data is None or run.record_every != 1 or run.rounds > LONGEST_BOUND:
        return None
    return guarantee_of(run)


def _numbers(column: np.ndarray) -> list[Number]:
    return [value if ok else None for value, ok in zip(column.tolist(), np.isfinite(column).tolist(), strict=True)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
