"""SSL paper, table 7: the search for step sizes, at a reduced number of rounds."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from .data import Data
from .draw import panels
from .item import Claim, Decision, Elsewhere, Item, Scale, Work, at_most, ours, paper, reduced
from .jobs import Job, finish
from .learning_fair_words import FAIR, fair_remarks
from .learning_table import Cell
from .ssl_settings import (
    COLOURS,
    IMAGE_SETS,
    METHODS,
    PARALLEL,
    QUICK_GRID,
    QUICK_STEPS,
    SEEDS,
    STEP_GRID,
    TABLE_7,
    digits_setting,
    image_setting,
    step_key,
    without,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = 10
POINTER = f" (a wider grid, four tenths of the rounds: {FAIR})"


def search(work: Work) -> Data:
    """Every step size of the grid, for both methods in every cell."""
    names = ("data", "classes", "K", "method", "eta", "accuracy")
    wanted = [
        (data, classes, method, eta)
        for data in work["data"]
        for classes in work["classes per client"]
        for method in METHODS
        for eta in work["grid"]
    ]
    rows = []
    for number, (data, classes, method, eta) in enumerate(wanted):
        found = finish(_job(work, data, classes, method, eta), work.jobs)
        accuracy = float(np.nan_to_num(100 * found.last().mean()))
        rows.append((data, classes, STEPS, method, eta, accuracy))
        work.progress(f"ssl/table7: {found.job.name}", number + 1, len(wanted))
    table = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return Data({"grid": table}, work["seeds"], work.values)


def _job(work: Work, data: str, classes: int, method: str, eta: float) -> Job:
    return Job(
        data=data,
        model=work["model"],
        clients=work["clients"],
        partition=f"exdir:{classes},10",
        method=METHODS[method],
        eta=eta,
        steps=STEPS,
        rounds=work["rounds"][str(classes)],
        seed=work["seeds"][0],
        cohort=work["clients per round"],
        clip=work["clipping norm"].get(str(classes)),
        record_every=work["evaluated every"],
        pixels=work["pixels"],
        images=work["images"],
    )


def best_step(data: Data, name: str, classes: int, method: str) -> tuple[float, float]:
    """The step size with the highest accuracy, and that accuracy."""
    rows = data.where("grid", data=name, classes=classes, method=method)
    best = int(np.argmax(rows["accuracy"]))
    return float(rows["eta"][best]), float(rows["accuracy"][best])


def _chooses(name: str, classes: int, method: str, expected: float, data: Data) -> Decision:
    """The best step lies within a factor of five (one place of the grid) of the one expected."""
    eta, accuracy = best_step(data, name, classes, method)
    rows = data.where("grid", data=name, classes=classes, method=method)
    there = float(rows["accuracy"][np.argmin(np.abs(rows["eta"] - expected))])
    said = f"best η = {eta:g} ({accuracy:.1f} %); at η = {expected:g}: {there:.1f} %"
    why = f"after this many rounds another step is ahead by {accuracy - there:.1f} points"
    return at_most(max(eta / expected, expected / eta), 5.001, said, why)


def _claims() -> tuple[Claim, ...]:
    claims = []
    full: tuple[Scale, ...] = ("short", "paper")
    for cell, pair in TABLE_7.items():
        if cell[0] in IMAGE_SETS and cell[2] == STEPS:
            for method, eta in zip(METHODS, pair, strict=True):
                sentence = (
                    f"{Cell(*cell).panel}: after a tenth of the rounds the grid chooses the paper's step size for {method}, "
                    f"or a neighbour of it{POINTER if cell[1] == 1 else ''}"
                )
                decide = functools.partial(_chooses, cell[0], cell[1], method, eta)
                claims.append(Claim(sentence, decide, f"η = {eta:g}", full))
    for classes in (1, 2):
        for method, eta in zip(METHODS, QUICK_STEPS[step_key("digits", classes, STEPS)], strict=True):
            sentence = (
                f"Digits, ExDir({classes}, 10): the grid chooses the quick items’ step for {method}, or a neighbour"
            )
            decide = functools.partial(_chooses, "digits", classes, method, eta)
            claims.append(Claim(sentence, decide, None, ("quick",)))
    return tuple(claims)


def _remarks(data: Data, elsewhere: Elsewhere) -> list[str]:
    return fair_remarks([Cell(name, 1, STEPS) for name in IMAGE_SETS], data, elsewhere)


def _finding(data: Data) -> str:
    steps = [
        f"{name.upper()} {best_step(data, name, 1, PARALLEL)[0]:g} (the paper {TABLE_7[name, 1, STEPS][0]:g})"
        for name in IMAGE_SETS
    ]
    return f"best step of FedAvg with one class a client: {', '.join(steps)}; over a wider grid: {FAIR}"


def draw_grid(data: Data) -> Figure:
    """Accuracy over step sizes; dotted lines are the paper's choices."""
    every = [*zip(*(data["grid"][name].tolist() for name in ("data", "classes", "K")), strict=True)]
    cells = [cell for cell in dict.fromkeys(every) if every.count(cell) > len(METHODS)]  # a search, not its first step
    steps = [*data["grid"]["eta"].tolist(), *(eta for cell in cells for eta in TABLE_7.get(cell, ()))]
    across = 2 if len(cells) <= 4 else 4
    figure, axes = panels(max(-(-len(cells) // across), 1), across, height=2.6)
    for axis, cell in zip(axes.flat, cells, strict=False):
        _draw_cell(axis, data, cell)
        axis.set_xlim(min(steps) / 1.3, max(steps) * 1.3)
    for axis in list(axes.flat)[len(cells) :]:
        axis.set_visible(False)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return figure


def _draw_cell(axis: Axes, data: Data, cell: tuple[str, int, int]) -> None:
    name, classes, steps = cell
    choice = TABLE_7.get(cell)
    for number, method in enumerate(METHODS):
        part = data.where("grid", data=name, classes=classes, K=steps, method=method)
        axis.semilogx(part["eta"], part["accuracy"], marker="o", markersize=4, color=COLOURS[method], label=method)
        if choice is not None:
            axis.axvline(choice[number], color=COLOURS[method], linestyle=":", linewidth=1.2)
    axis.set_title(Cell(*cell).panel, color="#333333")
    axis.set_xlabel("step size η" if choice is None else "step size η (dotted: the paper's choice)")
    axis.set_ylabel("test accuracy, %")
    axis.grid(visible=True)


ITEMS = (
    Item(
        "ssl/table7",
        "SSL, table 7: the search for step sizes, at a tenth of the rounds",
        (
            *without(image_setting(IMAGE_SETS), "step sizes", "seeds", "rounds", "local steps"),
            paper("seeds", [SEEDS[0]]),
            reduced("rounds", {"1": 100, "2": 40}, "a tenth of the paper's"),
            reduced("local steps", [STEPS], "the paper searches for every K"),
            ours("grid", list(STEP_GRID), "the paper does not print its grid"),
        ),
        search,
        draw_grid,
        _claims(),
        (*without(digits_setting(), "step sizes"), reduced("grid", list(QUICK_GRID))),
        page_figures=lambda data: [],
        finding=_finding,
        remarks=_remarks,
    ),
)
