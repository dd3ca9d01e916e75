"""Trackio: a data base on this machine (TRACKIO_DIR), shown by `trackio show`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

from .tracker import Row, Tracker, needs, plain


class Trackio(Tracker):
    kind = "trackio"

    def __init__(self, project: str = "undrift", name: str | None = None) -> None:
        super().__init__(name)
        needs(self.kind, "trackio")
        self.project = project
        self.word = f"{self.kind}:{project}"

    def open(self, name: str, setting: Mapping[str, Any], first: int) -> None:
        import trackio

        with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
            # Its runs are known by their names, so that of another run must differ.
            self.run = trackio.init(
                project=self.project,
                name=f"{name}-{self.id[:6]}",
                config=plain(setting),
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, rows: list[Row]) -> None:
        for t, values in rows:
            self.run.log(values, step=t)

    def close(self, status: str, final: Mapping[str, float]) -> None:
        import trackio

        with contextlib.redirect_stdout(sys.stderr):
            trackio.finish()


def trackio(project: str = "undrift", name: str | None = None) -> Tracker:
    """A run of this project in Trackio's data base."""
    return Trackio(project, name)
