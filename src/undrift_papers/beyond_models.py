"""Past the papers: models compressed in tandem with gradients, on the way up and on the way down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .beyond_difference import LAGS, K, top
from .beyond_draw import BLUE, EVERYONE, GREEN, OCHRE, PURPLE, WINE
from .beyond_problems import Case
from .beyond_runs import (
    Variant,
    best_ratio,
    common,
    contest,
    contracts,
    fewer,
    kinds_of,
    median,
    rows,
    share,
    to_rounding,
)
from .data import Data, Table
from .item import Claim, Decision, Item, at_least, at_most, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NEW = "difference"
NONE, GRADIENTS = "uncompressed", "G up"
FEEDBACK, DIFFERENCE = "G, y up (error feedback)", "G, y up (difference)"
FOUR, FORGETFUL = "all four links (difference)", "G, y up (y without memory)"
FEW_NONE, FEW = "4 of 10: uncompressed", "4 of 10: G, y up (difference)"


def _variant(links: Callable[[Case], dict[str, Any]], everyone: bool = True) -> Variant:
    return Variant(lambda one, eta: ud.fedlin(eta, table=not everyone, **links(one)), everyone)


VARIANTS = {
    NONE: _variant(lambda one: {}),
    GRADIENTS: _variant(lambda one: {"up": top(one, NEW)}),
    FORGETFUL: _variant(lambda one: {"up": top(one, NEW), "up_model": top(one, False)}),
    FEEDBACK: _variant(lambda one: {"up": top(one, NEW), "up_model": top(one, True)}),
    DIFFERENCE: _variant(lambda one: {"up": top(one, NEW), "up_model": top(one, NEW)}),
    FOUR: _variant(lambda one: dict.fromkeys(("up", "up_model", "down", "down_model"), top(one, NEW))),
    FEW_NONE: _variant(lambda one: {}, everyone=False),
    FEW: _variant(lambda one: {"up": top(one, NEW), "up_model": top(one, NEW)}, everyone=False),
}
AGAINST = {FEW: FEW_NONE, **dict.fromkeys((GRADIENTS, FORGETFUL, FEEDBACK, DIFFERENCE, FOUR), NONE)}
COLOURS = {GRADIENTS: BLUE, FORGETFUL: EVERYONE, FEEDBACK: GREEN, DIFFERENCE: PURPLE, FOUR: WINE, FEW: OCHRE}


def _no_floor(names: Sequence[str]) -> Callable[[Data], Decision]:
    """Some step of the grid ends at rounding, for nearly all convex problems."""

    def decide(data: Data) -> Decision:
        found = {name: _solved(data, name) for name in names}
        said = "; ".join(f"{name}: {int(solved.sum())} of {len(solved)}" for name, solved in found.items())
        falling = {name: _solved(data, name, contracts) for name in names}
        slow = "; ".join(f"{name}: {int(some.sum())} of {len(some)}" for name, some in falling.items())
        because = f"problems that end at rounding or still fall with some step: {slow}"
        text = f"problems that end at rounding with some step: {said}"
        return at_least(min(share(solved) for solved in found.values()), 0.98, text, because)

    return decide


def _solved(data: Data, name: str, judge: Callable[[Table], np.ndarray] = to_rounding) -> np.ndarray:
    solved = []
    for kind in [kind for kind in kinds_of(data) if kind != "network"]:
        table = rows(data, kind=kind, variant=name)
        fine = judge(table)
        solved += [bool(np.any(fine[table["problem"] == number])) for number in sorted(set(table["problem"].tolist()))]
    return np.array(solved)


def _networks_go_on(data: Data) -> Decision:
    """With its best step every variant comes as low as without compression, or nearly: within a factor of ten thousand."""
    ends = {}
    for name in (NONE, FEEDBACK, DIFFERENCE, FOUR):
        table = rows(data, kind="network", variant=name)
        numbers = sorted(set(table["problem"].tolist()))
        ends[name] = np.array([np.min(table["end"][table["problem"] == n]) / table["start"][0] for n in numbers])
    said = ", ".join(f"{name} {np.median(end):.0e}" for name, end in ends.items())
    worst = max(float(np.median(end)) for end in ends.values())
    return at_most(worst, 1e-6, f"‖∇f‖² at the end, over that at the start, with the best step (median): {said}")


def _fewer_bytes(names: Sequence[str]) -> Callable[[Data], Decision]:
    """Each with its best step; split by who takes part after the first result."""

    def decide(data: Data) -> Decision:
        found = {
            (name, kind): median(best_ratio(data, "bytes", name, AGAINST[name], kind))
            for name in names
            for kind in kinds_of(data)
        }
        said = "; ".join(
            f"{name}: " + ", ".join(f"{kind} {found[name, kind]:.2f}" for kind in kinds_of(data)) for name in names
        )
        text = f"bytes to the goal over those without compression, best steps (median): {said}"
        return at_most(max(found.values()), 1.0, text, LAGS if FEW in names else None)

    return decide


def _draw(data: Data) -> Figure:
    from .beyond_draw import TITLES, dots
    from .draw import dress, panels

    kinds = kinds_of(data)
    figure, axes = panels(1, len(kinds), width=3.5, height=3.0, sharey=True)
    for axis, kind in zip(axes[0], kinds, strict=True):
        groups = [
            ("", best_ratio(data, "bytes", name, AGAINST[name], kind), colour) for name, colour in COLOURS.items()
        ]
        dots(axis, groups, (0.1, 10.0))
        first = kind == kinds[0]
        dress(axis, TITLES[kind], "", "bytes to the goal / uncompressed" if first else "")
        axis.axhline(1.0, color="#444444", linewidth=0.8)
        axis.set_yticks([0.1, 0.25, 0.5, 1, 2, 4, 10], ["0.1", "¼", "½", "1", "2", "4", "never"])
        axis.minorticks_off()
        axis.set_xticks([])
    for name, colour in COLOURS.items():
        axes[0][0].plot([], [], "o", color=colour, label=name)
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8.5
    )
    return figure


ROUNDS = {"quadratic": 800, "logistic": 400, "network": 700}
ITEM = Item(
    name="beyond/models",
    title="Past the papers: models compressed in tandem with gradients",
    setting=(*common(ROUNDS, [0.2, 0.5, 1.0], 0.5), ours("k", K, "of d = 8, 8 and 26, on every compressed link")),
    reduced=fewer({"quadratic": 800}, [0.2, 0.5]),
    quantity="squared distance to x*, or squared gradient",
    produce=lambda work: contest(work, VARIANTS),
    draw=_draw,
    claims=(
        Claim(
            "compressed models beside compressed gradients leave no floor on convex problems, with everyone",
            _no_floor([FEEDBACK, DIFFERENCE, FOUR]),
            "compressing the models too is named as an extension",
        ),
        Claim("… and with a table under cohorts of 4 of 10", _no_floor([FEW])),
        Claim("on networks they fall to a millionth", _networks_go_on, scales=("paper",)),
        Claim(
            "to the goal they take fewer bytes than uncompressed, with everyone",
            _fewer_bytes([FEEDBACK, DIFFERENCE, FOUR]),
            scales=("paper",),
        ),
        Claim("… and with 4 of 10", _fewer_bytes([FEW]), scales=("paper",)),
    ),
)
ITEMS = (ITEM,)
