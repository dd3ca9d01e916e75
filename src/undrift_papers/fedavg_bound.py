"""The FedAvg paper, figure 5: how far its bound on the final loss is from what happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .fedavg_tau import MANY_TAU, ends_of, several_tau
from .item import Claim, Decision, Item, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _bounds(data: Data) -> np.ndarray:
    """18τ²η²Lζ² for every τ, with the largest ζ seen."""
    tau, zeta = np.array(data.setting["tau"], float), float(ends_of(data, "zeta").max())
    return np.asarray(18 * tau**2 * data.setting["eta"] ** 2 * float(np.median(data["constants"]["L"])) * zeta**2)


def _bound_holds(data: Data) -> Decision:
    ratio = float(np.min(_bounds(data) / ends_of(data, "gap")))
    return at_least(ratio, 1, f"the bound is {ratio:.0f} times the measured F − F* or more")


def _not_tight(data: Data) -> Decision:
    ratios = _bounds(data) / ends_of(data, "gap")
    said = ", ".join(f"{r:.0e}" for r in ratios)
    return at_least(float(ratios[-2:].min()), 1e3, f"bound/measured for τ = 10, 50, 300, 1000: {said}")


def _looser_with_tau(data: Data) -> Decision:
    ratios = _bounds(data) / ends_of(data, "gap")
    return at_least(float(np.min(ratios[1:] / ratios[:-1])), 2, "bound/measured grows from each τ to the next")


def _draw_5(data: Data) -> Figure:
    from undrift.report.style import colours

    from .draw import dress, legend, panels

    figure, axes = panels(1, 1, width=4.9, height=3.2)
    axis, tau = axes[0, 0], data.setting["tau"]
    rows = [data.where("ends", series=f"τ = {t}")["gap"] for t in tau]
    axis.plot(
        tau, _bounds(data), ":", marker="s", markersize=4, color="#555555", label=r"bound $18\tau^2\eta^2 L\zeta^2$"
    )
    axis.plot(
        tau, ends_of(data, "gap"), marker="o", markersize=4, color=colours()["fedavg"], label=r"measured $F - F^\star$"
    )
    axis.fill_between(
        tau, [r.min() for r in rows], [r.max() for r in rows], color=colours()["fedavg"], alpha=0.2, linewidth=0
    )
    axis.set_xscale("log")
    dress(axis, "what is left when FedAvg has settled", "local steps τ", "loss above the minimum")
    legend(figure, axes)
    return figure


def _page_5(data: Data) -> list[dict[str, Any]]:
    x = {"local steps": [float(t) for t in data.setting["tau"]]}
    rows = [data.where("ends", series=f"τ = {t}")["gap"] for t in data.setting["tau"]]
    measured = {"label": "fedavg", "kind": "measured", "x": x, "y": ends_of(data, "gap").tolist()}
    measured |= {"low": [float(r.min()) for r in rows], "high": [float(r.max()) for r in rows]}
    bound = {"label": "fedavg, bound", "kind": "bound", "x": x, "y": _bounds(data).tolist(), "low": None, "high": None}
    title = "What is left when FedAvg has settled"
    series = [measured, bound]
    return [{"title": title, "note": "", "y_label": "F − F*", "y_scale": "log", "x_scale": "log", "series": series}]


ITEMS = (
    Item(
        name="fedavg/fig5",
        title="FedAvg paper, figure 5: the bound on the final loss is far from tight",
        setting=MANY_TAU,
        produce=several_tau,
        draw=_draw_5,
        page_figures=_page_5,
        claims=(
            Claim("the bound 18τ²η²Lζ² holds for every τ", _bound_holds, "the loss converges to values much lower"),
            Claim(
                "for τ = 300 and 1000 it is loose by three orders of magnitude",
                _not_tight,
                "several orders of magnitude",
            ),
            Claim("it gets looser with τ", _looser_with_tau, "for large τ"),
        ),
    ),
)
