"""What the adviser says: candidates with their costs, and the one to take."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..problems.base import Problem
from ..resources import Resources
from .costs import Costs, Tariff
from .guarantee import Guarantee
from .measure import Goal, Measured
from .options import Option, describe_steps, smoothness_of
from .predict import Forecast

CURVE_ROUNDS = 5000  # of predicted curves that are kept for figures


@dataclasses.dataclass(frozen=True)
class Candidate:
    """One method with one choice of local steps."""

    option: Option
    steps: np.ndarray  # τ_i
    tariff: Tariff
    how: str  # exact, estimated or unknown
    forecast: Forecast | None = None
    theorem: Guarantee | None = None
    certified: Guarantee | None = None
    measured: Measured | None = None
    curve: np.ndarray | None = None  # predicted gaps, relative, of the best candidate of each method

    @property
    def guarantee(self) -> Guarantee | None:
        """The certified one where there is a certificate, unless the theorem promises more: its step is safe to start from."""
        known = [one for one in (self.certified, self.theorem) if one is not None]
        return min(known, key=lambda one: np.inf if one.rounds is None else one.rounds, default=None)

    @property
    def label(self) -> str:
        return self.option.label

    @property
    def local_steps(self) -> str:
        return describe_steps(self.steps) if self.option.local else "1"

    @property
    def predicted(self) -> Costs | None:
        """What it costs by prediction; None if it is not predicted to arrive."""
        if self.forecast is None or self.forecast.rounds is None:
            return None
        return self.tariff.after(self.forecast.rounds)

    @property
    def spent(self) -> Costs | None:
        """What it cost by measurement; None if it was not measured or did not arrive."""
        if self.measured is None or self.measured.rounds is None:
            return None
        return self.tariff.after(self.measured.rounds)

    @property
    def costs(self) -> Costs | None:
        """Measured where it was measured, else predicted."""
        return self.spent if self.measured is not None else self.predicted

    @property
    def reaches(self) -> bool | None:
        """Whether it reaches the target; None: nothing is known."""
        if self.measured is not None:
            return self.measured.rounds is not None
        return None if self.forecast is None else self.forecast.rounds is not None

    @property
    def step(self) -> float | None:
        """The step size to take."""
        if self.measured is not None:
            return self.measured.step
        return None if self.forecast is None else self.forecast.step

    def method_word(self, name: str) -> str:
        """As it is written on the command line, where the method is called so."""
        if self.step is None:
            return name
        values = self.option.written(self.step, self.steps)
        inside = ",".join(f"{key}={_typed(value)}" for key, value in values.items())
        links = "".join(f" --{link} {_link_word(one)}" for link, one in self.option.links.items())
        return f"--method {name}:{inside}{links}"

    def words(self) -> dict[str, Any]:
        """For machines."""
        guarantee = self.guarantee
        return {
            "method": self.option.name,
            "label": self.label,
            "local_steps": [int(t) for t in self.steps] if self.option.local else [1],
            "reference": self.option.reference,
            "compression": ", ".join(map(str, self.option.links.values())) or None,
            "prediction": self.how,
            "reaches": self.reaches,
            "step": self.step,
            "predicted_step": None if self.forecast is None else self.forecast.step,
            "relative_floor": None if self.forecast is None else _finite(self.forecast.floor),
            "predicted": None if self.predicted is None else self.predicted.words(),
            "measured": None if self.spent is None else self.spent.words(),
            "measured_step": None if self.measured is None else self.measured.step,
            "rounds_played": None if self.measured is None else self.measured.played,
            "theorem": None if self.theorem is None else self.theorem.theorem,
            "theorem_rounds": None if self.theorem is None else self.theorem.rounds,
            "theorem_step": None if self.theorem is None else self.theorem.numbers,
            "certificate": None if self.certified is None else self.certified.theorem,
            "certified_rounds": None if self.certified is None else self.certified.rounds,
            "guaranteed_rounds": None if guarantee is None else guarantee.rounds,
            "guaranteed_step": None if guarantee is None else guarantee.numbers,
        }


def _typed(value: Any) -> str:
    """A value as flags take it.

    >>> _typed(0.5), _typed(True), _typed("prox")
    ('0.5', 'true', 'prox')
    """
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _link_word(link: Any) -> str:
    """A compressor as a flag takes it; those that the adviser considers are TOP-k."""
    return f"top_k:{link.k}{'' if link.memory is True else f',memory={_typed(link.memory)}'}"


@dataclasses.dataclass(frozen=True)
class Advice:
    """All candidates, the one to take, and why."""

    problem: Problem
    goal: Goal
    relative: float | None  # the target as a share of the first gap, where it was given so
    start: float  # of the goal's column
    resources: Resources
    by: str
    how: str  # exact, estimated, or why there is no prediction
    candidates: tuple[Candidate, ...]
    recommended: Candidate | None
    why: tuple[str, ...] = ()
    x0: np.ndarray | None = None  # the start, where x* is known

    def price(self, candidate: Candidate) -> float:
        """What decides; ∞ for candidates that do not arrive."""
        costs = candidate.costs
        return float("inf") if costs is None else float(getattr(costs, self.by))

    def costs_rounds(self, candidate: Candidate) -> int:
        """Rounds to the target, or those that were played."""
        if candidate.costs is not None:
            return int(candidate.costs.rounds)
        return candidate.measured.played if candidate.measured is not None else CURVE_ROUNDS

    @property
    def distance(self) -> float | None:
        """‖x_0 − x*‖², where x* is known."""
        return None if self.x0 is None else float(np.sum((self.x0 - np.asarray(self.problem.optimum.x, float)) ** 2))

    @property
    def smoothness(self) -> float | None:
        return smoothness_of(self.problem)

    def best_of_each(self) -> list[Candidate]:
        """The cheapest candidate of every method, in the order in which methods are listed."""
        found: dict[str, Candidate] = {}
        for candidate in self.candidates:
            known = found.get(candidate.label)
            if known is None or order(self, candidate) < order(self, known):
                found[candidate.label] = candidate
        return list(found.values())

    @property
    def target_text(self) -> str:
        if self.goal.column != "gap":
            return f"{self.goal.column} {'≥' if self.goal.upwards else '≤'} {self.goal.value:g}"
        return f"f − f* ≤ {self.goal.value:.3g}" + (
            f" = {self.relative:g}·(f₀ − f*)" if self.relative is not None else ""
        )

    def words(self) -> dict[str, Any]:
        """For machines."""
        return {
            "problem": repr(self.problem).strip("<>"),
            "target": {"column": self.goal.column, "value": self.goal.value, "relative": self.relative},
            "start": _finite(self.start),
            "resources": dataclasses.asdict(self.resources),
            "by": self.by,
            "prediction": self.how,
            "recommended": None if self.recommended is None else self.recommended.words(),
            "why": list(self.why),
            "candidates": [candidate.words() for candidate in self.candidates],
        }


def order(made: Advice, candidate: Candidate) -> tuple[float, float, float]:
    """Cheapest first, then fewest rounds, then nearest to the target."""
    costs = candidate.costs
    floor = float("inf") if candidate.forecast is None else candidate.forecast.floor
    unmeasured = candidate.measured is None and any(other.measured is not None for other in made.candidates)
    return made.price(candidate), unmeasured + (float("inf") if costs is None else costs.rounds), floor


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
