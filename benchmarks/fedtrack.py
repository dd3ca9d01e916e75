"""FedTrack beside FedAvg on LeNet-5, per sample whose gradient is evaluated: a table of all samples is filled every round."""

from __future__ import annotations

from typing import Any

import undrift as ud

from .disturbance import cores
from .measure import Goal, Report, Row, in_turns, per_round
from .pictures import pictures

# Few clients: before round 1 all of them take their gradients, and that must not drown the rounds.
SAMPLES, CLIENTS, COHORT, STEPS, BATCH, ETA = 6_000, 50, 10, 10, 20, 0.01
ROUNDS = 20  # by which two calls differ


def run(repeat: int) -> Report:
    ud.use_devices(cores())
    images, labels = pictures(SAMPLES)
    parts = ud.data.exdir(labels, clients=CLIENTS, classes=1, alpha=10.0, seed=0)
    problem = ud.problems.network(ud.models.lenet5(), (images, labels), parts, batch=BATCH)
    methods = {"fedavg": (ud.fedavg(eta=ETA), ROUNDS), "fedtrack": (ud.fedtrack(eta=ETA, batch=BATCH), ROUNDS)}

    def ours(method: Any, rounds: int) -> ud.Result:
        given = {"steps": STEPS, "participation": ud.plan.uniform(COHORT), "record_every": 10**6}
        return ud.run(method, problem, rounds=rounds, **given)

    candidates, evaluated = {}, {}
    for name, (method, rounds) in methods.items():
        candidates[name, "short"] = lambda m=method: ours(m, 1)
        candidates[name, "long"] = lambda m=method, n=rounds: ours(m, n + 1)
        counted = ours(method, rounds + 1).history["component_gradients"]
        evaluated[name] = float(counted[-1] - counted[1]) / rounds
    seconds = in_turns(candidates, repeat)
    rows, each = [], {}
    for name, (_, rounds) in methods.items():
        whole = per_round(seconds[name, "long"], seconds[name, "short"], rounds)
        each[name] = whole / evaluated[name]
        rows.append(Row.of(name, 1e6 * each[name], "µs / sample", "undrift", "a sample evaluated"))
        rows.append(Row.of(f"{name}: a round of {evaluated[name]:,.0f} samples", 1e3 * whole, "ms"))
    goals = [
        Goal.of("fedtrack ÷ fedavg on LeNet-5, per sample evaluated", each["fedtrack"] / each["fedavg"], at_most=1.5)
    ]
    title = f"{COHORT} of {CLIENTS} clients × {STEPS} steps × batch {BATCH}, LeNet-5, {cores()} devices, float32"
    notes = [
        "Samples as undrift counts them (`component_gradients`); a round from the difference of two lengths of call."
    ]
    return Report("fedtrack", title, rows, goals, notes)
