"""Past the papers: sparse up-links without a floor, by sending what is new (EF21) instead of what was withheld."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .beyond_draw import EVERYONE, PAPER, WINE
from .beyond_problems import MEASURES, Case
from .beyond_runs import (
    Variant,
    best_at_most,
    common,
    contest,
    falls_to_rounding,
    fewer,
    has_stopped,
    kinds_of,
    lower_by,
    rows,
)
from .data import Data
from .item import Claim, Decision, Item, at_least, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

K = {"quadratic": 2, "logistic": 2, "network": 6}  # of 8, 8 and 26


def top(one: Case, memory: Any) -> Any:
    """TOP-k with this memory; k by kind."""
    return ud.top_k(K[one.kind], memory=memory)


ALL, FEW = "everyone", "4 of 10, table"
NONE, FEEDBACK, DIFFERENCE = "uncompressed", "TOP-k, error feedback (paper)", "TOP-k, difference"
COLOURS = {NONE: EVERYONE, FEEDBACK: PAPER, DIFFERENCE: WINE}


def _named(memory: str, who: str) -> str:
    return f"{memory}, {who}"


def _variant(memory: Any, everyone: bool) -> Variant:
    def make(one: Case, eta: float) -> Any:
        up = None if memory is None else top(one, memory)
        return ud.fedlin(eta, up=up, table=not everyone)

    return Variant(make, everyone)


MEMORIES = {NONE: None, FEEDBACK: True, DIFFERENCE: "difference"}
VARIANTS = {
    _named(name, who): _variant(memory, who == ALL)
    for who, (name, memory) in itertools.product((ALL, FEW), MEMORIES.items())
}


def _grows_with_the_step(data: Data) -> Decision:
    """Theorem 8's floor is proportional to η̄."""
    name = _named(FEEDBACK, ALL)
    found = {}
    for kind in [kind for kind in kinds_of(data) if kind != "network"]:
        low, high = (rows(data, kind=kind, variant=name, step=step)["end"] for step in (0.2, 1.0))
        found[kind] = float(np.median(high / low))
    said = ", ".join(f"{kind} {factor:.1f}" for kind, factor in found.items())
    return at_least(min(found.values()), 2, f"floor at η̄ = 1/L over floor at 0.2/L (median): {said}")


LAGS = "a client's h_i becomes k entries newer only when it takes part, so that under cohorts g lags behind"


def _costs(who: str) -> tuple[Claim, Claim]:
    """What compression costs and saves, each with its best step; split by who takes part after the first result."""
    pair, because = [(_named(DIFFERENCE, who), _named(NONE, who))], LAGS if who == FEW else None
    return (
        Claim(
            f"to the goal it takes at most half as many rounds again as without compression: {who}",
            best_at_most(1.5, "rounds", pair, because),
            scales=("paper",),
        ),
        Claim(
            f"and no more bytes, although models still travel whole: {who}",
            best_at_most(1.0, "bytes", pair, because),
            scales=("paper",),
        ),
    )


def _draw(data: Data) -> Figure:
    from .beyond_draw import TITLES, spread_curve
    from .draw import dress, legend, panels

    kinds = kinds_of(data)
    figure, axes = panels(2, len(kinds), width=3.6, height=2.4, sharex="col")
    for row, who in enumerate((ALL, FEW)):
        for column, kind in enumerate(kinds):
            axis = axes[row][column]
            for name in MEMORIES:
                spread_curve(axis, data, kind, _named(name, who), COLOURS[name])
                axis.lines[-1].set_label(name)
            k = f"TOP-{K[kind]} of {26 if kind == 'network' else 8}"
            title = "network" if kind == "network" else TITLES[kind]
            dress(axis, f"{title}, {k}: {who}", "communication rounds" if row else "", MEASURES[kind])
    legend(figure, axes)
    return figure


ROUNDS = {"quadratic": 800, "logistic": 600, "network": 1000}
ITEM = Item(
    name="beyond/difference",
    title="Past the papers: TOP-k at the clients has no floor where differences are sent",
    setting=(*common(ROUNDS, [0.2, 0.5, 1.0], 0.5), ours("k", K, "of d = 8, 8 and 26")),
    reduced=fewer({"quadratic": 600}, [0.5, 1.0]),
    quantity="squared distance to x*, or squared gradient",
    produce=lambda work: contest(work, VARIANTS),
    draw=_draw,
    claims=(
        Claim(
            "with error feedback at the clients, as in the paper, FedLin stops at a floor",
            has_stopped([_named(FEEDBACK, ALL)], 0.5),
            "Theorem 8: linear convergence to a neighbourhood",
        ),
        Claim("the floor of error feedback grows with η̄", _grows_with_the_step, "Theorem 8", scales=("paper",)),
        Claim(
            "with difference memory convex problems fall to rounding, with everyone",
            falls_to_rounding([_named(DIFFERENCE, ALL)], [0.5]),
        ),
        Claim("… and with a table under cohorts of 4 of 10", falls_to_rounding([_named(DIFFERENCE, FEW)], [0.5])),
        Claim(
            "a table alone does not help error feedback: with 4 of 10 it stops as well",
            has_stopped([_named(FEEDBACK, FEW)], 0.5),
        ),
        Claim(
            "on networks differences end at least a hundred times lower than error feedback, with everyone",
            lower_by(100, _named(DIFFERENCE, ALL), _named(FEEDBACK, ALL), 1.0),
            scales=("paper",),
        ),
        Claim(
            "… and with 4 of 10",
            lower_by(100, _named(DIFFERENCE, FEW), _named(FEEDBACK, FEW), 1.0),
            scales=("paper",),
        ),
        *(claim for who in (ALL, FEW) for claim in _costs(who)),
    ),
)
ITEMS = (ITEM,)
