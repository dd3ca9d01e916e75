"""A sweep of 8 runs of LeNet-5 beside 8 single runs, both on all cores."""

from __future__ import annotations

from typing import Any

import numpy as np

import undrift as ud

from .disturbance import cores
from .measure import Goal, Report, Row, in_turns
from .pictures import pictures

SAMPLES, CLIENTS, COHORT, STEPS, BATCH, ROUNDS = 20_000, 500, 10, 10, 20, 10
ETAS = np.geomspace(1e-3, 1e-1, 8).tolist()


def run(repeat: int) -> Report:
    """Three turns at most: each takes half a minute."""
    ud.use_devices(cores())
    images, labels = pictures(SAMPLES)
    parts = ud.data.exdir(labels, clients=CLIENTS, classes=1, alpha=10.0, seed=0)
    problem = ud.problems.network(ud.models.lenet5(), (images, labels), parts, batch=BATCH)
    given: dict[str, Any] = {"rounds": ROUNDS, "steps": STEPS, "record_every": ROUNDS}
    given["participation"] = ud.plan.uniform(COHORT)

    def swept() -> np.ndarray:
        return np.asarray(ud.sweep(ud.fedavg, problem, grid={"eta": ETAS}, seeds=1, **given).x)[:, 0]

    def single() -> np.ndarray:
        return np.stack([ud.run(ud.fedavg(eta=eta), problem, **given).x for eta in ETAS])

    ours, theirs = swept(), single()
    off = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs)))
    seconds = in_turns({"sweep": swept, "single": single}, min(repeat, 3), warm=False)
    group = f"{len(ETAS)} runs of {ROUNDS} rounds"
    rows = [
        Row.of("sweep of 8 runs", seconds["sweep"], "s", "undrift", group),
        Row.of("8 single runs", seconds["single"], "s", "peer", group),
    ]
    goals = [
        Goal.of("sweep ÷ 8 single runs of LeNet-5, two devices", seconds["sweep"] / seconds["single"], at_most=0.9),
        Goal("largest relative difference of models", off, at_most=1e-4, same=True),
    ]
    title = f"8 step sizes, LeNet-5, {COHORT} of {CLIENTS} clients × {STEPS} steps × batch {BATCH}, {cores()} devices, float32"
    return Report("sweep_lenet", title, rows, goals)
