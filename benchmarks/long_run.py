"""A long run that keeps every iterate: 100,000 rounds beside 20,000, and the memory of the process that plays them.

Iterates and clients' columns go to a file, row by row; what stays in memory of a round are the columns of its record.
`python -m benchmarks.long_run ROUNDS` is one such process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from typing import Any

from .measure import Goal, Report, Row
from .out_of_core import anonymous_gb

SHORT, LONG, CLIENTS, SAMPLES, DIM, STEPS = 20_000, 100_000, 5, 10, 500, 2
MOST_BYTES = 1_000  # that a round may leave in memory; its iterate alone has 4,000


def run(repeat: int) -> Report:
    short, long = (child(rounds) for rounds in (SHORT, LONG))
    grown = 1e9 * (long["anonymous"] - short["anonymous"]) / (LONG - SHORT)
    rows = [
        Row(f"{rounds:,} rounds: {what}", found[key], unit, side="undrift", group=group)
        for rounds, found in ((SHORT, short), (LONG, long))
        for what, key, unit, group in (
            ("memory that is no file", "anonymous", "GB", "memory at the end"),
            ("iterates", "iterates", "GB", "on disk"),
        )
    ]
    goals = [
        Goal("memory that a round leaves behind", max(grown, 0.0), at_most=MOST_BYTES, unit="bytes"),
        Goal("iterates that are not there, or not finite", short["missing"] + long["missing"], at_most=0, same=True),
    ]
    notes = [f"FedLin, {CLIENTS} clients of least squares, d = {DIM}, float64, {STEPS} steps; every round recorded."]
    return Report("long_run", f"{LONG:,} rounds with keep_iterates", rows, goals, notes)


def child(rounds: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.long_run", str(rounds)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def played(rounds: int) -> dict[str, Any]:
    import numpy as np

    import undrift as ud

    rng = np.random.default_rng(0)
    problem = ud.problems.least_squares(
        rng.standard_normal((CLIENTS, SAMPLES, DIM)), rng.standard_normal((CLIENTS, SAMPLES))
    )
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        result = ud.run(ud.fedlin(eta=1e-4), problem, rounds=rounds, steps=STEPS, keep_iterates=True, checkpoint=folder)
        kept = result.iterates
        assert kept is not None
        bad = sum(not np.isfinite(kept[k]).all() for k in range(0, rounds + 1, 1000))
        missing = rounds + 1 - len(kept) + bad
        return {"anonymous": anonymous_gb(), "iterates": kept.nbytes / 1e9, "missing": missing}


if __name__ == "__main__":
    print(json.dumps(played(int(sys.argv[1]))))
