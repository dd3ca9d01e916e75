"""The trace of a deployed run: who was asked, with how many steps, and who answered, round by round.

With it a simulation plays the same absences (`ud.plan.trace(file)`), so that whoever has the data can audit the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import tracefile
from ..plan import Draw
from . import faults


@dataclasses.dataclass
class Trace:
    """Knows the last round only: a run may be long, and what is before is in the file."""

    last: dict[str, Any] | None = None

    def add(
        self,
        round: int,
        draw: Draw,
        attempts: int,
        clients: int,
        out: Mapping[int, str] | None = None,
        resets: Collection[int] = (),
    ) -> None:
        """What became of a round. `out`: why it was played without some; `resets`: who began it without memory."""
        ids = np.arange(clients) if draw.ids is None else draw.ids[0]
        answered = np.ones(len(ids), bool) if draw.answered is None else draw.answered[0]
        self.last = {
            "round": round,
            "ids": ids.tolist(),
            "steps": draw.steps[0].tolist(),
            "answered": answered.astype(int).tolist(),
            "attempts": attempts,
            "why": {str(i): why for i, why in sorted((out or {}).items())},
            "resets": sorted(resets),
        }

    def append(self, file: Path) -> None:
        """Bring the last round to the disk, before the server's checkpoint."""
        if self.last is not None:
            tracefile.append(file, self.last)
        faults.point("server:after-trace")
