"""The trace of a deployed run: who was asked, with how many steps, and who answered, round by round.

With it a simulation plays the same absences (`ud.plan.trace(file)`), so that whoever has the data can audit the run.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..plan import Draw


@dataclasses.dataclass
class Trace:
    """Grows by one round at a time."""

    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    resets: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def add(self, round: int, draw: Draw, attempts: int, clients: int) -> None:
        """What became of a round."""
        ids = np.arange(clients) if draw.ids is None else draw.ids[0]
        answered = np.ones(len(ids), bool) if draw.answered is None else draw.answered[0]
        self.rounds.append(
            {
                "round": round,
                "ids": ids.tolist(),
                "steps": draw.steps[0].tolist(),
                "answered": answered.astype(int).tolist(),
                "attempts": attempts,
            }
        )

    def reset(self, site: str, client: int, before: int) -> None:
        """A site began without the memory that it had lost."""
        self.resets.append({"site": site, "client": client, "before_round": before})

    def words(self) -> dict[str, Any]:
        return {"rounds": self.rounds, "resets": self.resets}
