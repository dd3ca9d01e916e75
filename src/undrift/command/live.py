"""Who tells `progress.jsonl` what: the heads of the files, and the observers of runs, comparisons and deployed runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..deploy import watch
from ..engine.description import Run
from ..engine.history import History
from ..progressfile import Clients, Curve, Head, Line, Number, Writer
from ..report.exchanges import exchange_of
from ..report.lanes import MOST_CLIENTS
from ..report.live import PAUSE, LiveRun, curve_line, shares
from ..report.page.check import plain
from ..report.page.results import listed, setting_rows, subtitle_of
from ..stop import Either, Reached, Stop
from ..studies.comparison import Outcome
from ..studies.entries import Entry
from ..studies.study import Study
from .directory import RunDirectory, command_line
from .versions import versions


def head_of(command: str, study: Study, entries: Sequence[Entry], exchange: list[dict[str, Any]]) -> Head:
    """What is known of a run before it begins."""
    first, labels = entries[0].runs[0], [entry.label for entry in entries]
    chosen = {entry.label: {name: {"why": choice.why} for name, choice in entry.chosen.items()} for entry in entries}
    title = listed(labels) if len(labels) < 5 else f"{len(labels)} methods"
    return Head(
        format=1,
        command=command,
        began=time.time(),
        rounds=first.rounds,
        title=f"{title} on {study.problem.get('name', 'the sites’ own data')}"[:400],
        subtitle=subtitle_of(study, first.rounds)[:4000],
        line=command_line()[:4000],
        versions=versions(),
        seeds=study.seeds if command == "compare" else [first.seed],
        setting=[{**row, "value": plain(row["value"])} for row in setting_rows(study, chosen, str(first.resources))],
        curves=[_curve(entry) for entry in entries][:64],
        targets=targets_of(first.stop),
        exchange=exchange,
    )


def _curve(entry: Entry) -> Curve:
    colour = entry.method.known.colour or entry.method.name
    return Curve(entry.label, colour, pooled=entry.runs[0].recipe.centralised)


def targets_of(stop: Stop | None) -> dict[str, float]:
    """The columns and values that a rule waits for."""
    if isinstance(stop, Either):
        return targets_of(stop.one) | targets_of(stop.other)
    return dict(stop.targets) if isinstance(stop, Reached) else {}


def exchanges_of(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """The round of every method as messages."""
    return [exchange_of(entry.label, entry.runs[0]) for entry in entries]


def live_run(writer: Writer, entry: Entry, run: Run, directory: RunDirectory, deployed: bool = False) -> LiveRun:
    """The observer of a run in this directory."""
    return LiveRun(writer, entry.label, run, directory.resume, deployed)


class LiveComparison:
    """Tells how far the methods of a comparison are, and the curves of those that are done."""

    def __init__(self, writer: Writer, entries: Sequence[Entry], known: Mapping[int, Outcome]) -> None:
        self.writer, self.labels, self._told = writer, [entry.label for entry in entries], 0.0
        writer.begin([self._line(outcome) for outcome in known.values()])

    def played(self, number: int, rounds: int) -> None:
        if time.monotonic() - self._told >= PAUSE:
            self._told = time.monotonic()
            self.writer.add(curve=self.labels[number], played=rounds)

    def done(self, outcome: Outcome) -> None:
        line = self._line(outcome)
        self.writer.add(curve=line.curve, round=line.round, columns=line.columns)

    def _line(self, outcome: Outcome) -> Line:
        return curve_line(outcome.label, {name: outcome.column(name) for name in outcome.history})


class LiveSites:
    """Tells which sites are there, who answers, and how long that takes."""

    def __init__(self, live: LiveRun, lines: Mapping[str, watch.Line]) -> None:
        self.live, self.lines = live, lines
        self.names, self.round, self._told = list(lines)[:MOST_CLIENTS], 0, 0.0
        self._rows: list[Mapping[str, Any]] = []
        self._latest: Mapping[str, np.ndarray] = {}

    def observe(self, history: History) -> None:
        self._latest, self.round = history.latest, history.length - 1
        self.live(history)

    def traced(self, row: Mapping[str, Any]) -> None:
        """A round as it stands in the trace."""
        self._rows.append(row)
        self.tick()

    def tick(self) -> None:
        """Several times a second."""
        now = time.monotonic()
        if now - self._told >= 2 * PAUSE:
            self._told = now
            self.live.tell_clients(self._line(now))
            self._rows = []

    def _line(self, now: float) -> Clients:
        shown = [self.lines[name] for name in self.names]
        found = Clients(
            self.names,
            len(self.lines),
            self.round,
            seconds=[line.seconds if line.answers else None for line in shown],
            measured=True,
            here=[line.connected for line in shown],
            heard=[None if line.heard is None else round(now - line.heard, 1) for line in shown],
            received=[line.received for line in shown],
            sent=[line.sent for line in shown],
            said=[line.said[:200] for line in shown],
        )
        found.drift, found.loss = (self._last(name) for name in ("drift", "loss"))
        if self._rows:
            members, steps, answered = (
                np.concatenate([row[key] for row in self._rows]) for key in ("ids", "steps", "answered")
            )
            found.steps, found.answered = shares(members, steps, answered.astype(bool), len(self.names))
        return found

    def _last(self, name: str) -> list[Number]:
        row = self._latest.get(name, np.zeros(0))[: len(self.names)]
        return [float(value) if np.isfinite(value) else None for value in row]
