"""Logistic regression with a million clients: how long until the first round is played, in a fresh process.

`python -m benchmarks.first_round FILE` is that process. Compiled programs of earlier runs are not used.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from . import disturbance
from .measure import Goal, Report, Row

CLIENTS, SAMPLES, DIM, COHORT = 1_000_000, 2, 50, 10


def run(repeat: int) -> Report:
    """Three turns at most: the data take longer to make than to use."""
    seen = [child() for _ in range(min(repeat, 3))]
    whole = np.array([one["problem"] + one["run"] for one in seen])
    rows = [
        Row.of("the problem is made", np.array([one["problem"] for one in seen]), "s"),
        Row.of("ud.run of one round, compilation and two evaluations of f included", [one["run"] for one in seen], "s"),
        Row.of("undrift", whole, "s", "undrift", "until the first round is played"),
    ]
    goals = [Goal.of(f"logistic, m = {CLIENTS:,}: until the first round is played", whole, at_most=5, unit="s")]
    title = f"logistic regression, {COHORT} of {CLIENTS:,} clients, {SAMPLES} samples each, d = {DIM}, float32"
    return Report("first_round", title, rows, goals)


def child() -> dict[str, float]:
    disturbance.calibrate()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seconds.json"
        subprocess.run([sys.executable, "-m", "benchmarks.first_round", str(file)], check=True)
        found: dict[str, float] = json.loads(file.read_text())
    return found


def main(file: str) -> None:
    import undrift as ud

    rng = np.random.default_rng(0)
    A = rng.standard_normal((CLIENTS, SAMPLES, DIM), np.float32)
    y = np.where(A.sum(axis=2) + rng.standard_normal((CLIENTS, SAMPLES), np.float32) > 0, np.float32(1), np.float32(-1))
    began = time.perf_counter()
    problem = ud.problems.logistic(A, y)
    made = time.perf_counter()
    ud.run(ud.fedavg(eta=0.1), problem, rounds=1, steps=5, participation=ud.plan.uniform(COHORT))
    Path(file).write_text(json.dumps({"problem": made - began, "run": time.perf_counter() - made}))


if __name__ == "__main__":
    main(sys.argv[1])
