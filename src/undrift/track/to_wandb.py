"""Weights & Biases. Without a word of the user's (WANDB_MODE) nothing leaves this machine: `wandb sync` uploads it later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .tracker import Row, Tracker, needs, plain


class WeightsAndBiases(Tracker):
    kind = "wandb"

    def __init__(self, project: str = "undrift", directory: str | Path | None = None, name: str | None = None) -> None:
        super().__init__(name)
        needs(self.kind, "wandb")
        self.project, self.directory = project, directory
        self.word = f"{self.kind}:{project}"

    def open(self, name: str, setting: Mapping[str, Any], first: int) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or "offline"
        self.run = wandb.init(
            project=self.project,
            name=name,
            id=self.id,
            dir=None if self.directory is None else str(self.directory),
            config=plain(setting),
            mode=mode,
            resume="allow" if mode == "online" else None,  # offline the parts of a run meet when they are uploaded
            reinit="create_new",
            settings=wandb.Settings(
                silent=True, console="off", save_code=False, disable_git=True, x_disable_stats=True
            ),
        )

    def log(self, rows: list[Row]) -> None:
        for t, values in rows:
            self.run.log(values, step=t, commit=True)

    def close(self, status: str, final: Mapping[str, float]) -> None:
        self.run.summary.update({**final, "status": status})
        self.run.finish(exit_code=0 if status in ("finished", "interrupted") else 1)


def wandb(project: str = "undrift", directory: str | Path | None = None, name: str | None = None) -> Tracker:
    """A run of this project, written below `directory` (here, if None). Offline, unless WANDB_MODE=online is set."""
    return WeightsAndBiases(project, directory, name)
