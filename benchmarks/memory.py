"""Peak memory of a process that holds 10,000 clients (d = 784, 60 samples each, float32: 1.88 GB of data) and trains them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .measure import Goal, Report, Row

CLIENTS, SAMPLES, DIM = 10_000, 60, 784
METHODS = ("fedavg", "fedlin")
SOURCES = ("aligned", "plain")
PROMISED_GB = 4.0


def run(repeat: int) -> Report:
    rows, goals = [], []
    for source in SOURCES:
        for method in METHODS:
            seen = child(method, source)
            rows.append(Row(f"{method}, {source} data", seen["peak"], "GB", side="undrift", group="peak memory"))
            if source == "aligned":
                rows.append(Row(f"{method}, {source}: before the run", seen["before"], "GB"))
                goals.append(
                    Goal(f"{method}, {CLIENTS:,} clients: peak memory", seen["peak"], at_most=PROMISED_GB, unit="GB")
                )
    notes = [
        "aligned: the data start at a multiple of 64 bytes, as JAX's own arrays do, and are used where they lie.",
        "plain: np.empty, which starts 16 bytes into a page; JAX copies such data once, so both copies are in memory.",
    ]
    return Report("memory", f"{CLIENTS:,} clients of logistic regression, 3 rounds of 2 steps", rows, goals, notes)


def child(method: str, source: str) -> dict[str, Any]:
    """The numbers of a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", method, source]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def train(method: str, source: str) -> dict[str, float]:
    import numpy as np

    import undrift as ud
    from undrift.problems.arrays import aligned_zeros

    rng = np.random.default_rng(0)
    make = aligned_zeros if source == "aligned" else np.empty
    A = make((CLIENTS, SAMPLES, DIM), np.float32)
    for rows in A:  # in place: no second copy in float64
        rng.standard_normal(out=rows, dtype=np.float32)
    y = np.where(A[:, :, 0] > 0, np.float32(1), np.float32(-1))
    problem = ud.problems.logistic(A, y)
    before = peak_gb()
    result = ud.run(getattr(ud, method)(eta=1e-4), problem, rounds=3, steps=2)
    assert result.history["loss"][-1] < result.history["loss"][0]
    return {"before": before, "peak": peak_gb()}


def peak_gb() -> float:
    """Peak resident memory of this process so far (10⁹ bytes).

    Linux hands getrusage's maximum on from parent to child, so a large parent would hide a small child: there the kernel's
    own mark of this process is read instead.
    """
    status = Path("/proc/self/status")
    if status.exists():
        mark = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(mark.split()[1]) * 1024 / 1e9
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


if __name__ == "__main__":
    print(json.dumps(train(*sys.argv[1:])))
