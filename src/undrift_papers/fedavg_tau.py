"""The FedAvg paper's toy with few and many local steps: the data behind figures 2 and 5."""

from __future__ import annotations

from typing import Any

import numpy as np

import undrift as ud

from .data import Curves, Data
from .fedavg_toy import Toy, toy
from .fedavg_toy_runs import LOSS, TOY, pair, run_toy, settled, toy_of
from .item import Work, ours, paper

DIFFERENCE = "dissimilarity of local and global gradients"
IID = "τ = 1000, iid"
OUTLIER, LARGEST = "mean of the outlier", "largest of all"  # two readings of ζ in eq. (3)
ENDS = ("seed", "series", "tau", "b", "b*", "gap", "test loss", OUTLIER, LARGEST, "settled")
MANY_TAU = (
    *TOY,
    paper("tau", [10, 50, 300, 1000]),
    paper("iid", "the same data dealt out at random, τ = 1000"),
    paper("zeta of the paper", 0.407, "estimated by the authors; used for the bound"),
    ours("rounds", 40),
    ours("last", 10, "rounds over which final values are averaged"),
    ours("ζ from round", 10, "the authors' code averages the outlier's |∇F_i − ∇F| from here on; the largest over cohort and "
         "rounds, which eq. (3) asks for, is measured beside it"),
    paper("first loss", 0.755, "F − F* where figure 2 starts, read off it"),
)  # fmt: skip


def differences(data: Toy, biases: np.ndarray, members: Any, eta: float, steps: int) -> np.ndarray:
    """|∇F_i(y_i) − ∇F(y_i)| where local steps end: (rounds, 2), of the ordinary client and of the outlier.

    The ordinary client's steps are taken again, for all rounds side by side; the outlier's end is what makes their mean the new
    model.
    """
    cohorts = np.array([members(t, None) for t in range(1, len(biases))])
    sums, labels = data.sums[cohorts[:, 0]], data.labels[cohorts[:, 0]]
    y = biases[:-1].copy()
    for _ in range(steps):
        y -= eta * (1 / (1 + np.exp(-(sums + y[:, None]))) - labels).mean(axis=1)
    ends = np.stack([y, 2 * biases[1:] - y], axis=1)
    found = []
    for clients, places in zip(cohorts, ends, strict=True):
        gradients = [data.gradients(place) for place in places]
        found.append([abs(g[i] - g.mean()) for i, g in zip(clients, gradients, strict=True)])
    return np.array(found)


def several_tau(work: Work) -> Data:
    """FedAvg with every τ, and with the largest on the same data dealt out iid; beside it the bound for τ = 1."""
    curves, ends = Curves(), []
    cases = [(tau, False) for tau in work["tau"]] + [(max(work["tau"]), True)]
    for seed in work["seeds"]:
        data = toy_of(work, seed)
        best = data.optimum()
        for tau, iid in cases:
            label = IID if iid else f"τ = {tau}"
            used = data.shuffled(seed) if iid else data
            result = run_toy(work, ud.fedavg(eta=work["eta"]), used, tau, seed, label)
            b = np.asarray(result.iterates)[:, 0]
            members = pair(work["clients"], seed).function
            apart = differences(used, b, members, work["eta"], tau)
            curves.add_run(LOSS, label, data.test_loss(b), result.history, seed=seed)
            curves.add(DIFFERENCE, label, apart[:, 1], seed=seed, round=np.arange(1, len(b)))
            last = b[-work["last"] :]
            gap = float(data.loss(last).mean() - data.loss(np.array([best]))[0])
            plateau, largest = float(data.test_loss(last).mean()), float(apart.max())
            zeta = float(apart[work["ζ from round"] - 1 :, 1].mean())
            ends.append((seed, label, tau, float(last.mean()), best, gap, plateau, zeta, largest, settled(b)))
        L, D, zeta = data.smoothness(), abs(work["b_0"] - best), work["zeta of the paper"]
        T = np.arange(1, work["rounds"] + 1)
        bound = D**2 / (2 * work["eta"] * T) + 18 * work["eta"] ** 2 * L * zeta**2
        curves.add(LOSS, "bound, τ = 1", data.loss(np.array([best]))[0] + bound, seed=seed, kind="bound", round=T)
    table = dict(zip(ENDS, zip(*ends, strict=True), strict=True))
    tables: dict[str, Any] = {
        "curves": curves.table(),
        "ends": table,
        "points": _points(work),
        "constants": _constants(work),
    }
    return Data(tables, work["seeds"])


def _points(work: Work) -> dict[str, Any]:
    """The samples of an ordinary client and of the outlier, to be drawn."""
    shown = toy_of(work, work["seeds"][0])
    rows = [0, work["clients"] - 1]
    points = shown.points[rows].reshape(-1, 2)
    return {
        "client": np.repeat(rows, 100),
        "x_1": points[:, 0],
        "x_2": points[:, 1],
        "label": shown.labels[rows].ravel(),
    }


def _constants(work: Work) -> dict[str, Any]:
    """What the bound is made of, and where a run starts, for every seed."""
    drawn = [toy_of(work, seed) for seed in work["seeds"]]
    wide = [toy(work["clients"], 0.5, seed, data.slope) for seed, data in zip(work["seeds"], drawn, strict=True)]
    start = [data.loss(np.array([work["b_0"], data.optimum()])) for data in drawn]
    return {
        "seed": work["seeds"],
        "L": [data.smoothness() for data in drawn],
        "L with variance 1/4": [data.smoothness() for data in wide],
        "D": [abs(work["b_0"] - data.optimum()) for data in drawn],
        "first gap": [float(first - least) for first, least in start],
        "sup ζ": [data.dissimilarity() for data in drawn],
    }


def ends_of(data: Data, column: str, iid: bool = False) -> np.ndarray:
    """The median over seeds for every τ."""
    if iid:
        return np.array([np.median(data.where("ends", series=IID)[column])])
    return np.array([np.median(data.where("ends", series=f"τ = {tau}")[column]) for tau in data.setting["tau"]])
