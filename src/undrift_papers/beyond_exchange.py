"""Past the papers: FedLin with one exchange a round in place of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .beyond_problems import COHORT, DIM, Case
from .beyond_runs import (
    COSTS,
    Variant,
    best_at_most,
    best_ratio,
    cases,
    common,
    contest,
    contracts,
    falls_to_rounding,
    fewer,
    kinds_of,
    lower_by,
    rows,
    share,
    short_number,
    step_range,
)
from .data import Data
from .item import Claim, Decision, Item, Work, at_least, at_most, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TWO, ONE = "two exchanges, everyone", "one exchange, everyone"
TWO_OF_FEW, ONE_OF_FEW = "two exchanges, 4 of 10", "one exchange, 4 of 10"
RULE = "paper's rule, 4 of 10"
VARIANTS = {
    TWO: Variant(lambda one, eta: ud.fedlin(eta), everyone=True),
    ONE: Variant(lambda one, eta: ud.fedlin(eta, exchanges=1), everyone=True),
    TWO_OF_FEW: Variant(lambda one, eta: ud.fedlin(eta, table=True)),
    ONE_OF_FEW: Variant(lambda one, eta: ud.fedlin(eta, table=True, exchanges=1)),
    RULE: Variant(lambda one, eta: ud.fedlin(eta)),
}
PAIRS = ((ONE, TWO), (ONE_OF_FEW, TWO_OF_FEW))


def _produce(work: Work) -> Data:
    data = contest(work, VARIANTS)
    steps = work["equal steps"]
    found = []
    for one in cases(work, "quadratic"):
        for who in (None, ud.plan.uniform(COHORT)):
            found.append((one.number, who is None, _apart(one, steps, work["rounds beside SCAFFOLD"], who)))
        work.progress("beside SCAFFOLD", len(found), 2 * work["problems"])
    table = dict(zip(("problem", "everyone", "apart"), zip(*found, strict=True), strict=True))
    return Data({**data.tables, "scaffold": table}, data.seeds)


def _apart(one: Case, steps: int, rounds: int, who: Any) -> float:
    """The largest ‖x_t − x_t′‖/‖x_t‖ of FedLin with one exchange, from g = 0, and of SCAFFOLD's option 1 with steps η̄/τ."""
    eta = 0.5 / one.L
    methods = (
        ud.fedlin(eta, table=True, exchanges=1, first_direction=(0.0,) * DIM),
        ud.scaffold(eta / steps, option=1),
    )
    common: dict[str, Any] = {"rounds": rounds, "steps": steps, "seed": one.number, "keep_iterates": True}
    x, y = (np.asarray(ud.run(method, one.problem, participation=who, **common).iterates)[1:] for method in methods)
    return short_number(float(np.max(np.linalg.norm(x - y, axis=1) / np.linalg.norm(x, axis=1))))


def _equal(data: Data) -> Decision:
    worst = float(np.max(data["scaffold"]["apart"]))
    text = f"‖x_t − x_t′‖ ≤ {worst:.0e}·‖x_t‖ in all rounds of {len(data['scaffold']['apart'])} pairs of runs"
    return at_most(worst, 1e-10, text)


def _ranges(data: Data) -> Decision:
    """At how many problems the least good of all cases up to 1/L still falls."""
    names = (TWO, ONE, TWO_OF_FEW, ONE_OF_FEW)
    text = "; ".join(
        f"{name}: " + ", ".join(f"{kind} {step_range(data, kind, name)}" for kind in kinds_of(data)) for name in names
    )
    cells = {
        (kind, name, step): share(contracts(rows(data, kind=kind, variant=name, step=step)))
        for kind in kinds_of(data)
        for name in names
        for step in (0.5, 1.0)
    }
    kind, name, step = worst = min(cells, key=lambda cell: cells[cell])
    least = f"worst: {kind}, {name}, η̄ = {step:g}/L: {cells[worst]:.0%}"
    usual = f"the paper's rule with everyone has {cells[kind, TWO, step]:.0%} there; slow runs are not told from stopped ones"
    return at_least(cells[worst], 0.95, f"{least}. Steps η̄L at which 95 % of the problems still fall: {text}", usual)


def _draw(data: Data) -> Figure:
    from .beyond_draw import BLUE, GREEN, dots
    from .draw import dress, panels

    figure, axes = panels(1, len(COSTS), width=3.4, height=2.7, sharey=True)
    names = {"quadratic": "least\nsquares", "logistic": "logistic", "network": "network"}
    for axis, cost in zip(axes[0], COSTS, strict=True):
        groups = []
        for kind in kinds_of(data):
            for (one, other), colour in zip(PAIRS, (BLUE, GREEN), strict=True):
                label = names[kind] if one == ONE else ""
                groups.append((label, best_ratio(data, cost, one, other, kind), colour))
        dots(axis, groups, (0.4, 4.0))
        dress(axis, f"{cost} to the goal", "", "one exchange / two exchanges" if cost == COSTS[0] else "")
        axis.axhline(1.0, color="#444444", linewidth=0.8)
        axis.set_yticks([0.5, 1, 2, 4], ["½", "1", "2", "4"])
        axis.minorticks_off()
        axis.grid(visible=False, axis="x")
    for (one, _), colour in zip(PAIRS, (BLUE, GREEN), strict=True):
        axes[0][0].plot([], [], "o", color=colour, label=one.replace("one exchange, ", ""))
    axes[0][0].legend(frameon=False, fontsize=8, loc="lower left")
    return figure


ROUNDS = {"quadratic": 800, "logistic": 800, "network": 1500}
ONE_EXCHANGE = Item(
    name="beyond/one-exchange",
    title="Past the papers: FedLin with one exchange a round has no floor, and with cohorts costs fewer bytes",
    setting=(
        *common(ROUNDS, [0.2, 0.5, 1.0, 2.0, 4.0], 0.5),
        ours("equal steps", 5, "τ of all clients, where it is held against SCAFFOLD"),
        ours("rounds beside SCAFFOLD", 60),
    ),
    reduced=fewer({"quadratic": 600}, [0.5, 1.0]),
    quantity="squared distance to x*, or squared gradient",
    produce=_produce,
    draw=_draw,
    claims=(
        Claim(
            "with one exchange convex problems fall to rounding, with everyone and with 4 of 10",
            falls_to_rounding([ONE, ONE_OF_FEW], [0.5, 1.0]),
            "requires two passes of communication",
        ),
        Claim(
            "on networks one exchange with a table ends at least a hundred times lower than the paper's rule with 4 of 10",
            lower_by(100, ONE_OF_FEW, RULE, 1.0),
            scales=("paper",),
        ),
        Claim(
            "it takes at most twice the rounds of two exchanges", best_at_most(2.0, "rounds", PAIRS), scales=("paper",)
        ),
        Claim(
            "with cohorts of 4 of 10 it takes no more bytes",
            best_at_most(1.0, "bytes", PAIRS[1:]),
            scales=("paper",),
        ),
        Claim("it takes at most twice the gradients", best_at_most(2.0, "gradients", PAIRS), scales=("paper",)),
        Claim(
            "at η̄ = 0.5/L and 1/L no case has stopped falling in more than one problem of twenty",
            _ranges,
            scales=("paper",),
        ),
        Claim("with equal τ_i, started from g = 0, it is SCAFFOLD's option 1 with steps η̄/τ", _equal),
    ),
)
ITEMS = (ONE_EXCHANGE,)
