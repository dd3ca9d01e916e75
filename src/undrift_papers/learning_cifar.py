"""SSL paper, CIFAR-10 with VGG-11: figures 2, 7 and 10 and table 8.

At paper scale these are 4000 rounds of a network of ten million parameters: months on a CPU. `short` runs the paper's data and
model for a few rounds, to say what the whole would take, and claims nothing; `quick` runs the same comparison on digits, and
`learning_fair` with a smaller network on CIFAR-10.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from .data import Data
from .item import Claim, Decision, Elsewhere, Item, Scale, Setting, Work, at_most, ours, paper, reduced
from .jobs import MOVED, STANDARD
from .learning_order import leads
from .learning_ssl import draw_curves, draw_table, page_curves
from .learning_table import Cell, cell_of, curves_of, run_cells, table_of
from .ssl_settings import (
    CLIENTS,
    CLIP_NORM,
    COHORT,
    DIGITS_CUT,
    IN_TURN,
    METHODS,
    PARALLEL,
    SAME_NUMBERS,
    SEEDS,
    TABLE_3,
    TABLE_7,
    TABLE_7_SILO,
    TABLE_8,
    Entry,
    digits_setting,
    split_setting,
    step_key,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDS, SHORT_ROUNDS = 4000, 10
SMALL = "ssl/cifar-small"
LOCAL_STEPS = (5, 10, 20, 30)
PRINTED_SILO = {("cifar10", *key): entries for key, entries in TABLE_8.items()}
QUICK_STEPS_SILO = {step_key("digits", c, k): [0.1, 0.1 if c == 2 else 0.03] for c in (1, 2) for k in (5, 20)}


def _setting(silo: bool) -> tuple[Setting, ...]:
    pairs = {("cifar10", *key): pair for key, pair in TABLE_7_SILO.items()} if silo else TABLE_7
    steps = {step_key(*cell): list(pair) for cell, pair in pairs.items() if cell[0] == "cifar10"}
    return (
        paper("data", ["cifar10"]),
        paper("model", "vgg11"),
        paper("clients", COHORT if silo else CLIENTS),
        paper("clients per round", COHORT),
        paper("classes per client", [1, 2], "ExDir(C, 10)"),
        paper("local steps", list(LOCAL_STEPS)),
        paper("rounds", {"1": ROUNDS, "2": ROUNDS}, "by C"),
        paper("seeds", list(SEEDS)),
        paper("step sizes", steps, "FedAvg, SSL: table 7"),
        paper("clipping norm", {"2": CLIP_NORM}, "by C; none for ExDir(1, 10)"),
        paper("batch", 20),
        paper("weight decay", 1e-4),
        paper("evaluated every", 5, "as the paper's figures"),
        ours("pixels", STANDARD, "the paper does not say; its authors' public code (liyipeng00/convergence) does so"),
        ours("images", MOVED, "as that code does, in mini-batches"),
        ours("SSL is run as", "sequential_fl", SAME_NUMBERS),
        *split_setting(8, "to VGG-11's third pooling, 10 % of the model"),
    )


def _short() -> tuple[Setting, ...]:
    return (
        reduced("local steps", [5]),
        reduced("rounds", {"1": SHORT_ROUNDS, "2": SHORT_ROUNDS}, f"{SHORT_ROUNDS / ROUNDS:.1%} of the paper's"),
        reduced("seeds", [SEEDS[0]]),
        reduced("evaluated every", 5),
    )


def _quick(silo: bool) -> tuple[Setting, ...]:
    if not silo:
        return (*digits_setting(), reduced("evaluated every", 2), DIGITS_CUT)
    changes = {
        "clients": reduced("clients", 10),
        "clients per round": reduced("clients per round", 10),
        "local steps": reduced("local steps", [5, 20]),
        "rounds": reduced("rounds", {"1": 60, "2": 60}),
        "step sizes": reduced("step sizes", QUICK_STEPS_SILO, "FedAvg, SSL"),
    }
    return (
        *(changes.get(setting.key, setting) for setting in digits_setting()),
        reduced("evaluated every", 2),
        DIGITS_CUT,
    )


def produce(work: Work, name: str) -> Data:
    """Curves, cells, and how long a round takes."""
    found = run_cells(work, name)
    rows = [
        (cell.panel, method, outcome.job.rounds, outcome.seconds_per_round)
        for cell, methods in found.items()
        for method, outcomes in methods.items()
        for outcome in outcomes
    ]
    names = ("panel", "method", "rounds", "seconds_per_round")
    times = {key: list(column) for key, column in zip(names, zip(*rows, strict=True), strict=True)}
    tables: dict[str, Any] = {"curves": curves_of(found, work["cut"]), "cells": table_of(found), "times": times}
    return Data(tables, work["seeds"], work.values)


def _ahead(cell: Cell, data: Data) -> Decision:
    fedavg, ssl = cell_of(data, cell, PARALLEL), cell_of(data, cell, IN_TURN)
    assert fedavg is not None
    assert ssl is not None
    said = ", ".join(f"{row['method']} {row['accuracy']:.2f} ± {row['deviation']:.2f} %" for row in (fedavg, ssl))
    return leads(ssl, fedavg, said)


def _as_printed(cell: Cell, printed: tuple[Entry, Entry], data: Data) -> Decision:
    rows = [cell_of(data, cell, method) for method in METHODS]
    offs = [
        abs(row["accuracy"] - entry[0]) / max(entry[1], 1.0) for row, entry in zip(rows, printed, strict=True) if row
    ]
    said = ", ".join(f"{row['method']} {row['accuracy']:.2f} %" for row in rows if row)
    return at_most(max(offs), 1.0, said)


def _estimate(name: str, data: Data, elsewhere: Elsewhere) -> list[str]:
    """How much of the paper's setting was run, and what the whole would take on the machine that ran it."""
    if data.setting["data"] != ["cifar10"] or data.setting["rounds"]["1"] == ROUNDS:
        return []
    times, done = data["times"]["seconds_per_round"], data.setting["rounds"]["1"]
    partitions, (steps,) = len({*data["times"]["panel"].tolist()}), data.setting["local steps"]
    work = sum(LOCAL_STEPS) / steps  # a round takes about as long as its local steps
    hours = float(times.mean()) * work * ROUNDS * len(SEEDS) * len(METHODS) * partitions / 3600
    return [
        f"Run here: {done / ROUNDS:.1%} of the rounds, one seed of {len(SEEDS)}, K = {steps} of {list(LOCAL_STEPS)}: that "
        f"decides nothing. A round takes {times.mean():.1f} s, so that `undrift reproduce {name} --scale paper` would take "
        f"about {hours:.0f} hours on this machine; the command is the same where there is an accelerator. What can be "
        f"decided here, with LeNet-5 in place of VGG-11, is in {SMALL}."
    ]


def _claims(silo: bool) -> tuple[Claim, ...]:
    printed = PRINTED_SILO if silo else TABLE_3
    full: tuple[Scale, ...] = ("paper",)
    claims = []
    for key, entries in printed.items():
        if key[0] != "cifar10":
            continue
        cell, says = Cell(*key), f"FedAvg {entries[0][0]} %, SSL {entries[1][0]} %"
        claims.append(
            Claim(
                f"{cell.panel}: SSL ends higher, by more than the spread", functools.partial(_ahead, cell), says, full
            )
        )
        sentence = f"{cell.panel}: both accuracies are within the paper's spread (or a point)"
        claims.append(Claim(sentence, functools.partial(_as_printed, cell, entries), says, full))
    quick = [Cell("digits", 1, steps) for steps in ((5, 20) if silo else (10,))]
    claims += [
        Claim(
            f"{cell.panel}: SSL ends higher, by more than the spread",
            functools.partial(_ahead, cell),
            "the same on CIFAR-10",
            ("quick",),
        )
        for cell in quick
    ]
    return tuple(claims)


def _item(name: str, title: str, silo: bool, draw: Any) -> Item:
    return Item(
        f"ssl/{name}",
        f"SSL, {title}",
        _setting(silo),
        functools.partial(produce, name=f"ssl/{name}"),
        draw,
        _claims(silo),
        _quick(silo),
        _short(),
        page_figures=page_curves,
        remarks=functools.partial(_estimate, f"ssl/{name}"),
    )


def _draw(data: Data) -> Figure:
    return draw_curves(data)


ITEMS = (
    _item("fig2", "figure 2: CIFAR-10, 10 clients that all take part, K from 5 to 30", True, _draw),
    _item("fig7", "figure 7: as figure 2, every local step number by itself", True, _draw),
    _item("fig10", "figure 10: CIFAR-10, 500 clients, 10 a round", False, _draw),
    _item(
        "table8", "table 8: accuracy on CIFAR-10, 10 clients", True, functools.partial(draw_table, printed=PRINTED_SILO)
    ),
)
