"""All attacks, their full counts, and what the report says of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

Counts = dict[str, Any]


class Attack(NamedTuple):
    """An attack by name: what it is, its full count (0: all there is), how many it must be, and what plays it."""

    title: str
    full: int
    at_least: int
    play: Callable[[int, int, Path], Counts]


def _own(module: str, function: str) -> Callable[[int, int, Path], Counts]:
    def play(count: int, seed: int, folder: Path) -> Counts:
        return dict(getattr(_module(module), function)(count, seed, folder))

    return play


def _wire(count: int, seed: int, folder: Path) -> Counts:
    found = _module("wire_payloads").attack_wire(count, seed)
    wrong = found["failed_on_use"] + found["not_canonical"]
    return _counted(found["payloads"], wrong, found["other_exceptions"], seed, found)


def _checkpoints(count: int, seed: int, folder: Path) -> Counts:
    found = _module("damaged_checkpoints").attack_checkpoints(seed)
    return _counted(found["damaged"], found["wrong"] + found["touched"], found["other_exceptions"], seed, found)


def _counted(attempts: int, wrong: int, tracebacks: int, seed: int, found: Counts) -> Counts:
    parts = {name: number for name, number in found.items() if number}
    return {"attempts": attempts, "lost": 0, "wrong": wrong, "tracebacks": tracebacks, "parts": parts, "seed": seed,
            "failures": []}  # fmt: skip


def _module(name: str) -> Any:
    return importlib.import_module(f".{name}", __package__)


ATTACKS = {
    "kills": Attack("SIGKILL of a process, then `--resume`", 200, 200, _own("kills", "attack_kills")),
    "deaths": Attack("death before every change of the disk and inside every write (played), then `--resume`",
                     0, 200, _own("kills", "attack_kills_played")),
    "signals": Attack("two signals in a row (INT, TERM, HUP), then `--resume`", 100, 100, _own("signals", "attack_signals")),
    "pairs": Attack("two processes on one directory", 50, 50, _own("pairs", "attack_pairs")),
    "storage": Attack("full, read-only or broken disk; closed, full or unread output", 120, 120,
                      _own("storage", "attack_storage")),
    "inputs": Attack("bad input", 0, 400, _own("inputs", "attack_inputs")),
    "wire": Attack("random and damaged payloads", 100_000, 100_000, _wire),
    "checkpoints": Attack("damaged checkpoints", 0, 30, _checkpoints),
    "memory": Attack("memory over 100,000 rounds, and over 300 runs", 100, 2, _own("memory", "attack_memory")),
}  # fmt: skip
