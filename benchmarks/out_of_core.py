"""SCAFFOLD with a million clients and d = 7,850: 31 GB of client memory, of which only the cohort's rows are brought to memory.

A round with 10 of a million clients, their rows in a file, beside one with 10 of a thousand, all rows in memory; and the peak
memory of a process that plays such rounds. The file holds the rows of clients that were seen, nothing for the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .measure import Goal, Report, Row, in_turns, per_round
from .memory import peak_gb

FEW, MANY, COHORT, STEPS, BATCH = 1_000, 1_000_000, 10, 5, 10
SAMPLES, PIXELS, CLASSES = 5_000, 784, 10  # that clients take theirs from; d = 785 · 10
ROUNDS = 426  # two full chunks
PROMISED_GB, SLOWER = 2.0, 1.5
LOOK_SECONDS = 0.01


def run(repeat: int) -> Report:
    few, many = problem(FEW), problem(MANY)
    calls: dict[str, Callable[[int], Any]] = {
        f"m = {FEW:,}, in memory": lambda rounds: play(few, rounds, None),
        f"m = {FEW:,}, rows in a file": lambda rounds: in_file(few, rounds),
        f"m = {MANY:,}, rows in a file": lambda rounds: in_file(many, rounds),
    }
    candidates = {(name, n): lambda call=call, n=n: call(n) for name, call in calls.items() for n in (1, ROUNDS + 1)}
    seconds = in_turns(candidates, repeat)
    each = {name: per_round(seconds[name, ROUNDS + 1], seconds[name, 1], ROUNDS) for name in calls}
    in_memory, _, on_disk = each.values()
    seen = child()
    rows = [Row.of(name, 1e3 * s, "ms / round", "undrift", "a round") for name, s in each.items()]
    rows += [
        Row(f"m = {MANY:,}, peak without pages of files", seen["anonymous"], "GB", side="undrift", group="memory"),
        Row(f"m = {MANY:,}, peak with them", seen["peak"], "GB", side="undrift", group="memory"),
        Row("the file of rows", seen["file"], "GB", group="memory"),
        Row("all rows of all clients", seen["all"], "GB", group="memory"),
    ]
    goals = [
        Goal.of(f"scaffold: m = {MANY:,} in a file ÷ m = {FEW:,} in memory", on_disk / in_memory, at_most=SLOWER),
        Goal(f"scaffold, m = {MANY:,}: peak memory", seen["peak"], at_most=PROMISED_GB, unit="GB"),
    ]
    notes = [
        f"Softmax regression, d = {(PIXELS + 1) * CLASSES:,}, {COHORT} clients a round, {STEPS} steps of {BATCH} samples.",
        "Rows are read and written, not mapped: what the system keeps of the file in its cache is not part of the process.",
    ]
    return Report(
        "out_of_core", f"a round with {COHORT} of {MANY:,} clients, d = 7,850, rows on disk", rows, goals, notes
    )


def problem(m: int) -> Any:
    """Ten samples each, of five thousand that all share."""
    import numpy as np

    import undrift as ud

    rng = np.random.default_rng(0)
    data = rng.standard_normal((SAMPLES, PIXELS), np.float32), rng.integers(0, CLASSES, SAMPLES).astype(np.int32)
    parts = list(rng.integers(0, SAMPLES, (m, BATCH)))
    model = ud.models.mlp((), classes=CLASSES, input=(PIXELS,))
    return ud.problems.network(model, data, parts, batch=BATCH)


def play(given: Any, rounds: int, store: str | None) -> Any:
    import undrift as ud

    return ud.run(
        ud.scaffold(eta=0.01),
        given,
        rounds=rounds,
        steps=STEPS,
        participation=ud.plan.uniform(COHORT),
        record_every=10**6,
        store=store,
    )


def in_file(given: Any, rounds: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        return play(given, rounds, folder)


def child() -> dict[str, float]:
    """The memory of a fresh process that plays such rounds."""
    command = [sys.executable, "-m", "benchmarks.out_of_core"]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def watched() -> dict[str, float]:
    given = problem(MANY)
    largest, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            largest[0] = max(largest[0], anonymous_gb())

    watcher = threading.Thread(target=look)
    watcher.start()
    with tempfile.TemporaryDirectory() as folder:
        sizes: list[int] = []
        play_and_look(given, folder, sizes)
    over.set()
    watcher.join()
    rows = MANY * (PIXELS + 1) * CLASSES * 4 / 1e9
    return {"anonymous": max(largest[0], anonymous_gb()), "peak": peak_gb(), "file": max(sizes) / 1e9, "all": rows}


def play_and_look(given: Any, folder: str, sizes: list[int]) -> None:
    """The rounds, and how large the file becomes."""
    import undrift as ud

    def look(history: Any) -> None:
        sizes.extend(path.stat().st_blocks * 512 for path in Path(folder).glob("rows-*.bin"))

    ud.run(
        ud.scaffold(eta=0.01),
        given,
        rounds=2 * ROUNDS,
        steps=STEPS,
        participation=ud.plan.uniform(COHORT),
        record_every=10**6,
        store=folder,
        observe=look,
    )


def anonymous_gb() -> float:
    """Memory of this process that is not a copy of a file (10⁹ bytes); where the system does not say so, all of it."""
    status = Path("/proc/self/status")
    if not status.exists():
        return peak_gb()
    mark = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
    return int(mark.split()[1]) * 1024 / 1e9


if __name__ == "__main__":
    print(json.dumps(watched()))
