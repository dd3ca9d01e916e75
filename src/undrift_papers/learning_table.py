"""Training runs behind the SSL paper's tables and curves: from a setting to jobs, from jobs to cells and curves."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .data import Curves, Data
from .item import Work
from .jobs import ANEW, BY_SIZE, MOVED, SIGNED, UNIT, Job, Outcome, finish
from .learning_costs import costs
from .ssl_settings import (
    AUGMENTED,
    BY_SIZES,
    DRAWN,
    DRAWN_ANEW,
    FROM_0_TO_1,
    FROM_MINUS_1,
    METHODS,
    PUBLISHED,
    step_key,
)

LAST_ROUNDS = 20
TARGETS = {1: 0.30, 2: 0.75}  # the accuracies to which the paper counts rounds, by the C of ExDir(C, 10)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: both methods and all seeds share it."""

    data: str
    classes: int
    steps: int
    variant: str = DRAWN

    @property
    def panel(self) -> str:
        return f"{self.data.upper()}, ExDir({self.classes}, 10), K = {self.steps}"


def cells(values: Mapping[str, Any]) -> Iterator[Cell]:
    """The cells of a setting, in the paper's order; variants last."""
    for variant, only in {DRAWN: {}, **values.get("variants", {})}.items():
        wanted = {key: only.get(key, values[key]) for key in ("data", "classes per client", "local steps")}
        for data, classes, steps in itertools.product(*wanted.values()):
            if step_key(data, classes, steps) in values["step sizes"]:
                yield Cell(data, classes, steps, variant)


def cell_jobs(values: Mapping[str, Any], cell: Cell) -> Iterator[tuple[str, Job]]:
    """(method, job) for every method and seed of a cell; variants are run with the first seed where they do not say."""
    steps = values["step sizes"][step_key(cell.data, cell.classes, cell.steps)]
    published = {"partition": f"map:exdir/{cell.data}-m{values['clients']}-c{cell.classes}-a10.json"}
    differs: dict[str, Any] = {
        DRAWN: {},
        PUBLISHED: published,
        BY_SIZES: {**published, "weights": BY_SIZE},
        AUGMENTED: {"images": MOVED},
        DRAWN_ANEW: {"turns": ANEW},
        FROM_0_TO_1: {"pixels": UNIT},
        FROM_MINUS_1: {"pixels": SIGNED},
    }[cell.variant]
    only = values["variants"][cell.variant] if cell.variant != DRAWN else {}
    seeds = values["seeds"] if cell.variant == DRAWN else only.get("seeds", {}).get(cell.data, values["seeds"][:1])
    for method, eta in zip(METHODS, steps, strict=True):
        if method not in only.get("methods", METHODS):
            continue
        for seed in seeds:
            job = Job(
                data=cell.data,
                model=values["model"],
                clients=values["clients"],
                partition=f"exdir:{cell.classes},10",
                method=METHODS[method],
                eta=eta,
                steps=cell.steps,
                rounds=values["rounds"][str(cell.classes)],
                seed=seed,
                cohort=values["clients per round"],
                clip=values["clipping norm"].get(str(cell.classes)),
                record_every=values["evaluated every"],
                batch=values["batch"],
                weight_decay=values["weight decay"],
                pixels=values["pixels"],
                images=values["images"],
            )
            yield method, dataclasses.replace(job, **differs)


def run_cells(work: Work, name: str) -> dict[Cell, dict[str, list[Outcome]]]:
    """Every job of the setting, found or run."""
    wanted = [(cell, method, job) for cell in cells(work.values) for method, job in cell_jobs(work.values, cell)]
    total = sum(job.rounds for _, _, job in wanted)
    found: dict[Cell, dict[str, list[Outcome]]] = {}
    before = 0
    for cell, method, job in wanted:
        text = f"{name}: {cell.panel}, {method}, seed {job.seed}"
        outcome = finish(job, work.jobs, work.observer(text, before, total))
        found.setdefault(cell, {}).setdefault(method, []).append(outcome)
        before += job.rounds
        work.progress(text, before, total)
    return found


def table_of(found: Mapping[Cell, Mapping[str, list[Outcome]]]) -> dict[str, list[Any]]:
    """Accuracy over the last rounds and all seeds, and the rounds to the target on the mean curve."""
    names = (
        "data", "variant", "classes", "K", "method", "seeds", "rounds", "accuracy", "deviation", "target", "rounds_to",
    )  # fmt: skip
    rows = []
    for cell, methods in found.items():
        for method, outcomes in methods.items():
            last = 100 * np.concatenate([outcome.last(LAST_ROUNDS) for outcome in outcomes])
            mean = np.mean([outcome.accuracy for outcome in outcomes], axis=0)
            reached = np.flatnonzero(mean >= TARGETS[cell.classes])
            rounds_to = int(outcomes[0].rounds[reached[0]]) if reached.size else -1
            rows.append(
                (cell.data, cell.variant, cell.classes, cell.steps, method, len(outcomes), int(outcomes[0].rounds[-1]),
                 float(last.mean()), float(last.std()), TARGETS[cell.classes], rounds_to)
            )  # fmt: skip
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def curves_of(found: Mapping[Cell, Mapping[str, list[Outcome]]], cut: int, every: int = 1) -> dict[str, np.ndarray]:
    """Test accuracy over rounds, one panel for each cell that was drawn from the seed; SSL cuts the model there."""
    curves = Curves()
    for cell, methods in found.items():
        if cell.variant != DRAWN:
            continue
        for method, outcomes in methods.items():
            for outcome in outcomes:
                keep = slice(None, None, every)
                values = 100 * outcome.accuracy[keep]
                spent = {axis: cost[keep] for axis, cost in costs(outcome, cut).items()}
                curves.add(cell.panel, method, values, seed=outcome.job.seed, round=outcome.rounds[keep], **spent)
    return curves.table()


def table_data(work: Work, name: str) -> Data:
    """A table with its cells."""
    return Data({"cells": table_of(run_cells(work, name))}, work["seeds"], work.values)


def curve_data(work: Work, name: str) -> Data:
    """A figure of curves, with the cells that its claims are decided on."""
    found = run_cells(work, name)
    return Data({"curves": curves_of(found, work["cut"]), "cells": table_of(found)}, work["seeds"], work.values)


def cell_of(data: Data, cell: Cell, method: str) -> dict[str, Any] | None:
    """The row of a cell and method, if the data have it."""
    rows = data.where("cells", data=cell.data, variant=cell.variant, classes=cell.classes, K=cell.steps, method=method)
    return {name: column[0].item() for name, column in rows.items()} if len(rows["K"]) else None
