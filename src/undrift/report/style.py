"""One look for all figures: the same colour for the same method everywhere, safe for colour-blind readers."""

from __future__ import annotations

from typing import Any, NamedTuple

# Okabe and Ito's palette, without its yellow (too light for lines on white); greys for centralised baselines.
COLOURS = {
    "fedlin": "#D55E00",
    "scaffold": "#0072B2",
    "fedavg": "#E69F00",
    "fedprox": "#CC79A7",
    "fednova": "#56B4E9",
    "fedsplit": "#009E73",
    "fedsgd": "#000000",
    "fedtrack": "#7B3294",
    "gd": "#8C8C8C",
    "sgd": "#8C8C8C",
    "iag": "#8C8C8C",
}
OTHERS = ("#882255", "#117733", "#332288", "#999933", "#44AA99", "#661100")
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
CENTRALISED = {"gd", "sgd", "iag"}

RC: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#444444",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.linewidth": 0.4,
    "grid.color": "#E3E3E3",
    "mathtext.fontset": "dejavusans",
    "svg.fonttype": "none",
    "svg.hashsalt": "undrift",
}


class Look(NamedTuple):
    colour: str
    dash: Any
    width: float


def looks(names: list[str]) -> list[Look]:
    """A look for every method, by name; variants of one method share its colour and differ in their dashes."""
    own = [name for name in dict.fromkeys(names) if name not in COLOURS]
    extra = {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(own)}
    seen: dict[str, int] = {}
    found = []
    for name in names:
        variant = seen.get(name, 0)
        seen[name] = variant + 1
        dash = DASHES[(variant + (1 if name in CENTRALISED else 0)) % len(DASHES)]
        found.append(Look(COLOURS.get(name) or extra[name], dash, 1.5))
    return found
