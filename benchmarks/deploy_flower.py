"""Seconds per exchange in a Flower federation: Flower's own messages, and undrift's stream opened by a ticket.

`python -m benchmarks.deploy_flower [ROUNDS]`, with `undrift[flower]` installed. Rounds are counted from the second one
on, as their lines appear in the server's trace, so that start, registration and the first compilation do not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from undrift.deploy.ports import free_port
from undrift.flower.federation import Federation, make_app
from undrift.studies.replaying import replay

STUDY = """
[problem]
name = "least_squares"
clients = 2
samples = 5
dim = 20

[run]
rounds = {rounds}
record_every = {rounds}

[[method]]
name = "fedsgd"
eta = 0.05
"""
MESSAGES = 2  # of a round: the exchange, and the word that it counts
PATIENCE = 3600.0


def measure(rounds: int = 3) -> dict[str, object]:
    """Seconds per message of both modes, in one federation of two nodes; and how far each is from the simulation."""
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name, Federation(Path(name) / "flower") as federation:
        for i in range(2):
            federation.add_node(f"site-{i}", {"state": f"{name}/state-{i}"})
        for mode, count in (("messages", rounds), ("tickets", 100 * rounds)):
            app, out = Path(name) / f"app-{mode}", Path(name) / mode
            make_app(app, STUDY.format(rounds=count))
            run = federation.run(app, {"mode": mode, "out": str(out), "address": f"127.0.0.1:{free_port()}"})
            found[mode] = seconds_per_round(out / "trace.jsonl", count) / MESSAGES
            federation.wait(run, PATIENCE)
            found[f"{mode}: difference to the simulation"] = replay(out).difference
    return found


def seconds_per_round(trace: Path, rounds: int) -> float:
    """Of the rounds that end while we look, after the first."""
    first, end = None, time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = trace.read_bytes().count(b"\n") - 1 if trace.exists() else 0  # the first line is the head
        if first is None and done >= 1:
            first = (time.monotonic(), done)
        if first is not None and done >= rounds:
            return (time.monotonic() - first[0]) / (done - first[1])
        time.sleep(0.002)
    raise TimeoutError(f"the run did not end within {PATIENCE:g} s")


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:])), indent=2))
