"""The FedAvg paper, figure 3: FedProx stays closer to the best model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import undrift as ud

from .data import Curves, Data
from .fedavg_toy_runs import LOSS, TOY, run_toy, settled, toy_of
from .item import Claim, Decision, Item, Work, at_least, ours, paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure_3(work: Work) -> Data:
    curves, ends = Curves(), []
    methods = {"FedAvg": ud.fedavg(eta=work["eta"]), "FedProx": ud.fedprox(eta=work["eta"], beta=work["mu"])}
    for seed in work["seeds"]:
        data = toy_of(work, seed)
        best = float(data.test_loss(np.linspace(-4, 2, 6001)).min())
        for label, method in methods.items():
            result = run_toy(work, method, data, work["tau"], seed, label)
            b = np.asarray(result.iterates)[:, 0]
            curves.add_run(LOSS, label, data.test_loss(b), result.history, seed=seed)
            plateau = float(data.test_loss(b[-work["last"] :]).mean())
            ends.append((seed, label, plateau, best, settled(b)))
    names = ("seed", "series", "test loss", "least test loss", "settled")
    return Data(
        {"curves": curves.table(), "ends": dict(zip(names, zip(*ends, strict=True), strict=True))}, work["seeds"]
    )


def _prox_is_better(data: Data) -> Decision:
    over = {}
    for label in ("FedAvg", "FedProx"):
        rows = data.where("ends", series=label)
        over[label] = float(np.median(rows["test loss"] - rows["least test loss"]))
    text = f"test loss above the least possible: FedAvg {over['FedAvg']:.3f}, FedProx {over['FedProx']:.3f}"
    return at_least(over["FedAvg"] / over["FedProx"], 2, text)


def _prox_is_slower(data: Data) -> Decision:
    rounds = {s: float(np.median(data.where("ends", series=s)["settled"])) for s in ("FedAvg", "FedProx")}
    text = (
        f"rounds until b is within a tenth of its end: FedAvg {rounds['FedAvg']:.0f}, FedProx {rounds['FedProx']:.0f}"
    )
    return at_least(rounds["FedProx"] / rounds["FedAvg"], 2, text)


def _draw_3(data: Data) -> Figure:
    from .draw import curves_figure

    methods = {"FedAvg": "fedavg", "FedProx": "fedprox"}
    figure = curves_figure(data, y_label="cross entropy", methods=methods, log=False)
    figure.set_size_inches(5.2, 3.6)
    return figure


ITEMS = (
    Item(
        name="fedavg/fig3",
        title="FedAvg paper, figure 3: FedProx stays closer to the best model",
        setting=(
            *TOY,
            paper("tau", 3000),
            paper("mu", 0.1, "FedProx"),
            ours("rounds", 20),
            ours("last", 10, "rounds over which final values are averaged"),
        ),
        quantity="cross entropy",
        log=False,
        produce=_figure_3,
        draw=_draw_3,
        claims=(
            Claim("FedProx levels off at a much lower loss than FedAvg", _prox_is_better, "reaches a much better loss"),
            Claim("FedProx takes more rounds to settle", _prox_is_slower, "takes a longer time to reach convergence"),
        ),
    ),
)
