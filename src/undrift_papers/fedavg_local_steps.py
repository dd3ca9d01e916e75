"""The FedAvg paper, figure 2: the more local steps, the faster and the further away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .fedavg_tau import DIFFERENCE, IID, LARGEST, MANY_TAU, OUTLIER, ends_of, several_tau
from .fedavg_toy_runs import LOSS
from .item import Claim, Decision, Item, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _rises(column: str, what: str, least: float, offset: Callable[[Data], np.ndarray] | None = None) -> Any:
    """A quantity grows from each τ to the next by at least this factor."""

    def decide(data: Data) -> Decision:
        values = ends_of(data, column) if offset is None else np.abs(ends_of(data, column) - offset(data))
        factor = float(np.min(values[1:] / values[:-1]))
        said = ", ".join(f"{v:.3f}" for v in values)
        return at_least(factor, least, f"{what} for τ = {', '.join(map(str, data.setting['tau']))}: {said}")

    return decide


def _faster(data: Data) -> Decision:
    settled = ends_of(data, "settled")
    slower = bool(np.all(np.diff(settled) <= 0))
    factor = settled[0] / settled[-1]
    said = ", ".join(f"{n:.0f}" for n in settled)
    text = f"rounds until b is within a tenth of its end, τ = {', '.join(map(str, data.setting['tau']))}: {said}"
    return Decision(bool(slower and factor >= 3), text, factor / 3 if slower else 0.0)


def _iid_is_better(data: Data) -> Decision:
    iid, others = float(ends_of(data, "gap", iid=True)[0]), ends_of(data, "gap")
    return at_least(float(others.min()) / iid, 3, f"F − F* {iid:.1e} with iid data, {others.min():.1e} or more without")


def _zeta(data: Data) -> Decision:
    zeta, largest = (float(ends_of(data, measure)[-1]) for measure in (OUTLIER, LARGEST))
    off = abs(zeta / data.setting["zeta of the paper"] - 1)
    return at_most(off, 0.03, f"at τ = 1000 {zeta:.4f} on average; the largest of cohort and rounds is {largest:.4f}")


def _measures_agree(data: Data) -> Decision:
    """At every τ; the largest is what eq. (3) means, since ζ bounds a supremum."""
    mean, largest = ends_of(data, OUTLIER), ends_of(data, LARGEST)
    said = ", ".join(
        f"{a:.3f} and {b:.3f} (τ = {t})" for a, b, t in zip(mean, largest, data.setting["tau"], strict=True)
    )
    why = "the first rounds, in which b falls from b_0, show larger differences than those that the average keeps"
    return at_most(float(np.max(largest / mean - 1)), 0.1, said, why)


def _smoothness(data: Data) -> Decision:
    L, wide = float(np.median(data["constants"]["L"])), float(np.median(data["constants"]["L with variance 1/4"]))
    off = abs(L / 0.190 - 1)
    text = f"L = {L:.4f} with standard deviation 1/4 (it would be {wide:.4f} with variance 1/4)"
    return at_most(off, 0.01, text)


def _first_loss(data: Data) -> Decision:
    first, printed = float(np.median(data["constants"]["first gap"])), data.setting["first loss"]
    return at_most(abs(first / printed - 1), 0.01, f"F(b_0) − F* = {first:.4f} from b_0 = {data.setting['b_0']:g}")


def _draw_2(data: Data) -> Figure:
    from .draw import draw_curve, dress, legend, panels, styles_of

    figure, axes = panels(1, 3, width=3.7, height=3.2)
    left, centre, right = axes[0]
    styles = styles_of(data, {"bound, τ = 1": "fedsgd", IID: "gd"})
    points = data["points"]
    for kind, marker in ((0, "o"), (1, "^")):
        rows = points["label"] == kind
        left.plot(
            points["x_1"][rows],
            points["x_2"][rows],
            marker,
            markersize=2.6,
            color="#9A9A9A" if kind else "#CFCFCF",
            zorder=1,
        )
    x = np.array([-1.2, 5.2])
    for label in (*[f"τ = {tau}" for tau in data.setting["tau"]], IID):
        b = float(np.median(data.where("ends", series=label)["b"]))
        left.plot(x, -b - x, color=styles[label].colour, linestyle=styles[label].dash, linewidth=1.4)
    left.set_xlim(-1.2, 5.2)
    left.set_ylim(-1.2, 5.2)
    left.text(2.15, 1.35, "19 clients", fontsize=7.5, color="#555555", ha="center")
    left.text(3.9, 3.05, "the outlier", fontsize=7.5, color="#555555", ha="center")
    dress(left, "final separators", r"$x_1$", r"$x_2$", log=False)
    for axis, panel, title in ((centre, LOSS, LOSS), (right, DIFFERENCE, "local against global gradients")):
        for label in data.labels(panel):
            draw_curve(axis, data, panel, label, styles[label])
        dress(axis, title, "communication rounds", "", log=False)
        axis.set_xlim(0, data.setting["rounds"])
    centre.set_ylim(0.28, 1.2)
    right.set_ylim(bottom=0)
    right.set_ylabel(r"$|\nabla F_i(y_i) - \nabla F(y_i)|$ of the outlier")
    legend(figure, axes, columns=7)
    return figure


ITEMS = (
    Item(
        name="fedavg/fig2",
        title="FedAvg paper, figure 2: the more local steps, the faster and the further away",
        setting=MANY_TAU,
        revision=2,
        log=False,
        produce=several_tau,
        draw=_draw_2,
        claims=(
            Claim("larger τ settles in fewer rounds", _faster, "the bigger τ, the faster the convergence in T"),
            Claim(
                "local and global gradients differ more with larger τ",
                _rises(OUTLIER, "difference", 1.01),
                "a clear increase",
            ),
            Claim(
                "the final separator is further from the best one with larger τ",
                _rises("b", "|b − b*|", 1.05, lambda data: ends_of(data, "b*")),
                "clearly worse when τ gets larger",
            ),
            Claim(
                "the loss levels off higher with larger τ",
                _rises("test loss", "test loss", 1.01),
                "plateaus at higher values",
            ),
            Claim("dealt out iid, τ = 1000 does no harm", _iid_is_better, "the iid baseline"),
            Claim("ζ, by the authors' measure, is the paper's 0.407 (within 3 %)", _zeta, "ζ = 0.407"),
            Claim("both measures of ζ agree within a tenth at every τ", _measures_agree, None),
            Claim("L is the paper's 0.190 (within 1 %)", _smoothness, "L ≈ 0.190"),
            Claim("the first loss is the one of figure 2 (within 1 %)", _first_loss, "F − F* = 0.755 in figure 2"),
        ),
    ),
)
