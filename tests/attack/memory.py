"""Memory over one very long run, and over many short ones, each in a process of its own.

The bounds were fixed before anything was measured.
"""

from __future__ import annotations

import json
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
import importlib.util
import optax
import undrift as ud

number = int(sys.argv[1])
problem = ud.problems.quadratic(np.stack([np.eye(4), 2 * np.eye(4)]), np.ones((2, 4)))

def own():
    # the file of a user's own method, read anew: another module, another function, the same method
    spec = importlib.util.spec_from_file_location("own", sys.argv[2])
    module = sys.modules["own"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.feddyn(eta=0.1, alpha=0.5)

makers = [lambda: ud.fedavg(eta=0.1, solver=optax.sgd(0.1, momentum=0.9)), own, lambda: ud.fedlin(eta=0.1)]
sizes = []
for i in range(number):
    ud.run(makers[i % 3](), problem, rounds=3, steps=2)
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
    made = subprocess.run(
        [sys.executable, "-c", script, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise RuntimeError(f"the measurement itself failed: {made.stderr}")
    return dict(json.loads(made.stdout))
