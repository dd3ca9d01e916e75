"""SSL paper, runs on images: figures 8 and 9 and table 3, which it prints again as table 9 (MNIST, Fashion-MNIST)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .draw import curves_figure, page_figures, panels
from .item import Claim, Decision, Item, Scale, at_least, at_most, ours, reduced
from .learning_table import Cell, cell_of, curve_data, table_data
from .ssl_settings import (
    COLOURS,
    DIGITS_CUT,
    DRAWN,
    FROM_0_TO_1,
    FROM_MINUS_1,
    IMAGE_SETS,
    IN_TURN,
    LENET_CUT,
    LOCAL_STEPS,
    METHODS,
    ONE_SEED,
    PARALLEL,
    TABLE_3,
    VARIANTS,
    Entry,
    digits_setting,
    image_setting,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _pair(data: Data, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    fedavg, ssl = cell_of(data, cell, PARALLEL), cell_of(data, cell, IN_TURN)
    if fedavg is None or ssl is None:
        raise KeyError(f"no row for {cell}")
    return fedavg, ssl


def _says(row: dict[str, Any]) -> str:
    reached = f", {row['target']:.0%} in round {row['rounds_to']}" if row["rounds_to"] >= 0 else ""
    return f"{row['method']} {row['accuracy']:.2f} ± {row['deviation']:.2f} %{reached}"


def _ordering(cell: Cell, winner: str, data: Data) -> Decision:
    fedavg, ssl = _pair(data, cell)
    ahead, behind = (fedavg, ssl) if winner == PARALLEL else (ssl, fedavg)
    said = f"{_says(fedavg)}; {_says(ssl)}; {fedavg['seeds']} seed(s)"
    spread = np.hypot(ahead["deviation"], behind["deviation"])
    difference = ahead["accuracy"] - behind["accuracy"]
    why = f"they are {abs(difference):.2f} points apart, with a spread over rounds and seeds of {spread:.2f}"
    return at_least(ahead["accuracy"], behind["accuracy"], said, why)


def _within_spread(cell: Cell, method: str, data: Data) -> Decision:
    row = cell_of(data, cell, method)
    assert row is not None
    mean, spread, _ = TABLE_3[cell.data, cell.classes, cell.steps][list(METHODS).index(method)]
    off = abs(row["accuracy"] - mean)
    both = np.hypot(spread, row["deviation"])
    why = (
        f"{off:.2f} points from the paper, whose own spread is ± {spread}; ours is ± {row['deviation']:.2f}, so it is "
        f"{off / both:.1f} of both spreads together"
    )
    for variant in VARIANTS if cell.variant == DRAWN else ():
        other = cell_of(data, dataclasses.replace(cell, variant=variant), method)
        if other is not None:
            why += f"; with {variant} it is {other['accuracy']:.2f} ± {other['deviation']:.2f}"
    return at_most(off, spread, _says(row), why)


def _pixels_matter(data: Data) -> Decision:
    """FedAvg on MNIST with ExDir(2, 10), K = 10: standardised pixels end nearer to the paper than pixels from 0 to 1."""
    cell = Cell("mnist", 2, 10)
    printed = TABLE_3["mnist", 2, 10][0][0]
    standard, plain = (
        cell_of(data, cell, PARALLEL),
        cell_of(data, dataclasses.replace(cell, variant=FROM_0_TO_1), PARALLEL),
    )
    assert standard is not None
    assert plain is not None
    near, far = abs(standard["accuracy"] - printed), abs(plain["accuracy"] - printed)
    return at_least(far, near, f"{standard['accuracy']:.2f} % standardised, {plain['accuracy']:.2f} % from 0 to 1")


def _by_pixels(cell: Cell, data: Data) -> list[dict[str, Any]]:
    """FedAvg with standardised pixels, with pixels from -1 to 1 (if that was run) and from 0 to 1."""
    variants = (dataclasses.replace(cell, variant=variant) for variant in (DRAWN, FROM_MINUS_1, FROM_0_TO_1))
    return [row for variant in variants if (row := cell_of(data, variant, PARALLEL)) is not None]


def _pixels_set_the_pace(cell: Cell, data: Data) -> Decision:
    """The smaller the pixels, the more rounds FedAvg needs to 30 %, in order."""
    rows = _by_pixels(cell, data)
    rounds = [row["rounds_to"] if row["rounds_to"] >= 0 else row["rounds"] for row in rows]
    said = "round {} standardised, {} from -1 to 1, {} from 0 to 1".format(*rounds)
    return at_least(min(rounds[1] / rounds[0], rounds[2] / rounds[1]), 1.0, said)


def _pixels_span_the_paper(cell: Cell, data: Data) -> Decision:
    """The paper's accuracy lies in the range of those that differ in the pixels' scale alone."""
    printed, spread, _ = TABLE_3[cell.data, cell.classes, cell.steps][0]
    ends = [(row["accuracy"], row["variant"]) for row in _by_pixels(cell, data)]
    (low, lowest), (high, highest) = min(ends), max(ends)
    names = {DRAWN: "standardised"}
    said = f"{low:.2f} % ({names.get(lowest, lowest)}) to {high:.2f} % ({names.get(highest, highest)})"
    outside = max(low - printed, printed - high)
    why = f"the paper's figure is {outside:.2f} points outside, {outside / spread:.1f} of its own spread"
    return at_least(min(printed / low, high / printed), 1.0, said, why)


def _paper_says(cell: tuple[str, int, int]) -> str:
    (a, s, _), (b, t, _) = TABLE_3[cell]
    return f"FedAvg {a} ± {s} %, SSL {b} ± {t} %"


def _table_claims(data: tuple[str, ...]) -> tuple[Claim, ...]:
    claims = [
        Claim(
            "On extremely heterogeneous digits (one class a client) going through the clients in turn ends above averaging",
            functools.partial(_ordering, Cell("digits", 1, 10), IN_TURN),
            "the same on MNIST and Fashion-MNIST",
            scales=("quick",),
        )
    ]
    full: tuple[Scale, ...] = ("short", "paper")
    if "mnist" in data:
        sentence = (
            "Standardised pixels bring FedAvg nearer to the paper than pixels from 0 to 1 (MNIST, ExDir(2), K = 10)"
        )
        claims.append(
            Claim(sentence, _pixels_matter, "98.15 ± 0.13 %; the paper does not say what it feeds", ("paper",))
        )
    for key in TABLE_3:
        if key[0] not in data:
            continue
        (a, _, _), (b, _, _) = TABLE_3[key]
        winner = PARALLEL if a > b else IN_TURN
        cell = Cell(*key)
        claims.append(
            Claim(f"{cell.panel}: {winner} ends higher", functools.partial(_ordering, cell, winner), _paper_says(key), full)
        )  # fmt: skip
        for method in METHODS:
            claims.append(_spread_claim(cell, method, full))
            if cell.data == "fmnist":  # which they fit better
                claims.append(_spread_claim(dataclasses.replace(cell, variant=FROM_0_TO_1), method, ("paper",)))
        if cell.classes == 1:
            sentence = f"{cell.panel}: what pixels are fed, which the paper does not say, spans its accuracy of FedAvg"
            claims.append(Claim(sentence, functools.partial(_pixels_span_the_paper, cell), f"{a} %", ("paper",)))
        if cell.classes == 1 and cell.steps == 10:
            sentence = f"{cell.panel}: the smaller the pixels, the later FedAvg reaches 30 %"
            said = f"round {TABLE_3[key][0][2]}; pixels unsaid"
            claims.append(Claim(sentence, functools.partial(_pixels_set_the_pace, cell), said, ("paper",)))
            claims.append(_spread_claim(dataclasses.replace(cell, variant=FROM_MINUS_1), PARALLEL, ("paper",)))
    return tuple(claims)


def _spread_claim(cell: Cell, method: str, scales: tuple[Scale, ...]) -> Claim:
    mean, spread, _ = TABLE_3[cell.data, cell.classes, cell.steps][list(METHODS).index(method)]
    given = "" if cell.variant == DRAWN else f"with {cell.variant} "
    return Claim(
        f"{cell.panel}: {given}the accuracy of {method} is within the paper's own spread",
        functools.partial(_within_spread, cell, method),
        f"{mean} ± {spread} %",
        scales,
    )


def _sooner(cell: Cell, factor: float, data: Data) -> Decision:
    """FedAvg needs at least `factor` times the rounds of SSL."""
    fedavg, ssl = _pair(data, cell)
    said = f"{_says(fedavg)}; {_says(ssl)}"
    if ssl["rounds_to"] < 0:
        return Decision(False, said, 0.0, "SSL did not reach the target")
    first = fedavg["rounds_to"] if fedavg["rounds_to"] >= 0 else fedavg["rounds"]
    return at_least(first, factor * max(ssl["rounds_to"], 1), said)


def _curve_claims(data: str) -> tuple[Claim, ...]:
    digits = Cell("digits", 1, 10)
    claims = [
        Claim(
            f"{digits.panel}: SSL reaches 30 % in fewer rounds than FedAvg",
            functools.partial(_sooner, digits, 1.0),
            "the same on MNIST and Fashion-MNIST",
            ("quick",),
        )
    ]
    for steps in LOCAL_STEPS:
        cell, ((_, _, fedavg), (_, _, ssl)) = Cell(data, 1, steps), TABLE_3[data, 1, steps]
        claims.append(
            Claim(
                f"{cell.panel}: FedAvg needs at least five times the rounds of SSL to 30 %",
                functools.partial(_sooner, cell, 5.0),
                f"{fedavg} against {ssl} rounds",
                ("short", "paper"),
            )
        )
    return tuple(claims)


def draw_curves(data: Data) -> Figure:
    return curves_figure(
        data,
        y_label="test accuracy, %",
        methods={PARALLEL: "fedavg", IN_TURN: "sequential_fl"},
        columns=2,
        log=False,
        share_y=False,
        shade="std",
    )


def draw_table(data: Data, printed: Mapping[tuple[str, int, int], tuple[Entry, Entry]] = TABLE_3) -> Figure:
    """Bars with their spread, ours beside the paper's."""
    rows = data["cells"]
    labels = list(dict.fromkeys(_row_label(rows, i) for i in range(len(rows["K"]))))
    figure, axes = panels(1, 1, width=7.2, height=0.62 * len(labels) + 0.8)
    axis = axes[0, 0]
    for i in range(len(rows["K"])):
        method = str(rows["method"][i])
        y = labels.index(_row_label(rows, i)) + (-0.17 if method == PARALLEL else 0.17)
        axis.barh(y, rows["accuracy"][i], height=0.3, xerr=rows["deviation"][i], color=COLOURS[method], alpha=0.85,
                  error_kw={"elinewidth": 1, "capsize": 2}, label=f"{method}, ours")  # fmt: skip
        entries = printed.get((str(rows["data"][i]), int(rows["classes"][i]), int(rows["K"][i])))
        if entries is not None:
            mean, spread, _ = entries[list(METHODS).index(method)]
            axis.errorbar(
                mean, y, xerr=spread, fmt="D", color="black", markersize=3.5, elinewidth=0.8, label="the paper"
            )
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.5, -0.5)
    axis.set_xlim(0, 102)
    axis.set_xlabel("test accuracy over the last 20 rounds and all seeds, %")
    axis.grid(visible=True, axis="x")
    axis.set_axisbelow(True)
    shown = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    return figure


def _row_label(rows: dict[str, np.ndarray], i: int) -> str:
    variant = "" if rows["variant"][i] == DRAWN else f", {rows['variant'][i]}"
    return f"{str(rows['data'][i]).upper()}, ExDir({rows['classes'][i]}), K = {rows['K'][i]}{variant}"


def page_curves(data: Data) -> list[dict[str, Any]]:
    return page_figures(data, "std", "test accuracy, %", log=False)


_TABLE = (
    *image_setting(IMAGE_SETS),
    ours("variants", VARIANTS, "what a difference to the paper may come from: the first seed, one thing changed"),
)

ITEMS = (
    *(
        Item(
            f"ssl/{figure}",
            f"{name}: test accuracy of FedAvg and SSL in cross-device settings",
            (*image_setting((data,)), *LENET_CUT),
            functools.partial(curve_data, name=f"ssl/{figure}"),
            draw_curves,
            _curve_claims(data),
            (*digits_setting(), DIGITS_CUT),
            ONE_SEED,
            page_figures=page_curves,
        )
        for figure, data, name in (("fig8", "mnist", "MNIST"), ("fig9", "fmnist", "Fashion-MNIST"))
    ),
    Item(
        "ssl/table3",
        "SSL, table 3 (printed again as table 9): accuracy of FedAvg and SSL in cross-device settings, MNIST and Fashion-MNIST",
        _TABLE,
        functools.partial(table_data, name="ssl/table3"),
        draw_table,
        _table_claims(IMAGE_SETS),
        (*digits_setting(), reduced("variants", {})),
        (*ONE_SEED, reduced("variants", {})),
        page_figures=lambda data: [],
    ),
)  # fmt: skip
