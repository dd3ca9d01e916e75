"""A lane per client: its loss and its accuracy over the rounds, on one scale for all. Plain HTML and SVG, no script."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..measures import ACCURACY, LOSS, PER_SAMPLE, value_text

if TYPE_CHECKING:  # both need JAX, without which the board shows lanes
    from ...engine.history import Result
    from ..clients import Clients

POINTS = 240  # of a curve
MOST = 100  # lanes; more would be no picture
LANES: dict[str, Any] = {"title": ..., "note": "", "lanes": ...}
LANE: dict[str, Any] = {"name": ..., "mark": "", "samples": None, "steps": None, "rounds": ..., "curves": ...}
TITLES = {LOSS: "loss", PER_SAMPLE: "loss per sample", ACCURACY: "right"}
WIDTH, HEIGHT, EDGE = 220.0, 36.0, 3.0


def lanes_of(result: Result, served: Clients) -> dict[str, Any] | None:
    """The entry of a page's document, worst client first; None where the rounds of single clients were not recorded."""
    if LOSS not in result.clients or served.roll.clients < 2 or served.roll.clients > MOST:
        return None
    rows = {LOSS: result.clients[LOSS]}
    if PER_SAMPLE in served.values and served.roll.samples is not None:
        rows = {PER_SAMPLE: result.clients[LOSS] / served.roll.samples}
    if ACCURACY in result.clients:
        rows[ACCURACY] = result.clients[ACCURACY]
    measured = np.flatnonzero(np.isfinite(result.clients[LOSS]).any(axis=1))
    picked = measured[np.unique(np.linspace(0, len(measured) - 1, POINTS).round().astype(int))]
    silent = [i for i in range(served.roll.clients) if i not in set(served.order.tolist())]
    return {
        "title": "A lane per client",
        "note": f"{served.sentence()[:1].upper()}{served.sentence()[1:]}. Worst first; one scale for all.",
        "lanes": [_lane(client, served, picked, rows) for client in [*map(int, served.order), *silent]],
    }


def _lane(client: int, served: Clients, picked: np.ndarray, rows: Mapping[str, np.ndarray]) -> dict[str, Any]:
    entry = served.entry(client)
    marks = {served.best: "best", served.worst: "worst"}
    return {
        "name": entry["name"],
        "mark": marks.get(client, ""),
        "samples": entry.get("samples"),
        "steps": entry.get("steps"),
        "rounds": picked.tolist(),
        "curves": {name: [_plain(value) for value in table[picked, client]] for name, table in rows.items()},
    }


def _plain(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


# ----- HTML
def lanes_html(entry: Mapping[str, Any]) -> str:
    """The lanes as a table: name, size, τ, and for every measure its curve and its end."""
    from .parts import text  # which shows this table among others

    lanes = entry["lanes"]
    measures = list(lanes[0]["curves"])
    heads = [("client", "")]
    heads += [(head, "number") for key, head in (("samples", "samples"), ("steps", "τ")) if lanes[0][key] is not None]
    heads += [(TITLES.get(name, name), "curve") for name in measures]
    head = "".join(f'<th scope="col"{f" class={kind}" if kind else ""}>{text(title)}</th>' for title, kind in heads)
    scales = {name: Scale.of(name, [lane["curves"][name] for lane in lanes]) for name in measures}
    body = "".join(_row(lane, scales, text) for lane in lanes)
    title = text(entry["title"])
    note = f'<p class="note">{text(entry["note"])}</p>' if entry["note"] else ""
    return (
        f'<div class="card lanes"><h3>{title}</h3>{note}<div class="scroll" tabindex="0" role="region" aria-label="{title}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _row(lane: Mapping[str, Any], scales: Mapping[str, Scale], text: Any) -> str:
    mark = f' <span class="lane-mark {lane["mark"]}">{lane["mark"]}</span>' if lane["mark"] in ("worst", "best") else ""
    cells = f'<th scope="row">{text(lane["name"])}{mark}</th>'
    cells += "".join(
        f'<td class="number">{text(lane[key])}</td>' for key in ("samples", "steps") if lane[key] is not None
    )
    for name, scale in scales.items():
        cells += f'<td class="curve">{_curve(lane, name, scale, text)}</td>'
    return f"<tr>{cells}</tr>"


def _curve(lane: Mapping[str, Any], name: str, scale: Scale, text: Any) -> str:
    rounds, values = lane["rounds"], lane["curves"][name]
    known = [(t, value) for t, value in zip(rounds, values, strict=True) if value is not None]
    if not known:
        return '<span class="muted">no answer</span>'
    first, last = known[0], known[-1]
    said = (
        f"{lane['name']}: {TITLES.get(name, name)} {value_text(name, first[1])} in round {first[0]}, "
        f"{value_text(name, last[1])} in round {last[0]}"
    )
    most = max(rounds[-1], 1)
    points = " ".join(f"{EDGE + (WIDTH - 2 * EDGE) * t / most:.1f},{scale.at(value):.1f}" for t, value in known)
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" aria-label="{text(said)}" preserveAspectRatio="none"><title>'
        f'{text(said)}</title><polyline points="{points}"/></svg><span class="end">{text(value_text(name, last[1]))}</span>'
    )


class Scale:
    """Where a value stands in a lane: logarithmic for losses that are all positive, else linear."""

    def __init__(self, low: float, high: float, log: bool) -> None:
        self.low, self.high, self.log = low, high, log

    @classmethod
    def of(cls, name: str, curves: Sequence[Sequence[float | None]]) -> Scale:
        values = [value for curve in curves for value in curve if value is not None] or [0.0]
        log = name != ACCURACY and min(values) > 0 and max(values) > 3 * min(values)
        high = 1.0 if name == ACCURACY else max(values)
        return cls(min(values), high, log)

    def at(self, value: float) -> float:
        """Its height, 0 on top.

        >>> Scale(1.0, 100.0, log=True).at(10.0) == HEIGHT / 2
        True
        """
        low, high, value = (
            (math.log(one) for one in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        share = (value - low) / (high - low) if high > low else 0.5
        return HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * share
