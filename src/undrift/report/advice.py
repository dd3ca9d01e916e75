"""The adviser's table, page and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from rich.table import Table

from .. import files
from ..advice import Advice, Candidate
from ..advice.guarantee import Guarantee
from ..advice.words import duration
from .colours import BLACK
from .curves import POOLED
from .figures import save_figure
from .labels import Mark, place_labels
from .plain import LEAST_NAME, plain_table
from .style import looks
from .tables import method_cell

HEADS = ("method", "τ", "step", "rounds", "measured", "promised", "MB ↑", "MB ↓", "gradients", "time")

STAR = "*"  # of a promise by certificate


def advice_table(advice: Advice, title: str) -> Table:
    """One row per method, with its cheapest local steps; the recommended one is marked."""
    how = advice.how if advice.how in ("exact", "estimated") else "not predicted"
    promises = f"promised: {_promised_how(advice)}, with its own step{_pooled(advice)}"
    caption = f"rounds: {how}; {promises}; costs to {advice.target_text}. {advice.resources}."
    table = plain_table(title, caption, spare=("MB ↓", "MB ↑", "gradients", "promised"))
    best = advice.best_of_each()
    heads = [head for head in HEADS if head != "measured" or any(one.measured is not None for one in best)]
    for head in heads:  # names of methods may be long, and are wrapped before figures are cut
        if head == "method":
            table.add_column(head, min_width=LEAST_NAME, overflow="fold")
        else:
            table.add_column(head, justify="right", no_wrap=True)
    colours = [look.colour for look in looks([one.option.known.colour or one.option.name for one in best])]
    for candidate, colour in zip(best, colours, strict=True):
        cells = dict(zip(HEADS, _cells(candidate, colour), strict=True))
        table.add_row(*(cells[head] for head in heads), style="reverse" if _is_best(advice, candidate) else None)
    return table


def _pooled(advice: Advice) -> str:
    return f"; pooled: {POOLED}" if any(one.option.reference for one in advice.best_of_each()) else ""


def _promised_how(advice: Advice) -> str:
    if any(_by_certificate(one) for one in advice.best_of_each()):
        return f"by theorem or {STAR} by certificate"
    return "by theorem"


def _by_certificate(candidate: Candidate) -> bool:
    return candidate.guarantee is not None and candidate.guarantee.bound.certified


def _cells(candidate: Candidate, colour: str = BLACK) -> list[Any]:
    costs = candidate.costs
    return [
        method_cell(candidate.label, colour, candidate.option.reference),
        candidate.local_steps,
        "–" if candidate.step is None else f"{candidate.step:.3g}",
        _predicted(candidate),
        _measured(candidate),
        _promised(candidate.guarantee) + (STAR if _by_certificate(candidate) else ""),
        *(
            ["–"] * 4
            if costs is None
            else [
                f"{costs.bytes_up / 1e6:.3g}",
                f"{costs.bytes_down / 1e6:.3g}",
                f"{costs.gradients:,.0f}",
                duration(costs.seconds),
            ]
        ),
    ]


def _predicted(candidate: Candidate) -> str:
    if candidate.forecast is None:
        return "?"
    if candidate.forecast.rounds is None:
        floor = candidate.forecast.floor
        return f"floor {floor:.0e}" if np.isfinite(floor) else "never"
    return f"{candidate.forecast.rounds:,}"


def _measured(candidate: Candidate) -> str:
    if candidate.measured is None:
        return "–"
    rounds = candidate.measured.rounds
    return f"{rounds:,}" if rounds is not None else f">{candidate.measured.played:,}"


def _promised(guarantee: Guarantee | None) -> str:
    if guarantee is None:
        return "–"
    return "never" if guarantee.rounds is None else f"{guarantee.rounds:,}"


def _is_best(advice: Advice, candidate: Candidate) -> bool:
    best = advice.recommended
    return best is not None and candidate.label == best.label and candidate.local_steps == best.local_steps


def write_csv(advice: Advice, path: Path) -> None:
    """One row per candidate, all local steps."""
    kinds = ("rounds", "bytes_up", "bytes_down", "gradients", "seconds")
    rows: list[list[Any]] = [
        ["label", "local_steps", "prediction", "reaches", "step", "relative_floor"]
        + ["theorem", "theorem_rounds", "certificate", "certified_rounds", "guaranteed_rounds"]
        + [f"{source}_{kind}" for source in ("predicted", "measured") for kind in kinds]
    ]
    for candidate in advice.candidates:
        words = candidate.words()
        costs = [(words[source] or {}).get(kind, "") for source in ("predicted", "measured") for kind in kinds]
        head = [words["label"], candidate.local_steps, words["prediction"], words["reaches"], words["step"]]
        head += [words["relative_floor"], words["theorem"], words["theorem_rounds"]]
        head += [words["certificate"], words["certified_rounds"], words["guaranteed_rounds"]]
        rows.append(["" if entry is None else entry for entry in (*head, *costs)])
    files.write_csv(path, rows)


def page(advice: Advice, title: str, command: str) -> str:
    """The advice as Markdown."""
    lines = [f"# Advice: {title}", "", f"Target: {advice.target_text}. Resources: {advice.resources}.", ""]
    lines += [f"- {sentence}" for sentence in advice.why]
    if command:
        lines += ["", "```sh", command, "```"]
    heads = [*HEADS, "certified", "by theorem"]
    lines += ["", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for candidate in advice.best_of_each():
        cells = [*map(str, _cells(candidate)), _promised(candidate.certified), _promised(candidate.theorem)]
        cells[0] = f"**{cells[0]}**" if _is_best(advice, candidate) else cells[0]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"promised: {_promised_how(advice)}, with its own step; both are in the last columns."]
    return "\n".join([*lines, ""])


def write_figure(advice: Advice, folder: Path, title: str) -> list[Path]:
    """advice.png and advice.svg: the recommended method against its theorem; all methods over virtual time."""

    def draw() -> Figure:
        figure = Figure(figsize=(11.6, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1, 1.15))
        figure.suptitle(title, fontsize=9, color="#333333", parse_math=False)
        _recommended(left, advice)
        _everyone(right, advice)
        return figure

    return save_figure(draw, folder / "advice")


def _recommended(panel: Axes, advice: Advice) -> None:
    best = advice.recommended
    _dress(panel, advice)
    panel.set_xlabel("communication rounds")
    if best is None:
        panel.set_title("no method reaches the target", fontsize=9)
        return
    colour = best.option.known.colour or "#333333"
    heading = f"{best.label}, τ = {best.local_steps}, {best.option.number} = {best.step:.3g}"
    panel.set_title(heading, fontsize=9, parse_math=False)
    relative = advice.goal.column == "gap"
    shown = advice.costs_rounds(best)
    if best.curve is not None:
        panel.plot(
            best.curve[: 2 * shown + 2], color=colour, linestyle="--", linewidth=1.4, label=f"predicted ({best.how})"
        )
    if best.measured is not None:
        values = best.measured.curve / (advice.start if relative else 1)
        panel.plot(values, color=colour, linewidth=1.8, alpha=0.75, label="measured")
    promises = [] if not relative or advice.distance is None else [one for one in (best.certified, best.theorem) if one]
    for promise in promises:
        rounds = int(min(max(4 * shown, 40, 1.2 * (best.guarantee.rounds or 0) if best.guarantee else 0), 4000))
        curve = promise.curve(rounds, advice.start, advice.distance or 0.0, advice.smoothness or 1.0)
        words = promise.theorem if promise.bound.certified else f"promised: {promise.theorem}"
        dash = "-." if promise.bound.certified else ":"
        panel.plot(curve, color="#666666", linewidth=1.2, linestyle=dash, label=words)
        panel.set_xscale("symlog", linthresh=max(2, shown))
        panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlim(left=0)
    panel.legend(fontsize=8, loc="best", edgecolor="none", framealpha=0.85)


def _everyone(panel: Axes, advice: Advice) -> None:
    _dress(panel, advice)
    panel.set_xlabel("virtual seconds")
    relative = advice.goal.column == "gap"
    rows = [c for c in advice.best_of_each() if c.curve is not None or c.measured is not None]
    marks = []
    for candidate, look in zip(rows, looks([c.option.known.colour or c.option.name for c in rows]), strict=True):
        measured = candidate.measured
        values = candidate.curve if measured is None else measured.curve / (advice.start if relative else 1)
        assert values is not None
        arrived = candidate.costs
        stop = len(values) if arrived is None else min(len(values), arrived.rounds + 1)
        values = np.asarray(values[:stop], float)
        times = np.array([candidate.tariff.after(t).seconds for t in range(len(values))])
        kept = np.isfinite(values) & (values > 0) & (values < 1e3 if relative else np.isfinite(values))
        if not np.any(kept):
            continue
        # Round 0 has no place on a logarithmic axis: it stands half a round before the first.
        times[0] = max(times[0], candidate.tariff.after(1).seconds / 2)
        times, values = times[kept], np.maximum(values[kept], panel.get_ylim()[0])
        panel.plot(times, values, color=look.colour, linestyle=look.dash, linewidth=1.4)
        marks.append(
            Mark(f"{candidate.label} τ={candidate.local_steps}", look.colour, float(times[-1]), float(values[-1]))
        )
    panel.set_xscale("log")
    place_labels(panel, marks)


def _dress(panel: Axes, advice: Advice) -> None:
    relative = advice.goal.column == "gap"
    if advice.goal.column != "accuracy":
        panel.set_yscale("log")
    target = advice.goal.value / advice.start if relative else advice.goal.value
    if relative:
        panel.set_ylim(min(target, 0.1) / 10, 10)
    panel.axhline(target, color="#888888", linewidth=0.8)
    panel.annotate(
        "target", (0.01, target), xycoords=("axes fraction", "data"), fontsize=7.5, color="#666666", va="bottom"
    )
    names = {
        "gap": r"relative gap $(f(x_t)-f^\star)\,/\,(f(x_0)-f^\star)$",
        "loss": "loss",
        "accuracy": "test accuracy",
    }
    panel.set_ylabel(names[advice.goal.column])
    panel.grid(visible=True, which="major")
    panel.set_axisbelow(True)
