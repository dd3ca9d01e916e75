"""One look for all figures, tables and pages: the same colour for the same method everywhere, safe for colour-blind readers.

A method has the colour of its record. Its variants (another compressor, another setting) have it too and differ in their
dashes, from the fifth on also in their shade. Short thin dashes are what is promised. A user's method has the colour that its
record gives it, or one that follows from its name.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .colours import SHADES, shade

OTHERS = ("#5D3A9B", "#1A85FF", "#D41159", "#40B0A6", "#994F00", "#4B7B0B")  # of users' methods
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 1.6),
    (6, 1.6, 1.2, 1.6),
    (6, 1.6, 1.2, 1.6, 1.2, 1.6),
)  # in widths of the line

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
    """Those of the records: Okabe and Ito's palette without its yellow (too light for lines on white), then Paul Tol's."""
    from ..theory.methods import KNOWN  # which needs JAX, and a process that only draws does not ask

    return {name: known.colour for name, known in KNOWN.items() if known.colour is not None}


class Look(NamedTuple):
    """How a curve is drawn: its colour, its dashes as Matplotlib takes them, its width."""

    colour: str
    dash: Any
    width: float

    @property
    def variant(self) -> int:
        """Which of the dashes it has; 0: none."""
        return next((i for i in range(len(DASHES)) if _linestyle(DASHES[i]) == self.dash), 0)


def colour_of(method: str) -> str | None:
    """The colour of a method by its name; a user's method stands for itself with the colour that its record gives it.

    >>> colour_of("fedlin"), colour_of("#882255"), colour_of("mine")
    ('#D55E00', '#882255', None)
    """
    return method if method.startswith("#") else colours().get(method)


def looks(methods: Sequence[str], given: Sequence[Look | None] = ()) -> list[Look]:
    """A look for every method, by name or colour; no two are the same as long as there are looks.

    `given`: looks that some of them have already.

    >>> first, second = looks(["fedlin", "fedlin"])
    >>> first.colour == second.colour, first.dash, second.dash
    (True, '-', (0, (6, 1.6)))
    """
    found: list[Look | None] = list(given) or [None] * len(methods)
    bases = {name: colour for name in methods if (colour := colour_of(name)) is not None}
    bases |= {
        name: look.colour for name, look in zip(methods, found, strict=True) if look is not None and name not in bases
    }
    for name in methods:
        if name not in bases:
            bases[name] = _own_colour(name, set(bases.values()))
    taken = {look for look in found if look is not None}
    for i, name in enumerate(methods):
        if found[i] is None:
            found[i] = next(
                (look for look in _variants(bases[name]) if look not in taken), Look(bases[name], "-", WIDTH)
            )
            taken.add(found[i] or Look(bases[name], "-", WIDTH))
    return [look for look in found if look is not None]


WIDTH = 1.5


def _variants(colour: str) -> Iterator[Look]:
    for number in range(len(SHADES)):
        for dash in DASHES:
            yield Look(shade(colour, number), _linestyle(dash), WIDTH)


def _linestyle(dash: tuple[float, ...]) -> Any:
    return (0, dash) if dash else "-"


def _own_colour(name: str, taken: set[str]) -> str:
    """A colour that follows from the name, or the next one that nobody has."""
    start = zlib.crc32(name.encode()) % len(OTHERS)
    wanted = [*OTHERS[start:], *OTHERS[:start], *colours().values()]
    return next((colour for colour in wanted if colour not in taken), wanted[0])
