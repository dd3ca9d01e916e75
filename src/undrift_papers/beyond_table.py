"""Past the papers: FedLin under partial participation, with a table of the last gradients at the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import undrift as ud

from .beyond_draw import BLUE, EVERYONE, GREEN, PAPER
from .beyond_runs import (
    Variant,
    best_ratio,
    common,
    contest,
    contracts,
    falls_to_rounding,
    fewer,
    has_stopped,
    lower_by,
    median,
    ratio,
    rows,
    share,
    step_range,
)
from .data import Data
from .item import Claim, Decision, Item, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULE, FRESH, KEPT, ALL = "paper's rule, 4 of 10", "table, fresh", "table, kept", "paper's rule, everyone"
VARIANTS = {
    RULE: Variant(lambda one, eta: ud.fedlin(eta)),
    FRESH: Variant(lambda one, eta: ud.fedlin(eta, table=True, correction="fresh")),
    KEPT: Variant(lambda one, eta: ud.fedlin(eta, table=True, correction="kept")),
    ALL: Variant(lambda one, eta: ud.fedlin(eta), everyone=True),
}
COLOURS = {RULE: PAPER, FRESH: BLUE, KEPT: GREEN, ALL: EVERYONE}
GRID = [0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
SAID = [0.05, 0.2, 0.5, 1.0]  # the range in which linear convergence was foreseen


def _ranges(kinds: tuple[str, ...]) -> Callable[[Data], Decision]:
    """Every step of the range that was foreseen works, for fresh and kept corrections."""

    def decide(data: Data) -> Decision:
        cells = {
            (kind, variant, step): share(contracts(rows(data, kind=kind, variant=variant, step=step)))
            for kind in kinds
            for variant in (FRESH, KEPT)
            for step in SAID
        }
        kind, variant, step = worst = min(cells, key=lambda cell: cells[cell])
        ranges = "; ".join(
            f"{kind}: fresh {step_range(data, kind, FRESH)}, kept {step_range(data, kind, KEPT)}" for kind in kinds
        )
        text = (
            f"worst: {kind}, {variant}, η̄ = {step:g}/L: {cells[worst]:.0%}. Steps η̄L at which 95 % still fall: {ranges}"
        )
        everyone = share(contracts(rows(data, kind=kind, variant=ALL, step=step)))
        same = (
            f"with everyone the paper's rule has {everyone:.0%} at this step, so it is these rounds that do not suffice"
        )
        other = f"with everyone the paper's rule has {everyone:.0%} at this step: it is the table that fails"
        return at_least(cells[worst], 0.95, text, same if everyone < 0.95 else other)

    return decide


def _beside_everyone(data: Data) -> Decision:
    """Decided at η̄ = 1/L; how they compare with the best steps is reported."""
    kinds = ("quadratic", "logistic", "network")
    same = {kind: median(ratio(data, "rounds", FRESH, ALL, kind=kind, step=1.0)) for kind in kinds}
    best = {kind: median(best_ratio(data, "rounds", FRESH, ALL, kind)) for kind in kinds}
    said, also = (", ".join(f"{kind} {value:.2f}" for kind, value in found.items()) for found in (same, best))
    text = f"rounds to the goal, 4 of 10 over everyone (median): {said}; each with its best step: {also}"
    return at_most(max(same.values()), 2.0, text)


def _kept_against_fresh(data: Data) -> Decision:
    """Decided at η̄ = 1/L; the other steps are reported."""
    found = {
        (kind, step): median(ratio(data, "rounds", KEPT, FRESH, kind=kind, step=step))
        for kind in ("quadratic", "logistic", "network")
        for step in (0.2, 0.5, 1.0, 2.0)
    }
    said = "; ".join(
        f"η̄ = {step:g}/L: " + ", ".join(f"{kind} {value:.2f}" for (kind, at), value in found.items() if at == step)
        for step in (0.2, 0.5, 1.0, 2.0)
    )
    worst = max(value for (_, step), value in found.items() if step == 1.0)
    return at_most(worst, 1.25, f"rounds to the goal, kept over fresh (median). {said}")


def _draw(data: Data) -> Figure:
    from .beyond_draw import falls_and_steps

    return falls_and_steps(data, COLOURS, {ALL: (0, (5, 1.6))})


ROUNDS = {"quadratic": 1000, "logistic": 800, "network": 1500}
TABLE = Item(
    name="beyond/table",
    title="Past the papers: with a table of the last gradients FedLin has no floor under partial participation",
    setting=common(ROUNDS, GRID, 0.5),
    reduced=fewer({"quadratic": 600}, [0.5, 1.0]),
    quantity="squared distance to x*, or squared gradient",
    produce=lambda work: contest(work, VARIANTS),
    draw=_draw,
    claims=(
        Claim(
            "with g from the last cohort, as in the paper, cohorts of 4 of 10 stop at a floor",
            has_stopped([RULE], 0.5),
            "our analysis does not account for partial client participation",
        ),
        Claim(
            "with a table and fresh corrections convex problems fall to rounding",
            falls_to_rounding([FRESH], [0.5, 1.0]),
        ),
        Claim("with a table and kept corrections they do, too", falls_to_rounding([KEPT], [0.5, 1.0])),
        Claim(
            "with a table every step from 0.05/L to 1/L falls to rounding, or still falls when the rounds end: convex problems",
            _ranges(("quadratic", "logistic")),
            scales=("paper",),
        ),
        Claim("… and networks", _ranges(("network",)), scales=("paper",)),
        Claim(
            "on networks the table ends at least a hundred times lower than the paper's rule",
            lower_by(100, FRESH, RULE, 1.0),
            scales=("paper",),
        ),
        Claim(
            "at η̄ = 1/L it takes less than twice the rounds that the paper's rule takes with everyone",
            _beside_everyone,
            scales=("paper",),
        ),
        Claim(
            "at η̄ = 1/L kept corrections take at most a quarter more rounds than fresh ones",
            _kept_against_fresh,
            scales=("paper",),
        ),
    ),
)
ITEMS = (TABLE,)
