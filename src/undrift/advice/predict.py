"""How many rounds a method needs, from its round map: exact on quadratics, estimated elsewhere.

Elsewhere f_i is replaced by its second-order models at x* and at x_0, and the larger number of rounds is multiplied by SAFETY.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InputError
from ..problems.base import Problem
from ..recipe import Method
from ..theory.paths import Path, Recursion
from ..theory.quadratics import Quadratics
from ..theory.round_map import per_client
from .options import Option

SAFETY = 1.5
COARSE = tuple(2.0**k for k in range(-3, 6))
DEEPER = tuple(2.0**k for k in range(-21, -3, 3))
EIGEN_LIMIT = 5e9  # m·d³ above which the clients' Hessians are not decomposed


@dataclasses.dataclass(frozen=True)
class Forecast:
    """The best step size of a method and what it leads to."""

    step: float | None  # None: no step size reaches the target
    rounds: int | None
    floor: float  # relative gap that it tends to: with `step`, or with the step that comes nearest
    at_floor: float | None = None  # that step


class Models:
    """The quadratics that stand for a problem: itself, or its second-order models at x* and x_0."""

    def __init__(self, problem: Problem, x0: np.ndarray, target: float) -> None:
        if problem.clients * problem.dim**3 > EIGEN_LIMIT:
            raise InputError(
                f"predictions decompose the clients' Hessians, which is not done for m·d³ = "
                f"{problem.clients * problem.dim**3:.1e} > {EIGEN_LIMIT:.0e}"
            )
        self.problem, self.x0, self.target = problem, x0, target
        self.families = [Quadratics.at(problem)]
        self.exact = self.families[0].how == "exact"
        if not self.exact:
            self.families.append(Quadratics.at(problem, x0))

    @property
    def how(self) -> str:
        return "exact" if self.exact else "estimated"

    @property
    def safety(self) -> float:
        return 1.0 if self.exact else SAFETY

    def forecast(self, option: Option, steps: Any, seed: int = 0) -> Forecast | None:
        """The step size with the fewest rounds, from a grid that is refined twice around its best; None: no prediction."""
        L, mu = self._constants
        scale = option.scale(L, mu, per_client(steps, self.problem.clients))
        found = [self._path(which, option, steps, scale, seed) for which in range(len(self.families))]
        paths = [path for path in found if path is not None]
        if not paths:
            return None

        def rounds_at(grid: np.ndarray) -> np.ndarray:
            found = np.max([path.rounds(grid, self.target) for path in paths], axis=0)
            return np.ceil(self.safety * found)

        grid = scale * np.asarray(COARSE)
        rounds = rounds_at(grid)
        if not np.any(np.isfinite(rounds)):
            deep = scale * np.asarray(DEEPER)
            grid, rounds = np.concatenate([deep, grid]), np.concatenate([rounds_at(deep), rounds])
        if not np.any(np.isfinite(rounds)):
            grid, rounds, floors = self._nearest(paths, grid, rounds_at)
        if not np.any(np.isfinite(rounds)):
            nearest = int(np.argmin(floors))
            return Forecast(None, None, float(floors[nearest]), float(grid[nearest]))
        for points in (6, 4):  # even, so that the best point itself is not met again
            best = int(np.argmin(rounds))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
            fine = np.geomspace(low, high, points + 2)[1:-1]
            grid, rounds = np.concatenate([grid, fine]), np.concatenate([rounds, rounds_at(fine)])
            grid, order = np.unique(grid, return_index=True)
            rounds = rounds[order]
        best = int(np.argmin(rounds))
        # Steps are written with three digits; down, so that one at the edge of stability stays inside.
        step = float(f"{grid[best]:.3g}")
        step = step if step <= grid[best] else float(f"{grid[best] * 0.995:.3g}")
        final = rounds_at(np.array([step]))[0]
        if not np.isfinite(final):
            step, final = float(grid[best]), rounds[best]
        settles = all(path.settles for path in paths)
        floor = float(np.max([path.floors(np.array([step])) for path in paths])) if settles else 0.0
        return Forecast(step, int(final), floor, step)

    @staticmethod
    def _nearest(paths: list[Path], grid: np.ndarray, rounds_at: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A finer grid around the step size whose floor is lowest; rounds and floors on it."""
        floors = np.max([path.floors(grid) for path in paths], axis=0)
        best = int(np.argmin(floors))
        fine = np.geomspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 9)
        return fine, rounds_at(fine), np.max([path.floors(fine) for path in paths], axis=0)

    def curve(self, option: Option, steps: Any, step: float, rounds: int, seed: int = 0) -> np.ndarray:
        """f(x_t) − f* as predicted, for the (last and slower) model at x*."""
        path = self._path(0, option, steps, step, seed)
        assert path is not None, "curves are drawn of what was predicted"
        return path.gaps(np.array([step]), rounds)[0]

    def _path(self, which: int, option: Option, steps: Any, step: float, seed: int) -> Path | None:
        """The recursion of an option on one of the models: that at x*, or that at x_0."""
        q, tau = self.families[which], per_client(steps, self.problem.clients)
        point = q.x if which == 0 else self.x0

        def make(step: float) -> Method:
            return option.make(step, steps)

        return option.known.predict(Recursion(make, step, tau, q, point, self.x0, self.problem, seed))

    @cached_property
    def _constants(self) -> tuple[float, float]:
        L = max(q.smoothness for q in self.families)
        return L, max(0.0, min(float(q.spectra[0].min()) for q in self.families))
