"""Past the papers: FedLin under partial participation, with a table of the last gradients at the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import undrift as ud

from .beyond_draw import BLUE, EVERYONE, GREEN, PAPER
from .beyond_runs import (
    Variant,
    common,
    contest,
    contracts,
    fewer,
    kinds_of,
    median_ratio_at_most,
    ratio,
    rows,
    settled,
    share,
    step_range,
    steps_of,
    to_rounding,
)
from .data import Data
from .item import Claim, Decision, Item, at_least

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
CONVEX = ["quadratic", "logistic"]
GRID = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0]
SAID = [0.05, 0.1, 0.2, 0.5, 1.0]  # the range in which linear convergence was foreseen


def _stops(data: Data) -> Decision:
    """Where the paper's rule ends, far above rounding."""
    table = rows(data, variant=RULE, step=0.5)
    stopped = ~contracts(table)
    ends = {kind: float(np.median(rows(data, kind=kind, variant=RULE, step=0.5)["end"])) for kind in kinds_of(data)}
    said = ", ".join(f"{kind} {end:.1e}" for kind, end in ends.items())
    text = f"{int(stopped.sum())} of {len(stopped)} runs at η̄ = 0.5/L have stopped falling; median floors: {said}"
    return at_least(share(stopped), 0.9, text)


def _falls(variant: str, data: Data) -> Decision:
    found = {step: to_rounding(_convex(data, variant, step)) for step in (0.5, 1.0)}
    said = ", ".join(f"{int(f.sum())} of {len(f)} at η̄ = {step:g}/L" for step, f in found.items())
    return at_least(min(share(f) for f in found.values()), 0.98, f"problems that end at rounding: {said}")


def _convex(data: Data, variant: str, step: float) -> dict[str, np.ndarray]:
    table = rows(data, variant=variant, step=step)
    keep = np.isin(table["kind"], CONVEX)
    return {name: column[keep] for name, column in table.items()}


def _network_goes_on(data: Data) -> Decision:
    lower = 1 / ratio(data, "end", FRESH, RULE, kind="network", step=1.0)
    text = f"at η̄ = 1/L the table ends lower by the factors {np.min(lower):.1e} (least), {np.median(lower):.1e} (median)"
    return at_least(float(np.percentile(lower, 5)), 100, text + f", {np.percentile(lower, 5):.1e} or more in 95 % of the problems")


def _as_with_everyone(data: Data) -> Decision:
    """Rounds to the goal: 4 of 10 cannot be much faster than everyone; how much slower are they?"""
    return median_ratio_at_most(
        2.0, "rounds", FRESH, ALL, "rounds to the goal, 4 of 10 against everyone (median ratio)", step=1.0
    )(data)


def _ranges(data: Data) -> Decision:
    """Every step of the range works, for fresh and kept, for all kinds."""
    said = [step for step in steps_of(data) if step in SAID]
    cells = {
        (kind, variant, step): share(contracts(rows(data, kind=kind, variant=variant, step=step)))
        for kind in kinds_of(data)
        for variant in (FRESH, KEPT)
        for step in said
    }
    worst = min(cells, key=lambda cell: cells[cell])
    ranges = "; ".join(
        f"{kind}: fresh {step_range(data, kind, FRESH)}, kept {step_range(data, kind, KEPT)}" for kind in kinds_of(data)
    )
    text = f"worst case {' '.join(map(str, worst))}: {cells[worst]:.0%}. Steps η̄L at which 95 % still fall: {ranges}"
    return at_least(cells[worst], 0.95, text)


def _draw(data: Data) -> Figure:
    from .beyond_draw import falls_and_steps

    return falls_and_steps(data, COLOURS, {ALL: (0, (5, 1.6))})


ROUNDS = {"quadratic": 1000, "logistic": 1000, "network": 2000}
TABLE = Item(
    name="beyond/table",
    title="Past the papers: with a table of the last gradients FedLin has no floor under partial participation",
    setting=common(ROUNDS, GRID, 0.5),
    reduced=fewer({"quadratic": 600, "logistic": 600, "network": 600}, [0.5, 1.0]),
    quantity="squared distance to x*, or squared gradient",
    produce=lambda work: contest(work, VARIANTS),
    draw=_draw,
    claims=(
        Claim(
            "with g from the last cohort, as in the paper, cohorts of 4 of 10 stop at a floor",
            _stops,
            "our analysis does not account for partial client participation",
        ),
        Claim("with a table and fresh corrections convex problems fall to rounding", lambda data: _falls(FRESH, data)),
        Claim("with a table and kept corrections they do, too", lambda data: _falls(KEPT, data)),
        Claim(
            "every run with a table that ends at rounding in time does so at the steps from 0.05/L to 1/L, or still falls",
            _ranges,
            scales=("paper",),
        ),
        Claim(
            "on networks the table ends at least a hundred times lower than the paper's rule",
            _network_goes_on,
            scales=("paper",),
        ),
        Claim(
            "it takes less than twice the rounds that the paper's rule takes with everyone",
            _as_with_everyone,
            scales=("paper",),
        ),
        Claim(
            "kept corrections take at most a quarter more rounds than fresh ones",
            median_ratio_at_most(1.25, "rounds", KEPT, FRESH, "rounds, kept against fresh (median ratio)", step=1.0),
            scales=("paper",),
        ),
    ),
)
ITEMS = (TABLE,)
