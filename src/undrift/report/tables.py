"""Tables for the terminal, whole from 80 columns on; on less, what is needed least is left out, never the step or τ."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from ..engine.grids import LOWER, UPPER
from ..engine.history import Result
from ..studies.comparison import ROUNDING, TARGETS, Outcome
from .colours import on_terminal
from .curves import POOLED
from .plain import LEAST_NAME, plain_table
from .style import looks

EPSILON = "epsilon"  # the column of private methods
WORST = {
    "accuracy_worst": "the least accuracy of a client on its own data",
    "loss_worst": "the largest loss of a client",
}
LONGEST_RANGE = 12  # letters of a range on one line; a longer one takes two, so that tables fit 80 columns


def compare_table(outcomes: Sequence[Outcome], title: str) -> Table:
    """One row per method, at its best step size."""
    gap = all(outcome.measure == "gap" for outcome in outcomes)
    caption = (
        f"{f'pooled: {POOLED}. ' if any(one.pooled for one in outcomes) else ''}step: the best of the method's grid."
    )
    if gap:
        caption += " gap: (f − f*)/(f₀ − f*) at the end; 1e-3, 1e-6, 1e-9: the round from which on it stays below."
    spare = ("MB ↓", "MB ↑", "gradients", "1e-3", "1e-9")
    table = plain_table(title, caption + _about_grids(outcomes), spare)
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


def _about_grids(outcomes: Sequence[Outcome]) -> str:
    """What marks and brackets mean, where there are some."""
    said = ""
    if any(outcome.edges for outcome in outcomes):
        said += " ‹ and ›: the smallest or the largest value that was tried, a better one may lie beyond (--refine)."
    if len(outcomes[0].seeds) > 1:
        said += f" Medians over {len(outcomes[0].seeds)} seeds (lowest–highest); the step is the one whose worst seed is best."
    return said


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
        first = int(np.min(outcome.diverged[outcome.diverged >= 0]))
        costs = ["–"] * (4 if tested else 3)
        return [*cells, "diverged", *(["–"] * len(TARGETS) if gap else []), f"round {first}", *costs]
    cells.append(step_text(outcome.points[outcome.best], outcome.edges))
    if gap:
        cells += [_arrivals(outcome, target) for target in TARGETS]
    cells.append(with_range(outcome.curve()[:, -1], _gap_text if gap else "{:.1e}".format))
    if tested:
        cells.append(with_range(outcome.column("accuracy")[:, -1], "{:.3f}".format))
    cells += [megabytes(np.median(outcome.column(name)[:, -1])) for name in ("bytes_up", "bytes_down")]
    return [*cells, f"{int(np.median(outcome.column('gradients')[:, -1])):,}"]


def _gap_text(gap: float) -> str:
    return f"<{ROUNDING:.0e}" if gap < ROUNDING else f"{gap:.1e}"


def _arrivals(outcome: Outcome, target: float) -> str:
    """The round by which half of the seeds are there, and those of the first and the last."""
    rounds = [np.inf if one is None else one for one in outcome.rounds_of_seeds(target)]
    middle = outcome.rounds_to(target)
    return _ranged("–" if middle is None else str(middle), min(rounds), max(rounds), _round_text)


def _round_text(number: float) -> str:
    return "never" if np.isinf(number) else str(int(number))


def with_range(values: np.ndarray, text: Callable[[float], str]) -> str:
    """The median and, on a second line, from where to where the values go; one of them stands alone.

    >>> with_range(np.array([3.0, 1.0, 2.0]), "{:.0f}".format), with_range(np.array([2.0]), "{:.0f}".format)
    ('2\\n(1–3)', '2')
    """
    return _ranged(text(float(np.median(values))), float(np.min(values)), float(np.max(values)), text)


def _ranged(middle: str, low: float, high: float, text: Callable[[float], str]) -> str:
    if text(low) == text(high):
        return middle
    short_enough = len(f"({text(low)}–{text(high)})") <= LONGEST_RANGE
    return f"{middle}\n({text(low)}–{'' if short_enough else chr(10)}{text(high)})"


def run_table(label: str, problem: str, result: Result) -> Table:
    """Some rounds of a run, first and last among them."""
    history = result.history
    steps = f", τ = {steps_text(result.setting['steps'])}" if "steps" in result.setting else ""
    worst = next((name for name in WORST if name in history), None)
    caption = None if worst is None else f"worst: {WORST[worst]} (column {worst})."
    spare = ("MB down", "MB up", "grad_norm", "drift", "gradients", *(("loss",) if "gap" in history else ()))
    table = plain_table(f"{label}{steps}, on {problem.strip('<>')}", caption, spare)
    measured = [name for name in ("gap", "loss", "accuracy", "grad_norm", "drift") if name in history][:3]
    measured += [] if worst is None else [worst]
    promised = [EPSILON] if EPSILON in history else []
    heads = ["worst" if name == worst else name for name in measured]
    for name in ("round", *heads, "MB up", "MB down", "gradients", *promised):
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
    return f"{value:.3f}" if name.startswith("accuracy") else f"{value:.3e}"


def steps_text(steps: str) -> str:
    """Local steps of a setting, in few letters: of many clients' own the range.

    >>> steps_text("10"), steps_text("[2, 5, 3]"), steps_text("(7, 4)"), steps_text("random_steps(2, 9)")
    ('10', '2–5', '4–7', 'random_steps(2, 9)')
    """
    if steps[:1] not in "[(":
        return steps
    counts = [int(word) for word in re.findall(r"(?<![\w.])\d+", steps)]
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)}–{max(counts)}"


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


def step_text(point: dict[str, Any], edges: Mapping[str, str] | None = None) -> str:
    """A point of a grid; the usual step size needs no name. `edges`: which values lie at an end of their grid.

    >>> step_text({"eta": 0.25}), step_text({"s": 0.5, "inner_steps": 3}), step_text({"eta": 0.25}, {"eta": "upper"})
    ('0.25', 's=0.5, inner_steps=3', '0.25›')
    """
    shown = {key: _at_edge(short(entry), (edges or {}).get(key)) for key, entry in point.items()}
    return shown["eta"] if list(point) == ["eta"] else ", ".join(f"{key}={text}" for key, text in shown.items())


def _at_edge(text: str, side: str | None) -> str:
    return f"{'‹' if side == LOWER else ''}{text}{'›' if side == UPPER else ''}"


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
