"""Beyond the papers: sequential FL with control variates, on the SSL paper's pairs of quadratics.

The SSL paper names corrections in the manner of SCAFFOLD as future work. `ud.sequential_fl(corrected=True)` is ours: here it is
run on the nine groups of the paper's table 6, beside the methods with and without correction, in turn and in parallel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Curves, Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper, reduced
from .measures import rounds_to
from .ssl import GROUPS, group, title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, CORRECTED, PARALLEL, SCAFFOLD = "sequential FL", "sequential FL, corrected", "FedAvg", "SCAFFOLD"
METHODS: dict[str, tuple[str, dict[str, list[Any]]]] = {
    PARALLEL: ("fedavg", {}),
    SCAFFOLD: ("scaffold", {}),
    PLAIN: ("sequential_fl", {}),
    CORRECTED: ("sequential_fl", {"corrected": [True]}),
}
LOOKS = {PARALLEL: "fedavg", SCAFFOLD: "scaffold", PLAIN: "sequential_fl", CORRECTED: "fedlin"}
CLOSE = 1e-6  # of the first distance: what rounds are counted to


def swept(label: str, problem: Any, etas: list[float], **arguments: Any) -> dict[str, np.ndarray]:
    """The history of a method over a grid of step sizes: (step sizes, seeds, rounds + 1) each."""
    name, settings = METHODS[label]
    found = ud.sweep(getattr(ud, name), problem, grid={"eta": etas, **settings}, **arguments)
    return {column: _without_settings(values, len(settings)) for column, values in found.history.items()}


def _without_settings(values: np.ndarray, settings: int) -> np.ndarray:
    return values.reshape(values.shape[0], *values.shape[1 + settings :])


def _produce(work: Work) -> Data:
    """All methods over the grid of step sizes, for every group; the best step is drawn."""
    curves, ends = Curves(), []
    for i, number in enumerate(work["groups"]):
        problem = group(number)
        for j, label in enumerate(METHODS):
            history = swept(
                label, problem, work["eta"], seeds=work["seeds"], rounds=work["rounds"], steps=work["K"],
                x0=np.array([work["x_0"]]),
            )  # fmt: skip
            distance = np.sqrt(history["sq_distance"])
            distance = np.where(np.isfinite(distance), distance, np.inf)
            last = distance[..., -work["last"] :].mean(axis=(1, 2))
            for k, eta in enumerate(work["eta"]):
                needed = np.median([rounds_to(own, CLOSE) for own in distance[k]])
                ends.append((number, label, eta, float(last[k]), float(needed)))
            best = int(np.argmin(last))
            drawn = np.arange(0, work["rounds"] + 1, 2)
            for s, seed in enumerate(work["seeds"]):
                curves.add(title(number), label, distance[best, s, drawn], seed=seed, round=drawn)
            work.progress(f"group {number}, {label}", i * len(METHODS) + j + 1, len(work["groups"]) * len(METHODS))
    names = ("group", "series", "eta", "distance", "rounds")
    return Data(
        {"curves": curves.table(), "ends": dict(zip(names, zip(*ends, strict=True), strict=True))}, seeds=work["seeds"]
    )


def _ends(data: Data, number: int, label: str, column: str = "distance") -> np.ndarray:
    """Of every step size, in the grid's order."""
    return data.where("ends", group=number, series=label)[column].astype(float)


def _listed(values: dict[int, float]) -> str:
    return ", ".join(f"{value:.1e}" for value in values.values())


def _arrives(data: Data) -> Decision:
    best = {g: float(_ends(data, g, CORRECTED).min()) for g in data.setting["groups"]}
    return at_most(max(best.values()), 1e-9, f"|x − x*| at the best step, group by group: {_listed(best)}")


def _floor(data: Data) -> Decision:
    best = {g: float(_ends(data, g, PLAIN).min()) for g in data.setting["groups"]}
    return at_least(min(best.values()), 1e-6, f"|x − x*| at the best step, group by group: {_listed(best)}")


def _same_step(data: Data) -> Decision:
    """At the step that is best for the paper's algorithm."""
    ratios, places = {}, []
    for g in data.setting["groups"]:
        at = int(np.argmin(_ends(data, g, PLAIN)))
        places.append(at)
        ratios[g] = float(_ends(data, g, PLAIN)[at] / max(_ends(data, g, CORRECTED)[at], 1e-15))
    why = "that step is the smallest of the grid, with which the corrected run is still on its way after so many rounds"
    said = f"nearer by the factors {_listed(ratios)}"
    return at_least(min(ratios.values()), 100, said, why if not any(places) else None)


def _beside_scaffold(data: Data) -> Decision:
    rounds = {
        g: (float(_ends(data, g, CORRECTED, "rounds").min()), float(_ends(data, g, SCAFFOLD, "rounds").min()))
        for g in data.setting["groups"]
    }
    said = ", ".join(f"{own:g} and {other:g} (group {g})" for g, (own, other) in rounds.items())
    ratio = min(other / own for own, other in rounds.values())
    alike = all(GROUPS[g][0] == GROUPS[g][1] for g, (own, other) in rounds.items() if own > other)
    why = "it needs more only where both clients have the same Hessian, and the mean of their steps is exact"
    measured = f"rounds to {CLOSE:g} of the first distance, ours and SCAFFOLD: {said}"
    return at_least(ratio, 1, measured, why if alike else None)


def _widths(data: Data) -> Decision:
    """How many steps of the grid lead to x*, ours and SCAFFOLD."""
    counts = {
        g: [int(np.sum(np.isfinite(_ends(data, g, label, "rounds")))) for label in (CORRECTED, SCAFFOLD)]
        for g in data.setting["groups"]
    }
    said = ", ".join(f"{own} and {other} (group {g})" for g, (own, other) in counts.items())
    least = min(own / max(other, 1) for own, other in counts.values())
    return at_least(least, 1, f"of {len(data.setting['eta'])} step sizes reach {CLOSE:g}, ours and SCAFFOLD: {said}")


def _draw(data: Data) -> Figure:
    from .draw import curves_figure

    return curves_figure(
        data, y_label=r"$|x^r - x^\star|$", methods=LOOKS, columns=3, share_y=False, bottom=1e-16, height=2.5
    )


def _item(draw: Callable[[Data], Figure]) -> Item:
    return Item(
        name="beyond/sequence",
        title="Beyond: sequential FL with control variates on the SSL paper's nine pairs of quadratics",
        setting=(
            paper("groups", list(GROUPS), "SSL paper, table 6"),
            paper("K", 10, "local steps"),
            paper("eta", [0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 0.6], "grid of step sizes"),
            paper("seeds", [0, 1, 2, 3, 4], "five; their numbers are ours"),
            ours("rounds", 200),
            ours("last", 10, "a step is best if the mean |x − x*| over seeds and over so many last rounds is smallest"),
            ours("x_0", 10.0),
        ),
        reduced=(reduced("groups", [4, 7]), reduced("seeds", [0])),
        quantity="|x − x*|",
        produce=_produce,
        draw=draw,
        claims=(
            Claim("corrected, it reaches x* in every group", _arrives, None),
            Claim("the paper's sequential FL keeps a floor in every group, at every step of the grid", _floor, None),
            Claim("at the step that is best without it, the correction brings x 100 times nearer", _same_step, None),
            Claim("at their best steps it needs no more rounds than SCAFFOLD", _beside_scaffold, None),
            Claim("it takes as many of the step sizes as SCAFFOLD", _widths, None),
        ),
    )


ITEMS = (_item(_draw),)
