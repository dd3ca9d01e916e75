"""What a theorem or a certificate promises for a run, for its page and for the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..engine.description import Run
from ..engine.history import Result
from ..theory.bound import Bound
from ..theory.needs import constants_of
from ..theory.step_rule import by_theorem, promised
from ..theory.verdict import Verdict, check
from .curves import BoundLine

CHECKED = ("gap", "sq_distance", "smallest sq_gradient")  # decided from the history alone, without iterates
OWN_STEP = "at its own step"


class Guarantee(NamedTuple):
    """What is promised of a run, before anybody looks whether it was kept.

    `smoothness` is L of f, by which f − f* ≤ (L/2)‖x − x*‖². `beside`: what the theorem would promise with its own step, where
    the run has a certified one; nothing is held against it, as the run is another.
    """

    bound: Bound
    smoothness: float | None = None
    beside: Bound | None = None

    def lines(self, label: str, history: Mapping[str, np.ndarray]) -> list[BoundLine]:
        """The promised f(x_t) − f* as shares of the first, for the curve with this label."""
        found = [BoundLine(f"{label}, {self.bound.theorem}", label, self._relative(self.bound, history))]
        if self.beside is not None:
            words = f"{self.beside.theorem} ({OWN_STEP})"
            found.append(BoundLine(f"{label}, {words}", label, self._relative(self.beside, history), thin=True))
        return [line for line in found if np.any(np.isfinite(line.values))]

    def _relative(self, bound: Bound, history: Mapping[str, np.ndarray]) -> np.ndarray:
        """NaN where nothing is promised of the gap."""
        silent = np.full(len(history["loss"]), np.nan)
        factor = self._in_gaps(bound)
        if factor is None or "gap" not in history or bound.start not in history:
            return silent
        first, start = float(history["gap"][0]), float(history[bound.start][0])
        if not (first > 0 and np.isfinite(start) and start >= 0):
            return silent
        return bound.curve(len(silent) - 1, start) * factor / first

    def _in_gaps(self, bound: Bound) -> float | None:
        """What its subject is multiplied by to bound the gap; None where it does not."""
        if bound.subject == "gap":
            return 1.0
        return self.smoothness / 2 if bound.subject == "sq_distance" and self.smoothness is not None else None


class Promise(NamedTuple):
    """A guarantee and whether the run kept it."""

    guarantee: Guarantee
    verdict: Verdict

    @property
    def bound(self) -> Bound:
        return self.guarantee.bound

    def lines(self, label: str, history: Mapping[str, np.ndarray]) -> list[BoundLine]:
        """What is promised of the curve with this label."""
        return self.guarantee.lines(label, history)

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
    guarantee = guarantee_of(run)
    return None if guarantee is None else held(guarantee, result)


def guarantee_of(run: Run) -> Guarantee | None:
    """The guarantee that covers this run, if a history can decide it."""
    bound = promised(run)
    if bound is None or bound.subject not in CHECKED:
        return None
    constants = constants_of(run)
    L = constants.L_mean if constants.L_mean is not None else constants.L
    return Guarantee(bound, None if L is None else float(L), by_theorem(run) if bound.certified else None)


def held(guarantee: Guarantee, result: Any) -> Promise | None:
    """The guarantee held against a run, or what there is of it; None where the history cannot decide it."""
    bound, history = guarantee.bound, result.history
    if bound.start not in history or len(history["loss"]) < 2 or np.isnan(history["loss"]).any():
        return None  # or not every round was evaluated
    return Promise(guarantee, check(result, bound))
