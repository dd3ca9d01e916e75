"""SSL paper, runs on images: figures 8 and 9 and table 3, which it prints again as table 9 (MNIST, Fashion-MNIST)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Data
from .draw import curves_figure, page_figures, panels
from .item import Claim, Decision, Elsewhere, Item, Scale, at_least, at_most
from .learning_fair_words import FAIR, fair_remarks
from .learning_order import HOW, leads, level
from .learning_table import Cell, cell_of, curve_data, table_data
from .ssl_settings import (
    COLOURS,
    DIGITS_CUT,
    DRAWN,
    IMAGE_SETS,
    IN_TURN,
    LENET_CUT,
    LOCAL_STEPS,
    METHODS,
    ONE_SEED,
    PARALLEL,
    TABLE_3,
    VARIANT_ITEM,
    Entry,
    digits_setting,
    image_setting,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FULL: tuple[Scale, ...] = ("short", "paper")
SPREAD = f"The spread of two accuracies: {HOW}."


def _pair(data: Data, cell: Cell) -> tuple[dict[str, Any], dict[str, Any]]:
    fedavg, ssl = cell_of(data, cell, PARALLEL), cell_of(data, cell, IN_TURN)
    if fedavg is None or ssl is None:
        raise KeyError(f"no row for {cell}")
    return fedavg, ssl


def _says(row: dict[str, Any]) -> str:
    reached = f", {row['target']:.0%} in round {row['rounds_to']}" if row["rounds_to"] >= 0 else ""
    return f"{row['method']} {row['accuracy']:.2f} ± {row['deviation']:.2f} %{reached}"


def _ordering(cell: Cell, winner: str, data: Data) -> Decision:
    """See `learning_order`: the difference must be at least the spread over the last rounds and the seeds."""
    fedavg, ssl = _pair(data, cell)
    ahead, behind = (fedavg, ssl) if winner == PARALLEL else (ssl, fedavg)
    return leads(ahead, behind, f"{_says(fedavg)}; {_says(ssl)}; {fedavg['seeds']} seed(s)")


def _level(cell: Cell, data: Data) -> Decision:
    fedavg, ssl = _pair(data, cell)
    return level(fedavg, ssl, f"{_says(fedavg)}; {_says(ssl)}; {fedavg['seeds']} seed(s)")


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
    why += f"; what moves it: {VARIANT_ITEM}" if cell.variant == DRAWN else ""
    return at_most(off, spread, _says(row), why)


def _paper_says(cell: Cell) -> str:
    (a, s, _), (b, t, _) = TABLE_3[cell.data, cell.classes, cell.steps]
    return f"FedAvg {a} ± {s} %, SSL {b} ± {t} %"


def _order_claim(cell: Cell) -> Claim:
    """Table 3 on the order: who is ahead, or that both are level where the paper's difference is within its spread."""
    printed = TABLE_3[cell.data, cell.classes, cell.steps]
    fedavg, ssl = (
        {"method": method, "accuracy": mean, "deviation": spread}
        for method, (mean, spread, _) in zip(METHODS, printed, strict=True)
    )
    says, pointer = _paper_says(cell), f" (at fair steps: {FAIR})" if cell.classes == 1 else ""
    if level(fedavg, ssl, "").holds:
        sentence = f"{cell.panel}: at the paper's steps both end level, within the spread{pointer}"
        return Claim(sentence, functools.partial(_level, cell), says, FULL)
    winner = PARALLEL if printed[0][0] > printed[1][0] else IN_TURN
    sentence = f"{cell.panel}: at the paper's steps {winner} ends higher, by more than the spread{pointer}"
    return Claim(sentence, functools.partial(_ordering, cell, winner), says, FULL)


def _table_claims() -> tuple[Claim, ...]:
    claims = [
        Claim(
            "On extremely heterogeneous digits (one class a client) going through the clients in turn ends above averaging, "
            "by more than the spread",
            functools.partial(_ordering, Cell("digits", 1, 10), IN_TURN),
            "the same on MNIST and Fashion-MNIST",
            scales=("quick",),
        )
    ]
    for cell in (Cell(*key) for key in TABLE_3 if key[0] in IMAGE_SETS):
        claims.append(_order_claim(cell))
        claims += [spread_claim(cell, method, FULL) for method in METHODS]
    return tuple(claims)


def spread_claim(cell: Cell, method: str, scales: tuple[Scale, ...]) -> Claim:
    """Our accuracy is within the paper's own spread."""
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
                f"{cell.panel}: at the paper's steps FedAvg needs at least five times the rounds of SSL to 30 % "
                f"(at fair steps: {FAIR})",
                functools.partial(_sooner, cell, 5.0),
                f"{fedavg} against {ssl} rounds",
                FULL,
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


def _remarks(cells: Sequence[Cell], data: Data, elsewhere: Elsewhere) -> list[str]:
    return [SPREAD, *fair_remarks(cells, data, elsewhere)]


def _cells(data: Sequence[str]) -> list[Cell]:
    """Those with one class a client, where the paper's steps are far from the best ones."""
    return [Cell(name, 1, steps) for name in data for steps in LOCAL_STEPS]


def _finding(data: Data) -> str:
    """The margins of SSL, cell by cell."""
    rows = data["cells"]
    parts = []
    for name, classes in dict.fromkeys(zip(rows["data"].tolist(), rows["classes"].tolist(), strict=True)):
        pairs = [_pair(data, Cell(name, classes, steps)) for steps in data.setting["local steps"]]
        points = " and ".join(f"{ssl['accuracy'] - fedavg['accuracy']:+.1f}" for fedavg, ssl in pairs)
        parts.append(f"{name.upper()} C = {classes} {points}")
    return (
        f"points by which SSL is ahead at the paper's steps, K = 10 and 20: {', '.join(parts)}; at fair steps: {FAIR}"
    )


def _pace(data: Data) -> str:
    """Rounds to the target with one class a client."""
    (name,) = data.setting["data"]
    parts = []
    for steps in data.setting["local steps"]:
        rounds = [row["rounds_to"] if row["rounds_to"] >= 0 else "never" for row in _pair(data, Cell(name, 1, steps))]
        parts.append("{} and {} (K = {})".format(*rounds, steps))
    return f"rounds of FedAvg and SSL to 30 %, C = 1, at the paper's steps: {', '.join(parts)}; at fair steps: {FAIR}"


ITEMS = (
    *(
        Item(
            f"ssl/{figure}",
            f"SSL, figure {figure[3:]}: test accuracy of FedAvg and SSL in cross-device settings, {name}",
            (*image_setting((data,)), *LENET_CUT),
            functools.partial(curve_data, name=f"ssl/{figure}"),
            draw_curves,
            _curve_claims(data),
            (*digits_setting(), DIGITS_CUT),
            ONE_SEED,
            page_figures=page_curves,
            finding=_pace,
            remarks=functools.partial(fair_remarks, _cells([data])),
        )
        for figure, data, name in (("fig8", "mnist", "MNIST"), ("fig9", "fmnist", "Fashion-MNIST"))
    ),
    Item(
        "ssl/table3",
        "SSL, table 3 (printed again as table 9): accuracy of FedAvg and SSL in cross-device settings, MNIST and Fashion-MNIST",
        image_setting(IMAGE_SETS),
        functools.partial(table_data, name="ssl/table3"),
        draw_table,
        _table_claims(),
        digits_setting(),
        ONE_SEED,
        page_figures=lambda data: [],
        finding=_finding,
        remarks=functools.partial(_remarks, _cells(IMAGE_SETS)),
    ),
)  # fmt: skip
