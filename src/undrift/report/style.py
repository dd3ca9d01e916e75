"""One look for all figures: the same colour for the same method everywhere, safe for colour-blind readers."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

OTHERS = ("#882255", "#117733", "#332288", "#999933", "#44AA99", "#661100")
DASHES = ("-", (0, (5, 1.6)), (0, (1.2, 1.4)), (0, (6, 1.5, 1.2, 1.5)))

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


@functools.cache
def colours() -> dict[str, str]:
    """Those of the records: Okabe and Ito's palette, without its yellow (too light for lines on white)."""
    from ..theory.methods import KNOWN  # which needs JAX, and a process that only draws does not ask

    return {name: known.colour for name, known in KNOWN.items() if known.colour is not None}


class Look(NamedTuple):
    colour: str
    dash: Any
    width: float


def colour_of(method: str) -> str | None:
    """The colour of a method by its name; a user's method stands for itself with the colour that its record gives it.

    >>> colour_of("fedlin"), colour_of("#882255"), colour_of("mine")
    ('#D55E00', '#882255', None)
    """
    return method if method.startswith("#") else colours().get(method)


def looks(methods: list[str]) -> list[Look]:
    """A look for every method, by name or colour; variants of one method share its colour and differ in their dashes."""
    from ..theory.methods.centralised import GREY  # of methods that hold all data in one place

    own = [name for name in dict.fromkeys(methods) if colour_of(name) is None]
    extra = {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(own)}
    seen: dict[str, int] = {}
    found = []
    for name in methods:
        variant = seen.get(name, 0)
        seen[name] = variant + 1
        colour = colour_of(name) or extra[name]
        dash = DASHES[(variant + (1 if colour == GREY else 0)) % len(DASHES)]
        found.append(Look(colour, dash, 1.5))
    return found
