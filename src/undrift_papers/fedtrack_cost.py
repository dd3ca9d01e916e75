"""FedTrack: how many component gradients it takes to an accuracy, against FedLin.

A round costs a FedTrack client m_i + H − 1 component gradients, a FedLin client H·m_i; the paper says that this "drastically
reduces the computational complexity of FedLin". Counting alone does not decide it: FedTrack's theorem has smaller steps
(1/(18LH) with the L of single components) and may need more rounds, and FedLin need not take many local steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Data
from .fedtrack import least_squares_of
from .item import Claim, Decision, Item, Work, at_least, ours, paper, reduced
from .lines import Lines, draw_lines, page_lines
from .measures import rounds_to

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOAL = 1e-10  # of the gap at the start
LIN, TRACK = "FedLin", "FedTrack"
THEOREM, BEST = "theorem's step", "best step"
BLUE, ORANGE = "#0072B2", "#D55E00"
COLOURS = {f"{name}, {step}": colour for name, colour in ((LIN, ORANGE), (TRACK, BLUE)) for step in (THEOREM, BEST)}


def theorem_step(name: str, problem: Any, H: int) -> float:
    """η̄ = Hη of the method's Theorem 1."""
    constants = ud.theory.constants(problem)
    if name == LIN:
        return float(ud.theory.fedlin.strongly_convex(constants, H).numbers["eta"])
    return H * float(ud.theory.fedtrack.strongly_convex(constants, H).numbers["eta"])


def spent(name: str, problem: Any, H: int, eta_bar: float, rounds: int) -> tuple[float, float]:
    """(rounds, component gradients of a client) to the goal; infinity if it is not reached."""
    method = ud.fedlin(eta=eta_bar) if name == LIN else ud.fedtrack(eta=eta_bar / H)
    history = ud.run(method, problem, rounds=rounds, steps=H, on_divergence="continue").history
    needed = rounds_to(history["gap"], GOAL)
    if not np.isfinite(needed):
        return np.inf, np.inf
    return needed, float(history["component_gradients"][int(needed)]) / problem.clients


def _produce(work: Work) -> Data:
    rows = []
    cases = [(seed, H, name) for seed in work["seeds"] for H in work["H"] for name in (LIN, TRACK)]
    for number, (seed, H, name) in enumerate(cases):
        problem = least_squares_of(seed, work["clients"], work["components"], work["dim"]).problem
        own = theorem_step(name, problem, H)
        rows.append((seed, H, name, THEOREM, own, *spent(name, problem, H, own, work["rounds"])))
        L = float(problem.constants.L)
        tried = [(*spent(name, problem, H, eta / L, work["rounds at most"]), eta / L) for eta in work["eta"]]
        needed, gradients, eta = min(tried, key=lambda one: one[1])
        rows.append((seed, H, name, BEST, eta, needed, gradients))
        work.progress(f"{name}, H = {H}", number + 1, len(cases))
    names = ("seed", "H", "method", "step", "eta", "rounds", "gradients")
    table = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    lines = Lines()
    for name in (LIN, TRACK):
        for step in (THEOREM, BEST):
            mine = (table["method"] == name) & (table["step"] == step)
            middle = [float(np.median(table["gradients"][mine & (table["H"] == H)])) for H in work["H"]]
            lines.add(f"{name}, {step}", work["H"], middle)
    return Data({"lines": lines.table(), "costs": table}, seeds=work["seeds"])


# ---------------------------------------------------------------- what is decided
def _of(data: Data, name: str, step: str, column: str = "gradients") -> np.ndarray:
    """One row for each seed, one column for each H."""
    rows = data.where("costs", method=name, step=step)
    return np.array([rows[column][rows["seed"] == seed].astype(float) for seed in data.seeds])


def _cheaper(step: str, H: int) -> Callable[[Data], Decision]:
    """At equal H, in every problem."""

    def decide(data: Data) -> Decision:
        at = data.setting["H"].index(H)
        lin, track = _of(data, LIN, step)[:, at], _of(data, TRACK, step)[:, at]
        rounds = [float(np.median(_of(data, name, step, "rounds")[:, at])) for name in (LIN, TRACK)]
        text = f"component gradients (medians): FedLin {np.median(lin):.0f}, FedTrack {np.median(track):.0f}; rounds "
        smaller = float(np.median(_of(data, LIN, step, "eta")[:, at] / _of(data, TRACK, step, "eta")[:, at]))
        why = f"FedTrack takes {rounds[1] / rounds[0]:.1f} times the rounds; its step is smaller by the factor {smaller:.1f}."
        return at_least(float(np.min(lin / track)), 1, f"{text}{rounds[0]:.0f} and {rounds[1]:.0f}", why)

    return decide


def _cheaper_at_all(data: Data) -> Decision:
    """Each with its best step and its best H."""
    lin, track = _of(data, LIN, BEST), _of(data, TRACK, BEST)
    best = {LIN: int(np.argmin(np.median(lin, axis=0))), TRACK: int(np.argmin(np.median(track, axis=0)))}
    H = {name: data.setting["H"][at] for name, at in best.items()}
    ratio = float(np.min(lin.min(axis=1) / track.min(axis=1)))
    text = (
        f"medians: FedLin {np.median(lin[:, best[LIN]]):.0f} at H = {H[LIN]}, FedTrack {np.median(track[:, best[TRACK]]):.0f} "
        f"at H = {H[TRACK]}; least ratio {ratio:.2f}"
    )
    why = "FedLin need not take local steps: with H = 1 both are gradient descent, and cost the same."
    return at_least(ratio, 1.05, text, why)


def _draw(data: Data) -> Figure:
    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=5.2, height=3.4)
    axis = axes[0, 0]
    draw_lines(axis, data, COLOURS, marker="o", dashes={f"{name}, {THEOREM}": (0, (5, 1.6)) for name in (LIN, TRACK)})
    axis.set_xscale("log")
    axis.set_xticks(data.setting["H"], [str(H) for H in data.setting["H"]])
    axis.minorticks_off()
    dress(axis, "component gradients of a client to 1e-10 of the gap", "local steps H", "component gradients")
    legend(figure, axes, columns=2)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    return page_lines(data, "Component gradients of a client to 1e-10 of the gap", "H", "component gradients")


COST = Item(
    name="fedtrack/cost",
    title="FedTrack against FedLin: component gradients to the same accuracy",
    setting=(
        ours("problem", "least squares as in fedtrack/thm1", "the paper has no experiments"),
        ours("dim", 4),
        ours("clients", 10),
        ours("components", 20, "m_i, of every client"),
        ours("H", [1, 2, 5, 10, 40], "local steps"),
        ours("eta", [0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0], "ηH tried, in units of 1/L of the f_i"),
        paper("theorem's steps", "η̄ = 1/(6L) and ηH = 1/(18 max L_ij)", "Theorem 1 of FedLin and of FedTrack"),
        ours("seeds", [0, 1, 2, 3, 4], "draws of the problem"),
        ours("rounds", 4000, "at the theorems' steps"),
        ours("rounds at most", 800, "at the steps tried"),
        ours("x_0", "0"),
    ),
    reduced=(reduced("H", [1, 5, 40]), reduced("seeds", [0]), reduced("eta", [0.2, 0.7, 1.4])),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim(
            "at the theorems' steps and H = 5 FedTrack spends less",
            _cheaper(THEOREM, 5),
            "drastically reduces the complexity",
        ),
        Claim(
            "at the theorems' steps and H = 40 FedTrack spends less",
            _cheaper(THEOREM, 40),
            "drastically reduces the complexity",
        ),
        Claim(
            "with each at its best step and H = 5 FedTrack spends less",
            _cheaper(BEST, 5),
            "drastically reduces the complexity",
        ),
        Claim(
            "with each at its best step and H = 40 FedTrack spends less",
            _cheaper(BEST, 40),
            "drastically reduces the complexity",
        ),
        Claim("with each at its best step and its best H FedTrack spends at least 5 % less", _cheaper_at_all, None),
    ),
)
ITEMS = (COST,)
