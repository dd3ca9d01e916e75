"""Two processes on one directory at the same time."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from .children import Nursery, nurseries
from .tally import Tally
from .tasks import BUSY, COMPARE, INPUT, RUN, References, Said, Task, compare, fresh

RIVAL = Task(
    "rival",
    (
        *("run", "--method", "fedavg", "--problem", "quadratic:clients=6,dim=10", "--steps", "5", "--eta", "0.01"),
        *("--rounds", "200", "--checkpoint-seconds", "0"),
    ),
)
LATER = 1.0  # seconds: most by which the second of a pair is late
Orders = tuple[list[str], list[str]]


def _same(out: Path) -> Orders:
    return RUN.start(out), RUN.start(out)


def _different(out: Path) -> Orders:
    return RUN.start(out), RIVAL.start(out)


def _resumed(out: Path) -> Orders:
    return RUN.start(out), RUN.resume(out)


def _overwritten(out: Path) -> Orders:
    return RUN.start(out), RIVAL.start(out, "--overwrite")


def _compared(out: Path) -> Orders:
    return COMPARE.start(out), COMPARE.start(out)


def _both_overwrite(out: Path) -> Orders:
    return RUN.start(out, "--overwrite"), RIVAL.start(out, "--overwrite")


ON_ONE_DIRECTORY: dict[str, tuple[Callable[[Path], Orders], tuple[Task, ...]]] = {
    "the same run": (_same, (RUN,)),
    "different runs": (_different, (RUN, RIVAL)),
    "resumed while it runs": (_resumed, (RUN,)),
    "overwritten while it runs": (_overwritten, (RUN, RIVAL)),
    "both overwrite": (_both_overwrite, (RUN, RIVAL)),
    "the same comparison": (_compared, (COMPARE,)),
}
ONE_WINS = ("the same run", "different runs", "the same comparison")
KINDS = ("the same without --out", *ON_ONE_DIRECTORY, "without --out")


def attack_pairs(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """`count` pairs: each of the two succeeds wholly or refuses, and no directory holds something of both."""
    tally, references, draw = Tally(), References(folder / "undisturbed"), random.Random(seed)
    codes: dict[str, int] = {}
    with nurseries(2, folder) as made:
        for i in range(count):
            kind, late = KINDS[i % len(KINDS)], draw.choice((0.0, 0.0, draw.uniform(0, LATER)))
            place = fresh(folder, f"pair-{i}")
            place.mkdir()
            with tally.attempt(f"{kind}, the second {late:.3f} s later", kind):
                attack = _fresh_names if kind not in ON_ONE_DIRECTORY else _one_directory
                both = attack(kind, place, late, made, references, tally)
            for said in both:
                codes[str(said.code)] = codes.get(str(said.code), 0) + 1
            shutil.rmtree(place, ignore_errors=True)
    return tally.counts(seed=seed, exit_codes=codes)


def _one_directory(
    kind: str, place: Path, late: float, made: list[Nursery], references: References, tally: Tally
) -> list[Said]:
    orders, tasks = ON_ONE_DIRECTORY[kind]
    out = place / "run"
    said = _together(orders(out), late, place, made)
    _check_answers(said, tally)
    succeeded = [one.code for one in said].count(0)
    if not succeeded:
        tally.lost(f"neither succeeded: {[one.err.strip() for one in said]}")
        return said
    if succeeded == 2 and kind in ONE_WINS:
        tally.wrong("both say that they wrote the directory, which was there for the second")
    found = [compare(references.of(task), out) for task in tasks]
    if ([], []) in found:
        return said
    missing, wrong = min(found, key=lambda pair: len(pair[0]) + len(pair[1]))
    if missing:
        tally.lost("; ".join(missing))
    if wrong:
        tally.wrong("; ".join(wrong))
    return said


def _fresh_names(
    kind: str, place: Path, late: float, made: list[Nursery], references: References, tally: Tally
) -> list[Said]:
    """Without --out every process gets a directory of its own."""
    tasks = (RUN, RUN) if kind == "the same without --out" else (RUN, RIVAL)
    said = _together((_without_out(tasks[0]), _without_out(tasks[1])), late, place, made)
    _check_answers(said, tally)
    if [one.code for one in said] != [0, 0]:
        tally.wrong(f"exit codes {[one.code for one in said]} where each has a directory of its own")
    folders = sorted((place / "runs").glob("*"))
    wanted = [references.of(task) for task in tasks]
    for folder in folders:
        match = next((expected for expected in wanted if compare(expected, folder) == ([], [])), None)
        if match is None:
            tally.wrong(f"{folder.name} holds neither result: {compare(wanted[0], folder)}")
        else:
            wanted.remove(match)
    if wanted:
        tally.lost(f"{len(wanted)} of 2 results are nowhere, in {[folder.name for folder in folders]}")
    return said


def _without_out(task: Task) -> list[str]:
    words = task.start(Path("nowhere"))
    at = words.index("--out")
    return words[:at] + words[at + 2 :]


def _together(orders: Orders, late: float, place: Path, made: list[Nursery]) -> list[Said]:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(made[0].play, orders[0], folder=place)
        second = pool.submit(made[1].play, orders[1], folder=place, late=late)
        return [first.result(), second.result()]


def _check_answers(said: list[Said], tally: Tally) -> None:
    for one in said:
        if one.traceback:
            tally.traceback(one.traceback)
        elif one.code not in (0, INPUT, BUSY):
            tally.wrong(f"exit code {one.code}: {one.err.strip()}")
        elif one.code and not one.err.strip():
            tally.wrong(f"exit code {one.code} without a word")
