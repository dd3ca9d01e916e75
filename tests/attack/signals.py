"""Two signals in a row, at random moments and random distances, on real processes."""

from __future__ import annotations

import itertools
import random
import shutil
import signal
from pathlib import Path
from typing import Any

from .children import nurseries, play_all
from .tally import Tally
from .tasks import COMPARE, LONG, RUN, References, Said, check_recovery, fresh

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PAIRS = list(itertools.product(SIGNALS, repeat=2))
TASKS = (LONG, LONG, RUN, COMPARE)  # mostly one whose rounds take long enough to be hit inside a chunk
SECONDS = {LONG: 3.0, RUN: 1.0, COMPARE: 2.5}
GAPS = (0.0, 0.001, 0.01, 0.05, 0.2, 0.5)
INTERRUPTED = 130


def attack_signals(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """`count` pairs of signals; what is resumed afterwards ends with the same bits.

    Before a command listens to signals (it is still reading its flags) and after it has written everything, they end it as
    they end any process; these are counted apart.
    """
    tally, references, draw = Tally(), References(folder / "undisturbed"), random.Random(seed)
    orders, targets = [], []
    for i in range(count):
        task, pair = TASKS[i % len(TASKS)], PAIRS[i % len(PAIRS)]
        out = fresh(folder, f"signalled-{i}")
        delays = (draw.uniform(0.1, SECONDS[task]), draw.choice(GAPS))
        orders.append({"words": task.start(out), "signals": [(d, int(s)) for d, s in zip(delays, pair, strict=True)]})
        targets.append((task, out))
    codes: dict[str, int] = {}
    with nurseries(2, folder) as made:
        for (order, said), (task, out) in zip(play_all(made, orders), targets, strict=True):
            first, second = order["signals"]
            names = [signal.Signals(number).name for _, number in order["signals"]]
            what = f"{names[0]} after {first[0]:.3f} s, {names[1]} {second[0]:g} s later"
            with tally.attempt(f"{task.name}: {what}", task.name):
                check_end(said, order, tally)
                check_recovery(task, out, references, tally)
            codes[str(said.code)] = codes.get(str(said.code), 0) + 1
            shutil.rmtree(out, ignore_errors=True)
    return tally.counts(seed=seed, exit_codes=codes)


def check_end(said: Said, order: dict[str, Any], tally: Tally) -> None:
    outright = {-number for _, number in order["signals"]}
    if said.traceback:
        tally.traceback(said.traceback)
    elif said.code not in {0, INTERRUPTED} | outright:
        tally.wrong(f"exit code {said.code}: {said.err.strip()}")
