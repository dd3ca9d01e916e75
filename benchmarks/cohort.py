"""Large cohorts: a round of 1,000 of 10,000 clients beside one of 100, softmax regression, 6 steps with batches of 10."""

from __future__ import annotations

import numpy as np

import undrift as ud

from .measure import Goal, Report, Row, in_turns, per_round
from .pictures import pictures

CLIENTS, SAMPLES, STEPS, BATCH, ETA = 10_000, 60, 6, 10, 0.01
ROUNDS = {10: 200, 100: 30, 1000: 4}  # members of a cohort -> rounds by which two calls differ


def run(repeat: int) -> Report:
    images, labels = pictures(60_000)
    parts = np.random.default_rng(0).integers(0, len(labels), (CLIENTS, SAMPLES))
    problem = ud.problems.network(ud.models.softmax_regression(), (images, labels), list(parts), batch=BATCH)

    def ours(members: int, rounds: int) -> ud.Result:
        given = {"steps": STEPS, "participation": ud.plan.uniform(members), "record_every": 10**6}
        return ud.run(ud.fedavg(eta=ETA), problem, rounds=rounds, **given)

    candidates = {}
    for members, rounds in ROUNDS.items():
        candidates[members, "short"] = lambda m=members: ours(m, 1)
        candidates[members, "long"] = lambda m=members, n=rounds: ours(m, n + 1)
    seconds = in_turns(candidates, repeat)
    each = {m: per_round(seconds[m, "long"], seconds[m, "short"], rounds) for m, rounds in ROUNDS.items()}
    rows = [Row.of(f"cohort of {m:,}", 1e3 * s, "ms / round", "undrift", "a round") for m, s in each.items()]
    rows += [Row.of(f"cohort of {m:,}", 1e6 * s / m, "µs / member", "undrift", "a member") for m, s in each.items()]
    goals = [Goal.of("cohort of 1,000 ÷ cohort of 100", each[1000] / each[100], at_most=11)]
    notes = ["A round is what a longer call takes more than a call of one round."]
    return Report(
        "cohort", f"FedAvg, {CLIENTS:,} clients × {STEPS} steps × batch {BATCH}, softmax regression", rows, goals, notes
    )
