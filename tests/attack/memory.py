"""Memory over one very long run, and over many short ones, each in a process of its own.

The bounds were fixed before anything was measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from .tally import Tally

ROUNDS, RUNS = 100_000, 300
BYTES_PER_ROUND = 32.0  # beside the records' own 8 bytes a column
BYTES_PER_RUN = 100_000.0  # after the first third of the runs
SIZE = 8

MEASURE = """
import json, os, sys
import numpy as np

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def slope(x, y):
    return float(np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)[0])
"""

LONG = (
    MEASURE
    + """
import undrift as ud

rounds = int(sys.argv[1])
problem = ud.problems.quadratic(np.stack([np.eye(4), 2 * np.eye(4)]), np.ones((2, 4)))
samples = []

def note(history):
    samples.append((len(history["loss"]), resident()))

def play(rounds):
    return ud.run(ud.scaffold(eta=0.01), problem, rounds=rounds, steps=2, observe=note)

play(1000)
samples.clear()
result = play(rounds)
later = [sample for sample in samples if sample[0] > rounds / 10]
print(json.dumps({"slope": slope(*zip(*later)), "columns": len(result.history), "samples": len(later)}))
"""
)

MANY = (
    MEASURE
    + """
import contextlib, io
import optax
import undrift as ud
from undrift.cli import main

number = int(sys.argv[1])
problem = ud.problems.quadratic(np.stack([np.eye(4), 2 * np.eye(4)]), np.ones((2, 4)))
words = ["run", "--method", f"{sys.argv[2]}:table", "--eta", "0.1", "--problem", "quadratic:clients=2,dim=4", "--rounds", "3"]
words += ["--trust", "--no-figures", "--quiet", "--overwrite", "--out", "own"]

def play(method):
    ud.run(method, problem, rounds=3, steps=2)

def fresh_solver():
    play(ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.9)))

def fresh_factory():
    @ud.method
    def mine(eta: float) -> ud.Algorithm:
        exchange = ud.Exchange(
            "gradient",
            send=lambda x, slot: x,
            client=lambda own, x, local: (own, local.gradient(x, 0)),
            receive=lambda x, slots, gradients, cohort: (x - eta * cohort.mean(gradients), slots),
        )
        return ud.Algorithm((exchange,), server=lambda x: (x, ()), client=lambda x, loss: (), model=lambda x: x)

    play(mine(eta=0.1))

def own_file():
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(words) == 0

kinds = [fresh_solver, fresh_factory, own_file]
sizes = []
for i in range(number):
    kinds[i % 3]()
    sizes.append(resident())
after = number // 3
print(json.dumps({"slope": slope(range(after, number), sizes[after:])}))
"""
)
OWN = Path(__file__).parents[2] / "examples" / "own_method.py"


def attack_memory(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """Rounds and runs in proportion to `count` (100 is what the report shows); nothing here is drawn."""
    tally = Tally()
    rounds, runs = ROUNDS * count // 100, max(9, RUNS * count // 100)
    measured: dict[str, Any] = {"rounds": rounds, "runs": runs}
    with tally.attempt(f"{rounds} rounds", "rounds of one run"):
        found = _measured(LONG, [str(rounds)], folder)
        records = SIZE * found["columns"]
        measured |= {"bytes_per_round": round(found["slope"], 1), "bytes_per_round_of_records": records}
        if found["slope"] - records > BYTES_PER_ROUND:
            tally.wrong(f"{found['slope']:.0f} bytes a round, the records take {records}")
    with tally.attempt(f"{runs} runs in a row", "runs in a row"):
        found = _measured(MANY, [str(runs), str(OWN)], folder)
        measured["bytes_per_run"] = round(found["slope"])
        if found["slope"] > BYTES_PER_RUN:
            tally.wrong(f"{found['slope'] / 1e6:.2f} MB a run, more than {BYTES_PER_RUN / 1e6:g}")
    return tally.counts(seed=seed, **measured)


def _measured(script: str, words: list[str], folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    surroundings = {**os.environ, "XDG_STATE_HOME": str(folder)}  # what is trusted here is not trusted for ever
    made = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=folder,
        env=surroundings,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise RuntimeError(f"the measurement itself failed: {made.stderr}")
    return dict(json.loads(made.stdout))
