"""What a theorem promises for a run, for its page and for the terminal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..engine.description import Run
from ..engine.history import Result
from ..theory.bound import Bound
from ..theory.step_rule import promised
from ..theory.verdict import Verdict, check

CHECKED = ("gap", "sq_distance", "smallest sq_gradient")  # decided from the history alone, without iterates


class Promise(NamedTuple):
    """A guarantee and whether the run kept it."""

    bound: Bound
    verdict: Verdict

    def relative_curve(self, start_gap: float) -> np.ndarray | None:
        """The promised f(x_t) − f* as a share of the first, where the theorem speaks of it."""
        return self.verdict.promised / start_gap if self.bound.subject == "gap" and start_gap > 0 else None

    def claim(self) -> dict[str, Any]:
        """For the page."""
        return {
            "sentence": f"{self.bound.theorem}: {self.bound.statement}, in every round",
            "holds": self.verdict.holds,
            "measured": str(self.verdict),
            "paper": None,
            "margin": float(self.verdict.slack),
            "explanation": None,
        }


def promise_of(run: Run, result: Result) -> Promise | None:
    """The guarantee that covers this run, held against it; None where there is none, or none that the history can decide."""
    bound, history = promised(run), result.history
    if bound is None or bound.subject not in CHECKED or bound.start not in history or len(history["loss"]) < 2:
        return None
    if np.isnan(history["loss"]).any():
        return None  # not every round was evaluated
    return Promise(bound, check(result, bound))
