"""Past the papers: FedTrack under partial participation and with sparse up-links, by the means that help FedLin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import undrift as ud

from .beyond_difference import K, top
from .beyond_draw import BLUE, EVERYONE, GREEN, PAPER, PURPLE, WINE
from .beyond_problems import MEASURES, Case
from .beyond_runs import Variant, common, contest, falls_to_rounding, fewer, has_stopped, kinds_of, median_ratio_at_most
from .data import Data
from .item import Claim, Item, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

H = 10
ALL, RULE, TABLE = "paper's rule, everyone", "paper's rule, 4 of 10", "table, 4 of 10"
FEEDBACK, DIFFERENCE = "TOP-2, error feedback, everyone", "TOP-2, difference, everyone"
BOTH = "TOP-2, difference, table, 4 of 10"


def _variant(everyone: bool, memory: Any = None, table: bool = False) -> Variant:
    def make(one: Case, eta: float) -> Any:
        return ud.fedtrack(eta / H, up=None if memory is None else top(one, memory), table=table)

    return Variant(make, everyone, steps=H)


VARIANTS = {
    ALL: _variant(True),
    RULE: _variant(False),
    TABLE: _variant(False, table=True),
    FEEDBACK: _variant(True, memory=True),
    DIFFERENCE: _variant(True, memory="difference"),
    BOTH: _variant(False, memory="difference", table=True),
}
COLOURS = {ALL: EVERYONE, RULE: PAPER, TABLE: BLUE, FEEDBACK: GREEN, DIFFERENCE: PURPLE, BOTH: WINE}


def _draw(data: Data) -> Figure:
    from .beyond_draw import TITLES, spread_curve
    from .draw import dress, legend, panels

    kinds = kinds_of(data)
    figure, axes = panels(1, len(kinds), width=4.4, height=3.0)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for name, colour in COLOURS.items():
            spread_curve(axis, data, kind, name, colour, "-" if name not in (RULE, FEEDBACK) else (0, (5, 1.6)))
        dress(
            axis, f"FedTrack, {TITLES[kind]}, ηH = {data.setting['drawn at']}/L", "communication rounds", MEASURES[kind]
        )
    legend(figure, axes, columns=3)
    return figure


ITEM = Item(
    name="beyond/fedtrack",
    title="Past the papers: FedTrack with a table and with sparse up-links",
    setting=(
        *common({"quadratic": 500, "logistic": 400}, [0.2, 0.5], 0.5),
        ours(
            "H", H, "local steps of all clients; η = η̄/H, the components of a client are its 24 samples in cyclic order"
        ),
        ours("k", {kind: K[kind] for kind in ("quadratic", "logistic")}, "of d = 8"),
    ),
    reduced=fewer({"quadratic": 600}, [0.5]),
    quantity="squared distance to x*",
    produce=lambda work: contest(work, VARIANTS),
    draw=_draw,
    claims=(
        Claim(
            "with g from the last cohort FedTrack stops at a floor under cohorts of 4 of 10", has_stopped([RULE], 0.5)
        ),
        Claim("with a table it falls to rounding", falls_to_rounding([TABLE], [0.5])),
        Claim("with error feedback at the clients it stops at a floor", has_stopped([FEEDBACK], 0.5)),
        Claim("with difference memory it falls to rounding", falls_to_rounding([DIFFERENCE], [0.5])),
        Claim("with both, too", falls_to_rounding([BOTH], [0.5])),
        Claim(
            "with a table and TOP-2, 4 of 10 take less than twice the rounds of everyone without either",
            median_ratio_at_most(2.0, "rounds", BOTH, ALL, "rounds to the goal (median ratio)", step=0.5),
            scales=("paper",),
        ),
    ),
)
ITEMS = (ITEM,)
