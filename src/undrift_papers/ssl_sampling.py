"""SSL, equation (12): what FedAvg loses where only S of M clients take part in a round, and SSL does not.

F_m(x) = ½x² ± ζ*x, half of the clients each, exact gradients: with everyone FedAvg solves this exactly, so that all that is
left is the variance of the cohort, ζ*²/(μR) times (M − S)/(S(M − 1)) without replacement and 1/S with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import undrift as ud

from .data import Curves, Data
from .item import Claim, Decision, Item, Scale, Work, at_least, at_most, ours, paper, reduced
from .ssl_moments import exponent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL, WITHOUT, WITH, SSL = (
    "FedAvg, everyone",
    "FedAvg, S of M",
    "FedAvg, S of M with replacement",
    "SSL, S/M of the rounds",
)
ENOUGH_SEEDS: tuple[Scale, ...] = ("short", "paper")
STEPS = [float(f"{step:.3g}") for step in [*np.logspace(-2.6, -1.2, 17), 0.2]]
PANEL = "partial participation"
COLOURS = {WITHOUT: "#0072B2", WITH: "#CC79A7", SSL: "#D55E00"}


def _problem(work: Work) -> Any:
    clients, zeta = work["M"], work["ζ*"]
    slopes = np.tile([zeta, -zeta], clients // 2)[:, None]
    return ud.problems.quadratic(np.ones((clients, 1, 1)), -slopes, spectral=True)


def produce(work: Work) -> Data:
    """Every method over the grid of effective steps; the mean over seeds of F − F* after R rounds, at the best of them."""
    plans: dict[str, tuple[Any, Any]] = {
        ALL: (ud.fedavg, None),
        WITHOUT: (ud.fedavg, ud.plan.uniform(work["S"])),
        WITH: (ud.fedavg, ud.plan.uniform(work["S"], replace=True)),
        SSL: (ud.sequential_fl, None),
    }
    curves, late, bounds = Curves(), [], []
    effective = np.array(work["effective steps"])
    for number, (label, (method, who)) in enumerate(plans.items()):
        share = work["S"] / work["M"] if label == SSL else 1
        rounds = np.array([round(R * share) for R in work["R"]])
        steps = effective / (work["K"] * (work["M"] if label == SSL else 1))
        found = ud.sweep(method, _problem(work), grid={"eta": steps.tolist()}, seeds=list(range(work["seeds"])),
                         rounds=int(rounds[-1]), steps=work["K"], x0=np.array([work["x_0"]]), participation=who)  # fmt: skip
        gap = 0.5 * found.history["sq_distance"]  # (step sizes, seeds, rounds + 1)
        mean = gap.mean(axis=1)
        curves.add(PANEL, label, mean[:, rounds].min(axis=0), round=np.array(work["R"]))
        at = int(np.argmin(np.abs(effective - work["one effective step"])))
        late.append((label, float(effective[at]), float(gap[at, :, gap.shape[2] // 2 :].mean())))
        if who is not None:
            bounds += _bounds(work, label, effective, mean)
        work.progress(label, number + 1, len(plans))
    tables: dict[str, Any] = {
        "curves": curves.table(),
        "late": _table(("series", "effective step", "gap"), late),
        "bounds": _table(("series", "effective step", "gap", "bound"), bounds),
    }
    return Data(tables, range(work["seeds"]))


def _bounds(work: Work, label: str, effective: np.ndarray, mean: np.ndarray) -> list[tuple[Any, ...]]:
    """Equations (108) and (119) beside the error after the last round, for every step that they allow."""
    constants, R = ud.theory.constants(_problem(work)), work["R"][-1]
    rows = []
    for step, gap in zip(effective, mean[:, R], strict=True):
        if not 1 / R <= step <= 1 / 6:
            continue
        bound = ud.theory.fedavg.sampled(constants, work["S"], work["K"], replace=label == WITH, effective=float(step))
        rows.append((label, float(step), float(gap), float(bound.curve(R, work["x_0"] ** 2)[-1])))
    return rows


def _table(names: tuple[str, ...], rows: list[Any]) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _falls(label: str, low: float, high: float) -> Callable[[Data], Decision]:
    def decide(data: Data) -> Decision:
        gap = data.curve(PANEL, label)[0]
        slope = exponent(np.array(data.setting["R"], float), gap)
        margin = 1 + min(slope - low, high - slope) / ((high - low) / 2)
        return Decision(bool(margin >= 1), f"{label}: R^{slope:.2f}", float(max(margin, 0.0)))

    return decide


def _replacement(data: Data) -> Decision:
    M, S = data.setting["M"], data.setting["S"]
    one, two = (float(data.where("late", series=label)["gap"][0]) for label in (WITHOUT, WITH))
    expected = (M - 1) / (M - S)
    said = f"{two / one:.3f} times as large; (M − 1)/(M − S) = {expected:.3f}"
    return at_most(abs(two / one / expected - 1), 0.05, said)


def _ssl_is_better(data: Data) -> Decision:
    ratio = data.curve(PANEL, WITHOUT)[0] / data.curve(PANEL, SSL)[0]
    said = ", ".join(f"{r:.0f} (R = {R})" for r, R in zip(ratio, data.setting["R"], strict=True))
    return at_least(float(ratio.min()), 2, f"FedAvg's error over SSL's: {said}")


def _bounds_hold(data: Data) -> Decision:
    rows = data["bounds"]
    share = rows["bound"] / rows["gap"]
    return at_least(
        float(share.min()), 1, f"bound/error is {share.min():.1f} to {share.max():.0f} over {len(share)} steps"
    )


def _draw(data: Data) -> Figure:
    from .draw import dress, panels

    figure, axes = panels(1, 1, width=5.0, height=3.3)
    axis = axes[0, 0]
    for label, colour in COLOURS.items():
        gap = data.curve(PANEL, label)[0]
        axis.plot(data.setting["R"], gap, marker="o", markersize=3.5, color=colour, linewidth=1.6, label=label)
    axis.set_xscale("log")
    title = f"S = {data.setting['S']} of M = {data.setting['M']} clients in a round (with all of them FedAvg is exact)"
    dress(axis, title, "rounds R, the step tuned for each", r"$\mathrm{E}\,F - F^\star$")
    axis.legend(frameon=False, fontsize=8)
    return figure


ITEMS = (
    Item(
        name="ssl/eq12",
        title="SSL, equation (12): the price of partial participation for FedAvg, and for SSL",
        setting=(
            paper("F", "F_m(x) = ½x² ± ζ*x", "groups 1–3 of table 6, each client M/2 times"),
            ours("M", 10),
            ours("S", 5, "so that both kinds of drawing differ by a factor of 1.8"),
            ours("ζ*", 1.0),
            ours("K", 10),
            ours("x_0", 10.0),
            ours("R", [100, 300, 1000], "of FedAvg; SSL has S/M as many passes, the same number of gradients"),
            ours("effective steps", STEPS, "Kη of FedAvg, MKη of SSL"),
            ours("one effective step", 0.2, "at which both kinds of drawing are compared, over the later half of the rounds"),
            ours("seeds", 300, "the error of a mean of so many x² is a twelfth"),
        ),
        reduced=(reduced("seeds", 20), reduced("R", [100, 300], "as in full, but the last")),
        produce=produce,
        draw=_draw,
        quantity="E F − F*",
        claims=(
            Claim(
                "with S of M clients FedAvg's error falls like 1/R (exponent −0.8 to −1.15)",
                _falls(WITHOUT, -1.15, -0.8),
                "(ζ*²/(μR))(M − S)/(S(M − 1)), where everyone gives 1/R² at worst",
                ENOUGH_SEEDS,
            ),
            Claim("… and so it does with replacement", _falls(WITH, -1.15, -0.8), "ζ*²/(μSR)", ENOUGH_SEEDS),
            Claim(
                "with replacement the error is (M − 1)/(M − S) times as large (within 5 %)",
                _replacement,
                "(M − S)/(S(M − 1)) against 1/S",
                ENOUGH_SEEDS,
            ),
            Claim(
                "SSL with the same number of gradients ends below FedAvg with S of M, by a factor of 2 for every R",
                _ssl_is_better,
                "SSL shows better than FedAvg with partial participation",
            ),
            Claim("the bounds (108) and (119) hold as printed", _bounds_hold, "Corollaries 2 and 3"),
        ),
    ),
)  # fmt: skip
