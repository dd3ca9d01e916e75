"""Whether something else kept the machine busy while a case was measured.

Three witnesses: how long the same small computation takes on all cores, timed between the turns of a case; what the kernel
says of processor time that went to other processes or, in a virtual machine, to other guests; and how far the samples of one
quantity lie apart. Where one of them speaks, the result says so.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .measure import Report

BLOCK = bytes(4_000_000)
SWING = 0.25  # between the quartiles of the calibrations, over their median
OTHERS = 0.05  # of the processor time there is
STOLEN = 0.03
SPREAD = 0.5  # between the quartiles of a quantity, over its median

CALIBRATIONS: list[float] = []  # milliseconds, of this process


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def calibrate() -> None:
    """Note how long the machine needs for a fixed piece of work on all its cores, the best of five.

    It comes after a pause in which the threads of the turn before stop spinning. Best of five, because a single
    interruption is not what makes a median wrong; a neighbour who stays is.
    """
    time.sleep(0.02)
    CALIBRATIONS.append(1e3 * min(_hashed_everywhere() for _ in range(5)))


def _hashed_everywhere() -> float:
    threads = [threading.Thread(target=hashlib.blake2b, args=(BLOCK,)) for _ in range(cores())]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


@dataclasses.dataclass(frozen=True)
class Clock:
    """What the kernel has counted, in seconds: of the whole machine (None where it does not say) and of our processes."""

    wall: float
    busy: float | None
    stolen: float | None
    ours: float

    @classmethod
    def now(cls) -> Clock:
        own = os.times()
        busy, stolen = _machine_seconds()
        return cls(time.perf_counter(), busy, stolen, own.user + own.system + own.children_user + own.children_system)


def _machine_seconds() -> tuple[float | None, float | None]:
    stat = Path("/proc/stat")
    if not stat.exists():
        return None, None
    return parse_stat(stat.read_text(), os.sysconf("SC_CLK_TCK"))


def parse_stat(text: str, ticks: int) -> tuple[float, float]:
    """Seconds that the machine worked, and that it would have worked but for other guests.

    >>> parse_stat("cpu  100 0 50 1000 7 1 2 30 0 0", 100)
    (1.53, 0.3)
    """
    user, nice, system, _idle, _waiting, interrupts, softly, stolen = map(int, text.split()[1:9])
    return (user + nice + system + interrupts + softly) / ticks, stolen / ticks


def shares(before: Clock, after: Clock, count: int) -> dict[str, float | None]:
    """Of the processor time that there was: what others used, and what other guests took."""
    if before.busy is None or after.busy is None or before.stolen is None or after.stolen is None:
        return {"others": None, "stolen": None}
    there = max(after.wall - before.wall, 1e-9) * count
    others = (after.busy - before.busy) - (after.ours - before.ours)
    return {"others": max(0.0, others) / there, "stolen": (after.stolen - before.stolen) / there}


def reasons(report: Report, calibrations: Sequence[float], used: dict[str, Any]) -> list[str]:
    """Why the figures of this report are not to be trusted; empty if nothing speaks against them."""
    found = []
    if len(calibrations) >= 3:
        low, middle, high = np.percentile(calibrations, [25, 50, 75])
        if (high - low) / middle > SWING:
            found.append(
                f"a fixed piece of work took {low:.2f} to {high:.2f} ms (quartiles), more than {SWING:.0%} apart"
            )
    if used.get("others") is not None and used["others"] > OTHERS:
        found.append(f"other processes used {used['others']:.0%} of the processor time, more than {OTHERS:.0%}")
    if used.get("stolen") is not None and used["stolen"] > STOLEN:
        found.append(
            f"other guests of the host took {used['stolen']:.0%} of the processor time, more than {STOLEN:.0%}"
        )
    for row in report.rows:
        if row.side and row.low is not None and row.high is not None and row.high - row.low > SPREAD * abs(row.value):
            found.append(
                f"{row.what}: quartiles {row.low:.3g} and {row.high:.3g} {row.unit}, more than {SPREAD:.0%} apart"
            )
    return found
