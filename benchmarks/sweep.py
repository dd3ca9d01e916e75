"""A sweep of 8 step sizes × 5 seeds of softmax regression beside 40 single runs: 10 of 1,000 clients, 6 steps of 10 samples."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import undrift as ud

from .measure import Goal, Report, Row, in_turns
from .pictures import pictures

SAMPLES, CLIENTS, COHORT, STEPS, BATCH, SEEDS = 60_000, 1000, 10, 6, 10, 5
ETAS = np.geomspace(1e-3, 1e-1, 8).tolist()
ARGUMENTS: dict[str, Any] = {"rounds": 50, "steps": STEPS, "participation": ud.plan.uniform(COHORT), "record_every": 10}


def run(repeat: int) -> Report:
    images, labels = pictures(SAMPLES)
    parts = np.array_split(np.arange(SAMPLES), CLIENTS)
    problem = ud.problems.network(ud.models.softmax_regression(), (images, labels), parts, batch=BATCH)

    def swept() -> Any:
        return ud.sweep(ud.fedavg, problem, grid={"eta": ETAS}, seeds=SEEDS, **ARGUMENTS).history["loss"]

    def single() -> Any:
        runs = [[ud.run(ud.fedavg(eta=e), problem, seed=s, **ARGUMENTS) for s in range(SEEDS)] for e in ETAS]
        return np.asarray([[one.history["loss"] for one in row] for row in runs])

    cold = in_turns({"sweep": lambda: afresh(swept), "single": lambda: afresh(single)}, min(repeat, 3), warm=False)
    ours, theirs = swept(), single()
    recorded = np.isfinite(theirs)
    off = float(np.max(np.abs(ours[recorded] / theirs[recorded] - 1)))
    warm = in_turns({"sweep": swept, "single": single}, repeat)
    rows, goals = [], []
    for words, seconds, most in (("warm", warm, 0.35), ("with compilation", cold, 0.45)):
        rows.append(Row.of("sweep of 40 runs", seconds["sweep"], "s", "undrift", words))
        rows.append(Row.of("40 single runs", seconds["single"], "s", "peer", words))
        share = seconds["sweep"] / seconds["single"]
        goals.append(Goal.of(f"sweep ÷ 40 single runs of softmax regression, {words}", share, at_most=most))
    goals.append(Goal("largest relative difference of losses", off, at_most=1e-4, same=True))
    title = f"8 step sizes × {SEEDS} seeds, softmax regression, {COHORT} of {CLIENTS:,} clients, 50 rounds, float32"
    notes = [
        "The single runs share one compiled program, which is compiled once for all forty where compilation counts."
    ]
    return Report("sweep", title, rows, goals, notes)


def afresh(call: Any) -> None:
    """With nothing compiled yet."""
    jax.clear_caches()
    call()
