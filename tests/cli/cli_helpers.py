"""Helpers of the command line's tests."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

SMALL = ["--problem", "quadratic:clients=4,dim=6", "--rounds", "12", "--steps", "3"]

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
