"""SSL, "Effect of local steps" (section 3.2) and observations (i) and (ii) at figure 2, on the paper's quadratics with noise.

Corollary 1: E F(x̄_R) − F* = Õ(σ²/(μMKR) + Lσ²/(μ²MKR²) + Lζ*²/(μ²MR²) + μD² exp(−μR/(12L))) with the step tuned. So more local
steps K help while the first term leads, and no longer from K of the order of (σ²/ζ*²)(μ/L)R on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .item import Claim, Decision, Item, Work, at_least, ours, paper
from .ssl_moments import SSL, Pairs, best, exponent, gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def produce(work: Work) -> Data:
    """The error after R rounds at the best step for every K; for one step; and on the grid of figure 4."""
    a, start, R = tuple(work["a"]), work["x_0"], work["R"]
    tuned: list[Any] = []
    for zeta in work["ζ*"]:
        problem = Pairs(a, zeta, sigma=work["σ"])
        limit = best(SSL, problem._replace(sigma=0.0), 10, start, R)
        for K in work["K"]:
            tuned += [
                (zeta, K, r, g, rest) for r, g, rest in zip(R, best(SSL, problem, K, start, R), limit, strict=True)
            ]
        work.progress(f"ζ* = {zeta:g}", work["ζ*"].index(zeta) + 1, len(work["ζ*"]))
    at = R.index(work["R of figure 2"])
    fixed, grid = [], []
    for zeta in work["ζ*"]:
        problem = Pairs(a, zeta, sigma=work["σ"])
        for K in work["K"]:
            one = gaps(SSL, problem, K, np.array([work["one step"]]), start, R)[at, 0]
            fixed.append((zeta, K, float(one)))
        for K in work["K of figure 2"]:
            grid.append((zeta, K, float(gaps(SSL, problem, K, np.array(work["grid"]), start, R)[at].min())))
    return Data({
        "tuned": _table(("zeta", "K", "R", "gap", "without noise"), tuned),
        "one step": _table(("zeta", "K", "gap"), fixed),
        "grid": _table(("zeta", "K", "gap"), grid),
    })  # fmt: skip


def _table(names: tuple[str, ...], rows: list[Any]) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _tuned(data: Data, zeta: float, R: int) -> tuple[np.ndarray, np.ndarray, float]:
    """K, the error, and what is left without noise."""
    rows = data.where("tuned", zeta=zeta, R=R)
    return rows["K"].astype(float), rows["gap"], float(rows["without noise"][0])


def enough(data: Data, zeta: float, R: int) -> float:
    """The K, interpolated, from which on the error is at most twice that without noise."""
    K, gap, limit = _tuned(data, zeta, R)
    above = np.log(gap / (2 * limit))
    last = int(np.flatnonzero(above > 0)[-1])
    if last + 1 == len(K):
        return float("inf")
    share = above[last] / (above[last] - above[last + 1])
    return float(K[last] * (K[last + 1] / K[last]) ** share)


def _helps(data: Data) -> Decision:
    setting = data.setting
    zeta, R = setting["ζ*"][0], setting["R drawn"]
    K, gap, _ = _tuned(data, zeta, R)
    few = enough(data, zeta, R) / 100 >= K
    slope = exponent(K[few], gap[few])
    margin = min((slope + 1.15) / 0.05, (-0.85 - slope) / 0.05) if -1.15 <= slope <= -0.85 else 0.0
    return Decision(
        margin > 0, f"error ∝ K^{slope:.2f} for K ≤ {K[few].max():.0f} (R = {R})", 1 + margin if margin else 0.0
    )


def _enough_with_rounds(data: Data) -> Decision:
    R = np.array(data.setting["R"], float)
    K = np.array([enough(data, data.setting["ζ*"][0], r) for r in data.setting["R"]])
    slope = exponent(R, K) if np.all(np.isfinite(K)) else float("inf")
    said = ", ".join(f"{k:.0f} (R = {r:.0f})" for k, r in zip(K, R, strict=True))
    left = np.array([_tuned(data, data.setting["ζ*"][0], r)[2] for r in data.setting["R"]])
    why = (
        f"what heterogeneity leaves without noise falls like R^{exponent(R, left):.2f} here, not like the R^−2 of Theorem 1: "
        "on quadratics the random order cancels the leading bias (ssl/table1), so noise leads for longer, and local steps pay"
    )
    holds = 0.8 <= slope <= 1.2
    said = f"enough local steps: {said}; ∝ R^{slope:.2f}"
    return Decision(holds, said, _inside(slope, 0.8, 1.2), None if holds else why)


def _inside(value: float, low: float, high: float) -> float:
    """At least 1 between low and high (positive numbers)."""
    return float(min(value / low, high / value)) if 0 < value < np.inf else 0.0


def _enough_with_heterogeneity(data: Data) -> Decision:
    first, second = data.setting["ζ*"]
    few, many = enough(data, second, data.setting["R drawn"]), enough(data, first, data.setting["R drawn"])
    factor, expected = many / few, (second / first) ** 2
    said = f"{many:.0f} local steps are enough with ζ* = {first:g}, {few:.0f} with ζ* = {second:g}: {factor:.0f} times fewer"
    return Decision(0.5 <= factor / expected <= 2, said, _inside(factor / expected, 0.5, 2))


def _one_step_harms(data: Data) -> Decision:
    gap = data.where("one step", zeta=data.setting["ζ*"][0])["gap"]
    least = int(np.argmin(gap))
    K = data.setting["K"]
    said = f"η = {data.setting['one step']:g}: least error {gap[least]:.2g} at K = {K[least]}, {gap[-1]:.2g} at K = {K[-1]}"
    inside = 0 < least < len(gap) - 1
    return at_least(gap[-1] / gap[least] if inside else 0.0, 2, said)


def _tuned_does_not_harm(data: Data) -> Decision:
    worst = 0.0
    for zeta in data.setting["ζ*"]:
        for R in data.setting["R"]:
            gap = _tuned(data, zeta, R)[1]
            worst = max(worst, float(np.max(gap[1:] / gap[:-1])))
    return at_least(1.01 / worst, 1, f"from each K to its double the error is multiplied by {worst:.4f} at most")


def _figure_2_ii(data: Data) -> Decision:
    K = data.setting["K of figure 2"]
    said, margins = [], []
    for zeta in data.setting["ζ*"]:
        gap = data.where("grid", zeta=zeta)["gap"]
        said.append(f"ζ* = {zeta:g}: {', '.join(f'{g:.3g} (K = {k})' for g, k in zip(gap, K, strict=True))}")
        margins.append(min(gap[0] / gap[1], gap[2] / gap[1], gap[3] / gap[2]))
    turns = [K[int(np.argmin(data.where("grid", zeta=zeta)["gap"]))] for zeta in data.setting["ζ*"]]
    least = " and ".join(map(str, turns))
    why = f"the least error is at K = {least}: where it turns depends on σ, ζ*, R and on where the grid ends"
    return at_least(float(min(margins)), 1, "; ".join(said), why)


def _figure_2_i(data: Data) -> Decision:
    """At tuned steps: the factor by which ζ* ten times as large raises the error, from few to many local steps."""
    first, second = data.setting["ζ*"]
    R = data.setting["R of figure 2"]
    (K, low, _), (_, high, _) = (_tuned(data, zeta, R) for zeta in (first, second))
    ratio = high / low
    few, many = int(np.argmin(np.abs(K - 4))), int(np.argmin(np.abs(K - 32)))
    said = ", ".join(f"{ratio[at]:.2f} at K = {K[at]:.0f}" for at in (few, many))
    said = f"error with ζ* = {second:g} over that with {first:g}: {said} (R = {R})"
    return at_least(min(ratio[few] / 1.0, ratio[many] / ratio[few] / 1.1), 1, said)


def _draw(data: Data) -> Figure:
    from .draw import dress, panels

    figure, axes = panels(1, 1, width=5.4, height=3.4)
    axis, zeta = axes[0, 0], data.setting["ζ*"][0]
    shades = ("#9ecae1", "#6baed6", "#3182bd", "#08519c", "#08306b")
    for R, colour in zip(data.setting["R"], shades[-len(data.setting["R"]) :], strict=True):
        K, gap, limit = _tuned(data, zeta, R)
        axis.plot(K, gap, color=colour, linewidth=1.6, label=f"R = {R}")
        axis.axhline(limit, color=colour, linewidth=0.8, linestyle=":")
        axis.plot([enough(data, zeta, R)], [2 * limit], "o", color=colour, markersize=5)
    axis.set_xscale("log")
    dress(axis, "SSL with its step tuned for every K", "local steps K", r"$\mathrm{E}\,F(x_R) - F^\star$")
    axis.legend(frameon=False, fontsize=8, title="dots: twice the error without noise", title_fontsize=8)
    return figure


def _page(data: Data) -> list[dict[str, Any]]:
    series = []
    for R in data.setting["R"]:
        K, gap, _ = _tuned(data, data.setting["ζ*"][0], R)
        series.append({"label": f"R = {R}", "kind": "measured", "x": {"local steps": K.tolist()}, "y": gap.tolist(),
                       "low": None, "high": None})  # fmt: skip
    title = "SSL with its step tuned for every K"
    return [{"title": title, "note": "", "y_label": "E F − F*", "y_scale": "log", "x_scale": "log", "series": series}]


ITEMS = (
    Item(
        name="ssl/local-steps",
        title="SSL, section 3.2: when more local steps stop helping, with observations (i) and (ii) at figure 2, on quadratics",
        setting=(
            paper("a", [4 / 3, 2 / 3], "group 4 of table 6: F_m(x) = (a_m/2)x² ± ζ*x, M = 2"),
            ours("ζ*", [1.0, 10.0], "groups 4 and 5"),
            ours("σ", 1.0, "standard deviation of the noise of a gradient; the paper's quadratics have none"),
            ours("x_0", 10.0),
            ours("R", [100, 300, 1000, 3000]),
            ours("R drawn", 1000, "rounds of the claims that name no others"),
            ours("R of figure 2", 100, "rounds of what is said of figure 2 and of the grid; as in ssl/fig4"),
            ours("K", [2**k for k in range(24)]),
            ours("steps", "the best of 24 a decade for every K and R", "expectations are exact, so nothing is averaged"),
            ours("one step", 0.003, "for all K: the shortest of figure 4's grid"),
            paper("grid", [0.003, 0.006, 0.01, 0.03, 0.06, 0.1, 0.3, 0.6], "of figure 4"),
            paper("K of figure 2", [5, 10, 20, 30]),
        ),
        produce=produce,
        draw=_draw,
        page_figures=_page,
        claims=(
            Claim(
                "while noise leads, K times the local steps divide the error by K (exponent −0.85 to −1.15; K up to a "
                "hundredth of what is enough)",
                _helps,
                "local updates can help with small enough steps; σ²/(μMKR)",
            ),
            Claim("enough local steps grow like R (exponent 0.8 to 1.2)", _enough_with_rounds, "K up to (σ²/ζ*²)(μ/L)R"),
            Claim(
                "… and fall like ζ*² (within a factor of 2)", _enough_with_heterogeneity, "K up to (σ²/ζ*²)(μ/L)R"),
            Claim(
                "with one step for all K too many local steps harm (the error doubles at least)",
                _one_step_harms,
                "figure 2 (ii): excessive steps can even have negative impacts",
            ),
            Claim(
                "with the step tuned for each K more local steps do no harm (1 % at most)",
                _tuned_does_not_harm,
                "excessive local updates do not benefit the rate",
            ),
            Claim(
                "on figure 4's grid the error falls from K = 5 to 10 and rises from 10 to 20 and 30",
                _figure_2_ii,
                "figure 2 (ii), of accuracies on CIFAR-10",
            ),
            Claim(
                "ten times the heterogeneity hurts SSL, by a tenth more at K = 32 than at K = 4",
                _figure_2_i,
                "figure 2 (i): heterogeneity hurts, more obviously with many local steps",
            ),
        ),
    ),
)  # fmt: skip
