"""SSL paper, table 3: what choices on which the paper is silent (pixels, partition, weights, augmentation) do to accuracies."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from .data import Data
from .draw import panels
from .item import Claim, Decision, Elsewhere, Item, at_least, ours, reduced
from .learning_fair_words import fair_remarks
from .learning_ssl import spread_claim
from .learning_table import Cell, cell_of, table_data
from .ssl_settings import (
    DRAWN,
    FROM_0_TO_1,
    FROM_MINUS_1,
    IMAGE_SETS,
    METHODS,
    PARALLEL,
    TABLE_3,
    VARIANT_ITEM,
    VARIANTS,
    digits_setting,
    image_setting,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

AS_IN_TABLE = "as in ssl/table3: standardised pixels, partition drawn"
MARKS = {DRAWN: ("o", "#000000")} | dict(
    zip(
        VARIANTS,
        zip("sPD^vX", ("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00"), strict=True),
        strict=True,
    )
)


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


def _larger_pixels_are_faster(data: Data) -> Decision:
    """On digits, pixels from −1 to 1 against 0 to 1."""
    cell = Cell("digits", 1, 10)
    plain, signed = (cell_of(data, dataclasses.replace(cell, variant=v), PARALLEL) for v in (DRAWN, FROM_MINUS_1))
    assert plain is not None
    assert signed is not None
    rounds = [row["rounds_to"] if row["rounds_to"] >= 0 else row["rounds"] for row in (plain, signed)]
    return at_least(rounds[0], rounds[1], "round {} from 0 to 1, {} from -1 to 1".format(*rounds))


def _claims() -> tuple[Claim, ...]:
    quick = "Digits, one class a client: with the larger pixels FedAvg reaches 30 % no later"
    sentence = "Standardised pixels bring FedAvg nearer to the paper than pixels from 0 to 1 (MNIST, ExDir(2), K = 10)"
    claims = [Claim(quick, _larger_pixels_are_faster, None, ("quick",))]
    claims += [Claim(sentence, _pixels_matter, "98.15 ± 0.13 %; the paper does not say what it feeds", ("paper",))]
    for cell in (Cell(*key) for key in TABLE_3 if key[0] in IMAGE_SETS):
        if cell.data == "fmnist":  # which they fit better
            plain = dataclasses.replace(cell, variant=FROM_0_TO_1)
            claims += [spread_claim(plain, method, ("paper",)) for method in METHODS]
        if cell.classes == 1:
            claims += _pixel_claims(cell)
    return tuple(claims)


def _pixel_claims(cell: Cell) -> list[Claim]:
    """Where clients have one class, and FedAvg is far from having converged."""
    accuracy, _, rounds = TABLE_3[cell.data, cell.classes, cell.steps][0]
    sentence = f"{cell.panel}: what pixels are fed, which the paper does not say, spans its accuracy of FedAvg"
    claims = [Claim(sentence, functools.partial(_pixels_span_the_paper, cell), f"{accuracy} %", ("paper",))]
    if cell.steps == 10:
        sentence = f"{cell.panel}: the smaller the pixels, the later FedAvg reaches 30 %"
        said = f"round {rounds}; pixels unsaid"
        claims.append(Claim(sentence, functools.partial(_pixels_set_the_pace, cell), said, ("paper",)))
        claims.append(spread_claim(dataclasses.replace(cell, variant=FROM_MINUS_1), PARALLEL, ("paper",)))
    return claims


def draw_variants(data: Data) -> Figure:
    """How far each choice ends from the paper: a row for each cell and method, a mark for each choice."""
    names = data.setting["data"]
    figure, axes = panels(1, len(names), width=4.6, height=3.6)
    for axis, name in zip(axes.flat, names, strict=True):
        _draw_set(axis, data, name)
    entries = {
        label: handle for axis in axes.flat for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=2, frameon=False, fontsize=8.5
    )
    return figure


def _reference(data: Data, cell: Cell, method: str) -> tuple[float, float]:
    """What the choices are compared with: the paper's accuracy and spread; on data that it does not have, our own."""
    printed = TABLE_3.get((cell.data, cell.classes, cell.steps))
    if printed is not None:
        return printed[list(METHODS).index(method)][:2]
    row = cell_of(data, cell, method)
    assert row is not None
    return row["accuracy"], row["deviation"]


def _draw_set(axis: Axes, data: Data, name: str) -> None:
    numbers = [(classes, steps) for classes in (1, 2) for steps in data.setting["local steps"]]
    rows = [(method, *pair) for method in METHODS for pair in numbers]
    axis.axvline(0, color="#333333", linewidth=1)
    for y, (method, classes, steps) in enumerate(rows):
        mean, spread = _reference(data, Cell(name, classes, steps), method)
        axis.barh(
            y,
            2 * spread,
            left=-spread,
            height=0.8,
            color="#e4e4e4",
            label="the paper's own spread",
            zorder=0,
        )
        for variant, (mark, colour) in MARKS.items():
            row = cell_of(data, Cell(name, classes, steps, variant), method)
            if row is not None:
                label = AS_IN_TABLE if variant == DRAWN else variant
                axis.plot(row["accuracy"] - mean, y, mark, color=colour, markersize=5, linestyle="none", label=label)
    axis.set_yticks(range(len(rows)), [f"{method}, C = {classes}, K = {steps}" for method, classes, steps in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    printed = any(key[0] == name for key in TABLE_3)
    axis.set_xlabel(f"accuracy − {'the paper' if printed else 'partition drawn'}'s, points")
    axis.set_title({"mnist": "MNIST", "fmnist": "Fashion-MNIST"}.get(name, name), color="#333333")
    axis.grid(visible=True, axis="x")
    axis.set_axisbelow(True)


def _remarks(data: Data, elsewhere: Elsewhere) -> list[str]:
    return [*fair_remarks([Cell(name, 1, 10) for name in IMAGE_SETS], data, elsewhere)]


def _finding(data: Data) -> str:
    parts = []
    for name in IMAGE_SETS:
        by_pixels: list[dict[str, Any]] = _by_pixels(Cell(name, 1, 10), data)
        ends = ", ".join(f"{row['accuracy']:.0f}" for row in by_pixels)
        parts.append(f"{name.upper()} {ends} % (the paper {TABLE_3[name, 1, 10][0][0]:.0f})")
    return f"FedAvg, C = 1 and K = 10, pixels standardised, from -1 to 1, from 0 to 1: {'; '.join(parts)}"


ITEMS = (
    Item(
        VARIANT_ITEM,
        "SSL, table 3: which choice that the paper does not state brings our accuracies to its own?",
        (
            *image_setting(IMAGE_SETS),
            ours(
                "variants", VARIANTS, "what a difference to the paper may come from: the first seed, one thing changed"
            ),
        ),
        functools.partial(table_data, name=VARIANT_ITEM),
        draw_variants,
        _claims(),
        (*digits_setting(), reduced("variants", {FROM_MINUS_1: {}})),
        page_figures=lambda data: [],
        finding=_finding,
        remarks=_remarks,
    ),
)
