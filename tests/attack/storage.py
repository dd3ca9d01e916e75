"""A disk that is full, read-only or broken, and readers of the output who go away."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .disk import Disk
from .tally import Tally
from .tasks import BUSY, COMPARE, DRAWN, RUN, References, Said, Task, check_recovery, check_results, fresh, undrift

STORAGE = BUSY  # one exit code for everything that the storage refuses
REFUSALS = ("ENOSPC", "EROFS", "EIO")
COMMAND = (sys.executable, "-c", "import sys; from undrift.cli import main; sys.exit(main())")
STREAMS = {
    "stdout closed": ">&-",
    "stderr closed": "2>&-",
    "both closed": ">&- 2>&-",
    "stdout full": "> /dev/full",
    "stderr full": "2> /dev/full",
    "read by head": "| head -1",
    "reader gone": "| true",
}


def attack_storage(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """About `count` refusals of the disk (0: every kind at every change of every task), and every kind of lost reader."""
    tally, references = Tally(), References(folder / "undisturbed")
    inject(count, random.Random(seed), (RUN, COMPARE, DRAWN), folder, references, tally)
    with _small_disk(folder / "small") as small:
        if small is not None:
            fill(small, folder, references, tally)
    limit(folder, references, tally)
    for name in STREAMS:
        lose_reader(name, folder, references, tally)
    return tally.counts(
        seed=seed, small_disk="mounted" if small is not None else "no right to mount one: injected only"
    )


def inject(
    count: int, draw: random.Random, tasks: Sequence[Task], folder: Path, references: References, tally: Tally
) -> None:
    """Refusals at changes that are spread evenly over those of the tasks."""
    places = [(task, at) for task in tasks for at in range(1, len(references.changes(task)) + 1)]
    step = max(1, len(places) // count) if count else 1
    for i, (task, at) in enumerate(places[draw.randrange(step) :: step]):
        for refusal in REFUSALS if not count else [REFUSALS[i % len(REFUSALS)]]:
            refuse(task, at, refusal, folder, references, tally)


def refuse(task: Task, at: int, refusal: str, folder: Path, references: References, tally: Tally) -> None:
    """From change `at` on the disk refuses; then it is free again."""
    out = fresh(folder, "refused")
    with Disk(folder, at, refusal) as disk:
        said = undrift(task.start(out))
    if not disk.struck:
        return
    with tally.attempt(f"{task.name}: {refusal} from change {at} on, {disk.changes[at - 1]}", f"injected {refusal}"):
        _check_complaint(said, tally)
        check_recovery(task, out, references, tally)


def _check_complaint(said: Said, tally: Tally) -> None:
    """Its own exit code and a message; 0 only where nothing that was asked for is missing."""
    if said.traceback:
        tally.traceback(said.traceback)
    elif said.code not in (STORAGE, 0):
        tally.wrong(f"exit code {said.code} instead of {STORAGE}: {said.err.strip()}")
    elif said.code == STORAGE and "undrift:" not in said.err:
        tally.wrong(f"no message: {said.err!r}")


@contextmanager
def _small_disk(place: Path) -> Iterator[Path | None]:
    """A file system of 64 KB, where this user may mount one."""
    place.mkdir(parents=True, exist_ok=True)
    mount = shutil.which("mount")
    mounted = (
        mount is not None
        and not subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    )
    try:
        yield place if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def fill(small: Path, folder: Path, references: References, tally: Tally) -> None:
    """A truly full disk: with less and less room on it, then with enough."""
    block = 4096
    for room in range(0, 64 * 1024 + 1, 2 * block):
        out, ballast = fresh(small, "filled"), small / "ballast"
        with ballast.open("wb", buffering=0) as file:
            file.write(b"0" * (64 * 1024 - room) or b"0")
        said = undrift(COMPARE.start(out))
        ballast.unlink()
        if said.code == 0:
            continue
        with tally.attempt(f"a disk with {room} bytes of room", "full disk"):
            _check_complaint(said, tally)
            elsewhere = fresh(folder, "refused")  # the small disk may be too small for all of it
            if out.exists():
                shutil.copytree(out, elsewhere)
            check_recovery(COMPARE, elsewhere, references, tally)


def limit(folder: Path, references: References, tally: Tally) -> None:
    """The system refuses files above a size (EFBIG): a real refusal that needs no rights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for size in (0, 100, 3000, 20_000):
            references.of(RUN)
            out = fresh(folder, "refused")
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
            try:
                said = undrift(RUN.start(out))
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            with tally.attempt(f"files of at most {size} bytes", "limited file size"):
                _check_complaint(said, tally)
                check_recovery(RUN, out, references, tally)
    finally:
        signal.signal(signal.SIGXFSZ, before)


def lose_reader(name: str, folder: Path, references: References, tally: Tally) -> None:
    """The results are there whole, whoever listens."""
    out = fresh(folder, "unread")
    words = [*COMMAND, *(word for word in COMPARE.start(out) if word != "--quiet")]
    line = f'"$@" {STREAMS[name]}; exit ${{PIPESTATUS[0]}}'
    made = subprocess.run(
        ["bash", "-c", line, "bash", *words], capture_output=True, text=True, env=dict(os.environ), check=False
    )
    with tally.attempt(f"undrift compare {STREAMS[name]}", "streams"):
        if "Traceback" in made.stderr or "Exception ignored" in made.stderr:
            tally.traceback(made.stderr)
        elif made.returncode not in (0, STORAGE):
            tally.wrong(f"exit code {made.returncode}: {made.stderr.strip()[-200:]}")
        check_results(COMPARE, out, references, tally)
