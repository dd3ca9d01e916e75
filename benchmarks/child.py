"""A benchmark in a fresh process, with as many devices as cores: python -m benchmarks.child NAME REPEAT prints its report."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys

from .measure import Goal, Report, Row

MISSING = "it needs PyTorch, which is not installed: pip install 'undrift[bench]', or here pip install -e '.[bench]'"


class Missing(Exception):
    """The opponent is not installed."""


def in_child(name: str, repeat: int) -> Report:
    """The report of `measured(repeat)` in the module of this name."""
    if importlib.util.find_spec("torch") is None:
        raise Missing(MISSING)
    command = [sys.executable, "-m", "benchmarks.child", name, str(repeat)]
    seen = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    rows = [Row(**row) for row in seen["rows"]]
    goals = [Goal(**{key: value for key, value in goal.items() if key != "met"}) for goal in seen["goals"]]
    return Report(seen["name"], seen["title"], rows, goals, seen["notes"])


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    module = importlib.import_module(f"benchmarks.{sys.argv[1]}")
    print(json.dumps(module.measured(int(sys.argv[2])).as_json()))
