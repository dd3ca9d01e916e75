"""SSL paper, figure 6: what clipping gradients does to both methods."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from .data import Curves, Data
from .draw import curves_figure
from .item import Claim, Decision, Item, Scale, Work, at_least, ours, paper, reduced
from .jobs import finish
from .learning_costs import costs
from .learning_ssl import page_curves
from .learning_table import LAST_ROUNDS, Cell, cell_jobs
from .ssl_settings import (
    DIGITS_CUT,
    IN_TURN,
    LENET_CUT,
    METHODS,
    PARALLEL,
    SEEDS,
    digits_setting,
    image_setting,
    without,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIPPED, FREE = "clipped", "not clipped"
STEPS = 10


def _series(method: str, clipped: str) -> str:
    return f"{method}, {clipped}"


def produce(work: Work) -> Data:
    """Both methods on both partitions, with and without clipping."""
    curves, rows = Curves(), []
    (data,) = work["data"]
    cases = [
        (classes, clipped, method, job)
        for classes in work["classes per client"]
        for clipped in (CLIPPED, FREE)
        for method, job in cell_jobs({**work.values, "clipping norm": {}}, Cell(data, classes, STEPS))
    ]
    for number, (classes, clipped, method, job) in enumerate(cases):
        norm = work["norm"] if clipped == CLIPPED else None
        found = finish(dataclasses.replace(job, clip=norm), work.jobs)
        panel = Cell(data, classes, STEPS).panel
        series, spent = _series(method, clipped), costs(found, work["cut"])
        curves.add(panel, series, 100 * found.accuracy, seed=job.seed, round=found.rounds, **spent)
        last = np.nan_to_num(100 * found.last(LAST_ROUNDS))
        rows.append((classes, method, clipped, float(last.mean()), float(last.std()), found.summary["diverged"] or -1))
        work.progress(f"ssl/fig6: {found.job.name}", number + 1, len(cases))
    names = ("classes", "method", "clipped", "accuracy", "deviation", "diverged")
    ends = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return Data({"curves": curves.table(), "ends": ends}, work["seeds"], work.values)


def _end(data: Data, classes: int, method: str, clipped: str) -> float:
    return float(data.where("ends", classes=classes, method=method, clipped=clipped)["accuracy"][0])


def _clipping_hurts(method: str, data: Data) -> Decision:
    free, clipped = (_end(data, 1, method, how) for how in (FREE, CLIPPED))
    why = f"clipping changes the end by {clipped - free:+.2f} points here"
    return at_least(free, clipped, f"{free:.2f} % without, {clipped:.2f} % with clipping", why)


def _clipping_helps(method: str, data: Data) -> Decision:
    free, clipped = (_end(data, 2, method, how) for how in (FREE, CLIPPED))
    why = f"without clipping nothing breaks here: {free - clipped:+.2f} points"
    return at_least(clipped, free, f"{clipped:.2f} % with, {free:.2f} % without clipping", why)


def _claims() -> tuple[Claim, ...]:
    full: tuple[Scale, ...] = ("short", "paper")
    hurts = [
        Claim(
            f"With one class a client, clipping at norm 10 lowers where {method} ends",
            functools.partial(_clipping_hurts, method),
            "clipping hurts the convergence of both algorithms, especially FedAvg",
            full,
        )
        for method in METHODS
    ]
    helps = [
        Claim(
            f"With two classes a client, clipping at norm 10 does not lower where {method} ends",
            functools.partial(_clipping_helps, method),
            "clipping improves the stability",
            full,
        )
        for method in METHODS
    ]
    quick = Claim(
        "Digits, two classes a client: clipping does not lower where SSL ends",
        functools.partial(_clipping_helps, IN_TURN),
        "clipping improves the stability",
        ("quick",),
    )
    return (*hurts, *helps, quick)


def _draw(data: Data) -> Figure:
    methods = {_series(PARALLEL, CLIPPED): "fedavg", _series(PARALLEL, FREE): "fedprox",
               _series(IN_TURN, CLIPPED): "sequential_fl", _series(IN_TURN, FREE): "scaffold"}  # fmt: skip
    return curves_figure(data, y_label="test accuracy, %", methods=methods, log=False, share_y=False)


ITEMS = (
    Item(
        "ssl/fig6",
        "SSL, figure 6: clipping gradients helps with two classes a client and hurts with one",
        (
            *without(image_setting(("fmnist",)), "seeds", "local steps", "clipping norm", "data"),
            ours("data", ["fmnist"], "the paper does not say on which data"),
            paper("norm", 10.0),
            ours("seeds", [SEEDS[0]]),
            ours("local steps", [STEPS]),
            *LENET_CUT,
        ),
        produce,
        _draw,
        _claims(),
        (*digits_setting(), DIGITS_CUT),
        (reduced("rounds", {"1": 300, "2": 120}, "three tenths of the paper's"),),
        page_figures=page_curves,
    ),
)
