"""The run directory: nothing in it is lost by accident, and what is half done can be continued."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..studies.study import Study, read_study
from .versions import versions

STUDY, SUMMARY, HISTORY, MODEL, CHECKPOINT = "study.toml", "summary.json", "history.csv", "model.npy", "checkpoint.npz"
PAGE = "page.html"
OURS = (
    STUDY, SUMMARY, HISTORY, MODEL, CHECKPOINT, PAGE, "checkpoint.tmp", "iterates.npy", "clients.npz", "grid.csv",
    "models.npz", "figure.png", "figure.svg", "gap-per-*.png", "gap-per-*.svg", "loss-per-*.png", "loss-per-*.svg",
    "checkpoint-*.npz", "checkpoint-*.tmp",
)  # fmt: skip


class RunDirectory:
    """A directory that belongs to one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def claim(cls, out: str | None, stem: str, overwrite: bool, resume: bool) -> RunDirectory:
        """The directory to write into; refuses to touch what is there unless told what to do with it."""
        if out is None:
            if resume or overwrite:
                raise InputError("say which run with --out DIR")
            return cls(_fresh(stem))
        path = Path(out)
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file: choose another directory with --out")
        taken = path.is_dir() and any(path.iterdir())
        if resume and not (path / STUDY).exists():
            raise InputError(f"there is no run in {path} to resume (no {STUDY} there)")
        if taken and not (resume or overwrite):
            raise InputError(f"{path} already holds files: --resume continues that run, --overwrite replaces it")
        if taken and overwrite and not (path / STUDY).exists():
            raise InputError(f"{path} holds files that are not a run of undrift: choose another directory with --out")
        return cls(path)

    def open(self, study: Study, comments: tuple[str, ...], resume: bool) -> None:
        """Write the study down; an old run makes room for a new one, and stays for one that is resumed."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not resume:
            for pattern in OURS:
                for file in self.path.glob(pattern):
                    file.unlink()
            (self.path / STUDY).write_text(study.to_toml(comments), encoding="utf-8")

    def study(self) -> Study:
        return read_study(self.path / STUDY)

    def check_holds(self, study: Study) -> None:
        """Refuse to resume anything but what is there."""
        if self.study().words() != study.words():
            raise InputError(f"{self.path} holds another run than these flags describe: resume it without them")

    def summary(self) -> dict[str, Any] | None:
        """The summary of a run that came to its end, if there is one."""
        try:
            found = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write_summary(self, content: dict[str, Any]) -> dict[str, Any]:
        full = {**content, "command": command_line(), "versions": versions(), "directory": str(self.path)}
        temporary = self.path / (SUMMARY + ".tmp")
        temporary.write_text(json.dumps(full, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
        temporary.replace(self.path / SUMMARY)
        return full

    def drop_checkpoints(self) -> None:
        for pattern in ("checkpoint.npz", "checkpoint.tmp", "checkpoint-*.npz", "checkpoint-*.tmp"):
            for file in self.path.glob(pattern):
                file.unlink()


def command_line() -> str:
    return shlex.join(["undrift", *sys.argv[1:]])


def _fresh(stem: str) -> Path:
    number = 1
    while (Path("runs") / f"{stem}-{number:03d}").exists():
        number += 1
    return Path("runs") / f"{stem}-{number:03d}"
