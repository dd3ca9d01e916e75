"""Tables for the terminal, readable from 80 columns on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..engine.history import Result
from ..studies.comparison import ROUNDING, TARGETS, Outcome
from .colours import on_terminal
from .curves import POOLED
from .plain import LEAST_NAME, plain_table
from .style import looks

EPSILON = "epsilon"  # the column of private methods


def compare_table(outcomes: Sequence[Outcome], title: str) -> Table:
    """One row per method, at its best step size."""
    gap = all(outcome.measure == "gap" for outcome in outcomes)
    caption = (
        f"{f'pooled: {POOLED}. ' if any(one.pooled for one in outcomes) else ''}step: the best of the method's grid."
    )
    if gap:
        caption += " gap: (f − f*)/(f₀ − f*) at the end; 1e-3, 1e-6, 1e-9: the round from which on it stays below."
    table = plain_table(title, caption)
    table.add_column("method", min_width=LEAST_NAME, overflow="fold")  # wrapped before figures are cut
    table.add_column("step", no_wrap=True, justify="right")
    if gap:
        for target in TARGETS:
            table.add_column(f"{target:.0e}".replace("e-0", "e-"), justify="right", no_wrap=True)
    tested = not gap and all("accuracy" in outcome.history for outcome in outcomes)
    promised = ["ε"] if any(EPSILON in outcome.history for outcome in outcomes) else []
    for name in ("gap" if gap else "loss", *(["accuracy"] if tested else []), "MB ↑", "MB ↓", "gradients", *promised):
        table.add_column(name, justify="right", no_wrap=True)
    colours = [look.colour for look in looks([outcome.colour or outcome.name for outcome in outcomes])]
    for outcome, colour in zip(outcomes, colours, strict=True):
        cell = method_cell(outcome.label, colour, outcome.pooled)
        table.add_row(cell, *_row(outcome, gap, tested), *(_promise(outcome) for _ in promised))
    return table


def method_cell(label: str, colour: str, pooled: bool) -> Text:
    """A method's name in its colour, and whether it holds all data in one place."""
    cell = Text(label, style=f"bold {on_terminal(colour) or 'default'}")
    return cell.append(" (pooled)", style="not bold dim") if pooled else cell


def _promise(outcome: Outcome) -> str:
    """ε at the end, of a private method."""
    if outcome.best is None or EPSILON not in outcome.history:
        return "–"
    return f"{float(np.median(outcome.column(EPSILON)[:, -1])):.3g}"


def _row(outcome: Outcome, gap: bool, tested: bool) -> list[Any]:
    cells: list[Any] = []
    if outcome.best is None:
        first = int(np.min(outcome.diverged))
        costs = ["–"] * (4 if tested else 3)
        return [*cells, "diverged", *(["–"] * len(TARGETS) if gap else []), f"round {first}", *costs]
    cells.append(step_text(outcome.points[outcome.best]))
    if gap:
        cells += ["–" if (t := outcome.rounds_to(target)) is None else str(t) for target in TARGETS]
    end = float(np.median(outcome.curve()[:, -1]))
    cells.append(f"<{ROUNDING:.0e}" if gap and end < ROUNDING else f"{end:.1e}")
    if tested:
        cells.append(f"{float(np.median(outcome.column('accuracy')[:, -1])):.3f}")
    cells += [megabytes(np.median(outcome.column(name)[:, -1])) for name in ("bytes_up", "bytes_down")]
    return [*cells, f"{int(np.median(outcome.column('gradients')[:, -1])):,}"]


def run_table(label: str, problem: str, result: Result) -> Table:
    """Some rounds of a run, first and last among them."""
    history = result.history
    table = plain_table(f"{label} on {problem.strip('<>')}")
    measured = [name for name in ("gap", "loss", "accuracy", "grad_norm", "drift") if name in history][:3]
    promised = [EPSILON] if EPSILON in history else []
    for name in ("round", *measured, "MB up", "MB down", "gradients", *promised):
        table.add_column(name, justify="right", no_wrap=True)
    for t in milestones(result.rounds):
        values = [_measured(name, history[name][t]) for name in measured]
        costs = [megabytes(history[name][t]) for name in ("bytes_up", "bytes_down")]
        epsilon = [f"{history[name][t]:.3g}" for name in promised]
        table.add_row(str(t), *values, *costs, f"{int(history['gradients'][t]):,}", *epsilon)
    return table


def _measured(name: str, value: float) -> str:
    if not np.isfinite(value):
        return "–"
    return f"{value:.3f}" if name == "accuracy" else f"{value:.3e}"


def milestones(rounds: int) -> list[int]:
    """0, 1, 2, 5, 10, 20, 50, … and the last.

    >>> milestones(30)
    [0, 1, 2, 5, 10, 20, 30]
    """
    marks = [m * 10**k for k in range(12) for m in (1, 2, 5)]
    return sorted({0, *(m for m in marks if m < rounds), rounds})


def megabytes(count: Any) -> str:
    """Three digits of millions of bytes."""
    value = float(count) / 1e6
    return "0" if value == 0 else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def step_text(point: dict[str, Any]) -> str:
    """A point of a grid; the usual step size needs no name.

    >>> step_text({"eta": 0.25}), step_text({"s": 0.5, "inner_steps": 3})
    ('0.25', 's=0.5, inner_steps=3')
    """
    if list(point) == ["eta"]:
        return short(point["eta"])
    return ", ".join(f"{key}={short(entry)}" for key, entry in point.items())


def short(entry: Any) -> str:
    """A value of a study file in a few letters: of a table (a schedule, a compressor) its name and its values.

    >>> short({"schedule": "inverse", "scale": 2.0, "offset": 100.0})
    'inverse(2, 100)'
    """
    if isinstance(entry, Mapping):
        named = next((key for key in ("schedule", "name") if key in entry), None)
        values = ", ".join(short(value) for key, value in entry.items() if key != named)
        return f"{entry.get(named, '')}({values})"
    return f"{entry:.3g}" if isinstance(entry, float) else str(entry)
