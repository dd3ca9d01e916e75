"""Helpers of the command line's tests."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

# Tests that are not about the problem share one of these, and with it compiled programs.
QUADRATIC = "quadratic:clients=4,dim=6"
NETWORK = "network:clients=4,partition=exdir:classes=5,alpha=10,batch=8"
SMALL = ["--problem", QUADRATIC, "--rounds", "12", "--steps", "3"]

# The command line, but after it has saved a checkpoint for the first time it says so and waits for a line of input.
WAITING = """
import sys
from undrift.cli import main
from undrift.engine.checkpoint import Checkpoint

save = Checkpoint.save

def save_and_wait(self, *state):
    save(self, *state)
    Checkpoint.save = save
    print("saved", flush=True)
    sys.stdin.readline()

Checkpoint.save = save_and_wait
sys.exit(main(sys.argv[1:]))
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)
