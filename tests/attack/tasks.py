"""What is attacked: small commands that use every way of leaving something on the disk, and how their results are compared."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import io
import json
import shutil
import traceback
from pathlib import Path
from typing import Any

from .disk import Disk, Killed
from .tally import Tally

TRIES = 3  # how often somebody says --resume before giving up
# What may differ between two runs of the same; a page names the command that wrote it, so its checksum differs too.
NOT_COMPARED = ("seconds", "command", "directory", "page.html")
INPUT, BUSY = 2, 7


@dataclasses.dataclass(frozen=True)
class Task:
    """A command without its directory."""

    name: str
    words: tuple[str, ...]
    figures: bool = False

    def start(self, out: Path, *more: str) -> list[str]:
        return [*self.words, *self._without(), "--quiet", "--out", str(out), *more]

    def resume(self, out: Path) -> list[str]:
        return [self.words[0], "--out", str(out), "--resume", *self._without()]

    def _without(self) -> tuple[str, ...]:
        return () if self.figures else ("--no-figures",)


MEMORY = (
    *("run", "--method", "scaffold", "--problem", "quadratic:clients=6,dim=10", "--steps", "2..9", "--eta", "0.01"),
    *("--participation", "uniform:4", "--oracle", "noisy:0.1", "--up", "top_k:5", "--checkpoint-seconds", "0"),
)
RUN = Task("run", (*MEMORY, "--rounds", "300", "--record-every", "7", "--keep-iterates", "--per-client"))
DRAWN = Task(  # its step size is chosen for the user, and said so
    "run with figures",
    (
        *("run", "--method", "fedlin", "--problem", "quadratic:clients=4,dim=6", "--steps", "3", "--rounds", "20"),
        *("--up", "top_k:3", "--checkpoint-seconds", "0"),
    ),
    figures=True,
)
OTHER = Task("another run", ("run", "--method", "fedavg", "--problem", "quadratic:clients=4,dim=6", "--rounds", "9"))
LONG = Task("long run", (*MEMORY, "--rounds", "1500", "--steps", "50..200"))
COMPARE = Task(
    "comparison",
    (
        *("compare", "--method", "scaffold", "fedlin", "fedavg", "--problem", "quadratic:clients=4,dim=6"),
        *("--steps", "3", "--eta", "0.01", "0.02", "--seeds", "2", "--rounds", "30", "--up", "top_k:3"),
    ),
)
PICTURED = dataclasses.replace(COMPARE, name="comparison with figures", figures=True)


@dataclasses.dataclass(frozen=True)
class Said:
    """What a command answered; `code` is None where it died or raised."""

    code: int | None
    out: str
    err: str
    raised: str = ""

    @property
    def traceback(self) -> str:
        """The traceback that the user saw, or nothing."""
        return self.raised or (self.err if "Traceback (most recent call last)" in self.err else "")


def undrift(words: list[str]) -> Said:
    """The command line in this process."""
    from undrift.cli import main

    out, err, code, raised = io.StringIO(), io.StringIO(), None, ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except Killed:
            pass
        except BaseException:  # whatever comes here would have been shown to the user
            raised = traceback.format_exc()
    return Said(code, out.getvalue(), err.getvalue(), raised)


class References:
    """The results of tasks that nobody disturbed, each made once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._made = folder, dict[str, tuple[Path, list[str]]]()

    def of(self, task: Task) -> Path:
        """Where they are."""
        return self._make(task)[0]

    def changes(self, task: Task) -> list[str]:
        """What was done to the disk for them."""
        return self._make(task)[1]

    def _make(self, task: Task) -> tuple[Path, list[str]]:
        if task.name not in self._made:
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / task.name.replace(" ", "-")
            with Disk(self.folder) as disk:
                said = undrift(task.start(path))
            if said.code != 0:
                raise RuntimeError(f"{task.name} does not work undisturbed: {said}")
            self._made[task.name] = path, disk.changes
        return self._made[task.name]


def compare(expected: Path, found: Path) -> tuple[list[str], list[str]]:
    """(what is missing, what differs) of the files of a finished command."""
    wanted, there = _names(expected), _names(found)
    missing = [f"{name} is missing" for name in sorted(wanted - there)]
    wrong = [f"{name} is left over" for name in sorted(there - wanted)]
    wrong += [
        f"{name} differs" for name in sorted(wanted & there) if _content(expected / name) != _content(found / name)
    ]
    return missing, wrong


def _names(folder: Path) -> set[str]:
    """Its files; that of a lock says nothing about results."""
    return {path.name for path in folder.glob("*") if "lock" not in path.name} if folder.is_dir() else set()


def _content(path: Path) -> Any:
    raw = path.read_bytes()
    if path.name == "page.html":
        return _without_command(raw.decode(), path.with_name("summary.json"))
    if path.suffix != ".json":
        return raw
    try:
        return _without_times(json.loads(raw))
    except ValueError:
        return raw


def _without_command(page: str, summary: Path) -> str:
    """The page without the command that its summary names, as text and inside its data."""
    command = json.loads(summary.read_text())["command"] if summary.exists() else ""
    for written in (html.escape(command), json.dumps(command)[1:-1]) if command else ():
        page = page.replace(written, "")
    return page


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(entry) for key, entry in value.items() if key not in NOT_COMPARED}
    return [_without_times(entry) for entry in value] if isinstance(value, list) else value


def recover(task: Task, out: Path) -> Said:
    """What a user does after a crash: resume; begin again where nothing had begun."""
    begun = (out / "study.toml").exists()
    for _ in range(TRIES):
        said = undrift(task.resume(out))
        if said.code == 0 or said.traceback:
            return said
    if begun:
        return said
    said = undrift(task.start(out))
    return said if said.code == 0 or said.traceback else undrift(task.start(out, "--overwrite"))


def check_recovery(task: Task, out: Path, references: References, tally: Tally, also: Task | None = None) -> None:
    """Resume, and hold what is there then against the undisturbed results (of `also`, where that run may be meant)."""
    said = recover(task, out)
    if said.traceback:
        tally.traceback(said.traceback)
    elif said.code != 0:
        tally.lost(f"cannot be resumed: exit code {said.code}: {said.err.strip()}")
    else:
        check_results(task, out, references, tally, also)


def check_results(task: Task, out: Path, references: References, tally: Tally, also: Task | None = None) -> None:
    """Hold a finished directory against the undisturbed results."""
    missing, wrong = compare(references.of(task), out)
    if also is not None and (missing or wrong) and compare(references.of(also), out) == ([], []):
        return
    if missing:
        tally.lost("; ".join(missing))
    if wrong:
        tally.wrong("; ".join(wrong))


def fresh(folder: Path, name: str) -> Path:
    """An empty place of this name; what lay there is removed."""
    path = folder / name
    shutil.rmtree(path, ignore_errors=True)
    return path
