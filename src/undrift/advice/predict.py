"""How many rounds a method needs, from its round map: exact on quadratics, estimated elsewhere.

On quadratics every method here is a recursion that can be played on d×d matrices or in the clients' eigenbases, for a whole
grid of step sizes at once and without local loops: affine for all but FedLin with TOP-k, where the recursion is exact too:
x⁺ = x − Q g with Q = Σ w_i η_i S_i, g = TOP-k(e + ∇f(x)).

Elsewhere f_i is replaced by its second-order models at x* and at x_0, and the larger number of rounds is multiplied by SAFETY.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from ..errors import InputError
from ..plan import uniform
from ..problems.base import Problem
from ..theory import round_map
from ..theory.quadratics import Quadratics
from ..theory.round_map import LocalSteps, RoundMap, per_client
from .options import Option, inner_eta, inner_steps

SAFETY = 1.5
RACE = 600  # rounds that recursions are played before their speed is extrapolated
RACE_IN_TURN = 500  # sequential FL is dear to play
FAR = 10**7  # rounds beyond which nobody waits
COARSE = tuple(2.0**k for k in range(-3, 6))
DEEPER = tuple(2.0**k for k in range(-21, -3, 3))
SETTLING = ("fedavg", "fedprox", "fednova")  # methods with a floor in closed form
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

    def forecast(self, option: Option, steps: Any, seed: int = 0) -> Forecast:
        """The step size with the fewest rounds, from a grid that is refined twice around its best point."""
        L, mu = self._constants
        scale = option.scale(L, mu, per_client(steps, self.problem.clients))
        paths = [path_of(option, q, self, steps, seed, which) for which, q in enumerate(self.families)]

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
        known = option.name in SETTLING
        floor = float(np.max([path.floors(np.array([step])) for path in paths])) if known else 0.0
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
        path = path_of(option, self.families[0], self, steps, seed, 0)
        return path.gaps(np.array([step]), rounds)[0]

    @cached_property
    def _constants(self) -> tuple[float, float]:
        L = max(q.smoothness for q in self.families)
        return L, max(0.0, min(float(q.spectra[0].min()) for q in self.families))


class Path(abc.ABC):
    """The gaps of a method on a quadratic, for a grid of step sizes side by side."""

    race = RACE
    extrapolates = True

    def __init__(self, option: Option, q: Quadratics, models: Models, steps: Any, seed: int, which: int) -> None:
        self.option, self.q, self.x0, self.seed = option, q, models.x0, seed
        self.problem, self.which = models.problem, which
        self.steps = per_client(steps, q.clients)
        self.start = float(q.gap(self.x0))

    @abc.abstractmethod
    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        """x_0, x_1, …: the models of all step sizes, (d, k) each."""

    def rounds(self, grid: np.ndarray, target: float) -> np.ndarray:
        """The first round from which on the gap stays at or below the target, ∞ where that is not seen."""
        last_above = np.full(len(grid), -1.0)
        gaps = np.full(len(grid), self.start)
        early = np.full(len(grid), np.inf)
        arrived = np.zeros(len(grid), bool)
        t, stop = 0, self.race
        with np.errstate(all="ignore"):
            for t, x in enumerate(islice(self.play(grid), self.race + 1)):
                gaps = np.nan_to_num(self.q.gap(x), nan=np.inf)
                last_above[gaps > target] = t
                if t == self.race // 2:
                    early = gaps
                arrived = t - last_above > 10 + 0.3 * last_above  # it has stayed below for a while
                if np.any(arrived) and stop == self.race:
                    stop = min(self.race, 3 * t)  # slower ones may win on the other model
                if t >= stop or (t > 20 and np.all(gaps > 1e6 * self.start)):
                    break
        found = np.where(arrived, last_above + 1, np.inf)
        nobody = t == self.race and not np.any(arrived)
        if self.extrapolates and nobody:  # go on at the speed of the second half
            with np.errstate(all="ignore"):
                speed = np.log(early / gaps) / (self.race - self.race // 2)
                more = np.log(gaps / target) / speed
            found = np.where((speed > 1e-7) & (self.race + more < FAR), np.ceil(self.race + more), np.inf)
        return found

    def gaps(self, grid: np.ndarray, rounds: int) -> np.ndarray:
        """(k, rounds + 1)."""
        with np.errstate(all="ignore"):
            return np.stack([self.q.gap(x) for x in islice(self.play(grid), rounds + 1)], axis=1)

    def floors(self, grid: np.ndarray) -> np.ndarray:
        """The largest relative gap in the last quarter of the race, for methods that need not arrive."""
        found = np.zeros(len(grid))
        with np.errstate(all="ignore"):
            for t, x in enumerate(islice(self.play(grid), self.race + 1)):
                if t > 3 * self.race // 4:
                    found = np.maximum(found, np.nan_to_num(self.q.gap(x), nan=np.inf))
        return found / self.start


class OnX(Path):
    """Maps on x with real rates: everything in closed form."""

    def map(self, step: float) -> RoundMap:
        name, extra = self.option.name, dict(self.option.extra)
        if name == "fedsgd":
            return round_map.fedsgd(self.q, step)
        if name == "fedprox":
            return round_map.fedprox(self.q, step, self.steps, extra["beta"])
        makers = {
            "gd": round_map.gd,
            "fedavg": round_map.fedavg,
            "fednova": round_map.fednova,
            "fedlin": round_map.fedlin,
        }
        return makers[name](self.q, step, self.steps)

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        raise NotImplementedError

    def rounds(self, grid: np.ndarray, target: float) -> np.ndarray:
        found = [self.map(float(step)).rounds_to(target, self.x0, FAR) for step in grid]
        return np.array([np.inf if rounds is None else rounds for rounds in found], float)

    def gaps(self, grid: np.ndarray, rounds: int) -> np.ndarray:
        return np.stack([self.map(float(step)).predict(self.x0, rounds) for step in grid])

    def floors(self, grid: np.ndarray) -> np.ndarray:
        maps = [self.map(float(step)) for step in grid]
        ends = [float(m.family.gap(m.limit)) if m.spectral_radius < 1 else np.inf for m in maps]
        return np.asarray(ends) / self.start


class WithMemory(Path):
    """SCAFFOLD and FedSplit, played in the clients' eigenbases."""

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        if self.option.name == "scaffold":
            made = round_map.scaffold(self.q, grid, self.steps)
        else:
            inner = np.array([inner_eta(s, **dict(self.option.extra)) for s in grid])
            made = round_map.fedsplit(self.q, grid, inner_steps(self.steps), inner, "model")
        state = np.repeat(made.start(self.x0)[:, None], len(grid), axis=1)
        while True:
            yield made.model(state)
            state = made.apply(state)


class InTurn(Path):
    """Sequential FL in the very orders that a run with this seed draws."""

    race = RACE_IN_TURN
    extrapolates = False  # it need not go on as it began: there is a floor

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        local = LocalSteps.of(self.q, grid, self.steps)
        x = np.repeat(self.x0[:, None], len(grid), axis=1)
        t, block = 1, 64
        everyone = uniform(self.q.clients)
        while True:
            for order in everyone.cohorts(self.seed, range(t, t + block), self.q.clients):
                yield x
                for i in order:
                    x = x - local.one(i, self.q.hessians[i] @ x - self.q.linear[i][:, None])
            t += block


class Preconditioned(Path):
    """x⁺ = x − Q g with g = ∇f(x), or TOP-k of it with error feedback; Q (k, d, d)."""

    def play(self, grid: np.ndarray) -> Iterator[np.ndarray]:
        Q = self.matrices(grid)
        x = np.repeat(self.x0[None, :, None], len(grid), axis=0)
        off = self.q.x[None, :, None]
        g = self.q.hessian @ (x - off)  # the first direction is never compressed
        error = np.zeros_like(g)
        while True:
            yield x[:, :, 0].T
            x = x - Q @ g
            g = self.q.hessian @ (x - off)
            if self.option.down is not None:
                whole = error + g
                g = _top(whole, self.option.down.k)
                error = whole - g

    def matrices(self, grid: np.ndarray) -> np.ndarray:
        counts = self.steps[:, None, None]
        return np.stack([self.q.mean(LocalSteps.of(self.q, step / counts, self.steps).matrices()) for step in grid])


class Tracked(Preconditioned):
    """FedTrack, cyclic: y_ℓ = x − η D_ℓ g, D_{ℓ+1} = D_ℓ + I − η Σ (H_ij D at the last refresh of j)."""

    def matrices(self, grid: np.ndarray) -> np.ndarray:
        rows, curvature, ridge = self._components
        d, k = self.q.dim, len(grid)
        eta = grid[:, None, None]
        total = np.zeros((k, d, d))
        for i, weight in enumerate(self.q.weights):
            n = int(self.problem.sizes[i])
            D = np.broadcast_to(np.eye(d), (k, d, d)).copy()
            change = np.zeros((k, d, d))
            seen = np.zeros((min(n, int(self.steps[i])), k, d))  # a_jᵀD at the last refresh
            whole: dict[int, np.ndarray] = {}
            for step in range(1, int(self.steps[i])):
                j = (step - 1) % n
                a = rows[i, j]
                now = np.einsum("i,kij->kj", a, D)
                change += curvature[i, j] * a[None, :, None] * (now - seen[j])[:, None, :]
                seen[j] = now
                if ridge:
                    change += (ridge / n) * (D - whole.get(j, 0.0))
                    whole[j] = D.copy()
                D = D + np.eye(d) - eta * change
            total += weight * eta * D
        return total

    @cached_property
    def _components(self) -> tuple[np.ndarray, np.ndarray, float]:
        A = np.asarray(self.problem.stack["A"], np.float64)
        if "y" not in self.problem.stack:
            return A, np.ones(A.shape[:2]), 0.0
        margins = A @ (self.q.x if self.which == 0 else self.x0)
        chance = 1 / (1 + np.exp(-np.clip(margins, -700, 700)))
        return A, chance * (1 - chance), float(self.problem.shared["l2"])


def path_of(option: Option, q: Quadratics, models: Models, steps: Any, seed: int, which: int) -> Path:
    """The recursion of an option."""
    kinds: dict[str, Any] = {
        "scaffold": WithMemory,
        "fedsplit": WithMemory,
        "sequential_fl": InTurn,
        "fedtrack": Tracked,
    }
    kind = Preconditioned if option.down is not None else kinds.get(option.name, OnX)
    made: Path = kind(option, q, models, steps, seed, which)
    return made


def _top(vectors: np.ndarray, k: int) -> np.ndarray:
    """The k largest entries of every column block (g, d, 1), the others zero."""
    if k >= vectors.shape[1]:
        return vectors
    order = np.argpartition(-np.abs(vectors[:, :, 0]), k - 1, axis=1)[:, :k]
    kept = np.zeros_like(vectors)
    np.put_along_axis(kept[:, :, 0], order, np.take_along_axis(vectors[:, :, 0], order, axis=1), axis=1)
    return kept
