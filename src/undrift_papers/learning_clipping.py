"""SSL paper, figure 6: what clipping gradients does to both methods."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

import numpy as np

from .data import Curves, Data
from .draw import curves_figure
from .item import Claim, Decision, Elsewhere, Item, Scale, Work, at_least, at_most, ours, paper, reduced
from .jobs import finish, outcome
from .learning_costs import costs
from .learning_ssl import page_curves
from .learning_table import LAST_ROUNDS, Cell, cell_jobs
from .ssl_settings import (
    DIGITS_CUT,
    IN_TURN,
    LENET_CUT,
    METHODS,
    ONE_SEED,
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
STEADY_ROUNDS = 100  # over which accuracies fluctuate
CALMER = 1.1  # by which factor they do so less
POINT = 1.0
FULL: tuple[Scale, ...] = ("paper",)
COLUMNS = ("classes", "method", "clipped", "seed", "accuracy", "fluctuation", "diverged")


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
        wanted = dataclasses.replace(job, clip=norm)
        found = finish(wanted, work.jobs) if work.train else outcome(wanted, work.jobs)
        if found is None:
            continue
        panel, spent = f"{Cell(data, classes, STEPS).panel}: {method}", costs(found, work["cut"])
        curves.add(panel, clipped, 100 * found.accuracy, seed=job.seed, round=found.rounds, **spent)
        last, steady = (np.nan_to_num(100 * found.last(rounds)) for rounds in (LAST_ROUNDS, STEADY_ROUNDS))
        exploded = found.summary["diverged"] or -1
        rows.append((classes, method, clipped, job.seed, float(last.mean()), float(steady.std()), exploded))
        work.progress(f"ssl/fig6: {found.job.name}", number + 1, len(cases))
    ends = {name: list(column) for name, column in zip(COLUMNS, zip(*rows, strict=True), strict=True)}
    return Data({"curves": curves.table(), "ends": ends}, work["seeds"], work.values)


def _ready(classes: int, data: Data) -> bool:
    """Whether all seeds are there."""
    return len(data.where("ends", classes=classes)["seed"]) == 2 * len(METHODS) * len(data.seeds)


def _remarks(data: Data, elsewhere: Elsewhere) -> list[str]:
    missing = [f"ExDir({classes}, 10)" for classes in (1, 2) if not _ready(classes, data)]
    again = "`undrift reproduce ssl/fig6 --scale paper --again` runs it, and finds what is finished"
    return [f"Not all seeds are run yet, and nothing is claimed: {', '.join(missing)}. {again}."] if missing else []


def _by_seed(data: Data, classes: int, method: str, clipped: str, column: str = "accuracy") -> np.ndarray:
    rows = data.where("ends", classes=classes, method=method, clipped=clipped)
    return np.array([rows[column][rows["seed"] == seed][0] for seed in data.seeds])


def _losses(data: Data, classes: int, method: str) -> np.ndarray:
    """By how many points the end is lower with clipping, seed by seed: the same partition and the same clients."""
    return _by_seed(data, classes, method, FREE) - _by_seed(data, classes, method, CLIPPED)


def _said(losses: np.ndarray) -> str:
    return f"{losses.mean():+.2f} ± {losses.std():.2f} points lost ({', '.join(f'{loss:+.2f}' for loss in losses)} by seed)"


def _clipping_hurts(method: str, data: Data) -> Decision:
    """The mean loss over seeds is at least the standard deviation of the seeds' losses."""
    losses = _losses(data, 1, method)
    why = "the seeds do not agree" if losses.mean() > 0 else "clipping raises the end here"
    return at_least(float(losses.mean()), float(losses.std()), _said(losses), why)


def _hurts_fedavg_more(data: Data) -> Decision:
    fedavg, ssl = (_losses(data, 1, method) for method in (PARALLEL, IN_TURN))
    said = f"FedAvg: {_said(fedavg)}; SSL: {_said(ssl)}"
    more = fedavg - ssl
    return at_least(float(more.mean()), float(more.std()), said, "the difference is within its own spread over seeds")


def _calmer(method: str, data: Data) -> Decision:
    """With clipping the accuracy fluctuates less over the last rounds, in the mean over seeds."""
    free, clipped = (float(_by_seed(data, 2, method, how, "fluctuation").mean()) for how in (FREE, CLIPPED))
    said = f"standard deviation over the last {STEADY_ROUNDS} rounds {clipped:.2f} with, {free:.2f} points without clipping"
    return at_least(free / clipped, CALMER, said, f"without clipping it fluctuates {free / clipped:.2f} times as much")


def _explodes(data: Data) -> Decision:
    """Without clipping some run turns to NaN."""
    rows = data.where("ends", classes=2, clipped=FREE)
    exploded, total = int(np.sum(rows["diverged"] >= 0)), len(rows["diverged"])
    return at_least(exploded, 1, f"{exploded} of {total} runs", "none does at the paper's own steps on these data")


def _loses_little(data: Data) -> Decision:
    losses = _losses(data, 2, IN_TURN)
    return at_most(max(float(losses.mean()), 0.0), POINT, _said(losses))


def _claims() -> tuple[Claim, ...]:
    hurt = "clipping hurts the convergence of both algorithms, especially FedAvg"
    calm = "clipping improves the stability"
    hurts = [
        Claim(
            f"With one class a client, clipping at norm 10 lowers where {method} ends, by more than the spread over seeds",
            functools.partial(_clipping_hurts, method),
            hurt,
            FULL,
            functools.partial(_ready, 1),
        )
        for method in METHODS
    ]
    more = "With one class a client, clipping costs FedAvg more than SSL, by more than the spread over seeds"
    calms = [
        Claim(
            f"With two classes a client, {method}'s accuracy fluctuates at least a tenth less with clipping",
            functools.partial(_calmer, method),
            calm,
            FULL,
            functools.partial(_ready, 2),
        )
        for method in METHODS
    ]
    nan = "With two classes a client, some run explodes (NaN) without clipping"
    quick = "Digits, two classes a client: clipping costs SSL at most a point"
    return (
        *hurts,
        Claim(more, _hurts_fedavg_more, hurt, FULL, functools.partial(_ready, 1)),
        *calms,
        Claim(nan, _explodes, "the loss turns NaN in some experiments", FULL, functools.partial(_ready, 2)),
        Claim(quick, _loses_little, calm, ("quick",)),
    )


def _draw(data: Data) -> Figure:
    methods = {CLIPPED: "fedavg", FREE: "sequential_fl"}
    return curves_figure(
        data, y_label="test accuracy, %", methods=methods, columns=2, log=False, share_y=False, shade="std"
    )


def _finding(data: Data) -> str:
    parts = []
    if _ready(1, data):
        losses = [f"{method} {_losses(data, 1, method).mean():+.1f}" for method in METHODS]
        parts.append(f"points lost by clipping, C = 1: {', '.join(losses)}")
    if _ready(2, data):
        pairs = [[_by_seed(data, 2, m, how, "fluctuation").mean() for how in (CLIPPED, FREE)] for m in METHODS]
        calm = [f"{method} {a:.1f} and {b:.1f}" for method, (a, b) in zip(METHODS, pairs, strict=True)]
        parts.append(f"fluctuation with and without it, C = 2: {', '.join(calm)}")
    return "; ".join(parts) or "not run yet"


ITEMS = (
    Item(
        "ssl/fig6",
        "SSL, figure 6: clipping gradients helps with two classes a client and hurts with one",
        (
            *without(image_setting(("fmnist",)), "seeds", "local steps", "clipping norm", "data"),
            ours("data", ["fmnist"], "the paper does not say on which data"),
            paper("norm", 10.0),
            ours("seeds", list(SEEDS), "the paper shows one curve each"),
            ours("local steps", [STEPS]),
            *LENET_CUT,
        ),
        produce,
        _draw,
        _claims(),
        (*digits_setting(), DIGITS_CUT),
        (reduced("rounds", {"1": 300, "2": 120}, "three tenths of the paper's"), *ONE_SEED),
        revision=2,
        page_figures=page_curves,
        finding=_finding,
        remarks=_remarks,
    ),
)
