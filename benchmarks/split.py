"""Sequential split learning beside sequential federated learning: the same LeNet-5, clients in turn, the same steps."""

from __future__ import annotations

from typing import Any

import numpy as np

import undrift as ud

from .measure import Goal, Report, Row, in_turns, per_round
from .pictures import pictures

SAMPLES, CLIENTS, COHORT, STEPS, BATCH, ETA = 20_000, 500, 10, 10, 20, 0.01
ROUNDS = 10  # by which two calls differ


def run(repeat: int) -> Report:
    images, labels = pictures(SAMPLES)
    parts = ud.data.exdir(labels, clients=CLIENTS, classes=1, alpha=10.0, seed=0)
    model = ud.models.lenet5()
    problem = ud.problems.network(model, (images, labels), parts, batch=BATCH, cut=model.paper_cut)
    methods = {"sequential_fl": ud.sequential_fl(eta=ETA), "ssl": ud.ssl(eta=ETA)}

    def ours(method: Any, rounds: int) -> ud.Result:
        given = {"steps": STEPS, "participation": ud.plan.uniform(COHORT), "record_every": 10**6}
        return ud.run(method, problem, rounds=rounds, **given)

    candidates = {}
    for name, method in methods.items():
        candidates[name, "short"] = lambda m=method: ours(m, 1)
        candidates[name, "long"] = lambda m=method: ours(m, ROUNDS + 1)
    # In double precision: in single precision the two round differently, and a ReLU that falls to the other side shows.
    exact = ud.models.lenet5(dtype="float64")
    checked = ud.problems.network(exact, (images.astype(np.float64), labels), parts, batch=BATCH, cut=exact.paper_cut)
    given = {"rounds": 2, "steps": STEPS, "participation": ud.plan.uniform(COHORT), "record_every": 10**6}
    ends = [np.asarray(ud.run(method, checked, **given).x) for method in methods.values()]
    off = float(np.max(np.abs(ends[0] - ends[1])) / np.max(np.abs(ends[0])))
    seconds = in_turns(candidates, repeat)
    each = {name: per_round(seconds[name, "long"], seconds[name, "short"], ROUNDS) for name in methods}
    rows = [Row.of(name, 1e3 * s, "ms / round", "undrift", "a round") for name, s in each.items()]
    goals = [
        Goal.of("ssl ÷ sequential_fl on LeNet-5", each["ssl"] / each["sequential_fl"], at_most=1.4),
        Goal("largest relative difference of the models, float64", off, at_most=1e-12, same=True),
    ]
    title = f"{COHORT} of {CLIENTS} clients in turn × {STEPS} steps × batch {BATCH}, LeNet-5, float32"
    return Report("split", title, rows, goals, [f"What calls of {ROUNDS + 1} rounds take more than calls of one."])
