"""FedLin, appendix J, its last sentence: with κ beyond 1000 FedSplit diverges for more than 41 inner steps as well.

How far, in closed form. On the example an inner step multiplies the error by −q at client 1 and by q at client 2,
q = (√κ − 1)/(√κ + 1), and a round maps (z_1, z_2) to (−(q ∓ (1 + q)q^e) z_2, (q + (1 − q)q^e) z_1), − for even and + for odd e.
Even e never diverge, as both factors lie in [−1, 1]. Odd e diverge while (q + (1 + q)q^e)(q + (1 − q)q^e) > 1, that is, to
leading order, while q^e > 2/√κ: e < (√κ/4) ln(κ/4). (A first guess, √κ alone, was refuted by the first run.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Data
from .fedlin_quadratic import papers_choice, spectral_radius
from .item import Claim, Decision, Item, Work, at_least, at_most, ours, paper, reduced
from .lines import Lines, draw_lines, page_lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPERS_E, PAPERS_KAPPA = 41, 1000.0
COLOURS = ("#56B4E9", "#009E73", "#0072B2", "#882255", "#D55E00")


def _series(kappa: float) -> str:
    return f"κ = {kappa:g}"


def reach(kappa: float, parity: int, longest: int) -> int:
    """The largest e of this parity for which a round of FedSplit diverges (0: there is none), μ = 1 and L = κ.

    >>> reach(1000.0, 0, 100)
    0
    """
    tried = [e for e in range(1, longest + 1) if e % 2 == parity]
    return max((e for e in tried if spectral_radius(kappa, 1.0, e) > 1), default=0)


def grown(kappa: float, e: int, rounds: int) -> float:
    """‖x_T − x*‖/‖x_0 − x*‖ of a run on the example of appendix J with this κ."""
    A = np.array([[[kappa, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    problem = ud.problems.quadratic(A, np.array([[1.0, 1.0], [-1.0, 2.0]]))
    s, alpha = papers_choice(kappa, 1.0)
    method = ud.fedsplit(s=s, inner_steps=e, inner_eta=alpha)
    history = ud.run(method, problem, rounds=rounds, on_divergence="continue").history
    far = np.sqrt(history["sq_distance"])
    return float(far[-1] / far[0]) if np.isfinite(far[-1]) else np.inf


def _odd(e: float) -> int:
    """The odd number next to it."""
    return 2 * round((e - 1) / 2) + 1


def _produce(work: Work) -> Data:
    lines, reaches, runs = Lines(), [], []
    kappas = work["kappa"]
    for number, kappa in enumerate(kappas):
        longest = int(work["longest e"] * np.sqrt(kappa))
        last = reach(kappa, 1, longest)
        started = max(spectral_radius(kappa, 1.0, e, "model") for e in range(1, longest + 1))
        reaches.append((kappa, longest, last, reach(kappa, 0, longest), started))
        odd = range(1, longest + 1, 2)
        lines.add(_series(kappa), list(odd), [spectral_radius(kappa, 1.0, e) for e in odd])
        for share in work["run at"]:
            e = _odd(share * last)
            runs.append((kappa, share, e, spectral_radius(kappa, 1.0, e), grown(kappa, e, work["rounds"])))
        work.progress(_series(kappa), number + 1, len(kappas))
    names = ("kappa", "longest e", "last odd e that diverges", "last even e that diverges", "radius started at x")
    run_names = ("kappa", "share", "e", "radius", "grown")
    tables: dict[str, Any] = {
        "lines": lines.table(),
        "reach": dict(zip(names, zip(*reaches, strict=True), strict=True)),
        "runs": dict(zip(run_names, zip(*runs, strict=True), strict=True)),
    }
    return Data(tables, seeds=[0])


def _beyond_41(data: Data) -> Decision:
    table = data["reach"]
    larger = table["kappa"] > PAPERS_KAPPA
    last = table["last odd e that diverges"]
    said = ", ".join(f"{int(e)} at κ = {k:g}" for k, e in zip(table["kappa"], last, strict=True))
    return at_least(float(last[larger].min()), PAPERS_E + 1, f"the last odd e that diverges is {said}")


def expected_reach(kappa: float) -> float:
    """(√κ/4) ln(κ/4): up to here odd e diverge, to leading order in 1/√κ.

    >>> round(expected_reach(1000.0), 2)
    43.65
    """
    return float(np.sqrt(kappa) / 4 * np.log(kappa / 4))


def _as_derived(data: Data) -> Decision:
    table = data["reach"]
    pairs = [
        (int(e), expected_reach(k)) for k, e in zip(table["kappa"], table["last odd e that diverges"], strict=True)
    ]
    off = max(abs(e - limit) for e, limit in pairs)
    said = ", ".join(f"{e} ({limit:.1f})" for e, limit in pairs)
    return at_most(off, 2, f"last odd e that diverges, and (√κ/4) ln(κ/4): {said}")


def _no_even(data: Data) -> Decision:
    table = data["reach"]
    worst = int(table["last even e that diverges"].max())
    tried = int(table["longest e"].max())
    return Decision(
        worst == 0, f"last even e that diverges: {worst or 'none'}, of e up to {tried}", 1.0 if worst == 0 else 0.0
    )


def _runs_agree(data: Data) -> Decision:
    table = data["runs"]
    diverges = table["radius"] > 1
    wrong = int(np.sum((table["grown"] > 1) != diverges))
    far, near = table["grown"][diverges], table["grown"][~diverges]
    text = f"radius > 1: {len(far)} runs, all grew by {far.min():.0e} or more; radius < 1: {len(near)}, all ended at "
    text += f"{near.max():.1e} of the start or less"
    return Decision(wrong == 0, text, min(float(far.min()), float(1 / near.max())) if wrong == 0 else 0.0)


def _from_the_model(data: Data) -> Decision:
    worst = float(data["reach"]["radius started at x"].max())
    return at_most(worst, 1, f"largest radius over all κ and e: {worst:.6f}")


def _draw(data: Data) -> Figure:
    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=5.4, height=3.4)
    axis = axes[0, 0]
    colours = {_series(kappa): colour for kappa, colour in zip(data.setting["kappa"], COLOURS, strict=False)}
    draw_lines(axis, data, colours)
    axis.axhline(1, color="#444444", linewidth=0.8)
    axis.axvline(PAPERS_E, color="#444444", linewidth=0.8, linestyle=":")
    axis.annotate("e = 41", (PAPERS_E, 1.72), fontsize=8, color="#444444", xytext=(3, 0), textcoords="offset points")
    axis.set_xscale("log")
    dress(axis, "above 1 a round of FedSplit diverges", "inner gradient steps e (odd)", "spectral radius", log=False)
    legend(figure, axes)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    return page_lines(data, "Above 1 FedSplit diverges", "odd e", "spectral radius of a round", y_scale="linear")


FEDSPLIT = Item(
    name="fedlin/appendixJ",
    title="FedLin, appendix J: how many inner steps FedSplit needs not to diverge",
    setting=(
        paper("A_1, A_2", "diag(κ, 1), diag(1, 1)", "the example of figure 5, μ = 1"),
        paper("B_1, B_2", "(1, 1), (−1, 2)"),
        ours("kappa", [300.0, 1000.0, 3000.0, 10000.0, 100000.0], "the paper has 1000 and says “beyond 1000”"),
        ours("longest e", 4.0, "times √κ: all e up to it are decided by the spectral radius"),
        paper("s, alpha", "1/√(Lμ), 2/(L + μ + 2/s)", "as in figure 5"),
        ours("start of the inner steps", "u = 2x − z_i", "as in figure 5"),
        ours("run at", [0.5, 2.0], "times the last e that diverges, next odd number"),
        ours("rounds", 400),
    ),
    reduced=(reduced("kappa", [1000.0, 3000.0]),),
    produce=_produce,
    draw=_draw,
    page_figures=_page,
    claims=(
        Claim(
            "for every κ above 1000 FedSplit diverges for some e > 41",
            _beyond_41,
            "for values of e higher than 41 as well",
        ),
        Claim("the last odd e that diverges is (√κ/4) ln(κ/4), within 2", _as_derived, None),
        Claim("no even e diverges, whatever κ", _no_even, "converged for some even values of e"),
        Claim("runs diverge and settle as the radius says", _runs_agree, None),
        Claim("started at y = x instead, it converges for every κ and e", _from_the_model, None),
    ),
)
ITEMS = (FEDSPLIT,)
