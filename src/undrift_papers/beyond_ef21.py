"""Past the papers: EF21, gradient descent whose clients send TOP-k of what is new, beside error feedback and its own PL rate.

    x ← x − γ Σ w_i h_i,   c_i = C(∇f_i(x) − h_i),   h_i ← h_i + c_i

Richtárik, Sokolov, Fatkhullin (2021), Theorem 2, holds for weights as well; with α = k/d, θ = 1 − √(1 − α), β = (1 − α)/θ,
G = Σ w_i‖h_i − ∇f_i(x)‖² ≥ ‖Σ w_i h_i − ∇f(x)‖², L̃² = Σ w_i L_i² and R = ‖x⁺ − x‖²:

    f(x⁺) ≤ f(x) − (γ/2)‖∇f(x)‖² − (1/(2γ) − L/2)R + (γ/2)G,   G⁺ ≤ (1 − θ)G + βL̃²R,

so Ψ = f − f* + (γ/θ)G has Ψ⁺ ≤ (1 − γμ)Ψ where γ(L + L̃√(2β/θ)) ≤ 1 and γμ ≤ θ/2, μ being the PL constant of f. After the first
message G ≤ (1 − α) Σ w_i‖∇f_i(x_0)‖².
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import undrift as ud

from .beyond_difference import K, top
from .beyond_draw import EVERYONE, PAPER, WINE
from .beyond_problems import MEASURES, Case
from .beyond_runs import (
    Variant,
    best_at_most,
    cases,
    common,
    contest,
    falls_to_rounding,
    fewer,
    has_stopped,
    kinds_of,
    lower_by,
    short_number,
)
from .data import Data
from .item import Claim, Decision, Item, Work, at_least, ours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAIN, FEEDBACK, EF21 = "FedSGD", "FedSGD, TOP-k with error feedback", "EF21: TOP-k of differences"
COLOURS = {PLAIN: EVERYONE, FEEDBACK: PAPER, EF21: WINE}


def ef21(one: Case, eta: float) -> Any:
    """FedSGD with difference memory on the way up."""
    return ud.compressed(ud.fedsgd(eta), up=top(one, "difference"))


VARIANTS = {
    PLAIN: Variant(lambda one, eta: ud.fedsgd(eta), everyone=True),
    FEEDBACK: Variant(lambda one, eta: ud.compressed(ud.fedsgd(eta), up=top(one, True)), everyone=True),
    EF21: Variant(ef21, everyone=True),
}


class Promise(NamedTuple):
    """γ, the factor per round, and Ψ_0."""

    gamma: float
    rate: float
    start: float


def promise(one: Case) -> Promise:
    """Theorem 2 on a least-squares problem, all constants in closed form."""
    weights = np.asarray(one.problem.weights, float)
    hessians = one.problem.hessians()
    spectrum = np.linalg.eigvalsh(np.einsum("i,ijk->jk", weights, hessians))
    L, mu = float(spectrum[-1]), float(spectrum[0])
    mean_L = float(np.sqrt(weights @ np.linalg.eigvalsh(hessians)[:, -1] ** 2))
    alpha = K[one.kind] / one.problem.dim
    theta = 1 - np.sqrt(1 - alpha)
    beta = (1 - alpha) / theta
    gamma = float(min(1 / (L + mean_L * np.sqrt(2 * beta / theta)), theta / (2 * mu)))
    slopes = float(weights @ np.sum(one.problem.gradients(one.x0) ** 2, axis=1))
    gap = one.problem.value(one.x0) - one.problem.optimum.value
    return Promise(gamma, 1 - gamma * mu, gap + gamma / theta * (1 - alpha) * slopes)


def _produce(work: Work) -> Data:
    data = contest(work, VARIANTS)
    found = []
    for one in cases(work, "quadratic"):
        promised = promise(one)
        history = ud.run(ef21(one, promised.gamma), one.problem, rounds=work["rounds by theorem"], x0=one.x0).history
        gap = history["gap"][1:]
        t = np.arange(1, len(gap) + 1)
        above = gap > 1e-26 * history["gap"][0]  # below is rounding
        slack = float(np.min((promised.rate**t * promised.start / gap)[above]))
        last = int(np.flatnonzero(above)[-1])
        measured = float((gap[last] / gap[0]) ** (1 / last))
        found.append((one.number, *map(short_number, (promised.gamma, promised.rate, measured, slack))))
        work.progress("its own rate", len(found), work["problems"])
    names = ("problem", "step", "promised rate", "rate", "slack")
    return Data({**data.tables, "rates": dict(zip(names, zip(*found, strict=True), strict=True))}, data.seeds)


def _theorem(data: Data) -> Decision:
    table = data["rates"]
    slack = float(np.min(table["slack"]))
    rates = f"measured factors per round {table['rate'].min():.4f} to {table['rate'].max():.4f}"
    promised = f"promised {table['promised rate'].min():.4f} to {table['promised rate'].max():.4f}"
    return at_least(
        slack, 1.0, f"smallest promised/measured over all rounds and problems: {slack:.2f}; {rates}, {promised}"
    )


def _draw(data: Data) -> Figure:
    from .beyond_draw import TITLES, spread_curve
    from .draw import dress, legend, panels

    kinds = kinds_of(data)
    figure, axes = panels(1, len(kinds), width=3.6, height=2.8)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for name, colour in COLOURS.items():
            spread_curve(axis, data, kind, name, colour)
        dress(axis, f"{TITLES[kind]}, η = {data.setting['drawn at']}/L", "communication rounds", MEASURES[kind])
    legend(figure, axes)
    return figure


ITEM = Item(
    name="beyond/ef21",
    title="Past the papers: EF21 has no floor and keeps its promised rate",
    setting=(
        *common({"quadratic": 800, "logistic": 800, "network": 1000}, [0.2, 0.5, 1.0], 0.5),
        ours("k", K, "of d = 8, 8 and 26"),
        ours("rounds by theorem", 2000, "with γ of Theorem 2, on the least-squares problems"),
    ),
    reduced=fewer({"quadratic": 800}, [0.5, 1.0]),
    quantity="squared distance to x*, or squared gradient",
    produce=_produce,
    draw=_draw,
    claims=(
        Claim("FedSGD with error feedback stops at a floor", has_stopped([FEEDBACK], 0.5)),
        Claim("EF21 falls to rounding on convex problems", falls_to_rounding([EF21], [0.5, 1.0])),
        Claim("EF21 keeps (1 − γμ)^T Ψ_0 at every round, on every least-squares problem", _theorem, "EF21, Theorem 2"),
        Claim(
            "on networks EF21 ends at least a hundred times lower than error feedback",
            lower_by(100, EF21, FEEDBACK, 1.0),
            scales=("paper",),
        ),
        Claim(
            "it takes fewer bytes to the goal than FedSGD",
            best_at_most(1.0, "bytes", [(EF21, PLAIN)]),
            scales=("paper",),
        ),
    ),
)
ITEMS = (ITEM,)
