"""The SSL paper's headline where FedAvg and SSL each have their own best step size; the same on CIFAR-10 with LeNet-5.

The paper's table 7 gives FedAvg a step of 0.001 where clients have one class, and table 3 then has SSL 38 to 47 points ahead on
MNIST and Fashion-MNIST. Thresholds of the claims were set before the runs at the best steps; those at the paper's steps were
known from table 3, those of one cell (MNIST, C = 1, K = 10, another partition) from an earlier look at six steps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .data import Data
from .item import Claim, Decision, Elsewhere, Item, Scale, at_least, at_most, ours, reduced
from .jobs import MOVED
from .learning_fair_runs import BEST, GRID, PAPERS, produce
from .learning_fair_words import Pair, bests_of, ends_of, fair_tables, margin, not_run, rows_of, says, shortly
from .learning_grid import draw_grid
from .learning_order import HOW, leads, spread_of
from .learning_table import Cell
from .ssl_settings import (
    IMAGE_SETS,
    IN_TURN,
    LOCAL_STEPS,
    METHODS,
    PARALLEL,
    QUICK_GRID,
    TABLE_3,
    TABLE_7,
    digits_setting,
    image_setting,
    without,
)

FULL: tuple[Scale, ...] = ("paper",)
QUICK: tuple[Scale, ...] = ("quick",)
LARGE, SMALL = 30.0, 5.0  # points: a margin as the paper's, and one that is left at fair steps
ONE_PLACE = 3.4  # the grid's steps are 3 or 3.3 apart
SOONER = 2.0
ABOVE_CHANCE = 30.0  # %, of ten classes: three times what guessing gives
CIFAR_STEPS = 5
IMAGES = [Cell(data, classes, steps) for classes in (1, 2) for data in IMAGE_SETS for steps in LOCAL_STEPS]
CIFAR = [Cell("cifar10", classes, CIFAR_STEPS) for classes in (1, 2)]
DIGITS = Cell("digits", 1, 10)
SPREAD = f"The spread of two accuracies: {HOW}."


def _bests(data: Data, cell: Cell) -> Pair:
    pair = bests_of(data, cell)
    assert pair is not None
    return pair


def _ends(data: Data, cell: Cell, how: str) -> Pair:
    pair = ends_of(data, cell, how)
    assert pair is not None
    return pair


# ----- predicates
def _inside(cell: Cell, data: Data) -> Decision:
    """Neither best step is an end of the grid."""
    grid, steps = data.setting["grid"], {row["method"]: row["eta"] for row in _bests(data, cell)}
    places = [min(grid.index(eta), len(grid) - 1 - grid.index(eta)) for eta in steps.values()]
    said = ", ".join(f"{method} η = {eta:g}" for method, eta in steps.items())
    return at_least(float(min(places)), 1.0, said, f"the grid ends at {grid[0]:g} and {grid[-1]:g}")


def _papers_choice(cell: Cell, method: str, data: Data) -> Decision:
    """The grid's best step and the paper's are at most one place apart."""
    row = _bests(data, cell)[list(METHODS).index(method)]
    printed = TABLE_7[cell.data, cell.classes, cell.steps][list(METHODS).index(method)]
    nearest = min(rows_of(data, "grid", cell, method=method), key=lambda other: abs(np.log(other["eta"] / printed)))
    said = f"best η = {row['eta']:g} ({row['accuracy']:.1f} %), {nearest['accuracy']:.1f} % at η = {nearest['eta']:g}"
    off = max(row["eta"] / printed, printed / row["eta"])
    return at_most(
        off, ONE_PLACE, said, f"the paper's step is {off:.3g} times too {'small' if row['eta'] > printed else 'large'}"
    )


def _far_ahead(cell: Cell, data: Data) -> Decision:
    pair = _ends(data, cell, PAPERS)
    printed = TABLE_3[cell.data, cell.classes, cell.steps][0][0]
    why = f"FedAvg ends at {pair[0]['accuracy']:.1f} % here (mean over the last rounds), at {printed} % in the paper"
    return at_least(margin(pair), LARGE, f"{says(pair)}: {margin(pair):.2f} points", why)


def _still_ahead(cell: Cell, winner: str, data: Data) -> Decision:
    fedavg, ssl = pair = _ends(data, cell, BEST)
    return leads(*((fedavg, ssl) if winner == PARALLEL else (ssl, fedavg)), said=says(pair))


def _little_left(cell: Cell, data: Data) -> Decision:
    pair = _ends(data, cell, BEST)
    said = f"{margin(pair):+.2f} points, spread {spread_of(*pair):.2f}"
    return at_most(max(margin(pair), 0.0), SMALL, said, f"a margin of {margin(pair):.1f} points is left at fair steps")


def _sooner(cell: Cell, column: str, data: Data) -> Decision:
    """SSL needs at most 1/SOONER of FedAvg's rounds; one that is never there counts with all its rounds."""
    fedavg, ssl = _ends(data, cell, BEST)
    said = ", ".join(f"{row['method']} {_round(row[column])}" for row in (fedavg, ssl))
    if ssl[column] < 0:
        return Decision(False, said, 0.0, "SSL is never there")
    later = fedavg[column] if fedavg[column] >= 0 else fedavg["rounds"]
    return at_least(later, SOONER * max(ssl[column], 1), said, "it is not twice as fast at fair steps")


def _round(number: int) -> str:
    return f"in round {number}" if number >= 0 else "never"


def _above_chance(cell: Cell, data: Data) -> Decision:
    pair = _ends(data, cell, BEST)
    return at_least(
        min(row["accuracy"] for row in pair), ABOVE_CHANCE, says(pair), "one of them learns too little to compare"
    )


# ----- claims
def _grid_ready(cell: Cell) -> Callable[[Data], bool]:
    return lambda data: bests_of(data, cell) is not None


def _ends_ready(cell: Cell, how: str) -> Callable[[Data], bool]:
    return lambda data: ends_of(data, cell, how) is not None


def _inside_claim(cell: Cell, scales: tuple[Scale, ...]) -> Claim:
    sentence = f"{cell.panel}: the best steps of both methods are inside the grid"
    return Claim(sentence, functools.partial(_inside, cell), None, scales, _grid_ready(cell))


def _ahead_claim(cell: Cell, winner: str, says: str | None, scales: tuple[Scale, ...]) -> Claim:
    sentence = f"{cell.panel}: at fair steps {winner} ends higher, by more than the spread over rounds and seeds"
    return Claim(sentence, functools.partial(_still_ahead, cell, winner), says, scales, _ends_ready(cell, BEST))


def _sooner_claim(cell: Cell, column: str, says: str, scales: tuple[Scale, ...]) -> Claim:
    sentence = f"{cell.panel}: at fair steps SSL reaches {column[3:]} % in at most half the rounds of FedAvg"
    return Claim(sentence, functools.partial(_sooner, cell, column), says, scales, _ends_ready(cell, BEST))


def _printed(cell: Cell) -> tuple[str, str, str]:
    """What the paper says of a cell: its winner, the accuracies, the rounds to its target."""
    (a, s, first), (b, t, second) = TABLE_3[cell.data, cell.classes, cell.steps]
    target = "30" if cell.classes == 1 else "75"
    return (
        PARALLEL if a > b else IN_TURN,
        f"FedAvg {a} ± {s} %, SSL {b} ± {t} % (at its own steps)",
        f"rounds {first} and {second} to {target} %",
    )


def _image_claims(cell: Cell) -> list[Claim]:
    winner, accuracies, rounds = _printed(cell)
    claims = [_inside_claim(cell, FULL)]
    for method, eta in zip(METHODS, TABLE_7[cell.data, cell.classes, cell.steps], strict=True):
        sentence = f"{cell.panel}: the best step of {method} is at most one place of the grid from the paper's"
        decide = functools.partial(_papers_choice, cell, method)
        claims.append(Claim(sentence, decide, f"η = {eta:g}", FULL, _grid_ready(cell)))
    claims.append(_ahead_claim(cell, winner, accuracies, FULL))
    if cell.classes == 2:
        return claims
    sentence = f"{cell.panel}: at the paper's steps SSL ends at least {LARGE:.0f} points higher"
    claims.append(Claim(sentence, functools.partial(_far_ahead, cell), accuracies, FULL, _ends_ready(cell, PAPERS)))
    sentence = f"{cell.panel}: at fair steps SSL ends less than {SMALL:.0f} points higher"
    claims.append(Claim(sentence, functools.partial(_little_left, cell), accuracies, FULL, _ends_ready(cell, BEST)))
    claims.append(_sooner_claim(cell, "to_75", rounds, FULL))
    return claims


def _cifar_claims(cell: Cell) -> list[Claim]:
    winner, accuracies, rounds = _printed(cell)
    sentence = f"{cell.panel}: both leave chance level by far, {ABOVE_CHANCE:.0f} % or more"
    return [
        _inside_claim(cell, FULL),
        Claim(sentence, functools.partial(_above_chance, cell), f"VGG-11: {accuracies}", FULL, _ends_ready(cell, BEST)),
        _ahead_claim(cell, winner, f"VGG-11: {accuracies}", FULL),
        _sooner_claim(cell, "to_30", f"VGG-11: {rounds}", FULL),
    ]


QUICK_CLAIMS = [
    _inside_claim(DIGITS, QUICK),
    _ahead_claim(DIGITS, IN_TURN, "the same on MNIST and Fashion-MNIST, at the paper's steps", QUICK),
]


# ----- pages
def _remarks(name: str, data: Data, elsewhere: Elsewhere) -> list[str]:
    missing, lost = not_run(data), _lost(data)
    again = f"`undrift reproduce {name} --scale paper --again` runs it, and finds what is finished"
    return [SPREAD, *lost, *([f"Not run yet, and not claimed: {'. '.join(missing)}. {again}."] if missing else [])]


def _lost(data: Data) -> list[str]:
    """The best steps with which a seed collapsed, so that the next smaller one was taken."""
    rows = data.tables.get("collapsed", {})  # older results have none
    return [
        f"{Cell(name, int(classes), int(steps)).panel}: with {method} at η = {eta:g}, the best of the grid with one seed, "
        f"the run with seed {seeds} (of {count}) collapses, so the next smaller step is taken."
        for name, classes, steps, method, eta, seeds, count in zip(
            *(rows.get(key, ()) for key in ("data", "classes", "K", "method", "eta", "lost", "seeds")), strict=True
        )
    ]


def _cifar_finding(data: Data) -> str:
    parts = [
        f"ExDir({cell.classes}): {says(pair)}"
        for cell in CIFAR
        if (pair := ends_of(data, cell, BEST) or bests_of(data, cell))
    ]
    return "; ".join(parts) or "not run yet"


# ----- settings
_SEARCH = (
    ours("grid", list(GRID), "to hold the best step of both methods"),
    ours("averaged over", 100, "the last rounds, on the grid and at the best step"),
)
_IMAGES = (
    *without(image_setting(IMAGE_SETS), "evaluated every"),
    *_SEARCH,
    ours("whole grid", [1], "for these C and the smallest K every step is run"),
    ours("first steps", [0.03, 0.1, 0.3], "elsewhere; for the larger K the neighbours of the best at the smaller one; widened "
         "until the best has both its neighbours beside it"),
    ours("rounds, grid", 400, "with the first seed"),
    ours(f"rounds, {BEST}", 1000, "with all seeds"),
    ours("evaluated every", {"grid": 12, BEST: 8}),
)  # fmt: skip
_CIFAR = (
    *without(image_setting(("cifar10",)), "evaluated every", "rounds", "model", "local steps", "images"),
    reduced("model", "lenet5", "the paper's VGG-11 would take thousands of hours on a CPU (ssl/fig10)"),
    reduced("local steps", [CIFAR_STEPS], "the smallest of the paper's"),
    ours("images", MOVED, "in mini-batches, as the authors' public code does"),
    *_SEARCH,
    ours("whole grid", []),
    ours("first steps", [0.01, 0.03, 0.1], "widened until the best has both its neighbours beside it"),
    ours("rounds, grid", 500, "with the first seed"),
    reduced(f"rounds, {BEST}", 1000, "with all seeds; the paper runs 4000"),
    ours("evaluated every", {"grid": 20, BEST: 20}),
)
_QUICK = (
    *without(digits_setting(), "rounds", "seeds", "local steps"),
    reduced("rounds", {}, "no steps of the paper's are for digits"),
    reduced("classes per client", [1]),
    reduced("local steps", [DIGITS.steps]),
    reduced("seeds", [1234, 666]),
    reduced("grid", [*QUICK_GRID, 1.0]),
    reduced("whole grid", []),
    reduced("first steps", [0.1, 0.3]),
    reduced("averaged over", 20),
    reduced("rounds, grid", 60),
    reduced(f"rounds, {BEST}", 120),
    reduced("evaluated every", {"grid": 4, BEST: 4}),
)

ITEMS = (
    Item(
        "ssl/fair-steps",
        "SSL’s headline at fair step sizes: FedAvg and SSL each at its own best step, MNIST and Fashion-MNIST",
        _IMAGES,
        functools.partial(produce, name="ssl/fair-steps"),
        draw_grid,
        (*(claim for cell in IMAGES for claim in _image_claims(cell)), *QUICK_CLAIMS),
        _QUICK,
        page_figures=lambda data: [],
        finding=shortly,
        tables=fair_tables,
        remarks=functools.partial(_remarks, "ssl/fair-steps"),
    ),
    Item(
        "ssl/cifar-small",
        "SSL, table 3 on CIFAR-10 with a network that can be run here: LeNet-5, each method at its own best step",
        _CIFAR,
        functools.partial(produce, name="ssl/cifar-small"),
        draw_grid,
        (*(claim for cell in CIFAR for claim in _cifar_claims(cell)), *QUICK_CLAIMS),
        _QUICK,
        page_figures=lambda data: [],
        finding=_cifar_finding,
        tables=fair_tables,
        remarks=functools.partial(_remarks, "ssl/cifar-small"),
    ),
)
