"""A round with 10 clients of a million beside one with 10 of a thousand, for methods that remember something of every client.

A round should cost what its members cost. It is measured inside a call, from the end of its first chunk of rounds on, so that
what is done once for all clients (memory, start programs, evaluations of f) does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import undrift as ud

from . import disturbance
from .measure import Goal, Report, Row

FEW, MANY, COHORT, STEPS = 1_000, 1_000_000, 10, 5
DIM, SAMPLES = 20, 2  # small, so that tables of component gradients fit as well
LONGEST = 0.6  # seconds of rounds that are looked at
MOST = 200_000  # rounds: more than are played, so that the last one, which is recorded, never comes
TURNS = 3  # at most: making the memory of a million clients takes seconds


def run(repeat: int) -> Report:
    rows, goals = [], []
    for name, ours in cases():
        for call in ours.values():
            call()  # compiles
        each: dict[int, list[float]] = {m: [] for m in ours}
        for turn in range(min(repeat, TURNS)):
            disturbance.calibrate()
            for m in list(ours)[:: 1 if turn % 2 == 0 else -1]:
                each[m].append(ours[m]())
        rows += [Row.of(f"m = {m:,}", 1e3 * np.asarray(s), "ms / round", "undrift", name) for m, s in each.items()]
        ratios = np.asarray(each[MANY]) / np.asarray(each[FEW])
        goals.append(Goal.of(f"{name}: m = {MANY:,} ÷ m = {FEW:,}", ratios, at_most=1.5))
    notes = [
        f"Least squares with d = {DIM} and {SAMPLES} samples a client; ssl: a perceptron with one hidden layer.",
        f"{COHORT} of m clients, {STEPS} steps each; what ud.run does between chunks of rounds is part of a round.",
    ]
    return Report("million", f"a round with {COHORT} of {MANY:,} clients, float32", rows, goals, notes)


def rounds_of(method: Any, problem: ud.problems.Problem) -> Callable[[], float]:
    """Seconds of a round, from what an observer sees."""
    given = {
        "steps": STEPS,
        "participation": ud.plan.uniform(COHORT),
        "record_every": 10**6,
        "on_divergence": "continue",
    }

    def call() -> float:
        marks: list[tuple[float, int]] = []

        def look(history: ud.History) -> bool:
            marks.append((time.perf_counter(), len(history["bytes_up"])))
            return len(marks) > 2 and marks[-1][0] - marks[0][0] > LONGEST

        ud.run(method, problem, rounds=MOST, observe=look, **given)
        return (marks[-1][0] - marks[0][0]) / (marks[-1][1] - marks[0][1])

    return call


def cases() -> Iterator[tuple[str, dict[int, Callable[[], float]]]]:
    """name -> for each number of clients the seconds of a round."""
    methods = {
        "scaffold": ud.scaffold(eta=0.01),
        "fedlin": ud.fedlin(eta=0.01),
        "fedsplit": ud.fedsplit(s=0.1, inner_steps=STEPS, inner_eta=0.01),
        "fedtrack": ud.fedtrack(eta=0.01),
        "fedavg, top-k with memory": ud.compressed(ud.fedavg(eta=0.01), up=ud.top_k(3)),
    }
    problems = {m: least_squares(m) for m in (FEW, MANY)}
    for name, method in methods.items():
        yield name, {m: rounds_of(method, problem) for m, problem in problems.items()}
    del problems
    split = {m: perceptron(m) for m in (FEW, MANY)}
    yield "ssl", {m: rounds_of(ud.ssl(eta=0.01), problem) for m, problem in split.items()}


def least_squares(m: int) -> ud.problems.Problem:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, SAMPLES, DIM), np.float32)
    b = A.sum(axis=2) + rng.standard_normal((m, SAMPLES), np.float32)
    return ud.problems.least_squares(A, b, spectral=False)


def perceptron(m: int) -> ud.problems.Problem:
    """Two samples each, of a thousand that all share."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((1000, DIM), np.float32), rng.integers(0, 3, 1000).astype(np.int32)
    parts = list(rng.integers(0, 1000, (m, SAMPLES)))
    model = ud.models.mlp((8,), classes=3, input=(DIM,))
    return ud.problems.network(model, data, parts, batch=SAMPLES, cut=2)
