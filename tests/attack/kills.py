"""Runs and comparisons that are killed: at random moments, and between any two changes of the disk."""

from __future__ import annotations

import random
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .children import nurseries, play_all
from .disk import NEVER, Disk
from .tally import Tally
from .tasks import COMPARE, DRAWN, OTHER, PICTURED, RUN, References, Said, Task, check_recovery, fresh, undrift

PLAYED = (RUN, COMPARE, DRAWN, PICTURED)
TWICE, OVERWRITING = 0.2, 0.2  # in how many of the cases these are tried as well
SHARES = (4, 4, 2, 1)  # figures take a second or more to draw
SECONDS = {RUN: 0.9, COMPARE: 2.0, DRAWN: 2.0, PICTURED: 5.0}  # about how long each takes, from its first line on


def attack_kills_played(count: int, seed: int, folder: Path, tasks: Sequence[Task] = PLAYED) -> dict[str, Any]:
    """`count` deaths played in this process (0: one before every change of the disk and one inside every write).

    Where `count` is less than there are places to die at, they are spread evenly over them; of the comparison whose many
    figures take seconds to draw, only every sixth place is tried.
    """
    tally, references, draw = Tally(), References(folder / "undisturbed"), random.Random(seed)
    places = [(task, at, fault) for task in tasks for at, fault in _places(task, references.changes(task))]
    step = max(1, len(places) // count) if count else 1
    for task, at, fault in places[draw.randrange(step) :: step]:
        kill_once(task, at, fault, folder, references, tally)
        if draw.random() < TWICE:
            kill_twice(task, at, draw, folder, references, tally)
        if draw.random() < OVERWRITING:
            kill_overwriting(at, fault, folder, references, tally)
    return tally.counts(seed=seed)


def _places(task: Task, changes: list[str]) -> Iterator[tuple[int, str]]:
    """Where figures are drawn, which takes long, only what the others do not have is tried: no checkpoints."""
    numbered = [(at, what) for at, what in enumerate(changes, 1) if not (task.figures and "checkpoint" in what)]
    for at, what in numbered[:: 6 if task is PICTURED else 1]:
        yield at, "kill"
        if what.startswith("write"):
            yield at, "tear"


def kill_once(task: Task, at: int, fault: str, folder: Path, references: References, tally: Tally) -> None:
    out = fresh(folder, "killed")
    disk = _die(task.start(out), folder, at, fault)
    if disk.dead:
        with tally.attempt(f"{task.name}: {fault} at change {at}, {disk.changes[at - 1]}", "one death"):
            check_recovery(task, out, references, tally)


def kill_twice(task: Task, at: int, draw: random.Random, folder: Path, references: References, tally: Tally) -> None:
    """The second death is at a random change of the resumed command."""
    out, copy = fresh(folder, "killed"), fresh(folder, "copied")
    first = _die(task.start(out), folder, at, "kill")
    if not first.dead or not out.exists():
        return
    shutil.copytree(out, copy)
    with Disk(copy) as counted:
        undrift(task.resume(copy))
    if not counted.changes:
        return
    again = draw.randint(1, len(counted.changes))
    _die(task.resume(out), folder, again, "kill")
    what = f"{task.name}: kill at change {at}, {first.changes[at - 1]}, and at change {again} of the resumed command"
    with tally.attempt(what, "two deaths"):
        check_recovery(task, out, references, tally)


def kill_overwriting(at: int, fault: str, folder: Path, references: References, tally: Tally) -> None:
    """What is there afterwards is the old run or the new one, never some of each."""
    out = fresh(folder, "killed")
    shutil.copytree(references.of(OTHER), out)
    disk = _die(RUN.start(out, "--overwrite"), folder, at, fault)
    if disk.dead:
        with tally.attempt(f"overwriting: {fault} at change {at}, {disk.changes[at - 1]}", "death while overwriting"):
            check_recovery(RUN, out, references, tally, also=OTHER)


def _die(words: list[str], folder: Path, at: int, fault: str) -> Disk:
    assert at != NEVER
    with Disk(folder, at, fault) as disk:
        undrift(words)
    return disk


def attack_kills(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """`count` real SIGKILLs of real processes: half of them at random moments, half at random changes of the disk."""
    tally, references, draw = Tally(), References(folder / "undisturbed"), random.Random(seed)
    changes = {task: len(references.changes(task)) for task in PLAYED}
    targets = {str(folder / f"killed-{i}"): draw.choices(PLAYED, SHARES)[0] for i in range(count)}

    def order(i: int, out: str, task: Task) -> dict[str, Any]:
        words = task.start(fresh(folder, Path(out).name))
        if i % 2:
            return {"words": words, "at": draw.randint(1, changes[task])}
        return {"words": words, "signals": [(draw.uniform(0, SECONDS[task]), int(signal.SIGKILL))]}

    with nurseries(2, folder) as made:
        played = play_all(made, [order(i, out, task) for i, (out, task) in enumerate(targets.items())])
        for (order_, said), (out, task) in zip(played, targets.items(), strict=True):
            where = f"change {order_['at']}" if "at" in order_ else f"{order_['signals'][0][0]:.3f} s"
            part = "between changes" if "at" in order_ else "at random moments"
            with tally.attempt(f"{task.name}: SIGKILL at {where}", part):
                _check_death(said, tally)
                check_recovery(task, Path(out), references, tally)
            shutil.rmtree(out, ignore_errors=True)
    return tally.counts(seed=seed)


def _check_death(said: Said, tally: Tally) -> None:
    """It was killed, or it was faster; it complained of nothing."""
    if said.traceback:
        tally.traceback(said.traceback)
    elif said.code not in (-signal.SIGKILL, 0):
        tally.wrong(f"exit code {said.code}: {said.err.strip()}")
