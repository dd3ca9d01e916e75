"""The run directory: it belongs to one process, nothing in it is lost by accident, and what is half done can be continued.

One order for all commands: the study; checkpoints on the way; then the results, the figures, the page, and last the summary,
which says that everything before it is there, and how each file can be recognised. Only then do the checkpoints go. Whoever
is killed in between leaves a directory from which `--resume` makes what is missing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from .. import files, progressfile
from ..errors import InputError
from ..ownership import InUse, Owned, contents, owned
from ..studies.columns import FILE as COLUMNS
from ..studies.study import Study, read_study
from .versions import versions

STUDY, SUMMARY, PAGE = "study.toml", "summary.json", "page.html"
RESULTS = ("history.csv", "model.npy", "iterates.npy", "clients.npz", "grid.csv", "models.npz", "contract.json", "trace.jsonl",
           COLUMNS, "bounds.csv")  # fmt: skip
EXPORTED = {"sklearn": "model.joblib", "npz": "exported.npz", "flax": "model_flax.msgpack"}  # by `undrift export`
CARD = "model-card.md"
OF_EXPORTS = (*EXPORTED.values(), "model_flax.py", CARD)
DRAWN = (PAGE, "figure.png", "figure.svg", "gap-per-*.png", "gap-per-*.svg", "loss-per-*.png", "loss-per-*.svg")
CHECKPOINTS = (
    "checkpoint.npz",
    "checkpoint-*.npz",
    "checkpoint.rows-*.npz",
    "table-*.bin",
    "rows-*.bin",
    "tracked-*.json",
)
MADE_BY = (  # the first of which a file is there
    ("serve", ("contract.json",)),
    ("compare", ("checkpoint-*.npz", "grid.csv", "models.npz")),
    ("run", ("checkpoint.npz", "model.npy")),
)
LONGEST_STEM = 100


class RunDirectory:
    """A directory that belongs to one run of this process, as a context.

    What exists is locked before anything in it is read or changed; what does not exist is made by `open`, when all of
    the input has been checked.
    """

    def __init__(self, command: str, out: str | None, overwrite: bool, resume: bool) -> None:
        if out is None and (resume or overwrite):
            raise InputError("say which run with --out DIR")
        self.command, self.overwrite, self.resume = command, overwrite, resume
        self.chosen = None if out is None else Path(out)
        self.mine: Owned | None = None
        self._held, self._begun = contextlib.ExitStack(), False

    def __enter__(self) -> RunDirectory:
        if self.chosen is not None:
            names = names_in(self.chosen)
            writable(self.chosen)
            if STUDY in names:
                self._take(self.chosen)
            else:
                self._check_contents(self.chosen, names)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._held:
            if isinstance(error, InputError) and self._begun:  # refused after all: nothing is left behind
                self._drop(STUDY, COLUMNS, progressfile.NAME)

    @property
    def path(self) -> Path:
        assert self.mine is not None, "it has no place yet"
        return self.mine.path

    # ----- whose it is
    def _check_contents(self, path: Path, names: list[str]) -> None:
        """Refuse a directory in which something could be lost."""
        if not names or (STUDY in names and (self.resume or self.overwrite)):
            return
        if self.resume:
            raise InputError(f"there is no run in {path} to resume (no {STUDY} there)")
        if self.overwrite:
            raise InputError(f"{path} holds files that are not a run of undrift: choose another directory with --out")
        raise InputError(f"{path} already holds files: --resume continues that run, --overwrite replaces it")

    def _take(self, path: Path) -> None:
        try:
            self.mine = self._held.enter_context(owned(path))
            self._check_contents(path, contents(path))  # as it is now that nobody else can change it
        except BaseException:
            self._held.close()
            raise

    def _take_fresh(self, stem: str) -> None:
        """The next free name under runs/: making a directory succeeds for one process only."""
        stem = re.sub(r"[^\w.-]", "_", stem)[:LONGEST_STEM]
        for number in itertools.count(1):
            path = Path("runs") / f"{stem}-{number:03d}"
            with files.storage(path), contextlib.suppress(FileExistsError, InUse):
                self._make(path)
                return self._take(path)

    def _make(self, path: Path) -> None:
        """A directory that was not there; it goes again if nothing comes into it."""
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._held.callback(_remove_if_empty, path.parent)
        path.mkdir()
        self._held.callback(_remove_if_empty, path)

    # ----- what is in it
    def holds_a_run(self) -> bool:
        return self.mine is not None and (self.path / STUDY).exists()

    def study(self) -> Study:
        """The study of the run that is to be resumed."""
        if not self.holds_a_run():
            raise InputError(f"there is no run in {self.chosen} to resume (no {STUDY} there)")
        return read_study(self.path / STUDY)

    def check_holds(self, study: Study) -> None:
        """Refuse to resume anything but what is there."""
        if self.study().words() != study.words():
            raise InputError(f"{self.path} holds another run than these flags describe: resume it without them")
        maker = next((command for command, marks in MADE_BY if self._found(marks)), self.command)
        if maker != self.command:
            raise InputError(f"{self.path} was made by `undrift {maker}`: resume it with that")

    def finished(self, *endings: str) -> dict[str, Any] | None:
        """The summary, if the run in it came to one of these ends and everything that it left is there."""
        summary = self._summary()
        if summary.get("status") not in endings or self._spoilt(summary):
            return None
        self.drop_checkpoints()  # its owner may have been killed before it came to that
        return summary

    def loss(self) -> str | None:
        """What is no longer as a finished run left it, and what will be done about it."""
        summary = self._summary()
        if summary.get("status") in (None, "interrupted") or not (names := self._spoilt(summary)):
            return None
        how = "made again from the checkpoint" if self._found(CHECKPOINTS) else "made again, by playing the run again"
        return f"{self.path} was finished, but some of it is missing or was changed ({', '.join(names)}): it is {how}"

    def _spoilt(self, summary: dict[str, Any]) -> list[str]:
        return [name for name, digest in summary["files"].items() if self._digest(name) != digest]

    def _summary(self) -> dict[str, Any]:
        """What is said of a run that has ended; nothing where it has not, or it cannot be read."""
        try:
            found = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("files"), dict) else {}

    # ----- what is written
    def open(self, study: Study, comments: tuple[str, ...], stem: str) -> None:
        """Take the place, if that has not been done, and write the study down; an old run makes room for a new one."""
        if self.mine is None:
            if self.chosen is None:
                self._take_fresh(stem)
            else:
                self._take(self.chosen)
        if self.resume and self.holds_a_run():
            return
        with files.replacing(self.path / STUDY) as file:
            file.write(study.to_toml(comments).encode("utf-8"))
            file.flush()
            os.fsync(
                file.fileno()
            )  # there is room for it: the old run may go, first of all the mark that it is finished
            self._drop(SUMMARY, *RESULTS, *DRAWN, *OF_EXPORTS, *CHECKPOINTS, progressfile.NAME)
        self._begun = True

    def leave(
        self,
        content: dict[str, Any],
        save: Callable[[Path], None],
        draw: Callable[[Path, dict[str, Any]], None] | None,
    ) -> dict[str, Any]:
        """Results, figures and page, and the summary of a run that has ended, or was stopped; returns the summary."""
        summary = {**content, "command": command_line(), "versions": versions(), "directory": str(self.path)}
        save(self.path)
        if draw is None:
            self._drop(*DRAWN)  # they would show an earlier state
        else:
            draw(self.path, summary)
        written = [path.name for path in self._found((*RESULTS, *DRAWN))]
        summary["files"] = {name: self._digest(name) for name in written}
        files.write_json(self.path / SUMMARY, summary)
        if content["status"] != "interrupted":
            self.drop_checkpoints()
        return summary

    def drop_checkpoints(self) -> None:
        """And what was told of the run while it was going on: its page says that and more."""
        self._drop(*CHECKPOINTS, progressfile.NAME)

    def _drop(self, *patterns: str) -> None:
        for path in self._found(patterns):
            with files.storage(path):
                path.unlink(missing_ok=True)

    def _found(self, patterns: tuple[str, ...]) -> list[Path]:
        with files.storage(self.path):
            return [path for pattern in patterns for path in sorted(self.path.glob(pattern))]

    def _digest(self, name: str) -> str | None:
        try:
            return hashlib.sha256((self.path / name).read_bytes()).hexdigest()
        except OSError:
            return None


def names_in(path: Path) -> list[str]:
    """What is in the directory, if there is one."""
    with files.storage(path):
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file: choose another directory with --out")
        return contents(path) if path.is_dir() else []


def writable(path: Path) -> Path:
    """The same path; refuses now, before anything is computed, where nothing could be written then."""
    with files.storage(path):
        near = next(one for one in (path, *path.absolute().parents) if one.exists())
        if not near.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(near, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return path


def _remove_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.rmdir()


def continue_with(directory: RunDirectory) -> str:
    """The command that goes on with what is half done."""
    if directory.command == "serve":
        place = "" if directory.chosen is not None else f" --out {shlex.quote(str(directory.path))}"
        return f"continue with: {command_line()}{place}"
    return f"continue with: undrift {directory.command} --out {shlex.quote(str(directory.path))} --resume"


def command_line() -> str:
    return shlex.join(["undrift", *sys.argv[1:]])
