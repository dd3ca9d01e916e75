"""Starting: the first call of a second process, a tiny run of the command line with figures, and a list.

`python -m benchmarks.startup FILE` is a process that trains LeNet-5 for one round, twice, and notes how long each call took.
All processes share a directory of compiled programs that is empty at first.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from . import disturbance
from .measure import Goal, Report, Row

TINY = (
    "run",
    "--method",
    "fedlin",
    "--problem",
    "least_squares",
    "--rounds",
    "20",
    "--steps",
    "10",
    "--overwrite",
    "--quiet",
)
UNIT = "s"


def run(repeat: int) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        environment = {**os.environ, "UNDRIFT_COMPILED": str(place / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode beside it
        first = network(place, environment)
        tiny = [*TINY, "--out", str(place / "run")]
        cold = command(tiny, environment)
        found: dict[str, list[float]] = {"whole": [], "call": [], "again": [], "tiny": [], "list": []}
        for _ in range(repeat):
            disturbance.calibrate()
            seen = network(place, environment)
            for name in ("whole", "call", "again"):
                found[name].append(seen[name])
            found["tiny"].append(command(tiny, environment))
            found["list"].append(command(["list"], environment))
    calls, words = "LeNet-5, first call of a process", "commands"
    rows = [
        Row("nothing kept yet", first["call"], UNIT, side="undrift", group=calls),
        Row.of("second process", found["call"], UNIT, "undrift", calls),
        Row.of("the same call once more", found["again"], UNIT, "undrift", calls),
        Row.of("second process, from its start to the end of the first round", found["whole"], UNIT),
        Row("tiny `undrift run` with figures, nothing kept yet", cold, UNIT, side="undrift", group=words),
        Row.of("tiny `undrift run` with figures", found["tiny"], UNIT, "undrift", words),
        Row.of("`undrift list`", found["list"], UNIT, "undrift", words),
    ]
    goals = [
        Goal.of("LeNet-5, second process: time to the first round", found["call"], at_most=1.2, unit=UNIT),
        Goal.of("tiny `undrift run` with figures", found["tiny"], at_most=1.5, unit=UNIT),
        Goal.of("`undrift list`", found["list"], at_most=0.4, unit=UNIT),
    ]
    notes = [
        "A call is ud.run of one round of 10 of 500 clients on all cores, two evaluations included; data and problem are made",
        "before it. Commands are timed from the start of their process to its end. Python keeps its bytecode between them.",
    ]
    return Report("startup", "starting, with programs that an earlier process compiled", rows, goals, notes)


def network(place: Path, environment: dict[str, str]) -> dict[str, Any]:
    file = place / "seconds.json"
    began = time.time()
    subprocess.run([sys.executable, "-m", "benchmarks.startup", str(file)], check=True, env=environment)
    seen: dict[str, Any] = json.loads(file.read_text())
    return {**seen, "whole": seen["ended"] - began}


def command(words: list[str], environment: dict[str, str]) -> float:
    """Seconds of a command of undrift."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "undrift", *words], check=True, env=environment, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main(file: str) -> None:
    import undrift as ud

    from .pictures import pictures

    ud.use_devices(disturbance.cores())
    images, labels = pictures(5000)
    parts = np.array_split(np.arange(len(labels)), 500)
    problem = ud.problems.network(ud.models.lenet5(), (images, labels), parts, batch=10)

    def call() -> float:
        began = time.perf_counter()
        ud.run(ud.fedavg(eta=0.01), problem, rounds=1, steps=10, participation=ud.plan.uniform(10))
        return time.perf_counter() - began

    first, ended = call(), time.time()
    Path(file).write_text(json.dumps({"call": first, "ended": ended, "again": call()}))


if __name__ == "__main__":
    main(sys.argv[1])
